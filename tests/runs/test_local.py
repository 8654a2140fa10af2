"""Runs side by side: the protocol with a worker that only pretends, and the real worker in this process."""

import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remem.errors import InputError
from remem.runs import local, worker
from remem.runs.config import compose
from remem.runs.local import Job, WorkerDiedError, run_side_by_side
from worlds import VECTORS, blobs

# Answers as a worker does; the job's `config` says how it ends.
PRETENDER = """
import json, os, pathlib, signal, sys, time
job = json.load(sys.stdin)
out, kind = pathlib.Path(job["out"]), job["config"]["kind"]
out.mkdir(parents=True, exist_ok=True)
(out / "pid").write_text(str(os.getpid()))
def answer(**content): print(json.dumps(content), flush=True)
if kind == "noisy": os.write(1, b'a library speaks\\n[5]\\n5\\n{"do\\n\\xff\\xfe\\n')
answer(event={"event": "phase", "phase": 0})
if kind == "input": answer(error="InputError", message="budget: 3 given", traceback="deep down")
elif kind == "odd": answer(error="SafetensorError", message="torn", traceback="deep down")
elif kind == "dies": sys.stderr.write("out of memory"); sys.stderr.flush(); os.kill(os.getpid(), signal.SIGKILL)
elif kind == "stays": time.sleep(60)
else:
    time.sleep(job["config"].get("seconds", 0))
    needed = ("config", "oracle", "average_accuracy", "last_accuracy", "forgetting", "phases", "samples_peak")
    made = {"format": 1, "status": "complete", "made": kind, **dict.fromkeys(needed)}
    (out / "result.json").write_text(json.dumps(made))
    answer(done=True)
"""


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "COMMAND", (sys.executable, "-S", "-c", PRETENDER))


def job(tmp_path: Path, name: str, kind: str = "fine", **more: Any) -> Job:
    return Job(name, {"kind": kind, **more}, tmp_path / name)


def ignore(name: str, event: dict[str, Any]) -> None:
    """Nobody listens."""


def is_gone(folder: Path) -> bool:
    return not Path(f"/proc/{(folder / 'pid').read_text()}").exists()


@pytest.mark.usefixtures("pretended")
def test_results_come_in_the_order_of_the_jobs_and_events_under_their_names(tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []
    jobs = [job(tmp_path, "slow", "a", seconds=0.4), job(tmp_path, "quick", "b"), job(tmp_path, "third", "c")]
    results = run_side_by_side(jobs, 2, lambda name, event: heard.append((name, event["event"])))
    assert [result.data["made"] for result in results] == ["a", "b", "c"]
    assert sorted(heard) == [("quick", "phase"), ("slow", "phase"), ("third", "phase")]


@pytest.mark.usefixtures("pretended")
def test_no_more_than_the_workers_run_at_once(tmp_path: Path) -> None:
    started = time.monotonic()
    run_side_by_side([job(tmp_path, str(index), seconds=0.3) for index in range(3)], 1, ignore)
    assert time.monotonic() - started > 0.9


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("input", InputError, r"budget: 3 given"),
        ("odd", RuntimeError, r"SafetensorError: torn"),
        ("dies", WorkerDiedError, r"bad: its process was killed by SIGKILL \(out of memory\); .*bad can be resumed"),
    ],
)
def test_an_error_arrives_here_and_stops_the_others(
    kind: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    jobs = [job(tmp_path, "other", "stays"), job(tmp_path, "bad", kind), job(tmp_path, "never")]

    def wait_for_other(name: str, event: dict[str, Any]) -> None:
        while not (tmp_path / "other" / "pid").exists():
            time.sleep(0.01)

    with pytest.raises(error) as caught:
        run_side_by_side(jobs, 2, wait_for_other)
    assert type(caught.value) is error
    assert re.fullmatch(message, str(caught.value))
    assert is_gone(tmp_path / "other")
    assert not (tmp_path / "never").exists()


@pytest.mark.usefixtures("pretended")
def test_lines_that_are_no_answers_are_ignored(tmp_path: Path) -> None:
    heard: list[str] = []
    [result] = run_side_by_side([job(tmp_path, "one", "noisy")], 1, lambda name, event: heard.append(event["event"]))
    assert result.data["made"] == "noisy"
    assert heard == ["phase"]


@pytest.mark.usefixtures("pretended")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_waits_for_a_thread_that_has_failed(tmp_path: Path) -> None:
    unspeakable = job(tmp_path, "one", more=object())  # no JSON: the thread that hands it over fails
    with pytest.raises(WorkerDiedError, match="one: its process was ended with exit code 1"):
        run_side_by_side([unspeakable], 1, ignore)


@pytest.mark.usefixtures("pretended")
def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    def interrupt(name: str, event: dict[str, Any]) -> None:
        while not all((tmp_path / name / "pid").exists() for name in ("one", "two")):
            time.sleep(0.01)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_side_by_side([job(tmp_path, "one", "stays"), job(tmp_path, "two", "stays")], 2, interrupt)
    assert is_gone(tmp_path / "one")
    assert is_gone(tmp_path / "two")


@pytest.fixture
def saved_blobs(tmp_path: Path) -> str:
    train, test = blobs().train, blobs().test
    x_train, x_test = (part.read(np.arange(len(part.labels))) for part in (train, test))
    np.savez(tmp_path / "blobs.npz", x_train=x_train, y_train=train.labels, x_test=x_test, y_test=test.labels)
    return f"npz:{tmp_path / 'blobs.npz'}"


def test_the_worker_begins_then_reuses_then_refuses(saved_blobs: str, tmp_path: Path) -> None:
    config = compose(VECTORS, {"data": {"name": saved_blobs}}).model_dump(mode="json")
    task = {"config": config, "out": str(tmp_path / "run")}
    first: list[dict[str, Any]] = []
    worker.work(task, first.append)
    assert first[0]["event"] == "begin"
    assert first[0]["done"] == 0
    assert [phase["samples"] for phase in first[0]["phases"]] == [40, 40, 40]
    assert [phase["budget"] for phase in first[0]["phases"]] == [None, 40, 40]
    assert [event["phase"] for event in first if event["event"] == "judged"] == [0, 1, 2]
    second: list[dict[str, Any]] = []
    worker.work(task, second.append)
    assert [(event["event"], event["done"]) for event in second] == [("begin", 3)]
    with pytest.raises(InputError, match="seed is 9, but this run began with 3"):
        worker.work({**task, "config": {**config, "seed": 9}}, second.append)
