"""The functions of the Python interface: `scenario` and `run`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack

from torch import nn

from remem.data.datasets import load_dataset
from remem.data.scenario import Scenario, build_scenario
from remem.data.source import Dataset
from remem.errors import InputError
from remem.events import Emit, ignore
from remem.policies.policy import Policy
from remem.runs.build import prepare
from remem.runs.config import compose, validate
from remem.runs.results import RunResult
from remem.runs.run import run as run_in_memory
from remem.runs.run import run_or_resume
from remem.runs.trees import Tree, merged, nested


def scenario(
    dataset: str | Dataset,
    *,
    phases: int = 5,
    order: str = "seed:0",
    base_classes: int | None = None,
    validation: float = 0.0,
    image_size: int | None = None,
    data_root: str | Path | None = None,
) -> Scenario:
    """A data set cut into phases: a registered name, `folder:PATH`, `npz:PATH` or what `remem.from_arrays` returns."""
    division = {"phases": phases, "base_classes": base_classes, "order": order, "validation": validation}
    if not isinstance(dataset, str):
        if image_size is not None or data_root is not None:
            raise InputError("image_size, data_root: given for a data set that is loaded already; expected with a name")
        return build_scenario(dataset, validate({"scenario": division}).scenario)
    config = validate({"scenario": division, "data": {"name": dataset, "root": data_root, "image_size": image_size}})
    return build_scenario(load_dataset(config.data), config.scenario, config.data)


class RunOptions(TypedDict, total=False):
    """Keyword arguments of `run`, and their defaults."""

    method: str  # icarl
    policy: str | Policy  # static; a name, a policy folder, or an object with `name`, `oracle`, `act`, `provenance`
    budget: int | str | None  # E + all new data of the largest phase
    exemplars: int | None  # E: 20 per class
    backbone: str | nn.Module | None  # by the data: `small` for images, `mlp` for vectors
    preset: str  # small
    seed: int  # 0
    settings: Mapping[str, Any] | None  # any other setting, nested or as {"train.epochs": 5}


def run(
    scenario: Scenario, *, out: str | Path | None = None, emit: Emit = ignore, **options: Unpack[RunOptions]
) -> RunResult:
    """One class-incremental run; with `out` in a folder, where an interrupted run goes on.

    `method`, `policy`, `budget` and the other options are those of `RunOptions`. A policy object is, for example,
    `remem.policies.agent.AgentPolicy`. `emit` receives the run's events.
    """
    if unknown := sorted(options.keys() - RunOptions.__annotations__.keys()):
        known = ", ".join(RunOptions.__annotations__)
        raise TypeError(f"run() got an unexpected argument '{unknown[0]}'; expected one of {known}")
    policy, backbone = options.get("policy", "static"), options.get("backbone")
    own = None if isinstance(policy, str) else policy
    if own is not None and not callable(getattr(own, "act", None)):
        raise InputError(f"policy: {policy!r} given; expected a name, a policy folder or an object with act(state)")
    prepared = prepare(
        compose(_settings(scenario, options)),
        scenario=scenario,
        module=backbone if isinstance(backbone, nn.Module) else None,
        policy=own,
    )
    return run_in_memory(prepared, emit) if out is None else run_or_resume(prepared, Path(out), emit)


def _settings(scenario: Scenario, options: RunOptions) -> Tree:
    tree: Tree = {"preset": options.get("preset", "small"), "seed": options.get("seed", 0)}
    tree["method"] = {"name": options.get("method", "icarl")}
    if isinstance(policy := options.get("policy"), str):
        tree["policy"] = policy
    given = {"budget": options.get("budget"), "exemplars": options.get("exemplars")}
    tree["memory"] = {key: value for key, value in given.items() if value is not None}
    if isinstance(backbone := options.get("backbone"), str):
        tree["net"] = {"name": backbone}
    for key, value in (options.get("settings") or {}).items():
        tree = merged(tree, nested(key, value))
    if fixed := sorted({"data", "scenario"} & tree.keys()):
        raise InputError(
            f"settings: {fixed[0]} given, but the scenario is made already; expected in remem.scenario(...)"
        )
    return tree | {"data": scenario.data.model_dump(), "scenario": scenario.settings.model_dump()}
