"""Phase 0 is trained once for runs that begin alike, and nobody can tell from their results."""

from pathlib import Path
from typing import Any

import pytest

from factories import blobs, ready, timeless
from remem.events import Event
from remem.methods.events import EpochEnded
from remem.runs.phase0_cache import Phase0Cache, phase0_key
from remem.runs.prepared import Prepared
from remem.runs.run import run_or_resume


def made(**changes: Any) -> Prepared:
    return ready(blobs(), changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"policy": "fixed-0.3"},
        {"memory": {"budget": 30}},
        {"finetune": {"epochs": 0}},
        {"scenario": {"phases": 4}},
        {"memory": {"selection": "uniform"}},
    ],
)
def test_what_begins_with_phase_1_changes_nothing(changes: dict[str, Any]) -> None:
    assert phase0_key(made(**changes)) == phase0_key(made())


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 4},
        {"train": {"epochs": 3}},
        {"method": {"name": "finetune"}},
        {"net": {"width": 9}},
        {"scenario": {"base_classes": 3}},
        {"scenario": {"order": "seed:1"}},
        {"scenario": {"validation": 0.2}},
    ],
)
def test_what_phase_0_depends_on_changes_the_key(changes: dict[str, Any]) -> None:
    assert phase0_key(made(**changes)) != phase0_key(made())


def test_other_samples_change_the_key() -> None:
    assert phase0_key(ready(blobs(seed=1))) != phase0_key(made())


def test_a_run_that_borrows_phase_0_equals_one_that_trains_it(tmp_path: Path) -> None:
    cache = Phase0Cache(tmp_path / "phase0")
    run_or_resume(made(policy="static"), tmp_path / "lender", phase0=cache)
    alone = run_or_resume(made(policy="fixed-0.3"), tmp_path / "alone")
    told: list[Event] = []
    borrowed = run_or_resume(made(policy="fixed-0.3"), tmp_path / "borrower", told.append, phase0=cache)
    assert {event.phase for event in told if isinstance(event, EpochEnded)} == {1, 2}  # nothing of phase 0 is trained
    assert timeless(borrowed.to_json()) == timeless(alone.to_json())
    for name in ("model.safetensors", "predictions.npz"):
        assert (tmp_path / "borrower" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    assert len((tmp_path / "borrower" / "log.jsonl").read_text().splitlines()) == len(
        (tmp_path / "alone" / "log.jsonl").read_text().splitlines()
    )
