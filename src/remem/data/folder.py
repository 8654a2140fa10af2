"""`folder:PATH`: images in train/<class>/ and val/<class>/, decoded on every read or cached once on disk."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from pathlib import Path

import numpy as np

from remem.data.decoded import DecodedSource
from remem.data.images import IN_WORDS, decode, short_side
from remem.data.names import Names
from remem.data.preprocessing import Preprocessing
from remem.data.settings import MAX_PIXELS, DataSettings
from remem.data.source import Dataset, DatasetEntry, Source, cache_folder
from remem.errors import DamagedFileError, InputError
from remem.storage.jsonfile import read_json, write_json
from remem.threads import in_threads
from remem.types import IntArray, Values
from remem.user_paths import expand

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm", ".tif", ".tiff")
LARGEST_SIZE = 224  # unless data.image_size is larger
TINY_BYTES = 8192  # file size below which threads wait for the GIL longer than they decode
HASHED = 4096  # names hashed at a time
MEMO_FORMAT = 2
DECODER = "upright rgb, centre square, bilinear, 2"  # increase the number whenever `decode` returns other pixels


@dataclass(frozen=True)
class Files:
    """The list of image files of one split; the files are not opened."""

    folder: Path
    names: Names  # <class>/<image>
    labels: IntArray  # (n,)
    stamps: IntArray  # (n, 2): size, modification time in ns
    ignored: "Counter[str]" = field(default_factory=Counter)  # files of other types, by suffix

    def take(self, rows: IntArray) -> "Files":
        return Files(self.folder, self.names.take(rows), self.labels[rows], self.stamps[rows], self.ignored)

    def paths(self) -> Iterator[Path]:
        return (self.folder / name for name in self.names)

    @cached_property
    def digest(self) -> str:
        """Digest of names, labels, sizes and times; hashing the content would take as long as decoding it."""
        digest, remaining, separator = hashlib.sha256(), iter(self.names), ""
        while names := list(islice(remaining, HASHED)):
            digest.update((separator + "\n".join(names)).encode("utf-8", "surrogateescape"))
            separator = "\n"
        digest.update(self.labels.astype("<i8").tobytes())
        digest.update(self.stamps.astype("<i8").tobytes())
        return digest.hexdigest()


class FolderSource:
    """Decodes images on every read, with threads if files are large; keeps only names and labels in memory."""

    def __init__(self, files: Files, size: int, max_pixels: int = MAX_PIXELS) -> None:
        self._max_pixels = max_pixels
        self._folder, self._names = files.folder, files.names
        self.labels = files.labels
        self.shape = (size, size, 3)
        self._tiny = bool(np.median(files.stamps[:, 0]) < TINY_BYTES) if len(files.stamps) else True
        self.fingerprint = hashlib.sha256(f"{files.digest} {self.shape} {DECODER}".encode()).hexdigest()

    def read(self, rows: IntArray) -> Values:
        values = np.empty((len(rows), *self.shape), dtype=np.uint8)
        images = map(self._decoded, rows.tolist()) if self._tiny else in_threads(self._decoded, rows.tolist())
        for place, image in enumerate(images):
            values[place] = image
        return values

    def files(self, rows: IntArray) -> list[bytes]:
        """The content of the files, for the codec `file`."""
        return [(self._folder / self._names[row]).read_bytes() for row in rows.tolist()]

    def _decoded(self, row: int) -> Values:
        return decode(self._folder / self._names[row], self.shape[0], max_pixels=self._max_pixels)


def class_folders(folder: Path) -> tuple[str, ...]:
    """The classes of a split, sorted; a class's position is its label."""
    return tuple(sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and entry.name[0] != "."))


def list_files(folder: Path, classes: Sequence[str]) -> Files:
    """All images of these classes, sorted by name within a class; hidden files are skipped."""
    names, stamps, ignored = [], [np.empty((0, 2), np.int64)], Counter[str]()
    for name in classes:
        visible = _visible_files(folder / name)
        images = sorted(file for file in visible if file.lower().endswith(SUFFIXES))
        facts = (os.stat(folder / name / image) for image in images)
        numbers = (number for fact in facts for number in (fact.st_size, fact.st_mtime_ns))
        names.append(Names.of(f"{name}/{image}" for image in images))
        stamps.append(np.fromiter(numbers, np.int64, 2 * len(images)).reshape(-1, 2))
        ignored.update(Path(file).suffix.lower() for file in visible if not file.lower().endswith(SUFFIXES))
    labels = np.repeat(np.arange(len(classes)), [len(part) for part in names])
    return Files(folder, Names.joined(names), labels, np.concatenate(stamps), ignored)


