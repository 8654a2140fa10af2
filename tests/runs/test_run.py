"""run.py: a run in a folder. Resuming equals an uninterrupted run; changed settings are refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from factories import VECTORS, blobs, pictures, ready, same_tensors, timeless, write_npz
from remem.data.augment import plan_for
from remem.data.scenario import build_scenario
from remem.errors import DamagedFileError, InputError
from remem.events import Emit, Event
from remem.methods.describe import describe
from remem.methods.events import EpochEnded
from remem.runs.build import network_builder, prepare
from remem.runs.config import compose
from remem.runs.devices import open_fabric
from remem.runs.prepared import Prepared
from remem.runs.results import load_result
from remem.runs.run import read_config, resume_in_folder, run, run_in_folder, run_or_resume
from remem.runs.trees import merged
from remem.storage.jsonfile import write_json
from remem.storage.tensorfile import load_snapshot
from remem.types import Samples

FILES = {"config.json", "result.json", "log.jsonl", "model.safetensors", "predictions.npz", "checkpoint.safetensors"}


class PowerCut(Exception):
    """Stops a run in the middle of a phase."""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Vectors on disk, where a resumed run finds them."""
    write_npz(tmp_path / "own.npz", blobs())
    return tmp_path / "own.npz"


def on_disk(own: Path, *layers: dict[str, Any]) -> Prepared:
    return prepare(compose(VECTORS, {"data": {"name": f"npz:{own}"}}, *layers))


def cut_at(phase: int, stage: str = "main") -> Emit:
    """An emitter that fails after the first epoch of a stage, in the middle of a phase."""

    def report(event: Event) -> None:
        if isinstance(event, EpochEnded) and (event.phase, event.stage) == (phase, stage):
            raise PowerCut

    return report


def log_of(out: Path) -> list[Any]:
    return [timeless(json.loads(line)) for line in (out / "log.jsonl").read_text().splitlines()]


def same_arrays(one: Path, other: Path) -> bool:
    with np.load(one, allow_pickle=False) as a, np.load(other, allow_pickle=False) as b:
        return set(a) == set(b) and all(np.array_equal(a[name], b[name]) for name in a)


def test_run_writes_its_files(own: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    result = run_in_folder(on_disk(own), out)
    assert {file.name for file in out.iterdir()} == FILES
    assert load_result(out).to_json() == json.loads(json.dumps(result.to_json()))
    assert timeless(result.to_json()) == timeless(run(on_disk(own)).to_json())
    events = log_of(out)
    assert [event["event"] for event in events[:3]] == ["epoch", "epoch", "evaluated"]
    assert [event["phase"] for event in events if event["event"] == "evaluated"] == [0, 1, 2]
    assert str(own.parent) not in (out / "result.json").read_text()


@pytest.mark.parametrize(
    "cuts",
    [[(0, "main")], [(1, "main")], [(2, "balanced")], [(0, "main"), (1, "balanced"), (1, "main"), (2, "main")]],
    ids=["phase 0", "phase 1", "fine-tuning of phase 2", "four times"],
)
def test_resuming_equals_an_uninterrupted_run(cuts: list[tuple[int, str]], own: Path, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    expected = run_in_folder(on_disk(own), whole)
    with pytest.raises(PowerCut):
        run_in_folder(on_disk(own), parts, cut_at(*cuts[0]))
    for cut in cuts[1:]:
        with pytest.raises(PowerCut):
            resume_in_folder(parts, cut_at(*cut))
    if cuts[-1][0]:
        partial = load_result(parts)
        assert not partial.complete
        assert len(partial.phases) == cuts[-1][0]
    emitted: list[Event] = []
    result = resume_in_folder(parts, emitted.append)
    assert {event.to_json()["phase"] for event in emitted} == set(range(cuts[-1][0], 3))  # nothing is trained twice
    assert timeless(result.to_json()) == timeless(expected.to_json())
    assert timeless(load_result(parts).to_json()) == timeless(load_result(whole).to_json())
    assert same_tensors(load_file(parts / "model.safetensors"), load_file(whole / "model.safetensors"))
    assert same_arrays(parts / "predictions.npz", whole / "predictions.npz")
    assert log_of(parts) == log_of(whole)
    assert {file.name for file in parts.iterdir()} == FILES


def test_complete_run_is_only_read(own: Path, tmp_path: Path) -> None:
    prepared = on_disk(own)
    first = run_in_folder(prepared, tmp_path / "out")
    stamps = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "out").iterdir()}
    emitted: list[Event] = []
    again = resume_in_folder(tmp_path / "out", emitted.append)
    assert again.to_json() == json.loads(json.dumps(first.to_json()))
    assert run_or_resume(prepared, tmp_path / "out", emitted.append).to_json() == again.to_json()
    assert emitted == []
    assert {file.name: file.stat().st_mtime_ns for file in (tmp_path / "out").iterdir()} == stamps


