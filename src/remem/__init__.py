"""remem: class-incremental learning under a strict memory budget. The names a user needs; torch loads on first use."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

__version__ = "0.1.0"

_HOMES = {
    "scenario": "remem.api",
    "run": "remem.api",
    "load_model": "remem.runs.model",
    "from_arrays": "remem.data.arrays",
    "Scenario": "remem.data.scenario",
    "RunResult": "remem.runs.results",
    "InputError": "remem.errors",
}

__all__ = ["InputError", "RunResult", "Scenario", "__version__", "from_arrays", "load_model", "run", "scenario"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"remem has no '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def _register_environment() -> None:
    from gymnasium.envs.registration import register, registry

    if "remem/PseudoCIL-v0" not in registry:
        register("remem/PseudoCIL-v0", entry_point="remem.runs.environment:make_pseudo_cil")


class _RegisterWithGymnasium:
    """Waits for the import of gymnasium: doing it here would make `import remem` and every command slower."""

    def __init__(self) -> None:
        self._looking = False

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if name != "gymnasium" or self._looking:
            return None
        from importlib.util import find_spec

        self._looking = True
        try:
            spec = find_spec(name)
        finally:
            self._looking = False
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_register(module: "ModuleType") -> None:
            load(module)
            _register_environment()

        spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec


if "gymnasium" in sys.modules:
    _register_environment()
else:
    sys.meta_path.insert(0, _RegisterWithGymnasium())
