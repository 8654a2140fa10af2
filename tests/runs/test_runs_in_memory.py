"""Whole runs in memory: repeatable, on any kind of data, never validated on the test set."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from factories import QUICK, blobs, pictures, ready, timeless, write_folder, write_npz
from remem.data.source import Dataset
from remem.events import Event
from remem.methods.events import EpochEnded
from remem.runs.build import prepare
from remem.runs.config import compose
from remem.runs.run import run
from remem.types import IntArray, Values

FIELDS = {"format", "remem", "status", "config", "head", "oracle", "policy_saw_classes", "policy", "phases"}
FIELDS |= {"average_accuracy", "last_accuracy", "forgetting", "average_accuracy_cnn", "average_accuracy_nme"}
FIELDS |= {"samples_peak", "class_order", "class_names"}
PHASE_FIELDS = {"phase", "classes_seen", "accuracy", "accuracy_cnn", "accuracy_nme", "accuracy_by_phase", "action"}
PHASE_FIELDS |= {"budget", "held_old", "held_new", "held_per_class", "seconds"}


def test_the_same_seed_gives_the_same_result() -> None:
    first, second = (run(ready(pictures())).to_json() for _ in range(2))
    assert timeless(first) == timeless(second)
    assert json.dumps(timeless(first)) == json.dumps(timeless(second))  # the order of keys too


def test_another_seed_gives_another_result() -> None:
    hard = pictures(seed=4)
    one, other = (run(ready(hard, {"seed": seed, "policy": "fixed-0.3"})).to_json() for seed in (0, 1))
    assert [p["held_per_class"] for p in one["phases"]] == [p["held_per_class"] for p in other["phases"]]
    accuracies = [[p["accuracy_cnn"] for p in result["phases"]] for result in (one, other)]
    assert accuracies[0] != accuracies[1]


def test_result_fields() -> None:
    data = run(ready(blobs(), {"policy": "fixed-0.6"})).to_json()
    assert set(data) >= FIELDS
    assert (data["format"], data["status"], data["head"], data["oracle"]) == (1, "complete", "nme", False)
    assert data["policy"] == {"name": "fixed-0.6", "old_share": 0.6}
    assert data["class_order"] == list(range(6))
    assert data["class_names"] == list("012345")
    accuracies = [phase["accuracy"] for phase in data["phases"]]
    assert data["average_accuracy"] == pytest.approx(sum(accuracies) / 3)
    assert data["last_accuracy"] == accuracies[-1]
    assert data["average_accuracy_cnn"] == pytest.approx(sum(p["accuracy_cnn"] for p in data["phases"]) / 3)
    assert data["samples_peak"] == 40
    for index, phase in enumerate(data["phases"]):
        assert set(phase) >= PHASE_FIELDS
        assert (phase["phase"], phase["classes_seen"]) == (index, 2 * index + 2)
        assert set(phase["seconds"]) == {"train", "select", "policy", "evaluate"}
        assert list(phase["held_per_class"]) == [str(label) for label in range(2 * index + 2)]
        assert sum(phase["held_per_class"].values()) == phase["held_old"] + phase["held_new"]
    assert (data["phases"][0]["action"], data["phases"][0]["budget"]) == (None, None)
    assert data["phases"][1]["action"] == {"old_share": 0.6, "level1": 0.6, "level2": 0.5, "clamped": False}
    assert data["phases"][2]["action"] == {"old_share": 0.6, "level1": 0.0, "level2": 0.5, "clamped": False}
    json.dumps(data)


def test_joint_is_marked_as_an_oracle() -> None:
    assert run(ready(blobs(), {"method": {"name": "joint"}})).to_json()["oracle"] is True


def test_events_are_emitted_in_order() -> None:
    events: list[Event] = []
    run(ready(blobs()), events.append)
    kinds = [(event.kind, event.to_json()["phase"]) for event in events]
    main, epochs = [("epoch", 0)] * 2, 3  # two epochs, and from phase 1 on a third one of fine-tuning
    assert kinds[:4] == [("phase", 0), *main, ("evaluated", 0)]
    assert kinds[4:9] == [("phase", 1), *[("epoch", 1)] * epochs, ("evaluated", 1)]
    assert [event.stage for event in events if isinstance(event, EpochEnded)] == ["main"] * 2 + [
        "main",
        "main",
        "balanced",
    ] * 2


@pytest.mark.parametrize("dataset", [blobs(), pictures()], ids=["vectors", "images"])
def test_bf16_is_close_to_fp32(dataset: Dataset) -> None:
    """With 8 bits of mantissa, the losses of the first epoch agree to a few percent, and both runs complete."""
    losses = []
    for precision in ("fp32", "bf16"):
        events: list[Event] = []
        result = run(ready(dataset, {"train": {"precision": precision}}), events.append)
        assert result.to_json()["config"]["train"]["precision"] == precision
        assert result.complete
        losses.append(next(event.loss["classify"] for event in events if isinstance(event, EpochEnded)))
    assert losses[1] == pytest.approx(losses[0], rel=0.05)
    assert losses[1] != losses[0]


@pytest.mark.parametrize(
    ("memory", "budgets"),
    [
        ({"budget": "growing:4", "exemplars": None}, [48, 56]),  # 4 x old classes + 40 new samples
        ({"budget": "bytes:1kB"}, [41, 41]),  # 24 bytes per vector
        ({"budget": None, "exemplars": 10}, [50, 50]),  # E + the largest phase
    ],
)
def test_budgets_of_every_kind(memory: dict[str, Any], budgets: list[int]) -> None:
    result = run(ready(blobs(), {"memory": memory}))
    assert [phase.budget for phase in result.phases[1:]] == budgets
    assert [phase.held_old + phase.held_new for phase in result.phases[1:]] == budgets


class Forbidden:
    """A test split whose samples must not be read."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def read(self, rows: IntArray) -> Values:
        raise AssertionError("the test set was read")


