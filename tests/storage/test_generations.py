"""generations.py: two checkpoints are kept, and the older one is used when the newer one is damaged."""

from pathlib import Path

import pytest
import torch

from remem.errors import DamagedFileError
from remem.storage.generations import load_generation, previous, save_generation
from remem.storage.tensorfile import Snapshot


def snapshot(number: int) -> Snapshot:
    return Snapshot({"number": number}, {"weights": torch.full((3,), float(number))})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint.safetensors"
    for number in range(3):
        save_generation(path, snapshot(number))
    return path


def numbers(path: Path) -> tuple[int, list[str]]:
    said: list[str] = []
    loaded = load_generation(path, said.append)
    assert loaded is not None
    return loaded.facts["number"], said


def test_the_last_two_are_kept(path: Path) -> None:
    assert sorted(file.name for file in path.parent.iterdir()) == [previous(path).name, path.name]
    assert numbers(path) == (2, [])
    path.unlink()  # as between two renames, on a file system without links
    number, said = numbers(path)
    assert number == 1
    assert len(said) == 1


def test_the_older_one_is_used_and_that_is_said(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    number, said = numbers(path)
    assert number == 1
    assert said == [
        f"{path}: not a whole checkpoint (Error while deserializing header: incomplete metadata, file not fully "
        f"covered); going on from the one before it, checkpoint.previous.safetensors"
    ]


def test_damage_of_both_says_how_to_go_on(path: Path) -> None:
    for file in (path, previous(path)):
        file.write_bytes(b"x")
    with pytest.raises(DamagedFileError, match=r"is damaged as well, so remove both and `remem resume .*` starts"):
        load_generation(path, print)
    previous(path).unlink()
    with pytest.raises(DamagedFileError, match=r"no older one, so remove the file and `remem resume"):
        load_generation(path, print)
    path.unlink()
    assert load_generation(path, print) is None


def test_a_failed_write_loses_neither(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("remem.storage.atomic.sync", full)
        with pytest.raises(OSError, match="No space left"):
            save_generation(path, snapshot(3))
    assert numbers(path) == (2, [])
    assert sorted(file.name for file in path.parent.iterdir()) == [previous(path).name, path.name]
