"""The far end of a crew, in this process: runs, phases 0 and nodes from their orders, and errors as messages."""

import json
from pathlib import Path
from typing import Any

import pytest

from remem.errors import InputError
from remem.runs.config import compose
from remem.runs.crew import phase0_job, run_job
from remem.runs.results import load_result
from remem.runs.worker import FarEnd
from worlds import VECTORS, blobs, timeless, write_npz

Event = dict[str, Any]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("data") / "blobs.npz"
    write_npz(path, blobs())
    return {"data": {"name": f"npz:{path}"}}


def test_a_run_is_begun_then_reused_then_refused(data: dict[str, Any], tmp_path: Path) -> None:
    order, far_end, first = run_job("a", compose(VECTORS, data), tmp_path / "run").order, FarEnd(), list[Event]()
    answer = far_end.do("run", order, first.append)
    assert first[0]["event"] == "begin"
    assert first[0]["done"] == 0
    assert [phase["samples"] for phase in first[0]["phases"]] == [40, 40, 40]
    assert [phase["budget"] for phase in first[0]["phases"]] == [None, 40, 40]
    assert [event["phase"] for event in first if event["event"] == "judged"] == [0, 1, 2]
    assert answer == {"result": load_result(tmp_path / "run").data}
    second: list[Event] = []
    assert far_end.do("run", order, second.append) == answer
    assert [(event["event"], event["done"]) for event in second] == [("begin", 3)]
    with pytest.raises(InputError, match="seed is 9, but this run began with 3"):
        far_end.do("run", {**order, "config": {**order["config"], "seed": 9}}, second.append)


def test_a_run_from_the_shelf_equals_one_that_trained_phase_0(data: dict[str, Any], tmp_path: Path) -> None:
    """The shelf's phase 0 was trained for another policy, another budget and another number of phases."""
    far_end, shelf, told = FarEnd(), tmp_path / "shelf", list[Event]()
    other = compose(VECTORS, data, {"policy": "./not-there-yet", "memory": {"budget": 30}, "scenario": {"phases": 1}})
    assert far_end.do("phase0", phase0_job("p", other, shelf).order, told.append) == {}
    assert [event["event"] for event in told] == ["begin", "phase", "epoch", "epoch", "judged"]
    assert len(told[0]["phases"]) == 1
    [kept] = shelf.iterdir()  # and nothing else is left there
    again: list[Event] = []
    stamp = kept.stat().st_mtime_ns
    far_end.do("phase0", phase0_job("p", other, shelf).order, again.append)
    assert [(event["event"], event["done"]) for event in again] == [("begin", 1)]
    assert kept.stat().st_mtime_ns == stamp

    config = compose(VECTORS, data, {"policy": "fixed-0.3"})
    told.clear()
    far_end.do("run", run_job("a", config, tmp_path / "borrowed", phase0=shelf).order, told.append)
    assert {event["phase"] for event in told if event["event"] == "epoch"} == {1, 2}
    far_end.do("run", run_job("b", config, tmp_path / "alone").order, told.append)
    results = [timeless(load_result(tmp_path / name).data) for name in ("borrowed", "alone")]
    assert results[0] == results[1]
    for name in ("model.safetensors", "predictions.npz"):
        assert (tmp_path / "borrowed" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    logs = [(tmp_path / name / "log.jsonl").read_text().splitlines() for name in ("borrowed", "alone")]
    assert [timeless(json.loads(line)) for line in logs[0]] == [timeless(json.loads(line)) for line in logs[1]]


def test_a_run_that_was_stopped_in_phase_0_takes_it_from_the_shelf(data: dict[str, Any], tmp_path: Path) -> None:
    far_end, config, told = FarEnd(), compose(VECTORS, data), list[Event]()
    order = run_job("a", config, tmp_path / "run", phase0=tmp_path / "shelf").order

    def stop(event: Event) -> None:
        if event["event"] == "epoch":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        far_end.do("run", order, stop)
    far_end.do("phase0", phase0_job("p", config, tmp_path / "shelf").order, told.append)
    told.clear()
    far_end.do("run", order, told.append)
    assert {event["phase"] for event in told if event["event"] == "epoch"} == {1, 2}
    far_end.do("run", run_job("b", config, tmp_path / "whole").order, told.append)
    results = [timeless(load_result(tmp_path / name).data) for name in ("run", "whole")]
    assert results[0] == results[1]


def test_what_goes_wrong_is_told(data: dict[str, Any], tmp_path: Path) -> None:
    far_end, said = FarEnd(), list[Event]()
    for devices, mark in ((2, None), (1, str(tmp_path / "elsewhere" / "mark"))):
        job = run_job("a", compose(VECTORS, data, {"train": {"devices": devices}}), tmp_path / "run")
        far_end.serve(json.dumps({"kind": job.kind, "order": job.order, "mark": mark}), said.append)
    far_end.serve("no JSON", said.append)
    assert [message["error"] for message in said] == ["InputError", "InputError", "JSONDecodeError"]
    assert said[0]["message"] == "train.devices: 2 given; runs side by side have one device each, expected 1"
    assert said[1]["message"].startswith(f"--out: {tmp_path / 'elsewhere'} is not seen by the worker on ")
    assert said[1]["message"].endswith("; expected a shared folder")
    assert all("Traceback" in message["traceback"] for message in said)
    assert not (tmp_path / "run").exists()