def test_run_stopped_after_its_last_phase_only_writes_its_final_files(own: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    expected = run_in_folder(on_disk(own), out)
    model = load_file(out / "model.safetensors")
    for name in ("model.safetensors", "predictions.npz", "result.json"):
        (out / name).unlink()
    emitted: list[Event] = []
    assert timeless(resume_in_folder(out, emitted.append).to_json()) == timeless(expected.to_json())
    assert emitted == []
    assert same_tensors(load_file(out / "model.safetensors"), model)


def test_incomplete_log_line_is_dropped(own: Path, tmp_path: Path) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    with pytest.raises(PowerCut):
        run_in_folder(on_disk(own), out, cut_at(1))
    with open(out / "log.jsonl", "a") as file:
        file.write('{"event": "epo')
    resume_in_folder(out)
    run_in_folder(on_disk(own), whole)
    assert log_of(out) == log_of(whole)


@pytest.mark.parametrize("gone", ["checkpoint.safetensors", "result.json"])
def test_a_run_is_never_overwritten_while_part_of_it_is_there(gone: str, own: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_in_folder(on_disk(own), out)
    (out / gone).unlink()
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    with pytest.raises(InputError, match="holds this run already"):
        run_in_folder(on_disk(own), out)
    with pytest.raises(InputError, match="seed is 9, but this run began with 3"):
        run_in_folder(on_disk(own, {"seed": 9}), out)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


def test_a_folder_is_used_once(own: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_in_folder(on_disk(own), out)
    with pytest.raises(InputError, match=r"holds this run already; go on with `remem resume"):
        run_in_folder(on_disk(own), out)
    with pytest.raises(InputError, match=r"train.epochs is 3, but this run began with 2; settings cannot change"):
        run_in_folder(on_disk(own, {"train": {"epochs": 3}}), out)
    with pytest.raises(InputError, match=r"policy is 'fixed-0.3', but this run began with 'static'"):
        run_or_resume(on_disk(own, {"policy": "fixed-0.3"}), out)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file; expected a folder"):
        run_in_folder(on_disk(own), tmp_path / "file")
    with pytest.raises(InputError, match="cannot be written"):
        run_in_folder(on_disk(own), tmp_path / "file" / "below")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": {"epochs": 5}}, "train.epochs is 5, but this run began with 2"),
        ({"seed": 4}, "seed is 4, but this run began with 3"),
        ({"method": {"temperature": 3.0}}, "method.temperature is 3.0, but this run began with 2.0"),
        ({"memory": {"budget": 41}}, "memory.budget is 41, but this run began with 40"),
    ],
)
def test_edited_settings_are_refused_on_resume(change: dict[str, Any], message: str, own: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(PowerCut):
        run_in_folder(on_disk(own), out, cut_at(1))
    tree = json.loads((out / "config.json").read_text())
    tree["settings"] = merged(tree["settings"], change)
    write_json(out / "config.json", tree)
    before = (out / "checkpoint.safetensors").read_bytes()
    with pytest.raises(InputError, match=message):
        resume_in_folder(out)
    assert (out / "checkpoint.safetensors").read_bytes() == before


def test_changed_data_are_refused_on_resume(own: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(PowerCut):
        run_in_folder(on_disk(own), out, cut_at(1))
    write_npz(own, blobs(seed=1))
    with pytest.raises(InputError, match="the data have changed since this run began"):
        resume_in_folder(out)
    write_npz(own, blobs())
    assert resume_in_folder(out).complete


def test_data_may_move(own: Path, tmp_path: Path) -> None:
    """The data root may change between sessions."""
    out = tmp_path / "out"
    with pytest.raises(PowerCut):
        run_in_folder(on_disk(own, {"data": {"root": str(tmp_path)}}), out, cut_at(1))
    assert resume_in_folder(out, root=tmp_path / "elsewhere").complete


def test_folders_without_a_valid_run_are_refused(own: Path, tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match="no such file; expected the settings of a run"):
        resume_in_folder(tmp_path / "nothing")
    (tmp_path / "config.json").write_text('{"config": 3')
    with pytest.raises(DamagedFileError, match="not the settings of a run"):
        read_config(tmp_path)
    out = tmp_path / "out"
    with pytest.raises(PowerCut):
        run_in_folder(on_disk(own), out, cut_at(1))
    content = (out / "checkpoint.safetensors").read_bytes()
    (out / "checkpoint.safetensors").write_bytes(content[:-7])
    with pytest.raises(DamagedFileError, match="not a whole checkpoint"):
        resume_in_folder(out)


@pytest.mark.parametrize("method", ["icarl", "lwf"])
def test_predictions_match_the_accuracies(method: str, tmp_path: Path) -> None:
    prepared = ready(pictures(), {"method": {"name": method}})
    result = run_in_folder(prepared, tmp_path / "out")
    with np.load(tmp_path / "out" / "predictions.npz", allow_pickle=False) as arrays:
        for phase in result.phases:
            labels = arrays[f"labels_{phase.phase}"]
            assert len(labels) == 5 * phase.classes_seen
            assert (arrays[f"cnn_{phase.phase}"] == labels).mean() == phase.accuracy_cnn
            assert (arrays[f"nme_{phase.phase}"] == labels).mean() == phase.accuracy_nme
            own_head = "nme" if method == "icarl" else "cnn"
            assert result.to_json()["head"] == own_head
            hits = arrays[f"{own_head}_{phase.phase}"] == labels
            assert {str(c): hits[labels == c].mean() for c in np.unique(labels)} == phase.accuracy_per_class
        for head in ("cnn", "nme"):
            confusion = arrays[f"confusion_{head}"]
            assert confusion.sum(axis=1).tolist() == [5] * 6
            assert np.trace(confusion) / 30 == result.phases[-1].model_dump()[f"accuracy_{head}"]


def test_saved_model_gives_the_saved_predictions(tmp_path: Path) -> None:
    prepared = ready(pictures())
    out = tmp_path / "out"
    run_in_folder(prepared, out)
    facts = load_snapshot(out / "model.safetensors").facts
    assert facts["class_names"] == list("012345")
    assert facts["shape"] == [8, 8, 3]
    config = compose(facts["config"])
    scenario = build_scenario(pictures(), config.scenario)
    network = network_builder(prepare(config, scenario=scenario))(99)
    tensors = load_file(out / "model.safetensors")
    network.restore({name: value for name, value in tensors.items() if name != "class_means"})
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    phases = scenario.phases
    evaluated = Samples(
        *(np.concatenate([getattr(p.eval_samples, part) for p in phases]) for part in ("rows", "labels"))
    )
    plan = plan_for(scenario.preprocessing, scenario.bank.shape, config.augment)
    fabric = open_fabric(prepared.config.train)
    described = describe(network, scenario.eval_bank, evaluated, plan=plan, fabric=fabric)
    with np.load(out / "predictions.npz", allow_pickle=False) as arrays:
        assert described.logits.argmax(axis=1).tolist() == arrays["cnn_2"].tolist()
        assert evaluated.labels.tolist() == arrays["labels_2"].tolist()


def test_stopped_run_has_the_status_running(own: Path, tmp_path: Path) -> None:
    with pytest.raises(PowerCut):
        run_in_folder(on_disk(own), tmp_path / "out", cut_at(2))
    data = load_result(tmp_path / "out").to_json()
    assert (data["status"], len(data["phases"])) == ("running", 2)
    assert not (tmp_path / "out" / "model.safetensors").exists()