def test_validation_never_reads_the_test_set() -> None:
    dataset = replace(blobs(), test=Forbidden(blobs().test))
    with pytest.raises(AssertionError, match="the test set was read"):
        run(ready(dataset))
    result = run(ready(dataset, {"scenario": {"validation": 0.1}}))
    assert result.complete
    assert sum(result.phases[0].held_per_class.values()) == 36  # 2 of 20 samples per class are for validation


@pytest.mark.parametrize("kind", ["folder of images", "npz of images", "npz of vectors"])
def test_user_data_sets(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    dataset = blobs() if kind == "npz of vectors" else pictures()
    if kind == "folder of images":
        write_folder(tmp_path / "own", dataset)
        name = f"folder:{tmp_path / 'own'}"
    else:
        write_npz(tmp_path / "own.npz", dataset)
        name = f"npz:{tmp_path / 'own.npz'}"
    net = {"hidden": [16], "width": 8} if kind == "npz of vectors" else {"width": 4, "blocks": [1, 1]}
    events: list[Event] = []
    result = run(prepare(compose(QUICK, {"data": {"name": name}, "net": net})), events.append)
    assert result.complete
    assert len(result.phases) == 3
    assert result.phases[-1].classes_seen == 6
    assert result.to_json()["config"]["data"]["name"] in ("folder:own", "npz:own.npz")
    assert str(tmp_path) not in json.dumps(result.to_json())
    assert str(tmp_path) not in json.dumps([event.to_json() for event in events])


def test_npz_file_gives_the_result_of_its_arrays(tmp_path: Path) -> None:
    write_npz(tmp_path / "own.npz", blobs())
    name = f"npz:{tmp_path / 'own.npz'}"
    from_file = run(prepare(compose(ready(blobs()).config.model_dump(), {"data": {"name": name}}))).to_json()
    in_memory = run(ready(blobs())).to_json()
    assert timeless(from_file["phases"]) == timeless(in_memory["phases"])
