"""Files of other runs and damaged files are noticed, in a run, a learning and a study; older generations are used."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from factories import blobs, ready, timeless
from remem.errors import DamagedFileError, InputError
from remem.events import Event, Notice
from remem.runs.model import load_model
from remem.runs.results import load_result
from remem.runs.run import run_in_folder, run_or_resume
from remem.storage.generations import previous


class PowerCut(Exception):
    """Stops a run."""


def cut_in(phase: int) -> Callable[[Event], None]:
    def emit(event: Event) -> None:
        if event.kind == "epoch" and event.to_json()["phase"] == phase:
            raise PowerCut

    return emit


def test_a_complete_run_without_its_checkpoint_is_never_overwritten(tmp_path: Path) -> None:
    prepared, out = ready(blobs()), tmp_path / "out"
    whole = run_in_folder(prepared, out)
    (out / "checkpoint.safetensors").unlink()
    stamps = {file.name: file.stat().st_mtime_ns for file in out.iterdir()}
    with pytest.raises(InputError, match="holds this run already"):
        run_in_folder(prepared, out)
    assert run_or_resume(prepared, out) == load_result(out)
    assert timeless(load_result(out).to_json()) == timeless(whole.to_json())
    assert {file.name: file.stat().st_mtime_ns for file in out.iterdir()} == stamps


def test_a_damaged_result_is_made_again_from_the_checkpoint(tmp_path: Path) -> None:
    prepared, out, said = ready(blobs()), tmp_path / "out", list[Event]()
    whole = run_in_folder(prepared, out)
    text = (out / "result.json").read_text()
    (out / "result.json").write_text(text.replace('"last_accuracy":', '"lost_accuracy":'))
    assert timeless(run_or_resume(prepared, out, said.append).to_json()) == timeless(whole.to_json())
    assert [event.text for event in said if isinstance(event, Notice)] == [
        f"{out / 'result.json'}: the content does not match its checksum; the file is damaged; it is made again from "
        "the checkpoint"
    ]
    assert timeless(load_result(out).to_json()) == timeless(whole.to_json())
    (out / "result.json").write_text("{")
    (out / "checkpoint.safetensors").unlink()
    with pytest.raises(DamagedFileError, match=r"move .* away and train again"):
        run_or_resume(prepared, out)


def test_a_damaged_checkpoint_costs_one_phase(tmp_path: Path) -> None:
    prepared, out, said = ready(blobs()), tmp_path / "out", list[Event]()
    whole = run_in_folder(prepared, tmp_path / "whole")
    with pytest.raises(PowerCut):
        run_in_folder(prepared, out, cut_in(2))
    checkpoint = out / "checkpoint.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-5])
    assert timeless(run_or_resume(prepared, out, said.append).to_json()) == timeless(whole.to_json())
    assert {event.to_json()["phase"] for event in said if event.kind == "epoch"} == {1, 2}
    assert sum(isinstance(event, Notice) for event in said) == 1
    assert not previous(checkpoint).exists()  # complete: there is nothing left to go back for


def test_another_runs_files_are_noticed(tmp_path: Path) -> None:
    for seed in (0, 1):
        run_in_folder(ready(blobs(), {"seed": seed}), tmp_path / str(seed))
    for name in ("result.json", "model.safetensors"):
        out = Path(shutil.copytree(tmp_path / "0", tmp_path / f"with another {name}"))
        shutil.copy(tmp_path / "1" / name, out / name)
        if name == "result.json":
            with pytest.raises(DamagedFileError, match=r"the result of another run \(seed is 1, expected 0\)"):
                run_or_resume(ready(blobs(), {"seed": 0}), out)
        with pytest.raises(DamagedFileError, match=r"the model of another run than result.json beside it \(seed is"):
            load_model(out)
