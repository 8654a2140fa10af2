"""Trackers, read back by their own readers: the same numbers as `log.jsonl`, policy learning and studies included."""

import itertools
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from cli.conftest import TINY, Command
from remem.methods.events import EpochEnded
from remem.runs.events import PhaseEvaluated
from remem.runs.writer import RunWriter
from remem.storage.event_log import EventLog, read_log
from remem.storage.generations import save_generation
from remem.studies.events import JobEnded, JobProgress
from remem.tracking.table import TRACKERS
from remem.tracking.tracker import MEASURES, RunSubscriber, StudySubscriber, Tracker

Numbers = dict[str, list[tuple[int, float]]]  # by key: steps and values
LEARN = ("--epochs", "2", "--tasks", "1", "--runs", "2", "--pool", "1", "--fidelity", "full", "--workers", "1")


def logged(folder: Path) -> Numbers:
    """What `log.jsonl` says, as trackers should have it."""
    found: Numbers = {}
    epochs = 0
    for entry in read_log(folder / "log.jsonl"):
        if entry["event"] == "epoch":
            epochs += 1
            values = {f"epoch/loss/{name}": value for name, value in entry["loss"].items()}
            step, values = epochs, {**values, "epoch/phase": entry["phase"], "epoch/samples": entry["samples"]}
        elif entry["event"] == "evaluated":
            step, values = entry["phase"], {"phase/accuracy": entry["accuracy"]}
        else:
            step, values = entry["epoch"], {f"policy/{name}": entry[name] for name in MEASURES}
        for key, value in values.items():
            found.setdefault(key, []).append((step, float(value)))
    return found


def read_tensorboard(folder: Path, name: str) -> Numbers:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder / "tensorboard" / name), size_guidance={"scalars": 0})
    events.Reload()
    return {key: [(e.step, e.value) for e in events.Scalars(key)] for key in events.Tags()["scalars"]}


def read_mlflow(folder: Path, name: str) -> Numbers:
    mlflow = pytest.importorskip("mlflow")
    client = mlflow.MlflowClient(tracking_uri=(folder / "mlflow").as_uri())
    [experiment] = [e for e in client.search_experiments() if e.name == "remem"]
    [run] = [run for run in client.search_runs([experiment.experiment_id]) if run.info.run_name == name]
    assert run.info.status == "FINISHED"
    keys = run.data.metrics
    return {key: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, key)] for key in keys}


def records(content: bytes) -> Iterator[bytes]:
    """The records of a LevelDB log, in which W&B writes offline: blocks of 32 KiB after a header of 7 bytes."""
    place, part = 7, b""
    while place + 7 <= len(content):
        room = 32768 - place % 32768
        if room < 7:
            place += room
            continue
        _, length, kind = struct.unpack("<IHB", content[place : place + 7])
        part += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield part
            part = b""


def read_wandb(folder: Path, name: str) -> Numbers:
    proto = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    found: Numbers = {}
    for file in sorted((folder / "wandb").glob("offline-run-*/run-*.wandb")):
        parsed = [proto.Record.FromString(record) for record in records(file.read_bytes())]
        if name not in [record.run.display_name for record in parsed]:
            continue
        for record in parsed:
            items = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            for key, value in items.items():
                if "/" in key:
                    found.setdefault(key, []).append((items["step"], float(value)))
    return found


READERS = {"tensorboard": read_tensorboard, "mlflow": read_mlflow, "wandb": read_wandb}


def require_same(found: Numbers, expected: Numbers, *, tolerance: float) -> None:
    assert set(found) == set(expected)
    for key, pairs in expected.items():
        assert [step for step, _ in found[key]] == [step for step, _ in pairs], key
        assert [value for _, value in found[key]] == pytest.approx([value for _, value in pairs], rel=tolerance), key


