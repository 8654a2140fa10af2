"""Names that the shell completes after a flag. They are read from registries, which import nothing heavy."""

from collections.abc import Callable
from importlib import import_module

REGISTRIES = {  # setting: what has its names
    "data.name": "remem.data.datasets:DATASETS",
    "memory.codec": "remem.codecs.table:CODECS",
    "memory.selection": "remem.selection.ranking:SELECTIONS",
    "method.name": "remem.methods.table:METHODS",
    "net.name": "remem.nets.backbones:BACKBONES",
    "policy": "remem.policies.table:POLICIES",
    "preset": "remem.runs.presets:PRESETS",
}


def completer(key: str) -> Callable[[str], list[str]] | None:
    """What completes the values of a setting; None if they have no names."""
    if key not in REGISTRIES:
        return None
    module, _, name = REGISTRIES[key].partition(":")

    def complete(incomplete: str) -> list[str]:
        return [known for known in getattr(import_module(module), name) if known.startswith(incomplete)]

    return complete
