"""`remem/PseudoCIL-v0` from settings: what `gymnasium.make` calls."""

from collections.abc import Mapping
from typing import Any

from remem.errors import InputError
from remem.rl.env import PseudoCIL
from remem.rl.paths import Fidelity, TaskKey
from remem.rl.tree import MemoryShelf, serial
from remem.runs.config import Tree, merged, nested
from remem.runs.learning import LearnConfig, compose_learning
from remem.runs.policy_learning import provenance
from remem.runs.tasks import Workplace

USED = ("source", "phases", "short_share")  # of the section `learn`; the agent's library replaces the others
# Beneath all other settings: an episode in about a second. Pseudo tasks of six digits have three phases after phase 0,
# and under this budget every old share is feasible and none is free.
QUICK: dict[str, Tree] = {
    "digits": {
        "scenario": {"base_classes": 6},
        "memory": {"budget": 250},
        "net": {"name": "small", "width": 8, "blocks": [1, 1]},
        "train": {"epochs": 5, "batch_size": 32},
        "finetune": {"epochs": 2},
    }
}


def make_pseudo_cil(
    dataset: str = "digits",
    phases: int = 3,
    method: str = "icarl",
    budget: int | str | None = None,
    fidelity: Fidelity = "full",
    pool: int = 4,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    render_mode: str | None = None,
    memory_gigabytes: float = 1.0,
) -> PseudoCIL:
    """Pseudo tasks of a target: `phases` and `budget` are the target's, `settings` as in `remem.run`, and more of them.

    Episodes that wait for their branches take at most `memory_gigabytes`; what is dropped is trained again.
    """
    given: Tree = {"seed": seed, "data": {"name": dataset}, "scenario": {"phases": phases}, "method": {"name": method}}
    if budget is not None:
        given["memory"] = {"budget": budget}
    given["learn"] = {"fidelity": fidelity, "pool": pool}
    config = _composed(QUICK.get(dataset, {}), given, settings or {})
    workplace = Workplace(config, MemoryShelf(int(memory_gigabytes * 1e9)))
    workplace.check()

    return PseudoCIL(
        lambda number: workplace.outline(TaskKey(number, config.learn.fidelity)),
        serial(workplace.grow),
        config.learn.pool,
        source=provenance(config, workplace, ())["source"],
        render_mode=render_mode,
    )


def _composed(below: Tree, given: Tree, settings: Mapping[str, Any]) -> LearnConfig:
    above: Tree = {}
    for key, value in settings.items():
        above = merged(above, nested(key, value))
    learn = above.get("learn", {})
    for name in learn if isinstance(learn, Mapping) else ():
        if name not in USED:
            raise InputError(f"settings: learn.{name} given; expected one of {', '.join(f'learn.{n}' for n in USED)}")
    return compose_learning(below, given, above)
