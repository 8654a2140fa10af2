"""results.py: typed records of a run, saved and loaded; other files are refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from remem.action import Decision
from remem.errors import DamagedFileError
from remem.runs.results import PhaseRecord, RunFacts, RunResult, load_result, save_predictions, save_result
from remem.types import PhaseResult, Predictions


def phase(accuracy: float, by_phase: list[float], **changes: Any) -> PhaseRecord:
    index = len(by_phase) - 1
    base = {
        "phase": index,
        "classes_seen": 2 * index + 2,
        "accuracy": accuracy,
        "accuracy_cnn": accuracy / 2,
        "accuracy_nme": accuracy,
        "accuracy_by_phase": by_phase,
        "accuracy_old": None,
        "accuracy_new": accuracy,
        "accuracy_per_class": {"0": accuracy},
        "action": {"old_share": 0.4, "level1": None, "level2": None, "clamped": False} if index else None,
        "budget": 10,
        "held_old": 4,
        "held_new": 6,
        "held_per_class": {"0": 10},
        "seconds": {"train": 1.0},
    }
    return PhaseRecord.model_validate({**base, **changes})


PHASES = [
    phase(0.9, [0.9], held_old=0, held_new=100),
    phase(0.6, [0.5, 0.7]),
    phase(0.45, [0.6, 0.25, 0.5], held_old=5, held_new=7),
]
FACTS = RunFacts(
    config={"method": {"name": "icarl"}, "policy": "static"},
    head="nme",
    oracle=False,
    policy_saw_classes=False,
    policy={"name": "static"},
    data_fingerprint="abc",
    class_order=(1, 0, 2, 3, 4, 5),
    class_names=("b", "a", "c", "d", "e", "f"),
)


def test_summary_by_hand() -> None:
    result = RunResult.of(FACTS, PHASES, peak=40, complete=True)
    assert result.average_accuracy == pytest.approx((0.9 + 0.6 + 0.45) / 3)
    assert result.last_accuracy == 0.45
    # phase 0: best earlier 0.9, final 0.6; phase 1: 0.7, 0.25; the last phase is left out
    assert result.forgetting == pytest.approx((0.3 + 0.45) / 2)
    assert result.average_accuracy_cnn == pytest.approx((0.9 + 0.6 + 0.45) / 6)
    assert result.samples_peak == 40  # measured at every load, not at the ends of phases
    assert result.complete
    assert result.label == "icarl / static"
    assert result.phases[2].held_new == 7


def test_incomplete_result_and_result_without_nearest_means() -> None:
    running = RunResult.of(FACTS, PHASES[:1], peak=40, complete=False)
    assert not running.complete
    assert (running.samples_peak, running.forgetting) == (40, 0.0)
    without = PHASES[1].model_copy(update={"accuracy_nme": None})
    assert RunResult.of(FACTS, [PHASES[0], without], peak=40, complete=True).average_accuracy_nme is None


def test_label_of_a_result_without_decisions_has_no_policy() -> None:
    phases = [one.model_copy(update={"action": None}) for one in PHASES]
    oracle = FACTS.model_copy(update={"oracle": True})
    assert RunResult.of(oracle, phases, peak=40, complete=True).label == "icarl / - (oracle)"


def test_phase_record() -> None:
    decision = Decision(old_total=6, old_share=0.6, old_tenths=6, level1=0.1, level2=None, clamped=True)
    predictions = Predictions(np.array([0, 1]), np.array([0, 0]), None)
    result = PhaseResult(
        phase=2,
        classes_seen=2,
        accuracy=0.5,
        accuracy_cnn=0.5,
        accuracy_nme=None,
        accuracy_by_phase=(1.0, 0.0),
        accuracy_old=1.0,
        accuracy_new=0.0,
        accuracy_per_class={0: 1.0, 1: 0.0},
        decision=decision,
        budget=10,
        held_old=6,
        held_new=4,
        held_per_class={0: 6, 1: 4},
        measures={"branch_weights": (0.5, 0.25)},
        seconds={"train": 1.5},
        predictions=predictions,
    )
    record = PhaseRecord.of(result).model_dump(mode="json")
    assert record["action"] == {"old_share": 0.6, "level1": 0.1, "level2": None, "clamped": True}
    assert record["held_per_class"] == {"0": 6, "1": 4}
    assert record["accuracy_by_phase"] == [1.0, 0.0]
    assert json.loads(json.dumps(record)) == record


def test_save_and_load_round_trip(tmp_path: Path) -> None:
    result = RunResult.of(FACTS, PHASES, peak=40, complete=True)
    save_result(tmp_path / "result.json", result)
    assert load_result(tmp_path) == load_result(tmp_path / "result.json") == result
    text = (tmp_path / "result.json").read_text()
    assert text.count("\n") == 1  # compact, one line
    assert list(json.loads(text))[:4] == ["format", "remem", "status", "config"]


def test_fields_of_later_versions_are_kept(tmp_path: Path) -> None:
    tree = RunResult.of(FACTS, PHASES, peak=40, complete=True).to_json()
    tree["energy"], tree["phases"][0]["calibration"] = 3, 0.5
    (tmp_path / "result.json").write_text(json.dumps(tree))
    assert load_result(tmp_path).to_json() == tree


def test_older_names_of_settings_are_migrated(tmp_path: Path) -> None:
    tree = RunResult.of(FACTS, PHASES, peak=40, complete=True).to_json()
    tree["config"]["train"] = {"rate": 0.1, "epochs": 3}
    (tmp_path / "result.json").write_text(json.dumps(tree))
    assert load_result(tmp_path).config["train"] == {"lr": 0.1, "epochs": 3}


def test_records_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        PHASES[0].accuracy = 1.0


@pytest.mark.parametrize("text", ["", "{", "[1]", "3", '{"phases": []}', "\x00"])
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(DamagedFileError, match=r"result.json: not the result of a run"):
        load_result(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"), [("samples_peak", None), ("phases", []), ("status", "done"), ("average_accuracy", "high")]
)
def test_error_names_the_wrong_field(name: str, value: object, tmp_path: Path) -> None:
    tree = RunResult.of(FACTS, PHASES, peak=40, complete=True).to_json()
    (tmp_path / "result.json").write_text(json.dumps({**tree, name: value}))
    with pytest.raises(DamagedFileError, match=f"result.json: '{name}': .*; expected the result of a run"):
        load_result(tmp_path)


def test_missing_and_later_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match="no such file; expected the result of a run"):
        load_result(tmp_path)
    (tmp_path / "result.json").write_text('{"format": 2}')
    with pytest.raises(DamagedFileError, match="format 2, expected 1"):
        load_result(tmp_path)


def test_predictions_and_confusion_by_hand(tmp_path: Path) -> None:
    predicted = {
        "labels_0": np.array([0, 0]),
        "cnn_0": np.array([0, 0]),
        "nme_0": np.array([0, 0]),
        "labels_1": np.array([0, 0, 1, 2]),
        "cnn_1": np.array([0, 1, 1, 0]),
    }
    save_predictions(tmp_path / "p.npz", predicted, 3)
    with np.load(tmp_path / "p.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {*predicted, "confusion_cnn"}  # the last phase has no nearest means
        assert arrays["confusion_cnn"].tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
        for name, value in predicted.items():
            assert arrays[name].tolist() == value.tolist()


def test_a_result_prints_in_two_lines() -> None:
    facts = FACTS.model_copy(update={"config": {**FACTS.config, "data": {"name": "folder:photos"}}})
    result = RunResult.of(facts, PHASES, peak=40, complete=True)
    assert str(result).splitlines() == [
        "icarl / static on folder:photos: 6 classes, 2 phases after the first",
        "accuracy: average 65.00 %, last 45.00 %; forgetting 37.50 points",
    ]
    assert repr(result) == f"<RunResult {str(result).replace(chr(10), ' | ')}>"
    begun = RunResult.of(FACTS, PHASES[:2], peak=40, complete=False)
    assert str(begun).startswith(
        "icarl / static on its data: 4 classes, 1 phase after the first (not complete, so far)\n"
    )