@pytest.fixture(autouse=True)
def _no_services(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_URI", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.filterwarnings("default")  # of the trackers' own packages
@pytest.mark.parametrize("kind", TRACKERS)
def test_a_run_and_a_learning_are_tracked_with_the_numbers_of_their_logs(
    kind: str, remem: Command, vectors: str, tmp_path: Path
) -> None:
    pytest.importorskip(TRACKERS[kind][0])
    tolerance = 1e-6 if kind == "tensorboard" else 1e-12  # TensorBoard keeps 32 bits
    run, learning = tmp_path / "run", tmp_path / "learning"
    said = remem("run", "--dataset", vectors, *TINY, "--track", kind, "--quiet", "--out", run)
    assert said.code == 0, said.err
    require_same(READERS[kind](run, "run"), logged(run), tolerance=tolerance)
    said = remem("learn-policy", "--dataset", vectors, *TINY, *LEARN, "--track", kind, "--quiet", "--out", learning)
    assert said.code == 0, said.err
    expected = logged(learning)
    assert len(expected["policy/entropy"]) == 2
    require_same(READERS[kind](learning, "learning"), expected, tolerance=tolerance)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kind", TRACKERS)
def test_resumed_work_goes_on_with_its_tracker(
    kind: str, remem: Command, vectors: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Phase 1 and epoch 2 are tracked or logged, but not saved: they are trained again, and no step is there twice."""
    pytest.importorskip(TRACKERS[kind][0])
    run, learning = tmp_path / "run", tmp_path / "learning"
    with monkeypatch.context() as patched:
        patched.setattr(RunWriter, "save_phase", stopping(RunWriter.save_phase, call=2))
        said = remem("run", "--dataset", vectors, *TINY, "--track", kind, "--quiet", "--out", run)
        assert said.code == 130, said.err
        patched.setattr("remem.rl.learn.save_generation", stopping(save_generation, call=2))
        said = remem("learn-policy", "--dataset", vectors, *TINY, *LEARN, "--track", kind, "--quiet", "--out", learning)
        assert said.code == 130, said.err
    for folder in (run, learning):
        said = remem("resume", folder, "--track", kind, "--quiet")
        assert said.code == 0, said.err
        tolerance = 1e-6 if kind == "tensorboard" else 1e-12
        require_same(READERS[kind](folder, folder.name), logged(folder), tolerance=tolerance)


def stopping(function: Any, call: int) -> Any:
    """The function, but Ctrl-C comes instead of one of its calls."""
    calls = itertools.count(1)

    def stopped(*given: Any, **named: Any) -> Any:
        if next(calls) == call:
            raise KeyboardInterrupt
        return function(*given, **named)

    return stopped


@pytest.mark.filterwarnings("default")
def test_a_finished_run_is_handed_to_a_tracker_later(remem: Command, vectors: str, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    run = tmp_path / "run"
    assert remem("run", "--dataset", vectors, *TINY, "--quiet", "--out", run).code == 0
    for _ in range(2):  # the second time there is nothing to add
        assert remem("resume", run, "--track", "tensorboard", "--quiet").code == 0
        require_same(read_tensorboard(run, "run"), logged(run), tolerance=1e-6)


@pytest.mark.filterwarnings("default")
def test_runs_of_a_study_are_tracked_with_their_shared_phase_0_and_go_on_after_a_stop(
    remem: Command, vectors: str, tmp_path: Path
) -> None:
    pytest.importorskip("tensorboard")
    out, file = tmp_path / "study", tmp_path / "study.toml"
    file.write_text('[study]\npolicies = ["static", "fixed-0.6"]\n')
    settings = {"data.name": vectors, "scenario.phases": "2", "memory.budget": "60", "train.epochs": "2"}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    flags = ("--workers", "1", "--track", "tensorboard", "--quiet")
    said = remem("study", file, *words, *flags, "--out", out)
    assert said.code == 0, said.err
    rmtree(out / "runs" / "fixed-0.6")  # as if this run had not been made
    said = remem("resume", out, *flags)
    assert said.code == 0, said.err
    for name in ("static", "fixed-0.6"):
        expected = logged(out / "runs" / name)
        assert {phase for _, phase in expected["epoch/phase"]} == {0, 1, 2}
        require_same(read_tensorboard(out, name), expected, tolerance=1e-6)


def test_an_epoch_has_the_step_that_the_log_says_and_what_is_missing_is_added(tmp_path: Path) -> None:
    """The log has two epochs and an evaluation before this one; the tracker has the first."""
    log = EventLog(tmp_path / "log.jsonl", (EpochEnded, PhaseEvaluated))
    events = [epoch(0, 1, 3.0), epoch(0, 2, 2.0), PhaseEvaluated(0, 0.5), epoch(1, 1, 1.0)]
    for event in [*events, epoch(1, 2, 0.5)]:  # the log may be ahead of the events
        log(event)
    kept = Kept({"epoch/loss/all": 1, "epoch/phase": 1, "epoch/samples": 1})
    RunSubscriber(kept, tmp_path)(events[-1])
    assert [(sorted(values), step) for values, step in kept.written] == [
        (["epoch/loss/all", "epoch/phase", "epoch/samples"], 2),
        (["phase/accuracy"], 0),
        (["epoch/loss/all", "epoch/phase", "epoch/samples"], 3),
    ]


def test_epochs_are_counted_without_a_log(tmp_path: Path) -> None:
    """As on another machine."""
    kept = Kept()
    follow = RunSubscriber(kept, tmp_path / "not here")
    for number in (1, 2):
        follow(epoch(0, number, 1.0))
    assert [step for _, step in kept.written] == [1, 2]


def epoch(phase: int, number: int, loss: float) -> EpochEnded:
    return EpochEnded(phase, "main", number, 2, 10, {"all": loss}, 0.0)


class Kept(Tracker):
    """A tracker in memory."""

    def __init__(self, before: dict[str, int] | None = None) -> None:
        self.written: list[tuple[dict[str, float], int]] = []
        self.closed = False
        self._before = before or {}

    def last_steps(self) -> dict[str, int]:
        return self._before

    def write(self, key_values: Any, step: int) -> None:
        self.written.append((dict(key_values), step))

    def close(self) -> None:
        self.closed = True


def test_a_study_has_one_tracker_for_every_run(tmp_path: Path) -> None:
    kept: dict[str, Kept] = {}

    def opening(name: str, folder: Path) -> Tracker:
        assert folder == tmp_path / "runs" / name
        return kept.setdefault(name, Kept())

    study = StudySubscriber(opening, tmp_path)
    for name, accuracy in (("a", 0.5), ("b", 0.25)):
        study(JobProgress(name, PhaseEvaluated(0, accuracy)))
    study(JobEnded("a"))
    assert [one.written for one in kept.values()] == [[({"phase/accuracy": 0.5}, 0)], [({"phase/accuracy": 0.25}, 0)]]
    assert [one.closed for one in kept.values()] == [True, False]
    study.close()
    assert kept["b"].closed


def test_a_tracker_that_is_not_installed_is_named(
    remem: Command, vectors: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TRACKERS, "wandb", ("no_such_package", ""))
    said = remem("run", "--dataset", vectors, *TINY, "--track", "wandb", "--out", tmp_path / "run")
    assert said.code == 2
    assert said.err == "error: --track: wandb given, but it is not installed; pip install 'remem[wandb]'\n"
    assert not (tmp_path / "run").exists()
    said = remem("run", "--dataset", vectors, *TINY, "--track", "neptune", "--out", tmp_path / "run")
    assert said.code == 2
