"""rl/shared_phase0.py: trainings that share phases 0 learn what they learn alone; only equal phases 0 are shared."""

from pathlib import Path
from typing import Any

import pytest

from remem.events import Event
from remem.rl.config import LearnConfig
from remem.rl.events import PolicyUpdated
from remem.rl.learn import learn_in_folder
from rl_factories import learn_config


def config(npz: Path, levels: int, **learn: Any) -> LearnConfig:
    return learn_config(npz, fidelity="features", levels=levels, **learn)


def learned(config: LearnConfig, out: Path, phase0: Path | None) -> tuple[bytes, int]:
    """The policy file, and how many phases were trained for it."""
    events: list[Event] = []
    learn_in_folder(config, out, events.append, phase0=phase0)
    (*_, last) = [event for event in events if isinstance(event, PolicyUpdated)]
    return (out / "policy.json").read_bytes(), last.trained


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_second_training_finds_the_phases_0_of_the_first(npz: Path, tmp_path: Path) -> None:
    """Two tasks: two phases 0 less, and the same policy, byte for byte."""
    shared = tmp_path / "phase0"
    learned(config(npz, 1), tmp_path / "first", shared)
    before = contents(shared)
    assert len(before) == 2
    policy, trained = learned(config(npz, 2), tmp_path / "second", shared)
    alone, every = learned(config(npz, 2), tmp_path / "alone", None)
    assert policy == alone
    assert trained == every - 2
    assert contents(shared) == before


def test_other_phases_0_are_not_shared(npz: Path, tmp_path: Path) -> None:
    shared = tmp_path / "phase0"
    learned(config(npz, 1), tmp_path / "whole", shared)
    half, _ = learned(config(npz, 1, phase0_share=0.5), tmp_path / "half", shared)
    alone, _ = learned(config(npz, 1, phase0_share=0.5), tmp_path / "alone", None)
    assert half == alone
    assert len(contents(shared)) == 4


@pytest.mark.parametrize("damage", [b"", b"nonsense"])
def test_a_damaged_phase_0_is_trained_again(npz: Path, tmp_path: Path, damage: bytes) -> None:
    shared = tmp_path / "phase0"
    policy, _ = learned(config(npz, 1), tmp_path / "first", shared)
    before = contents(shared)
    for path in shared.iterdir():
        path.write_bytes(damage)
    again, _ = learned(config(npz, 1), tmp_path / "again", shared)
    assert again == policy
    assert contents(shared) == before


def test_a_phase_0_under_another_name_is_not_believed(npz: Path, tmp_path: Path) -> None:
    shared = tmp_path / "phase0"
    policy, _ = learned(config(npz, 1), tmp_path / "first", shared)
    one, other = sorted(shared.iterdir())
    one.write_bytes(other.read_bytes())
    again, _ = learned(config(npz, 1), tmp_path / "again", shared)
    assert again == policy
