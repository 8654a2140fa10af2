"""JSON documents with a format number and a checksum: compact, written atomically, read with one line for any fault."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from remem.errors import DamagedFileError, is_damage
from remem.storage.atomic import write_atomically
from remem.storage.limits import parse_json
from remem.types import Json

Migrations = Mapping[int, Callable[[Json], Json]]  # from each older format to the one after it
CHECKSUM = "checksum"
CLOCK = "seconds"  # fields of this name differ from run to run, so they have a digest of their own
_SHA256 = re.compile(r"[0-9a-f]{64}")


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Compact, one line, with a checksum as its last field."""
    write_atomically(path, encode(seal(document)))


def encode(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n").encode()


def seal(document: Mapping[str, Any]) -> Json:
    """The document with its checksum.

    `content` leaves out all seconds: equal runs have equal ones. `seconds` covers everything, so that whoever compares
    two files without their seconds needs to know nothing of checksums.
    """
    plain = json.loads(json.dumps({key: value for key, value in document.items() if key != CHECKSUM}))
    timeless = _timeless(plain)
    checksum = {"content": digest(timeless)}
    if timeless != plain:
        checksum[CLOCK] = digest(plain)
    return {**plain, CHECKSUM: checksum}


def unseal(document: Json, path: Path) -> Json:
    """The document without its checksum; raises if that does not match. Files of earlier versions have none."""
    plain = {key: value for key, value in document.items() if key != CHECKSUM}
    if CHECKSUM in document:
        if seal(plain)[CHECKSUM] != document[CHECKSUM]:
            raise damaged(path)
    elif any(map(_is_checksum, plain.values())):  # the damage is in its name
        raise damaged(path)
    return plain


def damaged(path: Path) -> DamagedFileError:
    return DamagedFileError(f"{path}: the content does not match its checksum; the file is damaged")


def digest(document: Any) -> str:
    """SHA-256 of a JSON value, whatever the order of its fields."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_json(path: Path, what: str, *, format: int, migrations: Migrations | None = None) -> Json:
    """A document of the current format, migrated if it is older; `what` names it in errors."""
    try:
        document, older = parse_json(path.read_bytes()), migrations or {}
        version = document["format"]
        if version != format and version not in older:
            raise DamagedFileError(f"{path}: format {version!r}, expected {format}")
        document = unseal(document, path)
        for number in range(version, format):
            document = older[number](document)
        return dict(document)
    except FileNotFoundError as error:
        raise DamagedFileError(f"{path}: no such file; expected the {what}") from error
    except DamagedFileError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if not is_damage(error):
            raise
        raise DamagedFileError(f"{path}: not the {what} ({error})") from error


def _timeless(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _timeless(value) for key, value in tree.items() if key != CLOCK}
    return [_timeless(value) for value in tree] if isinstance(tree, list) else tree


def _is_checksum(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("content"), str) and bool(_SHA256.match(value["content"]))


def differences(one: Any, other: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Dotted names of the values that differ, with both of them."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in sorted(one.keys() | other.keys()):
            yield from differences(one.get(name), other.get(name), f"{key}.{name}" if key else name)
    elif one != other:
        yield key, one, other