def _visible_files(folder: Path) -> list[str]:
    """The files of a class that are not hidden; empty if the folder does not exist."""
    if not folder.is_dir():
        return []
    return [entry.name for entry in os.scandir(folder) if entry.name[0] != "." and entry.is_file()]


def evaluation_folder(folder: Path) -> Path | None:
    """`val`, else `test`; None if there is neither, or a `test` without classes, as competitions hand it out."""
    if (folder / "val").is_dir():
        return folder / "val"
    return folder / "test" if (folder / "test").is_dir() and class_folders(folder / "test") else None


def list_splits(name: str, folder: Path, settings: DataSettings, classes: Sequence[str]) -> tuple[Files, Files, bool]:
    """Training files, test files, and whether the test files were split off `train` because there are no others."""
    train = list_files(folder / "train", classes)
    if not train.names:
        raise DamagedFileError(f"{name}: no {', '.join(SUFFIXES)} files in {folder / 'train'}/<class>/")
    evaluated = evaluation_folder(folder)
    if evaluated is None:
        cut = _share_by_name(train, settings.val_share)
        if not cut.any():
            raise InputError(f"{name}: no class has two images, so none is left to test on; expected a folder val")
        return train.take(np.flatnonzero(~cut)), train.take(np.flatnonzero(cut)), True
    test = list_files(evaluated, classes)
    if not test.names:
        raise DamagedFileError(f"{name}: no {', '.join(SUFFIXES)} files in {evaluated}/<class>/")
    return train, test, False


