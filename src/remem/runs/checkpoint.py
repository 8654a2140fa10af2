"""Snapshots on disk: one self-checking safetensors file, written whole or not at all. Loading runs no code."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from remem.episode import Snapshot
from remem.errors import DamagedFileError

FORMAT = 1


def write_atomically(path: Path, content: bytes) -> None:
    """The file is the old one or the new one, never a part: whatever happens in between."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def save_snapshot(path: Path, snapshot: Snapshot) -> None:
    facts = json.dumps(snapshot.facts)
    head = {"format": FORMAT, "facts": facts, "sha256": digest(facts, snapshot.tensors)}
    # One key: safetensors writes several in any order, and equal snapshots should be equal files.
    write_atomically(path, save(snapshot.tensors, {"remem": json.dumps(head)}))


def load_snapshot(path: Path) -> Snapshot:
    """The snapshot as it was saved; a file that is missing, cut short or changed is said to be so."""
    if not path.is_file():
        raise DamagedFileError(f"{path}: no such checkpoint")
    try:
        with safe_open(path, framework="pt") as file:
            head = json.loads((file.metadata() or {})["remem"])
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        facts = head["facts"]
        if head["format"] != FORMAT:
            raise DamagedFileError(f"{path}: format {head['format']}, expected {FORMAT}")
        if head["sha256"] != digest(facts, tensors):
            raise DamagedFileError(f"{path}: the content does not match its checksum; the file is damaged")
        return Snapshot(json.loads(facts), tensors)
    except (SafetensorError, KeyError, OSError, ValueError, TypeError) as error:
        if isinstance(error, DamagedFileError):
            raise
        raise DamagedFileError(f"{path}: not a whole checkpoint ({error})") from error


def digest(facts: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of a file's content: its facts, and every tensor with its name, type and shape."""
    content = hashlib.sha256(facts.encode())
    for name in sorted(tensors):
        value = tensors[name].numpy()
        content.update(f"{name}{value.dtype}{value.shape}".encode())
        content.update(value.tobytes())
    return content.hexdigest()
