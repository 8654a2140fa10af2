"""The runner with workers that only pretend: who gets which job, what is heard, what becomes of the lost."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from remem.errors import InputError
from remem.rl.paths import Node, TaskKey
from remem.rl.tree import missing
from remem.runs.config import compose
from remem.runs.crew import Answers, Crew, Job, Todo, WorkerDiedError, ignore, open_crew, phase0_job, run_job
from remem.runs.learning import compose_learning
from remem.runs.local import LocalTeam, LocalWorker
from remem.runs.nodes import CrewGrower

# Speaks as worker.py does. The job's order says how it ends; what was begun, by whom, is written down.
PRETENDER = """
import json, os, signal, sys, time
def answer(**content): print(json.dumps(content), flush=True)
if os.environ.get("STILLBORN"): sys.exit(4)
answer(ready=os.getpid())
for line in sys.stdin:
    job = json.loads(line)
    order = job["order"]
    seen = order["out"] + "/seen"
    with open(seen, "a") as file:
        file.write(json.dumps([os.getpid(), order.get("path", order.get("me"))]) + chr(10))
    how, times = order.get("how", "fine"), order.get("times", 9)
    begun = sum(json.loads(entry)[1] == order.get("path", order.get("me")) for entry in open(seen))
    answer(event={"event": "phase", "phase": 0})
    if how == "noisy": os.write(1, b'a library speaks\\n[5]\\n5\\n{"do\\n\\xff\\xfe\\n')
    if how == "input": answer(error="InputError", message="budget: 3 given", traceback="deep down"); continue
    if how == "odd": answer(error="SafetensorError", message="torn", traceback="deep down"); continue
    if how == "dies" and begun <= times:
        sys.stderr.write("out of memory"); sys.stderr.flush(); os.kill(os.getpid(), signal.SIGKILL)
    if how == "stays": time.sleep(60)
    time.sleep(order.get("seconds", 0))
    if job["kind"] == "node":
        answer(done={"rewards": [[order["path"], sum(map(sum, order["path"])) / 1000]], "trained": 1})
    else:
        answer(done={"made": order["me"]})
    if how == "leaves": sys.exit()
