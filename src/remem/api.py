"""What Python users call: `scenario` and `run`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from remem.data.datasets import load_dataset
from remem.data.scenario import Scenario, build_scenario
from remem.data.source import Dataset
from remem.errors import InputError
from remem.methods.loop import Report
from remem.policies.policy import Policy
from remem.runs.build import prepare
from remem.runs.config import compose, merged, nested, validate
from remem.runs.folder import go_on_in_folder
from remem.runs.results import RunResult
from remem.runs.single import run as run_in_memory
from remem.runs.single import silent


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


def run(
    scenario: Scenario,
    *,
    method: str = "icarl",
    policy: str | Policy = "static",
    budget: int | str | None = None,
    exemplars: int | None = None,
    backbone: str | nn.Module | None = None,
    preset: str = "small",
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    report: Report = silent,
) -> RunResult:
    """One class-incremental run; with `out` in a folder, where a run that was interrupted goes on.

    `policy` is a name, a policy folder, or an object with `name`, `oracle`, `act(state)` and `provenance()`, such as
    `remem.policies.agent.AgentPolicy`. `settings` are further ones, nested or as `{"train.epochs": 5}`.
    """
    tree: dict[str, Any] = {"preset": preset, "seed": seed, "method": {"name": method}}
    own = None if isinstance(policy, str) else policy
    if isinstance(policy, str):
        tree["policy"] = policy
    elif not callable(getattr(policy, "act", None)):
        raise InputError(f"policy: {policy!r} given; expected a name, a policy folder or an object with act(state)")
    given = {"budget": budget, "exemplars": exemplars}
    tree["memory"] = {key: value for key, value in given.items() if value is not None}
    if isinstance(backbone, str):
        tree["net"] = {"name": backbone}
    for key, value in (settings or {}).items():
        tree = merged(tree, nested(key, value))
    if fixed := sorted({"data", "scenario"} & tree.keys()):
        raise InputError(
            f"settings: {fixed[0]} given, but the scenario is made already; expected in remem.scenario(...)"
        )
    tree |= {"data": scenario.data.model_dump(), "scenario": scenario.settings.model_dump()}
    module = backbone if isinstance(backbone, nn.Module) else None
    prepared = prepare(compose(tree), scenario=scenario, module=module, policy=own)
    return run_in_memory(prepared, report) if out is None else go_on_in_folder(prepared, Path(out), report)
