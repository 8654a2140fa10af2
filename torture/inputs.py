"""Mutates inputs of every reader: only the project's own error may come out, quickly and with little memory."""

import io
import json
import pickle
import resource
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from PIL import ExifTags, Image

from remem.data.arrays import read_npz
from remem.data.cifar import read_pickle
from remem.data.images import decode, short_side
from remem.data.orders import class_order
from remem.errors import InputError
from remem.runs.presets import read_toml
from remem.runs.results import load_result
from remem.storage.jsonfile import read_json
from remem.storage.tensorfile import Snapshot, encode_snapshot, load_snapshot

SLOWEST, MOST_BYTES = 5.0, 10**9
NASTY = (b"", b"\xff" * 8, b"\x00" * 8, b"9" * 500, b"[" * 300, b"{", b'"', b"\x7f\xff\xff\xff", b"nan", b"1e999", b".")


@dataclass
class Inputs:
    cases: int = 0
    accepted: int = 0
    slowest: float = 0.0
    memory: int = 0  # bytes that the process grew by
    by_reader: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def _image(kind: str) -> bytes:
    """An image that its EXIF tag turns."""
    buffer, tags = io.BytesIO(), Image.Exif()
    tags[ExifTags.Base.Orientation] = 6
    pixels = np.random.default_rng(0).integers(0, 256, (12, 9, 3), np.uint8)
    Image.fromarray(pixels).save(buffer, kind, exif=tags)
    return buffer.getvalue()


def _npz() -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x_train=np.zeros((4, 3, 3, 1), np.uint8), y_train=np.arange(4))
    return buffer.getvalue()


def _pickle() -> bytes:
    content = {b"data": np.zeros((2, 3072), np.uint8), b"fine_labels": [1, 2]}
    return pickle.dumps(content, protocol=2)


TOML = b'[study]\nseeds = [0, 1]\n[train]\nlr = 0.1\nepochs = 3\n[data]\nname = "digits"\n'
RESULT = json.dumps({"format": 1, "status": "complete", "phases": [{"phase": 0, "accuracy": 0.5}]}).encode()
Reader = tuple[str, Callable[[], bytes], Callable[[Path], Any]]
READERS: tuple[Reader, ...] = (
    ("order.json", lambda: b"[3, 1, 2, 0]", lambda path: class_order(str(path), "x", 4)),
    ("result.json", lambda: RESULT, load_result),
    ("plain.json", lambda: RESULT, lambda path: read_json(path, "document", format=1)),
    ("config.toml", lambda: TOML, read_toml),
    ("arrays.npz", _npz, lambda path: read_npz(path, ("x_train", "y_train"))),
    ("image.png", lambda: _image("PNG"), lambda path: decode(path, 4)),
    ("image.jpg", lambda: _image("JPEG"), lambda path: decode(path, 4)),
    ("image.webp", lambda: _image("WEBP"), lambda path: decode(path, 4)),
    ("image.tiff", lambda: _image("TIFF"), lambda path: decode(path, 4)),
    ("side.jpg", lambda: _image("JPEG"), short_side),
    ("train", _pickle, read_pickle),
    ("file.safetensors", lambda: encode_snapshot(Snapshot({"a": 1}, {"b": torch.arange(5)})), load_snapshot),
)


def mutated(content: bytes, rng: Random) -> bytes:
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(len(content) + 1)
        kind = rng.randrange(5)
        if kind == 0 and place < len(content):
            content = content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :]
        elif kind == 1:
            content = content[:place] + rng.choice(NASTY) + content[place:]
        elif kind == 2:
            content = content[:place] + content[place + rng.randint(1, 8) :]
        elif kind == 3:
            content = content[:place] + content[max(0, place - rng.randint(1, 64)) :]
        else:
            content = content[:place] + rng.randbytes(rng.randint(1, 4)) + content[place + 1 :]
    return content


def torture(cases: int, rng: Random, folder: Path) -> Inputs:
    """So many cases, in turn over all readers."""
    tally, before = Inputs(), _peak()
    seeds = {name: make() for name, make, _ in READERS}
    while tally.cases < cases:
        for name, _, read in READERS:
            path = folder / name
            path.write_bytes(mutated(seeds[name], rng))
            tally.cases += 1
            tally.by_reader[name] += 1
            started = time.perf_counter()
            try:
                read(path)
                tally.accepted += 1
            except InputError as error:
                if "\n" in str(error):
                    tally.failures.append(f"{name}: more than one line: {error}")
            except Exception as error:  # whatever it is, it is a failure
                tally.failures.append(f"{name}: {type(error).__name__}: {error}")
            tally.slowest = max(tally.slowest, time.perf_counter() - started)
    tally.memory = _peak() - before
    if tally.slowest > SLOWEST:
        tally.failures.append(f"a reader took {tally.slowest:.1f} s")
    if tally.memory > MOST_BYTES:
        tally.failures.append(f"readers took {tally.memory / 1e9:.1f} GB")
    return tally


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
