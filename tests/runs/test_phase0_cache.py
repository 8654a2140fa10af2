"""phase0_cache.py: runs with the same phase 0 share it, and their results do not change."""

from pathlib import Path
from typing import Any

import pytest

from factories import blobs, ready, timeless
from remem.events import Event
from remem.methods.events import EpochEnded
from remem.runs.phase0_cache import Phase0Cache, phase0_key
from remem.runs.prepared import Prepared
from remem.runs.run import run_or_resume


def prepared_run(**changes: Any) -> Prepared:
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
def test_settings_of_later_phases_do_not_change_the_key(changes: dict[str, Any]) -> None:
    assert phase0_key(prepared_run(**changes)) == phase0_key(prepared_run())


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
def test_settings_of_phase_0_change_the_key(changes: dict[str, Any]) -> None:
    assert phase0_key(prepared_run(**changes)) != phase0_key(prepared_run())


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ({"name": "lucir"}, {"name": "lucir", "freeze_old": False, "less_forget": 1.0}, True),
        ({"name": "lucir"}, {"name": "mnemonics"}, True),
        ({"name": "lucir"}, {"name": "lucir-aanets"}, True),
        ({"name": "finetune"}, {"name": "lwf"}, True),
        ({"name": "podnet"}, {"name": "pod-aanets", "spatial": 1.0}, True),
        ({"name": "lucir"}, {"name": "lucir", "scale": 2.0}, False),  # the head
        ({"name": "lwf"}, {"name": "icarl"}, False),  # the readout, and so the accuracy of phase 0
        ({"name": "icarl"}, {"name": "icarl", "loss": "sigmoid"}, False),
        ({"name": "podnet"}, {"name": "podnet", "nca": "margin"}, False),
        ({"name": "podnet"}, {"name": "podnet", "clamp": 1.0}, False),
        ({"name": "lwf"}, {"name": "lucir"}, False),
    ],
)
def test_methods_share_phase_0_if_they_train_and_report_it_alike(
    one: dict[str, Any], other: dict[str, Any], alike: bool
) -> None:
    keys = [phase0_key(prepared_run(method=method)) for method in (one, other)]
    assert (keys[0] == keys[1]) == alike


@pytest.mark.parametrize(("first", "second"), [("lucir", "mnemonics"), ("podnet", "pod-aanets"), ("lwf", "finetune")])
def test_a_phase_0_of_another_method_changes_nothing(tmp_path: Path, first: str, second: str) -> None:
    cache = Phase0Cache(tmp_path / "phase0")
    run_or_resume(prepared_run(method={"name": first}), tmp_path / "first", phase0=cache)
    alone = run_or_resume(prepared_run(method={"name": second}), tmp_path / "alone")
    events: list[Event] = []
    cached = run_or_resume(prepared_run(method={"name": second}), tmp_path / "cached", events.append, phase0=cache)
    assert {event.phase for event in events if isinstance(event, EpochEnded)} == {1, 2}
    assert timeless(cached.to_json()) == timeless(alone.to_json())


def test_other_samples_change_the_key() -> None:
    assert phase0_key(ready(blobs(seed=1))) != phase0_key(prepared_run())


def test_run_with_a_cached_phase_0_equals_one_that_trains_it(tmp_path: Path) -> None:
    cache = Phase0Cache(tmp_path / "phase0")
    run_or_resume(prepared_run(policy="static"), tmp_path / "first", phase0=cache)
    alone = run_or_resume(prepared_run(policy="fixed-0.3"), tmp_path / "alone")
    events: list[Event] = []
    cached = run_or_resume(prepared_run(policy="fixed-0.3"), tmp_path / "cached", events.append, phase0=cache)
    assert {event.phase for event in events if isinstance(event, EpochEnded)} == {1, 2}  # phase 0 is not trained
    assert timeless(cached.to_json()) == timeless(alone.to_json())
    for name in ("model.safetensors", "predictions.npz"):
        assert (tmp_path / "cached" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    assert len((tmp_path / "cached" / "log.jsonl").read_text().splitlines()) == len(
        (tmp_path / "alone" / "log.jsonl").read_text().splitlines()
    )
