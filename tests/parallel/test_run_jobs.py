"""The job kinds of runs, in this process: runs and shared phases 0 from their payloads."""

import json
from pathlib import Path
from typing import Any

import pytest

from factories import VECTORS, blobs, timeless, write_npz
from remem.errors import InputError
from remem.events import Event, ignore
from remem.methods.events import EpochEnded
from remem.parallel.jobs import find_handler
from remem.runs.config import compose
from remem.runs.events import PhaseEvaluated, PhaseSize, PhaseStarted, RunStarted
from remem.runs.jobs import PHASE0, RUN, phase0, phase0_job, run, run_job
from remem.runs.results import load_result


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("data") / "blobs.npz"
    write_npz(path, blobs())
    return {"data": {"name": f"npz:{path}"}}


def trained_phases(events: list[Event]) -> set[int]:
    return {event.phase for event in events if isinstance(event, EpochEnded)}


def test_the_kinds_are_registered() -> None:
    assert (find_handler("remem.runs.jobs:run"), find_handler("remem.runs.jobs:phase0")) == (run, phase0)


def test_payloads_mean_the_same_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = compose({"data": {"name": "npz:blobs.npz"}, "policy": "./mine", "train": {"threads": 2}})
    job = run_job("a", config, Path("out"), phase0=Path("cache"), after=("z",))
    assert (job.name, job.kind, job.after, job.threads) == ("a", RUN, ("z",), 2)
    assert job.folder == tmp_path / "out"
    assert job.payload["config"]["data"]["name"] == f"npz:{tmp_path / 'blobs.npz'}"
    assert job.payload["config"]["policy"] == str(tmp_path / "mine")
    assert (job.payload["out"], job.payload["phase0"]) == (str(tmp_path / "out"), str(tmp_path / "cache"))
    assert "phase0" not in run_job("a", config, Path("out")).payload
    first = phase0_job("b", config, Path("cache"))
    assert (first.kind, first.folder, first.threads) == (PHASE0, tmp_path / "cache", 2)
    assert first.payload["config"]["policy"] == "static"
    for payload in (job.payload, first.payload):
        assert json.loads(json.dumps(payload)) == payload


def test_a_run_is_started_then_reused_then_refused(data: dict[str, Any], tmp_path: Path) -> None:
    payload, events = run_job("a", compose(VECTORS, data), tmp_path / "run").payload, list[Event]()
    answer = run(payload, events.append)
    result = load_result(tmp_path / "run")
    assert answer == {"average_accuracy": result.average_accuracy, "last_accuracy": result.last_accuracy}
    started = events[0]
    assert isinstance(started, RunStarted)
    assert started.done == 0
    assert started.phases == (PhaseSize(40, None), PhaseSize(40, 40), PhaseSize(40, 40))
    assert [event.phase for event in events if isinstance(event, PhaseEvaluated)] == [0, 1, 2]
    assert [Event.from_json(json.loads(json.dumps(event.to_json()))) for event in events] == events

    again: list[Event] = []
    assert run(payload, again.append) == answer
    assert [(type(event), event.done) for event in again if isinstance(event, RunStarted)] == [(RunStarted, 3)]
    assert len(again) == 1
    with pytest.raises(InputError, match="seed is 9, but this run began with 3"):
        run({**payload, "config": {**payload["config"], "seed": 9}}, ignore)


def test_a_run_from_a_shared_phase_0_equals_one_that_trained_it(data: dict[str, Any], tmp_path: Path) -> None:
    """The cached phase 0 was trained for another policy, another budget and another number of phases."""
    cache, events = tmp_path / "cache", list[Event]()
    other = compose(VECTORS, data, {"policy": "./not-there-yet", "memory": {"budget": 30}, "scenario": {"phases": 1}})
    assert phase0(phase0_job("p", other, cache).payload, events.append) == {}
    assert list(map(type, events)) == [RunStarted, PhaseStarted, EpochEnded, EpochEnded, PhaseEvaluated]
    assert isinstance(events[0], RunStarted)
    assert len(events[0].phases) == 1
    [kept] = cache.iterdir()  # and nothing else is left there
    stamp, again = kept.stat().st_mtime_ns, list[Event]()
    phase0(phase0_job("p", other, cache).payload, again.append)
    assert [event.done for event in again if isinstance(event, RunStarted)] == [1]
    assert len(again) == 1
    assert kept.stat().st_mtime_ns == stamp

    config = compose(VECTORS, data, {"policy": "fixed-0.3"})
    events.clear()
    run(run_job("a", config, tmp_path / "shared", phase0=cache).payload, events.append)
    assert trained_phases(events) == {1, 2}
    run(run_job("b", config, tmp_path / "alone").payload, ignore)
    folders = [tmp_path / name for name in ("shared", "alone")]
    for name in ("model.safetensors", "predictions.npz"):
        assert folders[0].joinpath(name).read_bytes() == folders[1].joinpath(name).read_bytes()
    results = [timeless(load_result(folder).to_json()) for folder in folders]
    assert results[0] == results[1]
    logs = [folder.joinpath("log.jsonl").read_text().splitlines() for folder in folders]
    assert [timeless(json.loads(line)) for line in logs[0]] == [timeless(json.loads(line)) for line in logs[1]]


def test_a_run_that_was_stopped_in_phase_0_takes_it_from_the_cache(data: dict[str, Any], tmp_path: Path) -> None:
    config, events = compose(VECTORS, data), list[Event]()
    payload = run_job("a", config, tmp_path / "run", phase0=tmp_path / "cache").payload

    def stop(event: Event) -> None:
        if isinstance(event, EpochEnded):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(payload, stop)
    phase0(phase0_job("p", config, tmp_path / "cache").payload, ignore)
    run(payload, events.append)
    assert trained_phases(events) == {1, 2}
    run(run_job("b", config, tmp_path / "whole").payload, ignore)
    results = [timeless(load_result(tmp_path / name).to_json()) for name in ("run", "whole")]
    assert results[0] == results[1]


@pytest.mark.parametrize("make", [run_job, phase0_job])
def test_jobs_have_one_device_each(make: Any, data: dict[str, Any], tmp_path: Path) -> None:
    job = make("a", compose(VECTORS, data, {"train": {"devices": 2}}), tmp_path / "out")
    with pytest.raises(InputError, match=r"train.devices: 2 given; runs side by side have one device each, expected 1"):
        find_handler(job.kind)(job.payload, ignore)
    assert not (tmp_path / "out").exists()
