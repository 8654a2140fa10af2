"""atomic.py: writes are all or nothing, and a folder has one owner at a time."""

import os
import stat
from pathlib import Path

import pytest

from remem.errors import InputError
from remem.storage.atomic import folder_lock, write_atomically


def test_writing_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def broken(self: Path, target: Path) -> Path:
        raise OSError("the power failed")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", broken)
        with pytest.raises(OSError, match="power"):
            write_atomically(path, b"new and longer")
    assert path.read_bytes() == b"old"
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_file_is_on_the_disk_before_it_has_its_name_and_its_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, steps = tmp_path / "file", list[str]()
    write_atomically(path, b"old")
    fsync, replace = os.fsync, Path.replace

    def noted_sync(number: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(number).st_mode)
        steps.append("folder synced" if is_folder else f"{os.fstat(number).st_size} bytes synced")
        fsync(number)

    def noted_replace(part: Path, target: Path) -> Path:
        steps.append(f"{target.name} renamed")
        return replace(part, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    write_atomically(path, b"new")
    assert steps == ["3 bytes synced", "file renamed", "folder synced"]
    steps.clear()
    write_atomically(path, b"newer", keep=tmp_path / "before")
    assert steps == ["5 bytes synced", "before renamed", "file renamed", "folder synced"]
    assert (tmp_path / "before").read_bytes() == b"new"


def test_folder_stays_locked_until_it_is_released(tmp_path: Path) -> None:
    with folder_lock(tmp_path), pytest.raises(InputError, match="is in use by another process"), folder_lock(tmp_path):
        raise AssertionError("two owners")
    with folder_lock(tmp_path):
        pass
