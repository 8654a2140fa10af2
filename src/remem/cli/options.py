"""The flags that several commands share, and the settings that they stand for."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remem.errors import InputError

if TYPE_CHECKING:
    from remem.runs.config import RunConfig
    from remem.runs.trees import Tree
    from remem.rl.config import LearnConfig

SCENARIO, TRAINING, LEARNING, COMMON = "Scenario", "Training", "Learning", "Common"


def _flag(name: str, help_text: str, panel: str, metavar: str | None = None) -> Any:
    return typer.Option(name, help=help_text, rich_help_panel=panel, metavar=metavar, show_default=False)


ConfigFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="CONFIG.toml", show_default=False, help="A file, or a name from `remem list configs`; flags win."
    ),
]


def folder(text: str) -> Path:
    """An empty name would be the working folder; it comes from a variable that was never set."""
    if not text:
        raise typer.BadParameter("'' given; expected a folder")
    return Path(text)


Out = Annotated[
    Path,
    typer.Option(
        "--out",
        help="Folder for the result, the model and the log.",
        rich_help_panel=COMMON,
        metavar="DIR",
        parser=folder,
        show_default=False,
    ),
]

Dataset = Annotated[
    str | None, _flag("--dataset", "Data set (see `remem list datasets`), or your own data.", SCENARIO, "NAME")
]
Order = Annotated[
    str | None, _flag("--order", "Class order: lucir, podnet-1|2|3, seed:K, or a JSON file.", SCENARIO, "ORDER")
]
Phases = Annotated[int | None, _flag("--phases", "Phases that bring new classes, after phase 0.", SCENARIO, "N")]
BaseClasses = Annotated[
    int | None, _flag("--base-classes", "Classes of phase 0; 0: as many as in the others.", SCENARIO, "B")
]
Budget = Annotated[
    str | None, _flag("--budget", "Samples held at once: 7000, bytes:64MB or growing:20.", SCENARIO, "M")
]
Exemplars = Annotated[int | None, _flag("--exemplars", "Part of M that `static` gives to old classes.", SCENARIO, "E")]
Policy = Annotated[str | None, _flag("--policy", "How memory is split between old and new classes.", SCENARIO, "NAME")]
Selection = Annotated[str | None, _flag("--selection", "Which samples of a class are kept.", SCENARIO, "NAME")]
Validation = Annotated[
    float | None,
    _flag("--validation", "Judge on this share of the training data, not on test data.", SCENARIO, "SHARE"),
]

Method = Annotated[str | None, _flag("--method", "Learning method (see `remem list methods`).", TRAINING, "NAME")]
Backbone = Annotated[str | None, _flag("--backbone", "Network (see `remem list backbones`).", TRAINING, "NAME")]
Preset = Annotated[
    str | None, _flag("--preset", "small (a CPU, minutes) or paper (published schedules).", TRAINING, "NAME")
]
Device = Annotated[str | None, _flag("--device", "cpu, cuda, mps; by default the best there is.", TRAINING, "NAME")]
Devices = Annotated[int | None, _flag("--devices", "How many devices train one run.", TRAINING, "K")]
Strategy = Annotated[str | None, _flag("--strategy", "How they share the work, as Fabric calls it.", TRAINING, "NAME")]
Set = Annotated[
    list[str] | None,
    _flag("--set", "Any setting, such as train.epochs=5; may be repeated; wins over all.", TRAINING, "KEY=VALUE"),
]

Levels = Annotated[
    int | None, _flag("--levels", "2: also between harder and easier classes; 1: old and new alone.", LEARNING, "1|2")
]
Source = Annotated[
    str | None,
    _flag("--source", "Tasks from phase0, from the target (an oracle) or dataset:NAME.", LEARNING, "SOURCE"),
]
Fidelity = Annotated[
    str | None, _flag("--fidelity", "What a run costs: full, short or features.", LEARNING, "full|short|features")
]
Epochs = Annotated[int | None, _flag("--epochs", "Steps of the policy.", LEARNING, "m")]
Tasks = Annotated[int | None, _flag("--tasks", "Tasks in each epoch.", LEARNING, "K")]
Runs = Annotated[int | None, _flag("--runs", "Runs of each of them.", LEARNING, "Z")]
Pool = Annotated[int | None, _flag("--pool", "Tasks in all, in turn; 0: new ones in every epoch.", LEARNING, "P")]
Baseline = Annotated[
    str | None, _flag("--baseline", "What rewards are compared with.", LEARNING, "average|leave-one-out")
]
CrossvalFixed = Annotated[
    bool | None,
    _flag("--crossval-fixed", "Learn nothing: compare all fixed shares on the P tasks, keep the best.", LEARNING),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="Processes that train; by default one per core.",
        rich_help_panel=COMMON,
        metavar="K",
        show_default=False,
    ),
]
Ray = Annotated[
    str | None,
    _flag("--ray", "Train in workers of Ray: local, or the address of a cluster.", COMMON, "local|ADDRESS"),
]

Seed = Annotated[int | None, _flag("--seed", "Seed of the run; the class order has its own.", COMMON, "K")]
DataRoot = Annotated[Path | None, _flag("--data-root", "Where data sets lie; else $REMEM_DATA.", COMMON, "DIR")]
Quiet = Annotated[bool, _flag("--quiet", "Print nothing but where the result is, and errors.", COMMON)]

SETTING = {
    "dataset": "data.name",
    "data_root": "data.root",
    "order": "scenario.order",
    "phases": "scenario.phases",
    "base_classes": "scenario.base_classes",
    "validation": "scenario.validation",
    "budget": "memory.budget",
    "exemplars": "memory.exemplars",
    "selection": "memory.selection",
    "policy": "policy",
    "method": "method.name",
    "backbone": "net.name",
    "preset": "preset",
    "device": "train.device",
    "devices": "train.devices",
    "strategy": "train.strategy",
    "seed": "seed",
    "levels": "learn.levels",
    "source": "learn.source",
    "fidelity": "learn.fidelity",
    "epochs": "learn.epochs",
    "tasks": "learn.tasks",
    "runs": "learn.runs",
    "pool": "learn.pool",
    "baseline": "learn.baseline",
    "crossval_fixed": "learn.crossval_fixed",
}


def flag_settings(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags that were given, by the dotted names of their settings."""
    given = {SETTING[name]: value for name, value in flags.items() if name in SETTING and value is not None}
    budget = given.get("memory.budget")
    if budget is not None and budget.isdecimal():
        given["memory.budget"] = int(budget)
    return given


def read_settings(flags: Mapping[str, Any]) -> "RunConfig":
    """The settings of a run: its preset, then the file, then flags, then `--set`."""
    from remem.runs.config import compose

    return compose(*_layers(flags))


def read_learn_settings(flags: Mapping[str, Any]) -> "LearnConfig":
    """The settings of a policy's learning: those of a run, and the section `learn`, from the same places."""
    from remem.rl.config import compose_learning

    return compose_learning(*_layers(flags))


def _layers(flags: Mapping[str, Any]) -> "tuple[Tree, Tree, Tree]":
    from remem.runs.trees import merged, nested, read_overrides
    from remem.runs.presets import read_toml

    from_file = {} if flags.get("config") is None else read_toml(flags["config"])
    if "study" in from_file:
        raise InputError(f"{flags['config']}: a study given, expected the settings of one run; use `remem study`")
    from_flags: Tree = {}
    for key, value in flag_settings(flags).items():
        from_flags = merged(from_flags, nested(key, value))
    return from_file, from_flags, read_overrides(flags.get("settings") or ())
