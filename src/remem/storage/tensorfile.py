"""One file format for everything with tensors: safetensors with facts, a format number and a checksum.

Files are written atomically, and loading runs no code. When the content changes, the format number grows, and whoever
owns the content provides a migration.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from remem.errors import DamagedFileError, is_damage
from remem.storage.atomic import named, write_atomically
from remem.storage.limits import parse_json
from remem.types import Json

FORMAT = 2


@dataclass(frozen=True)
class Snapshot:
    """Plain facts and tensors, no code: an episode after a phase, a model, or the state of a policy's learning."""

    facts: Json  # JSON
    tensors: dict[str, Tensor]

    def parts(self) -> dict[str, dict[str, Tensor]]:
        """Tensors by prefix: 'memory/rows' -> ['memory']['rows']."""
        parts: dict[str, dict[str, Tensor]] = {}
        for name, value in self.tensors.items():
            part, _, rest = name.partition("/")
            parts.setdefault(part, {})[rest] = value
        return parts


Migration = Callable[[Snapshot], Snapshot]


def save_snapshot(path: Path, snapshot: Snapshot) -> None:
    """Equal snapshots become equal files."""
    write_atomically(path, encode_snapshot(snapshot))


def encode_snapshot(snapshot: Snapshot) -> bytes:
    facts = json.dumps(snapshot.facts)
    head = {"format": FORMAT, "facts": facts, "sha256": digest(facts, snapshot.tensors)}
    # One key: safetensors writes several in any order.
    content: bytes = save(snapshot.tensors, {"remem": json.dumps(head)})
    return content


def load_snapshot(path: Path, migrate: Migration | None = None, *, what: str = "checkpoint") -> Snapshot:
    """The snapshot as it was saved; `migrate` brings one of format 1 up to date, `what` names the file in errors.

    A file that is missing, cut short or changed raises DamagedFileError.
    """
    try:
        if not path.is_file():
            raise DamagedFileError(f"{path}: no such {what}")
        path.open("rb").close()  # safetensors says "no such file" of one that must not be read
        with safe_open(path, framework="pt") as file:
            head = parse_json((file.metadata() or {})["remem"].encode())
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        version, checksum = head.pop("format"), head.pop("sha256", None)
        if version not in (1, FORMAT):
            raise DamagedFileError(f"{path}: format {version}, expected at most {FORMAT}")
        # Models of format 1 keep their facts beside the format, and the oldest of them have no checksum.
        facts = head["facts"] if "facts" in head else json.dumps(head)
        if checksum != digest(facts, tensors) and not (version == 1 and checksum is None):
            raise DamagedFileError(f"{path}: the content does not match its checksum; the file is damaged")
        snapshot = Snapshot(parse_json(facts.encode()), tensors)
        return migrate(snapshot) if version == 1 and migrate is not None else snapshot
    except OSError as error:
        if not is_damage(error):
            raise named(error, path) from error
        raise DamagedFileError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError) as error:
        if isinstance(error, DamagedFileError):
            raise
        raise DamagedFileError(f"{path}: not a whole {what} ({error})") from error


def digest(facts: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of the facts, and of every tensor with its name, type and shape."""
    content = hashlib.sha256(facts.encode())
    for name in sorted(tensors):
        value = tensors[name].numpy()
        content.update(f"{name}{value.dtype}{value.shape}".encode())
        content.update(value.tobytes())
    return content.hexdigest()
