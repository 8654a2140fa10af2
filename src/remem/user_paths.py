"""Paths as users write them."""

from pathlib import Path

from remem.errors import InputError


def expand(path: str | Path) -> Path:
    """The path with `~` and `~name` replaced by home folders."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise InputError(f"{path}: no such home folder; expected a path without ~, or with that of a user") from error
