"""The pool with fake workers, so that no test depends on time: who gets which job, and what happens to the lost."""

import builtins
import errno
import json
import signal
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from parallel.fakes import FakeBackend, FakeWorker, answer, error
from parallel.toy_jobs import TOY, ToyStarted
from remem.cli.boundary import explain
from remem.errors import BudgetError, DamagedFileError, InputError, WorkerDiedError
from remem.events import Emit, Event
from remem.parallel.backend import Message, Messages
from remem.parallel.jobs import Job
from remem.parallel.pool import JobQueue, WorkerPool, open_pool, rebuild_error
from remem.parallel.processes import ProcessBackend
from remem.parallel.worker import serve
from remem.types import Json


def jobs(names: str, **more: Any) -> list[Job]:
    return [Job(name, TOY, {}, **more) for name in names]


def ran(backend: FakeBackend, work: list[Job]) -> list[str]:
    """Names of jobs as their answers arrive."""
    with WorkerPool(backend) as pool:
        return [job.name for job, _ in pool.run(work)]


def test_every_job_is_done_once_and_events_come_with_their_job() -> None:
    def script(worker: FakeWorker, job: Job) -> Iterable[Message | None]:
        return [{"event": ToyStarted(job.name, 1).to_json()}, {"done": {"by": worker.number}}]

    backend, heard = FakeBackend(2, script), list[tuple[str, Event]]()
    with WorkerPool(backend) as pool:
        assert pool.about == "fakes"
        answers = dict(
            (job.name, answer) for job, answer in pool.run(jobs("abcde"), lambda job, e: heard.append((job.name, e)))
        )
    assert answers == {name: {"by": worker} for name, worker in backend.submitted}
    assert [name for name, _ in backend.submitted] == list("abcde")
    assert sorted({worker for _, worker in backend.submitted}) == [0, 1]
    assert sorted(heard) == [(name, ToyStarted(name, 1)) for name in "abcde"]
    assert backend.closed
    assert [worker.closed for worker in backend.workers] == [True, True]


def test_workers_stay_for_the_next_call() -> None:
    backend = FakeBackend(1)
    with WorkerPool(backend) as pool:
        assert [job.name for job, _ in pool.run(jobs("abc"))] == list("abc")
        assert [job.name for job, _ in pool.run(jobs("de"))] == list("de")
        assert list(pool.run([])) == []
    assert len(backend.workers) == 1


def test_a_job_waits_for_its_predecessors_and_no_worker_starts_for_it() -> None:
    backend = FakeBackend(3)
    work = [*jobs("a"), *jobs("b", after=("a",)), *jobs("c", after=("a", "b"))]
    assert ran(backend, work) == list("abc")
    assert len(backend.workers) == 1


def test_jobs_that_contradict_each_other() -> None:
    with pytest.raises(ValueError, match="same name"):
        JobQueue(jobs("aa"))
    with pytest.raises(ValueError, match=r"b comes after .*not among the jobs before it"):
        JobQueue([*jobs("b", after=("a",)), *jobs("a")])


def test_workers_prefer_jobs_close_to_their_last() -> None:
    """Two trees of eight nodes, two workers: each stays in its tree, and inside it below its last node."""
    backend, work = FakeBackend(2), list[Job]()
    for path in ((), (0,), (1,), (0, 0), (1, 0), (0, 0, 0), (1, 0, 0)):
        for tree in "ab":
            parent = (f"{tree}{path[:-1]}",) if path else ()
            work.append(Job(f"{tree}{path}", TOY, {}, parent, place=(tree, *path)))
    ran(backend, work)
    order = {worker: [name for name, by in backend.submitted if by == worker] for worker in (0, 1)}
    for worker, tree in enumerate("ab"):
        depth_first = [(), (0,), (0, 0), (0, 0, 0), (1,), (1, 0), (1, 0, 0)]
        assert order[worker] == [f"{tree}{path}" for path in depth_first]


def test_more_threads_need_new_workers() -> None:
    backend = FakeBackend(1)
    with WorkerPool(backend) as pool:
        for name, threads in (("a", 1), ("b", 1), ("c", 3), ("d", 2)):
            list(pool.run(jobs(name, threads=threads)))
    assert backend.opened == [1, 1, 3, 3]
    assert backend.submitted == [("a", 0), ("b", 0), ("c", 1), ("d", 1)]


def test_a_lost_worker_is_replaced_and_its_job_runs_again() -> None:
    def script(worker: FakeWorker, job: Job) -> Iterable[Message | None]:
        starts = [name for name, _ in backend.submitted].count("b")
        return [None] if job.name == "b" and starts < 3 else answer(worker, job)

    backend = FakeBackend(2, script)
    assert sorted(ran(backend, jobs("abc"))) == list("abc")
    assert sorted(name for name, _ in backend.submitted) == ["a", "b", "b", "b", "c"]
    assert all(worker.closed for worker in backend.workers)


def test_a_job_that_loses_three_workers_is_given_up() -> None:
    def script(worker: FakeWorker, job: Job) -> Iterable[Message | None]:
        return {"other": [], "bad": [None]}.get(job.name, answer(worker, job))

    backend = FakeBackend(2, script)
    work = [Job("other", TOY, {}), Job("bad", TOY, {}), Job("never", TOY, {}, ("bad",))]
    with WorkerPool(backend) as pool:
        with pytest.raises(WorkerDiedError) as caught:
            list(pool.run(work))
        assert str(caught.value) == "bad: its worker was lost, 3 times; what is done is kept, and it can be resumed"
        assert [name for name, _ in backend.submitted] == ["other", "bad", "bad", "bad"]
        assert all(worker.closed for worker in backend.workers)
        assert [job.name for job, _ in pool.run(jobs("n"))] == ["n"]  # the pool can still be used


