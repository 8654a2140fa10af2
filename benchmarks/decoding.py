"""Reading JPEG files: threads that stay against one thread, and against threads that begin with every batch."""

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from benchmarks.table import Row
from benchmarks.timing import alternate, ratio
from remem.data.folder import FolderSource, list_files
from remem.data.images import decode
from remem.threads import THREADS

FILES, BATCH = 128, 64


def make(folder: Path, width: int, height: int) -> None:
    """Smooth noise, which compresses about as a photograph does."""
    rng = np.random.default_rng(0)
    for number in range(FILES):
        coarse = Image.fromarray(rng.integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8))
        path = folder / "train" / "all" / f"{number:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse.resize((width, height), Image.Resampling.BICUBIC).save(path, quality=90)


def one_thread(paths: list[Path], size: int) -> list[NDArray[np.uint8]]:
    return [decode(path, size) for path in paths]


def new_threads(paths: list[Path], size: int) -> list[NDArray[np.uint8]]:
    """A pool for every batch, one picture handed over at a time."""
    shown: list[NDArray[np.uint8]] = []
    for start in range(0, len(paths), BATCH):
        with ThreadPoolExecutor(THREADS) as pool:
            shown += pool.map(lambda path: decode(path, size), paths[start : start + BATCH])
    return shown


def pair(width: int, height: int, size: int, repeats: int) -> list[Row]:
    name = f"decode {FILES} JPEGs, {width} x {height} to {size} px, batches of {BATCH}"
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), width, height)
        files = list_files(Path(folder) / "train", ["all"])
        source, paths = FolderSource(files, size), list(files.paths())

        def ours() -> object:
            return [source.read(np.arange(start, start + BATCH)) for start in range(0, FILES, BATCH)]

        took = alternate(
            {"ours": ours, "one": lambda: one_thread(paths, size), "new": lambda: new_threads(paths, size)},
            repeats,
            time.perf_counter,  # threads share the work
        )
        return [
            ratio(name, took["ours"], took["one"], "one thread"),
            ratio(name, took["ours"], took["new"], f"{THREADS} threads, anew each batch"),
        ]


def rows(repeats: int = 5) -> list[Row]:
    return [*pair(48, 48, 32, repeats), *pair(500, 375, 256, repeats)]
