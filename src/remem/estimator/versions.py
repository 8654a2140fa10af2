"""A model folder: whole versions of a model side by side. Killed at any moment it holds the old one or the new one.

`versions/0004/` is version 4; `model.json` lists the versions that are kept. Whatever else is below `versions` was left
by a kill, and is removed by the next change. A version may come with a receipt, which is in `receipts.jsonl` once the
version is current: it waits inside the version until then, so that neither is ever there without the other.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree

from remem.errors import DamagedFileError, InputError
from remem.interrupts import held
from remem.storage.atomic import PART, folder_lock, sweep, sync, sync_folder, write_atomically
from remem.storage.pointer import POINTER, VERSIONS, current_version, read_pointer, version_folder, write_pointer

RECEIPTS = "receipts.jsonl"  # of the model folder, one per line; in a version, the one that still waits
_OWN = re.compile(rf"\d{{4,}}({re.escape(PART)})?")
# Of a run, a learning, a study or a policy: a model begins in a folder of its own.
_FOREIGN = ("config.json", "learning.json", "study.json", "policy.json", "result.json", "model.safetensors", VERSIONS)


class ModelFolder:
    """The versions of one model. Reading takes no lock; every change does."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._claimed = False

    @property
    def exists(self) -> bool:
        """Whether there is a version."""
        return bool(self.versions())

    @property
    def current(self) -> Path:
        """The folder of the current version."""
        self._require_pointer()
        return current_version(self.path)

    def versions(self) -> tuple[int, ...]:
        """The versions that are kept, the current one last; none if the folder is new."""
        return read_pointer(self.path) if (self.path / POINTER).exists() else ()

    def size(self) -> int:
        """Bytes of all kept versions."""
        folders = (version_folder(self.path, number) for number in self.versions())
        return sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file())

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Locks the folder, which is made if there is none, from the version that is read to the one that is written.

        Changes inside do not lock it again. A folder that is left without a version is removed.
        """
        if self._claimed:
            yield
            return
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: a file; expected the folder of a model, or a new one")
        self.path.mkdir(parents=True, exist_ok=True)
        with folder_lock(self.path, f"{self.path}: in use by another process; try again when that is done"):
            self._begin()
            self._claimed = True
            try:
                yield
            finally:
                self._claimed = False
                if not self.versions():
                    self._remove()

    def receipts(self) -> bytes:
        """The lines of all receipts, those included that a kill has left inside the current version."""
        path, kept = self.path / RECEIPTS, self.versions()
        lines = path.read_bytes() if path.exists() else b""
        waiting = version_folder(self.path, kept[-1]) / RECEIPTS if kept else None
        new = waiting.read_bytes() if waiting is not None and waiting.exists() else b""
        return lines if lines.endswith(new) else lines + new

    def commit(self, write: Callable[[Path], None], keep: int, receipt: str | None = None) -> int:
        """Makes a new version current and returns its number. `write` fills an empty folder; `keep` counts versions.

        `receipt` is a line that is kept as surely as the version itself.
        """
        if keep < 1:
            raise InputError(f"keep: {keep} given; expected at least 1 version")
        with self.claim():
            kept = self.versions()
            number = kept[-1] + 1 if kept else 1
            place = version_folder(self.path, number)
            part = place.with_name(place.name + PART)
            part.mkdir(parents=True)
            try:
                write(part)
                if receipt is not None:
                    (part / RECEIPTS).write_text(receipt + "\n", encoding="utf-8")
                _sync_tree(part)
            except BaseException:
                rmtree(part, ignore_errors=True)
                raise
            with held():
                part.rename(place)
                sync_folder(place.parent)
                self._keep_only((*kept, number)[-keep:])
                self._settle()
            return number

    def rollback(self) -> int:
        """Makes the version before the current one current again, and deletes the current one; returns its number."""
        self._require_pointer()
        with self.claim():
            kept = self.versions()
            if len(kept) < 2:
                found = f"version {kept[0]} is the only one" if kept else "no version yet"
                raise InputError(f"{self.path}: {found}; there is none to go back to")
            if not (place := version_folder(self.path, kept[-2])).is_dir():
                raise DamagedFileError(f"{place}: no such folder; expected the version to go back to")
            with held():
                self._keep_only(kept[:-1])
            return kept[-2]

    def purge_others(self) -> None:
        """Deletes all versions but the current one."""
        self._require_pointer()
        with self.claim(), held():
            self._keep_only(self.versions()[-1:])

    def _begin(self) -> None:
        """Marks a new folder as a model's, and removes what kills have left in an older one."""
        if not (self.path / POINTER).exists():
            for name in _FOREIGN:
                if (self.path / name).exists():
                    expected = f"its {POINTER}; put a copy back" if name == VERSIONS else "a folder of its own"
                    raise InputError(f"{self.path}: holds {name}, but no model; expected {expected}")
            write_pointer(self.path, ())
        self._settle()
        self._sweep()

    def _require_pointer(self) -> None:
        if not (self.path / POINTER).is_file():
            raise DamagedFileError(f"{self.path}: no {POINTER}; expected a model folder, as `remem update` makes it")

    def _keep_only(self, kept: tuple[int, ...]) -> None:
        """Moves the pointer, and then removes what it no longer lists."""
        write_pointer(self.path, kept)
        self._sweep()

    def _settle(self) -> None:
        """Moves the receipt of the current version to the others."""
        kept = self.versions()
        if kept and (waiting := version_folder(self.path, kept[-1]) / RECEIPTS).exists():
            write_atomically(self.path / RECEIPTS, self.receipts())
            waiting.unlink()

    def _sweep(self) -> None:
        """Removes everything that the pointer does not list. A version loses its name first, and its files then."""
        sweep(self.path)
        kept = {version_folder(self.path, number).name for number in self.versions()}
        versions = self.path / VERSIONS
        found = sorted(e.name for e in versions.iterdir() if e.name[0] != ".") if versions.is_dir() else []
        for name in found:
            if not _OWN.fullmatch(name):
                raise InputError(f"{versions / name}: not a version of this model; expected nothing else there")
        for name in found:
            if name.endswith(PART):
                rmtree(versions / name)
        for name in sorted(set(found) - kept):
            if not name.endswith(PART):
                rmtree((versions / name).rename(versions / (name + PART)))
        if found:
            sync_folder(versions)

    def _remove(self) -> None:
        """Takes back what `_begin` made."""
        with suppress(OSError):
            (self.path / POINTER).unlink()
            for folder in (self.path / VERSIONS, self.path):
                if folder.exists():
                    folder.rmdir()


def _sync_tree(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                sync(file.fileno())
        else:
            sync_folder(path)
    sync_folder(folder)
