"""The folder of a run, a learning or a study: begun once, claimed while it runs, resumed with equal settings."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remem.errors import DamagedFileError, InputError
from remem.storage.atomic import folder_lock, sweep
from remem.storage.jsonfile import Migrations, differences, read_json, write_json
from remem.types import Json

FORMAT = 2
# Everything that remem writes into work folders: without settings of ours, any of these belongs to something else.
WRITTEN = (
    *("config.json", "learning.json", "study.json", "result.json", "summary.json", "policy.json"),
    *("log.jsonl", "rewards.jsonl", "predictions.npz"),
    *("model.safetensors", "checkpoint.safetensors", "checkpoint.previous.safetensors", "policy.safetensors"),
    "training.safetensors",
    *("runs", "policies", "phase0"),
    *("model.json", "versions"),
)


# Settings on which no number depends, at any depth.
CHANGEABLE = ("data.root", "data.max_gigabytes", "data.max_pixels", "train.checkpoint_minutes")


@dataclass(frozen=True)
class WorkKind:
    """A kind of work: what it is called, where its settings are, and how older settings files are read."""

    name: str  # run, learning or study
    settings_file: str
    migrations: Migrations


@dataclass(frozen=True)
class Begun:
    """What a folder's work began with: its settings as JSON, and fingerprints of its data by name."""

    settings: Json
    fingerprints: dict[str, str]
    versions: dict[str, str] = field(default_factory=dict)  # of remem and torch; empty in older files


class WorkDir:
    """A folder that belongs to one piece of work."""

    def __init__(self, path: Path, kind: WorkKind) -> None:
        self.path, self._kind = path, kind

    @property
    def exists(self) -> bool:
        """Whether such work has begun here."""
        return (self.path / self._kind.settings_file).exists()

    def read(self) -> Begun:
        """What the work began with; files of older versions are migrated."""
        path, what = self.path / self._kind.settings_file, f"settings of a {self._kind.name}"
        tree = read_json(path, what, format=FORMAT, migrations=self._kind.migrations)
        try:
            return Begun(dict(tree["settings"]), dict(tree["fingerprints"]), dict(tree.get("versions", {})))
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedFileError(f"{path}: not the {what} ({error})") from error

    def require_free(self) -> None:
        """Raises unless new work may begin here without destroying anything."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"--out: {self.path} is a file; expected a folder")
        for name in WRITTEN if not self.exists else ():
            if (self.path / name).exists():
                raise InputError(f"--out: {self.path} holds a {name} of something else; expected a new folder")

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Makes the folder and locks it for as long as this process works there."""
        try:
            if self.path.exists() and not self.path.is_dir():
                raise InputError(f"--out: {self.path} is a file; expected a folder")
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self.unwritable(error) from error
        with folder_lock(self.path):
            sweep(self.path)
            yield

    def begin(self, settings: Mapping[str, Any], fingerprints: Mapping[str, str], versions: Mapping[str, str]) -> None:
        """Writes what the work begins with, once. `versions` are those of remem and torch."""
        tree = {
            "format": FORMAT,
            "kind": self._kind.name,
            "remem": versions["remem"],
            "versions": dict(versions),
            "fingerprints": dict(fingerprints),
            "settings": dict(settings),
        }
        try:
            write_json(self.path / self._kind.settings_file, tree)
        except OSError as error:
            raise self.unwritable(error) from error

    def require_same_settings(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Raises if settings have changed since the work began; where the data are stored is not one of them."""
        for key, old, new in differences(before, now):
            if not key.endswith(CHANGEABLE):
                raise InputError(
                    f"{self.path}: {key} is {new!r}, but this {self._kind.name} began with {old!r}; "
                    "settings cannot change"
                )

    def require_same_data(self, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        """Raises if any of the data now in use are not those that the work began with."""
        if any(before.get(name) != fingerprint for name, fingerprint in now.items()):
            raise InputError(
                f"{self.path}: the data have changed since this {self._kind.name} began; going on needs the same data"
            )

    def changed_versions(self, before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
        """What to tell the user if other versions go on with this work; None if they are equal or unknown."""
        changed = [
            f"{name} {before[name]} (now {now[name]})" for name in now if before.get(name, now[name]) != now[name]
        ]
        if not changed:
            return None
        return (
            f"{self.path}: this {self._kind.name} began with {' and '.join(changed)}; "
            "its numbers may differ from those of one that was never stopped"
        )

    def unwritable(self, error: OSError) -> InputError:
        return InputError(f"--out: {self.path} cannot be written ({error.strerror})")