def test_workers_that_never_become_ready_are_given_up() -> None:
    backend = FakeBackend(1, starts=False)
    with pytest.raises(WorkerDiedError, match="a worker that had not begun: it was lost, 3 times"):
        ran(backend, jobs("a"))
    assert len(backend.workers) == 3
    assert all(worker.closed for worker in backend.workers)


def test_a_worker_that_ends_while_idle_is_no_loss() -> None:
    """Worker 0 is done with its job and ends while worker 1 is still busy; nothing is left to start a new one for."""

    def script(worker: FakeWorker, job: Job) -> Iterable[Message | None]:
        if job.name == "b":
            for message in (*answer(worker, job), None):
                backend.workers[0].post(message)
            return answer(worker, job)
        return []

    backend = FakeBackend(2, script)
    assert ran(backend, jobs("ab")) == ["a", "b"]
    assert len(backend.workers) == 2


def test_an_error_is_raised_here_and_stops_the_others() -> None:
    def script(worker: FakeWorker, job: Job) -> Iterable[Message | None]:
        return {"other": [], "bad": error(worker, job)}.get(job.name, answer(worker, job))

    backend = FakeBackend(2, script)
    work = [Job("other", TOY, {}), Job("bad", TOY, {}), Job("never", TOY, {}, ("bad",))]
    with WorkerPool(backend) as pool:
        with pytest.raises(InputError, match="budget: 3 given") as caught:
            list(pool.run(work))
        assert caught.value.__notes__ == ["in the process of bad:\nline 7"]
        assert [worker.closed for worker in backend.workers] == [True, True]
        assert [job.name for job, _ in pool.run(jobs("n"))] == ["n"]
    assert [name for name, _ in backend.submitted] == ["other", "bad", "n"]


def test_messages_of_closed_workers_are_ignored() -> None:
    """Both fail in the first call; the second error is still in the queue when the next call begins."""
    backend = FakeBackend(2, error)
    with WorkerPool(backend) as pool:
        for expected in (2, 4):
            with pytest.raises(InputError):
                list(pool.run(jobs("ab")))
            assert len(backend.workers) == expected
        backend.script = answer
        assert sorted(job.name for job, _ in pool.run(jobs("ab"))) == ["a", "b"]


@pytest.mark.parametrize("kind", [InputError, DamagedFileError, BudgetError, KeyError, MemoryError, OSError])
def test_errors_keep_their_type(kind: type[Exception]) -> None:
    rebuilt = rebuild_error("a", {"error": kind.__name__, "message": "words", "traceback": ""})
    assert type(rebuilt) is kind
    assert rebuilt.args == ("words",)


@pytest.mark.parametrize("name", ["SafetensorError", "UnicodeDecodeError", "KeyboardInterrupt", "print"])
def test_errors_that_cannot_be_rebuilt_are_runtime_errors(name: str) -> None:
    """An unknown type, one that needs more than a message, and two that are no exceptions of a job."""
    assert hasattr(builtins, name) or name == "SafetensorError"
    rebuilt = rebuild_error("a", {"error": name, "message": "torn", "traceback": ""})
    assert type(rebuilt) is RuntimeError
    assert str(rebuilt) == f"{name}: torn"


def test_an_interrupt_closes_busy_workers() -> None:
    def script(worker: FakeWorker, job: Job) -> Iterable[Message | None]:
        return [{"event": ToyStarted(job.name, 1).to_json()}]

    def interrupt(job: Job, event: Event) -> None:
        if len(backend.submitted) == 2:
            raise KeyboardInterrupt

    backend = FakeBackend(2, script)
    with WorkerPool(backend) as pool:
        with pytest.raises(KeyboardInterrupt):
            list(pool.run(jobs("ab"), interrupt))
        assert [worker.closed for worker in backend.workers] == [True, True]


def test_an_interrupt_during_a_start_does_not_lose_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = FakeBackend(1)
    start = backend.start

    def interrupted(messages: Messages, threads: int) -> FakeWorker:
        worker = start(messages, threads)
        signal.raise_signal(signal.SIGINT)
        return worker

    monkeypatch.setattr(backend, "start", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            ran(backend, jobs("a"))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert [worker.closed for worker in backend.workers] == [True]


def test_pools_of_local_processes() -> None:
    assert (open_pool(1, None).about, open_pool(3, None).about) == ("1 process", "3 processes")
    assert open_pool(None, None).about.endswith(("process", "processes"))
    assert ProcessBackend(3).open(2) == 3


def test_an_error_of_the_system_keeps_its_number_and_its_file() -> None:
    def fail(payload: Mapping[str, Any], emit: Emit) -> Json:
        raise OSError(errno.ENOSPC, "No space left on device", "runs/one/log.jsonl")

    sent: list[Message] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("remem.parallel.worker.find_handler", lambda kind: fail)
        serve(json.dumps({"marker": None, "kind": "toy", "payload": {}}), sent.append)
    rebuilt = rebuild_error("one", json.loads(json.dumps(sent[0])))
    assert isinstance(rebuilt, OSError)
    assert (rebuilt.errno, rebuilt.filename) == (errno.ENOSPC, "runs/one/log.jsonl")
    assert explain(rebuilt) is not None
