"""JSON documents with a format number: compact, written atomically, read with one line for whatever is wrong."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from remem.errors import DamagedFileError
from remem.storage.atomic import write_atomically
from remem.types import Json

Migrations = Mapping[int, Callable[[Json], Json]]  # from each older format to the one after it


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Compact, one line."""
    write_atomically(path, (json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n").encode())


def read_json(path: Path, what: str, *, format: int, migrations: Migrations | None = None) -> Json:
    """A document of the current format, migrated if it is older; `what` names it in errors."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        version = document["format"]
        while version != format and version in (migrations or {}):
            document = (migrations or {})[version](document)
            version += 1
        if version != format:
            raise DamagedFileError(f"{path}: format {version!r}, expected {format}")
        return dict(document)
    except FileNotFoundError as error:
        raise DamagedFileError(f"{path}: no such file; expected the {what}") from error
    except DamagedFileError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedFileError(f"{path}: not the {what} ({error})") from error
