"""Anonymous memory of a run on an image folder, and of the same run on 20 times as many images."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES, DISTINCT, SIDE = 10, 20, 48
SMALL, TIMES = 2000, 20
INDEX_BYTES = 64  # that each further image may cost
SETTINGS = ("data.image_size=16", "train.epochs=1", "finetune.epochs=1")
FLAGS = ["--phases", "2", "--budget", "600", "--quiet", *(part for key in SETTINGS for part in ("--set", key))]


@dataclass(frozen=True)
class Growth:
    """Peaks of anonymous memory in bytes."""

    name: str
    images: tuple[int, int]
    peaks: tuple[int, int]

    @property
    def beyond_index(self) -> int:
        """What the larger run takes more, less what the index of its further images may take."""
        return self.peaks[1] - self.peaks[0] - INDEX_BYTES * (self.images[1] - self.images[0])


def make_tree(root: Path, images: int) -> None:
    """So many training images and a tenth as many for testing: a few files under many names."""
    rng = np.random.default_rng(0)
    for label in range(CLASSES):
        for split, count in (("train", images // CLASSES), ("val", images // CLASSES // 10)):
            folder = root / split / f"class-{label:04}"
            folder.mkdir(parents=True)
            for number in range(count):
                path = folder / f"picture-{number:08}.jpg"
                if number < DISTINCT:
                    noise = rng.integers(0, 128, (SIDE, SIDE, 3)) + 12 * label
                    Image.fromarray(noise.astype(np.uint8)).save(path, quality=90)
                else:
                    os.link(folder / f"picture-{number % DISTINCT:08}.jpg", path)


def peak(tree: Path, work: Path, *flags: str) -> int:
    """The largest RssAnon that a run shows, looked at a hundred times a second."""
    command = [sys.executable, "-m", "remem", "run", "--dataset", f"folder:{tree}", *FLAGS, *flags, "--out"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(work / "cache")}
    process = subprocess.Popen([*command, str(work / "run")], env=environment, stdout=subprocess.DEVNULL)
    most = 0
    while process.poll() is None:
        most = max(most, anonymous_bytes(process.pid))
        time.sleep(0.01)
    if process.returncode:
        raise RuntimeError(f"the run ended with {process.returncode}")
    return most


def anonymous_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # it has just ended
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def growth(small: int, *, cache: bool, flags: tuple[str, ...] = ()) -> Growth:
    """The same run on `small` images and on 20 times as many."""
    peaks = []
    for images in (small, TIMES * small):
        with tempfile.TemporaryDirectory() as name:
            work = Path(name)
            make_tree(work / "images", images)
            peaks.append(peak(work / "images", work, "--set", f"data.cache={str(cache).lower()}", *flags))
    name = "decoded once into the cache" if cache else "decoded on every read"
    return Growth(name, (small, TIMES * small), (peaks[0], peaks[1]))


def rows(small: int = SMALL) -> list[Growth]:
    return [growth(small, cache=cache) for cache in (True, False)]


def main() -> None:
    for row in rows():
        sizes = " -> ".join(f"{peak / 1e6:.0f} MB" for peak in row.peaks)
        print(f"{row.name:<28} {row.images[0]} -> {row.images[1]} images: {sizes}, ", end="")
        print(f"{row.beyond_index / 1e6:.1f} MB beyond {INDEX_BYTES} bytes an image")


if __name__ == "__main__":
    main()
