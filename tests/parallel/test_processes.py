"""Worker processes with toy jobs: events and errors arrive, killed workers are replaced, no process is left behind."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from parallel.toy_jobs import TOY, ToyStarted, toy_job, toy_starts, wait_until
from remem.errors import InputError, WorkerDiedError
from remem.events import Event
from remem.parallel.backend import Messages, encode_job
from remem.parallel.jobs import Job
from remem.parallel.pool import WorkerPool
from remem.parallel.processes import COMMAND, ProcessBackend, ProcessWorker, parse_message

pytestmark = pytest.mark.usefixtures("toys")


class Recorded(ProcessBackend):
    """Keeps every worker that it started."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.workers: list[ProcessWorker] = []

    def start(self, messages: Messages, threads: int) -> ProcessWorker:
        self.workers.append(super().start(messages, threads))
        return self.workers[-1]

    @property
    def running(self) -> list[int]:
        return [worker.process.pid for worker in self.workers if worker.process.returncode is None]


@pytest.fixture
def backend() -> Iterator[Recorded]:
    """Two processes; when the test has ended, none is left."""
    recorded = Recorded(2)
    yield recorded
    assert recorded.running == []


def ran(backend: Recorded, jobs: Sequence[Job]) -> list[str]:
    with WorkerPool(backend) as pool:
        return sorted(answer["name"] for _, answer in pool.run(jobs))


def test_jobs_run_in_other_processes_and_events_arrive_here(backend: Recorded, tmp_path: Path) -> None:
    heard: list[tuple[str, Event]] = []
    with WorkerPool(backend) as pool:
        answers = dict(
            (job.name, answer)
            for job, answer in pool.run(
                [toy_job(tmp_path, name) for name in "abc"], lambda job, event: heard.append((job.name, event))
            )
        )
        pids = {slot.pid for slot in pool._slots.values() if slot.ready}  # one that starts slowly gets no job
        assert pids <= set(backend.running)
    assert sorted(answers) == list("abc")
    assert {answer["pid"] for answer in answers.values()} <= pids
    assert os.getpid() not in pids
    assert sorted(heard) == [(name, ToyStarted(name, 1)) for name in "abc"]


@pytest.mark.parametrize(
    ("ends", "error", "message"),
    [
        ("input error", InputError, r"budget: 3 given"),
        ("strange error", RuntimeError, r"StrangeError: torn"),
        ("no JSON", TypeError, r"Object of type object is not JSON serializable"),
        (
            "killed",
            WorkerDiedError,
            r"bad: its worker was killed by SIGKILL \(out of memory\), 3 times; what is done .*",
        ),
    ],
)
def test_a_failure_ends_the_other_jobs(
    ends: str, error: type[Exception], message: str, backend: Recorded, tmp_path: Path
) -> None:
    with WorkerPool(backend) as pool:
        with pytest.raises(error) as caught:
            list(pool.run([toy_job(tmp_path, "other", "never"), toy_job(tmp_path, "bad", ends)]))
        assert type(caught.value) is error
        assert re.fullmatch(message, str(caught.value))
        assert ends == "killed" or any("Traceback" in note for note in caught.value.__notes__)
        assert [slot.job for slot in pool._slots.values() if slot.job is not None] == []
        assert [answer["name"] for _, answer in pool.run([toy_job(tmp_path, "next")])] == ["next"]


def test_the_job_of_a_killed_worker_runs_again(backend: Recorded, tmp_path: Path) -> None:
    jobs = [toy_job(tmp_path, "a"), toy_job(tmp_path, "b", "killed", times=2), toy_job(tmp_path, "c")]
    assert ran(backend, jobs) == ["a", "b", "c"]
    assert sorted(name for name, _ in toy_starts(tmp_path)) == ["a", "b", "b", "b", "c"]


def test_an_interrupt_leaves_no_process_behind(backend: Recorded, tmp_path: Path) -> None:
    def interrupt(job: Job, event: Event) -> None:
        if len(toy_starts(tmp_path)) == 2:  # both are busy
            raise KeyboardInterrupt

    with WorkerPool(backend) as pool:
        with pytest.raises(KeyboardInterrupt):
            list(pool.run([toy_job(tmp_path, name, "never") for name in "ab"], interrupt))
        assert backend.running == []
    assert len(backend.workers) == 2


def test_output_of_libraries_does_not_disturb_the_messages(backend: Recorded, tmp_path: Path) -> None:
    assert ran(backend, [toy_job(tmp_path, "a", "noise")]) == ["a"]


@pytest.mark.parametrize("line", ["a library speaks\n", "[5]\n", '{"do\n', "\ufffd\n", "\n"])
def test_lines_that_are_no_messages_are_skipped(line: str) -> None:
    assert parse_message(line) is None


def test_a_payload_that_is_no_json_is_an_error_here(backend: Recorded, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        ran(backend, [toy_job(tmp_path, "a", more=object())])


def test_an_unknown_kind_is_an_input_error(backend: Recorded) -> None:
    with pytest.raises(InputError, match=f"no job kind named '{TOY}s'; did you mean '{TOY}'"):
        ran(backend, [Job("a", f"{TOY}s", {})])


def test_processes_that_end_at_once_are_given_up(backend: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remem.parallel.processes.COMMAND", (sys.executable, "-I", "-S", "-c", "raise SystemExit(4)"))
    with pytest.raises(WorkerDiedError, match="a worker that had not begun: it ended with exit code 4, 3 times"):
        ran(backend, [Job("a", TOY, {})])


@pytest.mark.parametrize("busy", [False, True])
def test_a_worker_ends_with_its_parent(busy: bool, tmp_path: Path) -> None:
    """Its end of the pipe is all that it sees of the parent."""
    process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout:
        try:
            assert json.loads(process.stdout.readline()) == {"ready": process.pid}
            if busy:
                process.stdin.write(encode_job(toy_job(tmp_path, "a", "never")) + "\n")
                process.stdin.flush()
                wait_until(lambda: bool(toy_starts(tmp_path)), "the job has begun")
            process.stdin.close()
            assert process.wait(120) == 0
        finally:
            process.kill()
            process.wait()
