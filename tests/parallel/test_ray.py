"""Ray workers: the same results as in one process, also if a worker is killed, and short errors for wrong addresses."""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from factories import VECTORS, blobs, same_tensors, timeless, write_npz
from parallel.conftest import TESTS
from parallel.toy_jobs import WAITING, ToyStarted, toy_job, toy_starts, wait_until
from remem.errors import InputError, WorkerDiedError
from remem.events import Event, ignore
from remem.parallel.jobs import Job
from remem.parallel.pool import WorkerPool, open_pool
from remem.parallel.ray import RayBackend, set_auth_token
from remem.rl.config import compose_learning
from remem.rl.learn import learn_in_folder
from remem.runs.build import prepare
from remem.runs.config import compose
from remem.runs.events import PhaseStarted, RunStarted
from remem.runs.jobs import run_job
from remem.runs.results import load_result
from remem.runs.run import run_in_folder
from remem.threads import SPINS

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")

LEARN = {"epochs": 2, "tasks": 2, "runs": 2, "pool": 2, "rate_eta": 0.3, "fidelity": "full"}
QUICK = {"scenario": {"base_classes": 4}, "train": {"epochs": 1}, "finetune": {"epochs": 0}}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("data") / "blobs.npz"
    write_npz(path, blobs(spread=2.0))
    return {"data": {"name": f"npz:{path}"}}


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPool]:
    """Two workers of one Ray instance, which is started in a folder with a module that they must not find."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "decoy.py").touch()
    backend = RayBackend("local", 2)
    # One instance at a time: several that start together on few cores exceed Ray's own time limits.
    with one_at_a_time(tmp_path_factory.getbasetemp().parent / "ray.lock"), WorkerPool(backend) as opened:
        with chdir(folder), pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(TESTS))
            for name in WAITING:
                patch.delenv(name, raising=False)
            backend.open(1)
        scratch = backend._scratch
        assert scratch is not None
        assert scratch.exists()
        yield opened
        pids = [slot.pid for slot in opened._slots.values() if slot.ready]
    import ray

    assert not ray.is_initialized()
    assert not scratch.exists()
    wait_until(lambda: not any(map(is_running, pids)), "all Ray workers have ended")


@contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Across the processes of xdist."""
    fcntl = pytest.importorskip("fcntl")
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_running(pid: int) -> bool:
    """False for zombies too: Ray's processes are not ours to reap."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


@needs_ray
def test_jobs_run_in_ray_workers_and_events_arrive_here(pool: WorkerPool, tmp_path: Path) -> None:
    heard: list[tuple[str, Event]] = []
    jobs = [toy_job(tmp_path, name) for name in "abc"]
    answers = {job.name: answer for job, answer in pool.run(jobs, lambda job, event: heard.append((job.name, event)))}
    assert sorted(heard) == [(name, ToyStarted(name, 1)) for name in "abc"]
    assert sorted(answers) == list("abc")
    pids = {answer["pid"] for answer in answers.values()}
    assert pids <= {slot.pid for slot in pool._slots.values()}
    assert os.getpid() not in pids
    assert pool.about == "2 Ray workers"


@needs_ray
def test_workers_take_no_module_from_the_working_folder(pool: WorkerPool) -> None:
    jobs = [Job(name, "parallel.toy_jobs:find", {"module": name}) for name in ("decoy", "remem")]
    assert {job.name: answer["found"] for job, answer in pool.run(jobs)} == {"decoy": False, "remem": True}


@needs_ray
def test_openmp_threads_of_workers_sleep_soon(pool: WorkerPool) -> None:
    [(_, answer)] = pool.run([Job("a", "parallel.toy_jobs:waiting", {})])
    assert [answer[name] for name in WAITING] == [str(SPINS), None]


@needs_ray
def test_a_job_that_kills_its_workers_is_given_up(pool: WorkerPool, tmp_path: Path) -> None:
    with pytest.raises(WorkerDiedError, match=r"bad: its worker was lost \(.*\), 3 times"):
        list(pool.run([toy_job(tmp_path, "bad", "killed")]))
    assert [name for name, _ in toy_starts(tmp_path)] == ["bad"] * 3
    assert [answer["name"] for _, answer in pool.run([toy_job(tmp_path, "next")])] == ["next"]


@needs_ray
def test_an_error_keeps_its_type(pool: WorkerPool, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="budget: 3 given") as caught:
        list(pool.run([toy_job(tmp_path, "bad", "input error"), toy_job(tmp_path, "other", "never")]))
    assert any("Traceback" in note for note in caught.value.__notes__)


@needs_ray
def test_a_policy_is_learned_as_in_one_process(pool: WorkerPool, data: dict[str, Any], tmp_path: Path) -> None:
    config = compose_learning(VECTORS, QUICK, data, {"learn": LEARN})
    learn_in_folder(config, tmp_path / "alone", ignore)
    learn_in_folder(config, tmp_path / "ray", ignore, pool)
    alone, ray = ((tmp_path / name / "policy.json").read_bytes() for name in ("alone", "ray"))
    assert alone == ray
    assert same_tensors(*(load_file(tmp_path / name / "policy.safetensors") for name in ("alone", "ray")))
    rewards = [sorted((tmp_path / name / "rewards.jsonl").read_text().splitlines()) for name in ("alone", "ray")]
    assert rewards[0] == rewards[1]


@needs_ray
def test_a_run_whose_worker_is_killed_ends_like_any_other(
    pool: WorkerPool, data: dict[str, Any], tmp_path: Path
) -> None:
    config = compose(VECTORS, data, {"policy": "fixed-0.3"})
    plain = run_job("run", config, tmp_path / "run")
    job = Job("run", "parallel.toy_jobs:stalled run", plain.payload, folder=plain.folder)
    killed: list[int] = []
    done: list[int] = []  # phases, at every start

    def kill(job: Job, event: Event) -> None:
        """In phase 1, where the job waits for it."""
        if isinstance(event, RunStarted):
            done.append(event.done)
        if isinstance(event, PhaseStarted) and event.phase == 1 and not killed:
            killed.extend(slot.pid for slot in pool._slots.values() if slot.job == job)
            os.kill(killed[0], signal.SIGKILL)

    [(_, answer)] = pool.run([job], kill)
    assert len(killed) == 1
    assert done == [0, 1]
    expected = run_in_folder(prepare(config), tmp_path / "plain")
    assert timeless(load_result(tmp_path / "run").to_json()) == timeless(expected.to_json())
    assert answer == {"average_accuracy": expected.average_accuracy, "last_accuracy": expected.last_accuracy}


@needs_ray
def test_a_worker_that_does_not_see_the_folder_refuses_the_job(
    pool: WorkerPool, data: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RayBackend, "marker", lambda self, out: tmp_path / "only-here")
    job = run_job("one", compose(VECTORS, data), tmp_path / "out")
    with pytest.raises(InputError, match=r"--out: .* is not seen by the worker on .*; expected a shared folder"):
        list(pool.run([job]))
    assert not (tmp_path / "out").exists()


@needs_ray
def test_a_cluster_offers_its_cpus_and_is_not_shut_down(pool: WorkerPool) -> None:
    """The instance of `pool`, as a cluster that was there before."""
    import ray

    backend = RayBackend("auto", None)
    assert backend.about == "as many Ray workers as the cluster has CPUs"
    assert (backend.open(1), backend.open(2), RayBackend("auto", 7).open(1)) == (2, 1, 7)
    with pytest.raises(InputError, match=r"train.threads: 3 given; expected at most 2, the CPUs of the largest"):
        backend.open(3)
    backend.close()
    assert ray.is_initialized()


@needs_ray
def test_markers_are_beside_the_work_and_go_with_the_backend(tmp_path: Path) -> None:
    backend = RayBackend("auto", 1)
    deep = tmp_path / "a" / "b"
    marker = backend.marker(deep)
    assert marker.parent == tmp_path
    marker.unlink()  # as somebody does who cleans the folder
    assert backend.marker(deep) == marker
    assert marker.exists()
    deep.mkdir(parents=True)
    assert backend.marker(deep).parent == deep
    backend.close()
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "b"]


@pytest.mark.parametrize(
    ("imported", "given", "expected"),
    [(False, None, "token"), (False, "none", "none"), (True, None, None)],
)
def test_an_own_instance_is_protected_by_a_token(
    imported: bool, given: str | None, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the user has decided otherwise, or Ray is imported already and would not read it."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.setenv(name, "")  # so that it is restored whatever happens to it
        monkeypatch.delenv(name)
    if given is not None:
        monkeypatch.setenv("RAY_AUTH_MODE", given)
    monkeypatch.setitem(sys.modules, "ray", sys)
    if not imported:
        monkeypatch.delitem(sys.modules, "ray")
    set_auth_token()
    assert os.environ.get("RAY_AUTH_MODE") == expected
    assert len(os.environ.get("RAY_AUTH_TOKEN", "")) == (0 if imported else 64)


def test_without_ray_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remem.parallel.ray.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"--ray: local given, but Ray is not installed; install remem\[ray\]"):
        open_pool(None, "local")


@needs_ray
@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "ray://127.0.0.1:{port}", "127.0.0.1:99999"])
def test_an_address_without_a_cluster_is_one_line(address: str) -> None:
    with socket.socket() as reserved:  # bound, but nobody listens
        reserved.bind(("127.0.0.1", 0))
        address = address.format(port=reserved.getsockname()[1])
        with pytest.raises(InputError, match=f"--ray: {address} given, and no cluster answers there "):
            RayBackend(address, None)._connect()
