"""Runs that are stopped inside phases, between any two steps, and go on: equal to the bit to runs never stopped."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

from factories import blobs, pictures, ready, same_tensors, timeless
from remem import interrupts
from remem.errors import InputError
from remem.events import Event, Notice, ignore
from remem.interrupts import Interrupted
from remem.methods.events import EpochEnded
from remem.runs.inside import INSIDE
from remem.runs.prepared import Prepared
from remem.runs.results import load_result
from remem.runs.run import run_in_folder, run_or_resume
from remem.storage.event_log import read_log

MOST_STOPS = 100  # far more than epochs
SMALL = {"train": {"epochs": 3, "batch_size": 16}, "finetune": {"epochs": 2}}
RUNS: dict[str, Callable[[], Prepared]] = {
    "icarl": lambda: ready(blobs(), SMALL),
    "lucir": lambda: ready(blobs(), {**SMALL, "method": {"name": "lucir"}}),
    "adam": lambda: ready(blobs(), {**SMALL, "train": {**SMALL["train"], "optimizer": "adam", "lr": 0.01}}),
    "podnet": lambda: ready(pictures(), {**SMALL, "method": {"name": "podnet"}}),
    "lucir-aanets": lambda: ready(pictures(), {**SMALL, "method": {"name": "lucir-aanets", "mixture_lr": 0.1}}),
    "mnemonics": lambda: ready(pictures(), {**SMALL, "method": {"name": "mnemonics", "refine_steps": 1}}),
}


def ask_to_stop(event: Event) -> None:
    """As a signal during the end of an epoch: training stops after the first step of the next."""
    if isinstance(event, EpochEnded):
        interrupts.request(signal.SIGTERM)


def in_pieces(prepared: Prepared, out: Path, emit: Callable[[Event], None]) -> int:
    """Runs and resumes until the run is complete; returns how often it was stopped."""
    for stops in range(MOST_STOPS):
        try:
            run_or_resume(prepared, out, emit)
        except Interrupted:
            continue
        return stops
    raise AssertionError(f"not complete after {MOST_STOPS} stops")


def files_of(out: Path) -> dict[str, Any]:
    with np.load(out / "predictions.npz", allow_pickle=False) as arrays:
        predictions = {name: arrays[name].tolist() for name in arrays}
    return {
        "result": timeless(load_result(out).to_json()),
        "log": timeless(read_log(out / "log.jsonl")),
        "predictions": predictions,
        "files": sorted(path.name for path in out.iterdir()),
    }


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_is_stopped_in_every_epoch_equals_one_that_never_was(name: str, tmp_path: Path) -> None:
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    run_in_folder(RUNS[name](), whole)
    stops = in_pieces(RUNS[name](), pieces, ask_to_stop)
    epochs = sum(entry["event"] == "epoch" for entry in read_log(whole / "log.jsonl"))
    assert stops >= epochs - len(load_result(whole).phases)  # after the last epoch of a phase the phase is saved
    assert files_of(pieces) == files_of(whole)
    assert same_tensors(load_file(pieces / "model.safetensors"), load_file(whole / "model.safetensors"))


def test_training_is_saved_as_time_passes(tmp_path: Path) -> None:
    """With next to no minutes it is saved after every step; a kill anywhere loses at most one."""

    class PowerCut(Exception):
        pass

    def cut(event: Event) -> None:
        if isinstance(event, EpochEnded) and (event.phase, event.stage, event.epoch) == (1, "balanced", 1):
            raise PowerCut

    quick: dict[str, Any] = {**SMALL, "train": {**SMALL["train"], "checkpoint_minutes": 1e-9}}
    prepared, events = ready(blobs(), quick), list[Event]()
    with pytest.raises(PowerCut):
        run_in_folder(prepared, tmp_path / "pieces", cut)
    assert (tmp_path / "pieces" / INSIDE).exists()
    run_or_resume(prepared, tmp_path / "pieces", events.append)
    epochs = [(event.phase, event.stage, event.epoch) for event in events if isinstance(event, EpochEnded)]
    assert epochs[:2] == [(1, "balanced", 1), (1, "balanced", 2)]
    run_in_folder(ready(blobs(), SMALL), tmp_path / "whole")  # the setting changes nothing
    assert files_of(tmp_path / "pieces") == files_of(tmp_path / "whole")


def test_damage_inside_a_phase_costs_the_phase_and_is_said(tmp_path: Path) -> None:
    prepared, out, said = ready(blobs(), SMALL), tmp_path / "out", list[Event]()
    with pytest.raises(Interrupted) as stopped:
        run_in_folder(prepared, out, ask_to_stop)
    assert stopped.value.code == 143
    with pytest.raises(InputError, match="holds this run already"):
        run_in_folder(prepared, out)
    content = (out / INSIDE).read_bytes()
    (out / INSIDE).write_bytes(content[:-1])
    run_or_resume(prepared, out, said.append)
    assert [event.text.endswith("phase 0 begins again") for event in said if isinstance(event, Notice)] == [True]
    run_in_folder(prepared, tmp_path / "whole", ignore)
    assert files_of(out) == files_of(tmp_path / "whole")


def test_another_runs_training_is_not_taken(tmp_path: Path) -> None:
    for seed in (0, 1):
        with pytest.raises(Interrupted):
            run_in_folder(ready(blobs(), {**SMALL, "seed": seed}), tmp_path / str(seed), ask_to_stop)
    (tmp_path / "0" / INSIDE).write_bytes((tmp_path / "1" / INSIDE).read_bytes())
    said = list[Event]()
    run_or_resume(ready(blobs(), {**SMALL, "seed": 0}), tmp_path / "0", said.append)
    assert any("of another run (config.seed is 1, expected 0)" in e.text for e in said if isinstance(e, Notice))
    run_in_folder(ready(blobs(), {**SMALL, "seed": 0}), tmp_path / "whole")
    assert files_of(tmp_path / "0") == files_of(tmp_path / "whole")
