"""What a run is going to do, in plain numbers: the first event of every run, from which displays begin."""

from itertools import accumulate
from pathlib import Path
from typing import Any

from remem.runs.build import Prepared
from remem.runs.results import load_result


def outline(prepared: Prepared, done: int = 0) -> dict[str, Any]:
    """The event `begin`, JSON only, so that it travels between processes; `done` phases are complete already."""
    config, method = prepared.config, prepared.method
    return {
        "event": "begin",
        "done": done,
        "phases": [
            {"samples": samples, "budget": budget}
            for samples, budget in zip(_held_at_most(prepared), _budgets(prepared), strict=True)
        ],
        "epochs": config.train.epochs,
        "epochs_later": config.train.epochs_of(0 if method.restarts else 1),
        "balanced_epochs": config.finetune.epochs if method.regime == "budget" else 0,
        "teacher": method.asks_teacher and not method.restarts,
    }


def _budgets(prepared: Prepared) -> list[int | None]:
    """M_i of every phase; None where nothing is limited."""
    phases = prepared.scenario.phases
    if prepared.method.regime == "all":
        return [None] * len(phases)
    seen = list(accumulate(len(phase.classes) for phase in phases))
    return [None, *(prepared.budget.total(old, p.arriving) for old, p in zip(seen, phases[1:], strict=False))]


def _held_at_most(prepared: Prepared) -> list[int]:
    """Samples of every phase's training: what arrives and what can still be there from before, within the budget."""
    held: list[int] = []
    for phase, budget in zip(prepared.scenario.phases, _budgets(prepared), strict=True):
        past = held[-1] if held and prepared.method.regime != "none" else 0
        held.append(past + phase.arriving if budget is None else min(budget, past + phase.arriving))
    return held


def phases_done(out: Path) -> int:
    """How many phases a run folder has behind it; 0 for a folder without a result."""
    return len(load_result(out).phases) if (out / "result.json").is_file() else 0
