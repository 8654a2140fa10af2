"""Pickles without their dangers: opcodes are counted before anything is built, and only plain values are built."""

import io
import pickle
import pickletools
from collections import Counter
from pathlib import Path
from typing import Any

from remem.errors import DamagedFileError, is_damage

LARGEST_FILE = 2**29  # bytes; the largest official file has 155 MB
MOST_OPCODES = 2_000_000  # that one has 200,000
MOST_CONTAINERS = 500  # lists, tuples and dictionaries, and so their nesting; that one has 10
LONGEST_NUMBER = 400  # bytes
CONTAINERS = ("TUPLE", "LIST", "DICT", "SET", "REDUCE", "BUILD", "OBJ", "INST", "NEWOBJ", "DUP", "GLOBAL", "PERSID")


class Inert:
    """Replaces numpy's array, dtype and reconstructor in a pickle: stores its arguments and executes nothing."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):
    """Builds only strings, numbers, lists, dicts and `Inert` objects; any other class in the file is refused."""

    ALLOWED = frozenset(
        {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in self.ALLOWED:
            return Inert
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def read_bytes(path: Path) -> bytes:
    """A file that is not larger than any official one could be."""
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise DamagedFileError(f"{path}: {size} bytes; expected at most {LARGEST_FILE}")
    return path.read_bytes()


def unpickle(content: bytes, path: Path, *, trusted: bool = False) -> dict[Any, object]:
    """The dictionary in a pickle; `trusted` skips the counting for a file whose digest is known."""
    try:
        if not trusted:
            check_opcodes(content)
        built = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:  # a damaged pickle can raise anything
        if not is_damage(error):
            raise
        raise DamagedFileError(f"{path}: not a CIFAR-100 file ({error or type(error).__name__})") from error
    if not isinstance(built, dict):
        raise DamagedFileError(f"{path}: not a CIFAR-100 file (it holds no dictionary)")
    return built


def check_opcodes(content: bytes) -> None:
    """Raises ValueError before anything is built if a pickle would take more memory, or nest deeper, than it should.

    Every object needs an opcode, so their number bounds the memory; a place in the memo, which is an array, is a
    number that the file may choose freely.
    """
    counts: Counter[str] = Counter()
    for number, (opcode, argument, _) in enumerate(pickletools.genops(content)):
        name = opcode.name
        if number >= MOST_OPCODES:
            raise ValueError(f"more than {MOST_OPCODES} opcodes")
        if isinstance(argument, int) and "PUT" in name and argument > MOST_OPCODES:
            raise ValueError(f"place {argument} of the memo")
        if isinstance(argument, int) and argument.bit_length() > 8 * LONGEST_NUMBER:
            raise ValueError(f"a number of more than {LONGEST_NUMBER} bytes")
        if name == "FRAME" and isinstance(argument, int) and argument > len(content):
            raise ValueError(f"a frame of {argument} bytes")
        counts["containers"] += name.endswith(CONTAINERS) or name.startswith(("TUPLE", "EXT"))
        if counts["containers"] > MOST_CONTAINERS:
            raise ValueError(f"more than {MOST_CONTAINERS} lists, tuples and dictionaries")
