"""`remem list`: what there is to choose from, with one line each."""

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated

import typer


class Kind(StrEnum):
    """What can be listed."""

    METHODS = "methods"
    POLICIES = "policies"
    DATASETS = "datasets"
    BACKBONES = "backbones"
    SELECTIONS = "selections"
    CODECS = "codecs"
    PRESETS = "presets"
    CONFIGS = "configs"


def list_names(
    kind: Annotated[Kind, typer.Argument(help="What to list.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="As a JSON object, name to line.")] = False,
) -> None:
    """List what there is to choose from."""
    lines = TABLES[kind]()
    if as_json:
        print(json.dumps(lines, indent=1))
        return
    width = max(len(name) for name in lines)
    for name, line in lines.items():
        print(f"{name:{width}}  {line}")


def _methods() -> dict[str, str]:
    from remem.methods.table import METHODS

    return {name: METHODS[name].summary for name in METHODS}


def _policies() -> dict[str, str]:
    from remem.policies.table import POLICIES

    return {name: POLICIES[name].summary for name in POLICIES}


def _datasets() -> dict[str, str]:
    from remem.data.datasets import BY_PATH, DATASETS

    own = {f"{kind}:PATH": entry.summary for kind, entry in BY_PATH.items()}
    return {name: DATASETS[name].summary for name in DATASETS} | own


def _backbones() -> dict[str, str]:
    from remem.nets.backbones import BACKBONES

    return {name: f"{BACKBONES[name].summary} ({BACKBONES[name].takes})" for name in BACKBONES}


def _selections() -> dict[str, str]:
    from remem.selection.ranking import SELECTIONS

    return {name: SELECTIONS[name].summary for name in SELECTIONS}


def _codecs() -> dict[str, str]:
    from remem.codecs.table import CODECS

    return {name: CODECS[name].summary for name in CODECS}


def _presets() -> dict[str, str]:
    """The first line of a preset's file is a comment that says what it is."""
    from importlib import resources

    from remem.runs.presets import PRESETS

    files = resources.files("remem.conf")
    first = {name: files.joinpath(f"{name}.toml").read_text(encoding="utf-8").splitlines()[0] for name in PRESETS}
    return {name: line.partition(": ")[2] for name, line in first.items()}


def _configs() -> dict[str, str]:
    """What `remem run NAME` takes, and below `studies/` `remem study NAME`; the first line of each says what it is."""
    from remem.runs.presets import shipped_configs

    return {name: text.splitlines()[0].removeprefix("# ") for name, text in shipped_configs().items()}


TABLES: Mapping[Kind, Callable[[], dict[str, str]]] = {
    Kind.METHODS: _methods,
    Kind.POLICIES: _policies,
    Kind.DATASETS: _datasets,
    Kind.BACKBONES: _backbones,
    Kind.SELECTIONS: _selections,
    Kind.CODECS: _codecs,
    Kind.PRESETS: _presets,
    Kind.CONFIGS: _configs,
}
