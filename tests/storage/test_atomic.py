"""atomic.py: writes are all or nothing, and a folder has one owner at a time."""

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


def test_folder_stays_locked_until_it_is_released(tmp_path: Path) -> None:
    with folder_lock(tmp_path), pytest.raises(InputError, match="is in use by another process"), folder_lock(tmp_path):
        raise AssertionError("two owners")
    with folder_lock(tmp_path):
        pass