def _share_by_name(files: Files, share: float) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Marks a share of every class with at least two files: those whose names have the lowest digests."""
    marked = np.zeros(len(files.names), dtype=np.bool_)
    for start, count in zip(*np.unique(files.labels, return_index=True, return_counts=True)[1:], strict=True):
        rows = sorted(range(start, start + count), key=lambda row: _digest(files.names[row]))
        if len(rows) > 1:
            marked[rows[: min(len(rows) - 1, max(1, round(share * len(rows))))]] = True
    return marked


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()


def check_headers(files: Files, *, remember: bool, max_pixels: int = MAX_PIXELS) -> int:
    """The median of the images' shorter sides; raises at the first broken header. `remember` caches the result."""
    if remember:
        memo = cache_folder() / "headers" / f"{_key(files, files.digest)}.json"
        try:
            return int(read_json(memo, "sizes of images", format=MEMO_FORMAT)["short_side"])
        except (DamagedFileError, ValueError, TypeError, KeyError):
            pass
    side_of = partial(short_side, max_pixels=max_pixels)
    sides = np.fromiter(in_threads(side_of, files.paths()), np.int32, len(files.names))
    side = int(np.partition(sides, (len(sides) - 1) // 2)[(len(sides) - 1) // 2])  # the lower median
    if remember:
        with suppress(OSError):
            memo.parent.mkdir(parents=True, exist_ok=True)
            write_json(memo, {"format": MEMO_FORMAT, "short_side": side})
    return side


def _key(files: Files, digest: str) -> str:
    """The cache key. Includes the path, since files in two folders may have equal names, sizes and times."""
    text = f"{os.path.realpath(files.folder)} {digest}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def open_split(files: Files, size: int, settings: DataSettings) -> tuple[Source, tuple[str, ...]]:
    """The split, cached on disk if enabled and small enough, else decoded on every read; and notes for the user."""
    source = FolderSource(files, size, settings.max_pixels)
    if not settings.cache:
        return source, ()
    gigabytes = len(files.names) * size * size * 3 / 1e9
    if gigabytes > settings.cache_gigabytes:
        limit = f"{gigabytes:.0f} GB, data.cache_gigabytes is {settings.cache_gigabytes:g}"
        return source, (f"{files.folder}: images are decoded on every read (decoded they take {limit})",)
    decoded = DecodedSource(source, cache_folder() / "decoded" / _key(files, source.fingerprint))
    try:
        decoded.fill()
    except OSError as error:
        return source, (f"{files.folder}: images are decoded on every read (the cache cannot be written: {error})",)
    return decoded, ()


def load_tree(
    name: str,
    folder: Path,
    settings: DataSettings,
    *,
    preprocessing: Preprocessing,
    classes: Sequence[str] | None = None,
    size: int | None = None,
) -> Dataset:
    """A data set of image files; `classes` selects some of its folders, `size` is the side of the stored images."""
    if classes is None:
        classes = _matching_classes(name, folder)
    train, test, cut = list_splits(name, folder, settings, classes)
    sides = [check_headers(files, remember=settings.cache, max_pixels=settings.max_pixels) for files in (train, test)]
    side = size or min(sides[0], LARGEST_SIZE)
    train_source, train_notes = open_split(train, side, settings)
    test_source, test_notes = open_split(test, side, settings)
    notes = [*train_notes, *test_notes, *_split_notes(folder, settings, cut=cut)]
    notes += ignored_note(folder, train.ignored + (Counter() if cut else test.ignored))
    return Dataset(name, train_source, test_source, tuple(classes), preprocessing, tuple(notes))


def ignored_note(folder: Path, ignored: "Counter[str]") -> list[str]:
    """How many files of other types there are, if any."""
    kinds = ", ".join(f"{count} {suffix or 'without a suffix'}" for suffix, count in sorted(ignored.items()))
    line = f"{folder}: {ignored.total()} files are ignored ({kinds}), since they are not {', '.join(SUFFIXES)}"
    return [line] if ignored else []


def _split_notes(folder: Path, settings: DataSettings, *, cut: bool) -> Iterator[str]:
    """What is evaluated on, where it is not simply `val`."""
    if cut:
        unlabelled = " and test has no class folders" if (folder / "test").is_dir() else ""
        yield f"{folder} has no val{unlabelled}: {settings.val_share:.0%} of every class in train are the test set"
    elif not (folder / "val").is_dir():
        yield f"{folder} has no val: test is the test set"
    elif (folder / "test").is_dir() and class_folders(folder / "test"):
        yield f"{folder} has val and test: val is the test set, and test is not read"


def _matching_classes(name: str, folder: Path) -> tuple[str, ...]:
    """The classes in train; raises if val, or test in its place, has others."""
    if not (folder / "train").is_dir():
        raise DamagedFileError(f"{name}: no folder {folder / 'train'}; expected train/<class>/<image> in {folder}")
    classes = class_folders(folder / "train")
    evaluated = evaluation_folder(folder)
    unknown = () if evaluated is None else set(class_folders(evaluated)) - set(classes)
    if evaluated is not None and unknown:
        where = f"class '{min(unknown)}' is in {evaluated.name}, not in train"
        raise InputError(f"{name}: {where}; every class needs training images")
    return classes


def check_tree(name: str, folder: Path, settings: DataSettings, classes: Sequence[str] | None = None) -> list[str]:
    """Decodes every image; returns a line for each broken image and each class without images."""
    try:
        classes = _matching_classes(name, folder) if classes is None else classes
        splits = list_splits(name, folder, settings, classes)[:2]
    except InputError as error:
        return [str(error)]
    problems, problem_of = [], partial(_problem, max_pixels=settings.max_pixels)
    for files in splits:
        empty = sorted(set(range(len(classes))) - set(files.labels.tolist()))
        problems += [f"{files.folder}: class '{classes[label]}' has no images" for label in empty]
        problems += [problem for problem in in_threads(problem_of, files.paths()) if problem]
    return problems


def _problem(path: Path, max_pixels: int) -> str | None:
    try:
        decode(path, 1, max_pixels=max_pixels)
    except DamagedFileError as error:
        return str(error)
    return None


def _folder(settings: DataSettings) -> Path:
    return expand(settings.name.partition(":")[2])


def load_folder(settings: DataSettings) -> Dataset:
    """The default image size is the median of the training images' shorter sides, at most 224."""
    folder = _folder(settings)
    preprocessing = Preprocessing(mean=None, std=None, augment="crop", flip=True)
    return load_tree(f"folder:{folder.name}", folder, settings, preprocessing=preprocessing, size=settings.side)


def check_folder(settings: DataSettings) -> list[str]:
    return check_tree(settings.name, _folder(settings), settings)


ENTRY = DatasetEntry(
    summary=f"images in train/<class>/ and val/<class>/ (or test/<class>/): {IN_WORDS}, of any size",
    load=load_folder,
    check=check_folder,
)