"""


@pytest.fixture(autouse=True)
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remem.runs.local.COMMAND", (sys.executable, "-I", "-S", "-c", PRETENDER))


def job(out: Path, name: str, how: str = "fine", *, after: tuple[str, ...] = (), **more: Any) -> Job:
    return Job(name, "run", {"out": str(out), "me": name, "how": how, **more}, after)


def seen(out: Path) -> list[tuple[int, Any]]:
    """(process, job) in the order in which they were begun."""
    lines = (out / "seen").read_text().splitlines() if (out / "seen").exists() else []
    return [(pid, name) for pid, name in map(json.loads, lines)]


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def ran(jobs: Sequence[Job], workers: int, tell: Callable[[Job, dict[str, Any]], None] = ignore) -> list[str]:
    """Names as answers came in; afterwards nobody is left."""
    with open_crew(workers, None) as crew:
        names = [done.name for done, answer in crew.run(jobs, tell) if answer == {"made": done.name}]
        pids = [desk.pid for desk in crew._desks.values()]
    assert pids
    assert all(is_gone(pid) for pid in pids)
    return names


def test_every_job_is_done_once_and_events_come_with_their_job(tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []
    jobs = [job(tmp_path, name) for name in "abcde"]
    assert sorted(ran(jobs, 2, lambda which, event: heard.append((which.name, event["event"])))) == list("abcde")
    assert sorted(heard) == [(name, "phase") for name in "abcde"]
    assert sorted(name for _, name in seen(tmp_path)) == list("abcde")
    assert len({pid for pid, _ in seen(tmp_path)}) <= 2


def test_one_worker_takes_jobs_in_their_order_and_stays_for_the_next_call(tmp_path: Path) -> None:
    with open_crew(1, None) as crew:
        first = [done.name for done, _ in crew.run([job(tmp_path, name) for name in "abc"])]
        second = [done.name for done, _ in crew.run([job(tmp_path, name) for name in "de"])]
        assert list(crew.run([])) == []
    assert (first, second) == (list("abc"), list("de"))
    assert len({pid for pid, _ in seen(tmp_path)}) == 1


def test_a_job_waits_for_those_before_it(tmp_path: Path) -> None:
    jobs = [job(tmp_path, "a", seconds=0.2), job(tmp_path, "b", after=("a",)), job(tmp_path, "c", after=("a", "b"))]
    assert ran(jobs, 3) == ["a", "b", "c"]
    assert len({pid for pid, _ in seen(tmp_path)}) == 1  # nobody is hired for jobs that must wait


def test_jobs_that_make_no_sense_together(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="same name"):
        Todo([job(tmp_path, "a"), job(tmp_path, "a")])
    with pytest.raises(ValueError, match=r"b comes after .*not among the jobs before it"):
        Todo([job(tmp_path, "b", after=("a",)), job(tmp_path, "a")])


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("input", InputError, r"budget: 3 given"),
        ("odd", RuntimeError, r"SafetensorError: torn"),
        (
            "dies",
            WorkerDiedError,
            r"bad: its worker was killed by SIGKILL \(out of memory\), 3 times; what is done is kept, and it can .*",
        ),
    ],
)
def test_an_error_arrives_here_and_stops_the_others(
    how: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    jobs = [job(tmp_path, "other", "stays"), job(tmp_path, "bad", how), job(tmp_path, "never", after=("bad",))]

    def wait_for_other(which: Job, event: dict[str, Any]) -> None:
        while "other" not in [name for _, name in seen(tmp_path)]:
            time.sleep(0.01)

    with open_crew(2, None) as crew:
        with pytest.raises(error) as caught:
            list(crew.run(jobs, wait_for_other))
        assert type(caught.value) is error
        assert re.fullmatch(message, str(caught.value))
        assert all(is_gone(pid) for pid, name in seen(tmp_path) if name == "other")
        assert [done.name for done, _ in crew.run([job(tmp_path, "next")])] == ["next"]  # the crew is still good
    assert "never" not in [name for _, name in seen(tmp_path)]
    if how != "dies":
        assert any("deep down" in note for note in caught.value.__notes__)


def test_a_lost_worker_is_replaced_and_its_job_done_again(tmp_path: Path) -> None:
    jobs = [job(tmp_path, "a"), job(tmp_path, "b", "dies", times=2), job(tmp_path, "c")]
    assert sorted(ran(jobs, 2)) == ["a", "b", "c"]
    assert sorted(name for _, name in seen(tmp_path)) == ["a", "b", "b", "b", "c"]


def test_workers_that_never_begin_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STILLBORN", "1")
    monkeypatch.setattr("remem.runs.local.COMMAND", (sys.executable, "-S", "-c", PRETENDER))
    with pytest.raises(WorkerDiedError, match="a worker that had not begun: it ended with exit code 4, 3 times"):
        ran([job(tmp_path, "a")], 1)


def test_one_that_leaves_while_it_has_nothing_to_do_is_no_loss(tmp_path: Path) -> None:
    with open_crew(1, None) as crew:
        for name in "abcd":  # more often than a job may be lost
            assert [done.name for done, _ in crew.run([job(tmp_path, name, "leaves")])] == [name]
            while not is_gone(seen(tmp_path)[-1][0]) and crew._answers.empty():
                time.sleep(0.01)
    assert len({pid for pid, _ in seen(tmp_path)}) == 4


def test_lines_that_are_no_messages_are_ignored(tmp_path: Path) -> None:
    heard: list[str] = []
    assert ran([job(tmp_path, "one", "noisy")], 1, lambda _, event: heard.append(event["event"])) == ["one"]
    assert heard == ["phase"]


def test_an_order_that_is_no_json_is_an_error_here(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        ran([job(tmp_path, "one", more=object())], 1)


def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    def interrupt(which: Job, event: dict[str, Any]) -> None:
        if len(seen(tmp_path)) == 2:  # both are at work
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ran([job(tmp_path, "one", "stays"), job(tmp_path, "two", "stays")], 2, interrupt)
    assert all(is_gone(pid) for pid, _ in seen(tmp_path))


def test_ctrl_c_while_a_worker_begins_does_not_lose_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[LocalWorker] = []

    def hire(self: LocalTeam, answers: Answers, threads: int) -> LocalWorker:
        begun.append(LocalWorker(answers))
        signal.raise_signal(signal.SIGINT)
        return begun[0]

    monkeypatch.setattr(LocalTeam, "hire", hire)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            ran([job(tmp_path, "one")], 1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert begun[0].process.returncode is not None


def test_who_asks_for_more_threads_gets_new_workers(tmp_path: Path) -> None:
    opened: list[int] = []

    with open_crew(1, None) as crew:
        begin = crew._team.open
        crew._team.open = lambda threads: opened.append(threads) or begin(threads)  # type: ignore
        for name, threads in (("a", 1), ("b", 1), ("c", 3), ("d", 2)):
            list(crew.run([Job(name, "run", {"out": str(tmp_path), "me": name}, threads=threads)]))
    pids = [pid for pid, _ in seen(tmp_path)]
    assert opened == [1, 1, 3, 3]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_orders_of_runs_mean_the_same_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = compose({"data": {"name": "npz:blobs.npz"}, "policy": "./mine", "train": {"threads": 2}})
    made = run_job("a", config, Path("out"), phase0=Path("shelf"), after=("z",))
    order = made.order
    assert (made.name, made.kind, made.after, made.threads) == ("a", "run", ("z",), 2)
    assert order["config"]["data"]["name"] == f"npz:{tmp_path / 'blobs.npz'}"
    assert (order["config"]["policy"], order["out"], order["phase0"]) == (
        str(tmp_path / "mine"),
        str(tmp_path / "out"),
        str(tmp_path / "shelf"),
    )
    first = phase0_job("b", config, Path("shelf"))
    assert (first.kind, first.order["config"]["policy"], first.order["out"]) == (
        "phase0",
        "static",
        str(tmp_path / "shelf"),
    )


ROOTS = [TaskKey(number, "short") for number in range(3)]
RUNS: list[Node] = [(key, path) for key in ROOTS for path in (((6, 5), (6, 5)), ((6, 5), (7, 5)), ((8, 2), (8, 5)))]


def grown(crew: Crew, folder: Path) -> tuple[dict[Node, float], int]:
    """(rewards, phases trained), in two calls as in two epochs."""
    grower = CrewGrower(crew, compose_learning({}), folder)
    done = dict(grower.grow(missing(RUNS[:6], {})))
    done |= dict(grower.grow(missing(RUNS, done)))
    return done, grower.trained


def test_nodes_follow_their_parents_and_none_is_given_twice(tmp_path: Path) -> None:
    with open_crew(2, None) as crew:
        done, trained = grown(crew, tmp_path)
    assert done == {node: sum(map(sum, node[1])) / 1000 for node in missing(RUNS, {})}
    assert trained == len(seen(tmp_path)) == len(done) == 18


def test_a_worker_goes_on_below_its_last_node(tmp_path: Path) -> None:
    """Two tasks, two workers: whoever begins one keeps to it as long as it has nodes that wait for nobody."""
    slow = {"seconds": 0.15}
    jobs = []
    for task in "ab":
        for depth in range(4):
            name, parent = f"{task}{depth}", (f"{task}{depth - 1}",) if depth else ()
            order = {"out": str(tmp_path), "me": name, **slow}
            jobs.append(Job(name, "run", order, parent, place=(task, *range(depth))))
    assert sorted(ran(jobs, 2)) == sorted(job.name for job in jobs)
    workers = {task: {pid for pid, name in seen(tmp_path) if name[0] == task} for task in "ab"}
    assert [len(pids) for pids in workers.values()] == [1, 1]


def test_a_worker_whose_parent_is_gone_ends_at_once() -> None:
    """The real far end, without a job: end of file is the end."""
    process = subprocess.Popen(
        (sys.executable, "-P", "-m", "remem.runs.worker"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout:
        assert json.loads(process.stdout.readline()) == {"ready": process.pid}
        process.stdin.close()
        assert process.wait(60) == 0
