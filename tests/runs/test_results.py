"""results.py: the summary of phases, and files that are read back or refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remem.errors import DamagedFileError
from remem.runs.results import RunResult, load_result, phase_entry, save_predictions, save_result, summarise
from remem.types import Predictions, PhaseResult
from remem.action import Decision


def entry(accuracy: float, by_phase: list[float], **changes: Any) -> dict[str, Any]:
    base = {
        "accuracy": accuracy,
        "accuracy_cnn": accuracy / 2,
        "accuracy_nme": accuracy,
        "accuracy_by_phase": by_phase,
        "action": {},
    }
    return {**base, "held_old": 4, "held_new": 6, **changes}


ENTRIES = [
    entry(0.9, [0.9], held_old=0, held_new=100),
    entry(0.6, [0.5, 0.7]),
    entry(0.45, [0.6, 0.25, 0.5], held_old=5, held_new=7),
]
FACTS: dict[str, Any] = {"config": {"method": {"name": "icarl"}, "policy": "static"}, "oracle": False}


def test_the_summary_by_hand() -> None:
    result = summarise(FACTS, ENTRIES, peak=40, complete=True)
    assert result.average_accuracy == pytest.approx((0.9 + 0.6 + 0.45) / 3)
    assert result.last_accuracy == 0.45
    # phase 0: best earlier 0.9, final 0.6; phase 1: 0.7, 0.25; the last phase is left out
    assert result.forgetting == pytest.approx((0.3 + 0.45) / 2)
    assert result.data["average_accuracy_cnn"] == pytest.approx((0.9 + 0.6 + 0.45) / 6)
    assert result.data["samples_peak"] == 40  # as measured at every load, not as counted at the ends of phases
    assert result.complete
    assert result.label == "icarl / static"
    assert result.phases[2].held_new == 7


def test_a_running_or_headless_result() -> None:
    running = summarise(FACTS, ENTRIES[:1], peak=40, complete=False)
    assert not running.complete
    assert (running.data["samples_peak"], running.forgetting) == (40, 0.0)
    without = summarise(FACTS, [ENTRIES[0], {**ENTRIES[1], "accuracy_nme": None}], peak=40, complete=True)
    assert without.data["average_accuracy_nme"] is None
    empty = summarise(FACTS, [], peak=40, complete=False)
    assert (empty.data["average_accuracy"], empty.data["last_accuracy"]) == (None, None)


def test_a_phase_has_its_fields_and_says_which() -> None:
    phase = summarise(FACTS, ENTRIES, peak=40, complete=True).phases[1]
    assert phase.accuracy == 0.6
    with pytest.raises(AttributeError, match=r"a phase has no 'acuracy'; it has accuracy, .*held_new"):
        _ = phase.acuracy


def test_the_entry_of_a_phase() -> None:
    decision = Decision(old_total=6, old_share=0.6, old_tenths=6, level1=0.1, level2=None, clamped=True)
    judged = Predictions(np.array([0, 1]), np.array([0, 0]), None)
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
        seconds={"train": 1.5},
        predictions=judged,
    )
    told = phase_entry(result)
    assert told["action"] == {"old_share": 0.6, "level1": 0.1, "level2": None, "clamped": True}
    assert told["held_per_class"] == {"0": 6, "1": 4}
    assert told["accuracy_by_phase"] == [1.0, 0.0]
    assert json.loads(json.dumps(told)) == told


def test_results_come_back(tmp_path: Path) -> None:
    result = summarise(FACTS, ENTRIES, peak=40, complete=True)
    save_result(tmp_path / "result.json", result)
    assert load_result(tmp_path).data == result.data
    assert load_result(tmp_path / "result.json") == RunResult(result.data)


@pytest.mark.parametrize("text", ["", "{", "[1]", "3", '{"phases": []}', "\x00"])
def test_files_that_are_no_result(text: str, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(DamagedFileError, match=r"result.json: not a result of remem"):
        load_result(tmp_path)


def test_missing_and_later_results(tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match="no such result; expected the folder of a run"):
        load_result(tmp_path)
    (tmp_path / "result.json").write_text('{"format": 2}')
    with pytest.raises(DamagedFileError, match="format 2, expected 1"):
        load_result(tmp_path)


def test_predictions_and_confusion_by_hand(tmp_path: Path) -> None:
    judged = {
        "labels_0": np.array([0, 0]),
        "cnn_0": np.array([0, 0]),
        "nme_0": np.array([0, 0]),
        "labels_1": np.array([0, 0, 1, 2]),
        "cnn_1": np.array([0, 1, 1, 0]),
    }
    save_predictions(tmp_path / "p.npz", judged, 3)
    with np.load(tmp_path / "p.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {*judged, "confusion_cnn"}  # after the last phase there is no nearest mean
        assert arrays["confusion_cnn"].tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
        for name, value in judged.items():
            assert arrays[name].tolist() == value.tolist()
