"""Results made by hand, for tests of tables and pages."""

from collections.abc import Sequence
from typing import Any

from remem.runs.results import RunResult, summarise


def made_run(
    method: str, policy: str, accuracies: Sequence[float], *, seed: int = 0, oracle: bool = False, **settings: Any
) -> RunResult:
    """Four classes first and two more in every phase; from phase 1 on 10 old and 30 new samples are held."""
    config = {"seed": seed, "policy": policy, "method": {"name": method}, "data": {"name": "glyphs"}}
    config |= {"scenario": {"phases": max(len(accuracies) - 1, 1), "order": "seed:0"}} | settings
    names = [f"class {index}" for index in range(2 + 2 * max(len(accuracies), 1))]
    facts = {"config": config, "oracle": oracle, "class_names": names}
    phases = [_phase(index, accuracies) for index in range(len(accuracies))]
    return summarise(facts, phases, complete=bool(accuracies))


def _phase(index: int, accuracies: Sequence[float]) -> dict[str, Any]:
    accuracy = accuracies[index]
    return {
        "phase": index,
        "classes_seen": 4 + 2 * index,
        "accuracy": accuracy,
        "accuracy_cnn": accuracy - 0.1,
        "accuracy_nme": accuracy,
        "accuracy_by_phase": [accuracy] * (index + 1),
        "action": {"old_share": 0.25} if index else None,
        "budget": 40 if index else None,
        "held_old": 10 if index else 0,
        "held_new": 30 if index else 100,
    }
