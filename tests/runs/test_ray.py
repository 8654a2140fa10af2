"""Workers of Ray: the same results as in this process, with a worker killed too; what is wrong is one line."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from remem.errors import InputError
from remem.runs.build import prepare
from remem.runs.config import compose
from remem.runs.crew import Crew, Job, open_crew, run_job
from remem.runs.folder import run_in_folder
from remem.runs.learning import compose_learning
from remem.runs.policy_learning import learn_in_folder
from remem.runs.ray import RayTeam
from remem.runs.results import load_result
from worlds import VECTORS, blobs, same_tensors, timeless, write_npz

pytest.importorskip("ray")

LEARN = {"epochs": 2, "tasks": 2, "runs": 2, "pool": 2, "rate_eta": 0.3, "fidelity": "full"}
QUICK = {"scenario": {"base_classes": 4}, "train": {"epochs": 1}, "finetune": {"epochs": 0}}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("data") / "blobs.npz"
    write_npz(path, blobs(spread=2.0))
    return {"data": {"name": f"npz:{path}"}}


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """Two workers of one instance, begun in a folder whose modules nobody may take."""
    import ray

    folder = tmp_path_factory.mktemp("here")
    (folder / "threadpoolctl.py").write_text("raise RuntimeError('taken from the working folder')\n")
    with open_crew(2, "local") as opened:
        team = opened._team
        assert isinstance(team, RayTeam)
        with chdir(folder):
            yield opened
        scratch, pids = team._scratch, [desk.pid for desk in opened._desks.values()]
        assert scratch is not None
        assert pids
    assert not ray.is_initialized()
    assert not scratch.exists()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_a_policy_is_learned_as_in_one_process(crew: Crew, data: dict[str, Any], tmp_path: Path) -> None:
    config = compose_learning(VECTORS, QUICK, data, {"learn": LEARN})
    learn_in_folder(config, tmp_path / "alone", lambda event: None)
    learn_in_folder(config, tmp_path / "ray", lambda event: None, crew)
    alone, ray = ((tmp_path / name / "policy.json").read_bytes() for name in ("alone", "ray"))
    assert alone == ray
    assert same_tensors(*(load_file(tmp_path / name / "policy.safetensors") for name in ("alone", "ray")))
    rewards = [sorted((tmp_path / name / "rewards.jsonl").read_text().splitlines()) for name in ("alone", "ray")]
    assert rewards[0] == rewards[1]
    assert crew.about == "2 Ray workers"


def test_runs_whose_worker_is_killed_end_the_same(crew: Crew, data: dict[str, Any], tmp_path: Path) -> None:
    configs = {policy: compose(VECTORS, data, {"policy": policy}) for policy in ("static", "fixed-0.3")}
    jobs = [run_job(policy, config, tmp_path / policy) for policy, config in configs.items()]
    killed: list[int] = []
    begun: list[str] = []

    def kill_one(job: Job, event: dict[str, Any]) -> None:
        """In phase 1 of the first run, by the number that its process has reported."""
        if event["event"] == "begin":
            begun.append(job.name)
        if (job.name, event.get("phase"), killed) == ("static", 1, []):
            killed.extend(desk.pid for desk in crew._desks.values() if desk.job == job)
            os.kill(killed[0], signal.SIGKILL)

    answers = {job.name: answer["result"] for job, answer in crew.run(jobs, kill_one)}
    assert len(killed) == 1
    assert sorted(begun) == ["fixed-0.3", "static", "static"]
    for policy, config in configs.items():
        plain = run_in_folder(prepare(config), tmp_path / "plain" / policy)
        assert timeless(answers[policy]) == timeless(load_result(tmp_path / policy).data) == timeless(plain.data)


def test_a_worker_that_does_not_see_the_folder_says_so(
    crew: Crew, data: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RayTeam, "mark", lambda self, out: tmp_path / "only-here")
    job = run_job("one", compose(VECTORS, data), tmp_path / "out")
    with pytest.raises(InputError, match=r"--out: .* is not seen by the worker on .*; expected a shared folder"):
        list(crew.run([job]))
    assert not (tmp_path / "out").exists()


def test_marks_lie_beside_the_work_and_go_with_the_team(tmp_path: Path) -> None:
    team = RayTeam("auto", 1)
    deep = tmp_path / "a" / "b"
    mark = team.mark(deep)
    assert mark.parent == tmp_path
    mark.unlink()  # as whoever clears the folder away does
    assert team.mark(deep) == mark
    assert mark.exists()
    deep.mkdir(parents=True)
    assert team.mark(deep).parent == deep
    team.close()
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "b"]


def test_a_cluster_gives_its_cpus_and_is_left_as_it_was(crew: Crew) -> None:
    import ray

    crew._team.open(1)  # so that there is one
    team = RayTeam("auto", None)
    assert team.about == "as many Ray workers as the cluster has CPUs"
    assert (team.open(1), team.open(2), RayTeam("auto", 7).open(1)) == (2, 1, 7)
    with pytest.raises(InputError, match=r"train.threads: 3 given; expected at most 2, the CPUs of the largest"):
        team.open(3)
    team.close()
    assert ray.is_initialized()


def test_without_ray_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remem.runs.ray.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"--ray: local given, but Ray is not installed; install remem\[ray\]"):
        open_crew(None, "local")


def test_an_address_without_a_cluster_is_one_line() -> None:
    with socket.socket() as reserved:  # bound, but nobody listens
        reserved.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{reserved.getsockname()[1]}"
        for given in (address, f"ray://{address}", "127.0.0.1:99999"):
            with pytest.raises(InputError, match=f"--ray: {given} given, and no cluster answers there "):
                RayTeam(given, None)._join()
