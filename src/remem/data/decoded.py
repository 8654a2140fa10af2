"""A disk cache of decoded images: memory-mapped chunk files with exactly the values that the source returns."""

import errno
import hashlib
import logging
import math
import shutil
from pathlib import Path

import numpy as np

from remem.data.batches import SMALLEST, batches, prefetched
from remem.data.source import FileSource, Source
from remem.storage.atomic import part_of, sweep, sync, sync_folder
from remem.types import IntArray, Samples, Values

log = logging.getLogger(__name__)

CHUNK_BYTES = 2**26
MOST_CHUNKS = 64  # every chunk stays open, and the number of open files is limited
SLICE_BYTES = 2**24  # decoded at a time, while the previous slice is written
DIGEST_BYTES = 32  # SHA-256 of everything before it, at the end of a chunk file
ABANDONED = 86_400.0  # seconds after which a half-written chunk of a killed process is removed


class DecodedSource:
    """Caches a source of uint8 images in chunk files. Chunks are written atomically, so a crash loses at most one."""

    def __init__(self, source: Source, folder: Path) -> None:
        self._source = source
        self._folder = folder
        self._open: dict[int, Values] = {}

    @property
    def labels(self) -> IntArray:
        return self._source.labels

    @property
    def shape(self) -> tuple[int, ...]:
        return self._source.shape

    @property
    def fingerprint(self) -> str:
        return self._source.fingerprint

    def files(self, rows: IntArray) -> list[bytes]:
        """The files that the images were decoded from."""
        if not isinstance(self._source, FileSource):
            raise ValueError("the images of this source are not files")
        return self._source.files(rows)

    @property
    def chunk_rows(self) -> int:
        return max(1, CHUNK_BYTES // math.prod(self.shape), math.ceil(len(self.labels) / MOST_CHUNKS))

    def fill(self) -> None:
        """Decodes and writes all missing chunks; raises OSError if the folder cannot be written or the disk is full."""
        starts = range(0, len(self.labels), self.chunk_rows)
        absent = [chunk for chunk in range(len(starts)) if self._chunk(chunk) is None]
        if not absent:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        sweep(self._folder, older=ABANDONED)
        if shutil.disk_usage(self._folder).free < len(absent) * self.chunk_rows * math.prod(self.shape):
            raise OSError(errno.ENOSPC, "not enough free space", str(self._folder))
        for chunk in absent:
            self._write(chunk)
            log.info("decoded %d of %d images", min((chunk + 1) * self.chunk_rows, len(self.labels)), len(self.labels))

    def read(self, rows: IntArray) -> Values:
        values = np.empty((len(rows), *self.shape), dtype=np.uint8)
        chunks = rows // self.chunk_rows
        for chunk in np.unique(chunks).tolist():
            stored = self._chunk(chunk)
            wanted = chunks == chunk
            if stored is None:  # the cache folder was emptied during the run
                values[wanted] = self._source.read(rows[wanted])
            else:
                values[wanted] = stored[rows[wanted] - chunk * self.chunk_rows]
        return values

    def _chunk(self, chunk: int) -> Values | None:
        """The memory-mapped chunk, or None if it is missing or damaged."""
        if chunk not in self._open:
            path = self._path(chunk)
            try:
                if not _is_whole(path):
                    return None
                stored = np.load(path, mmap_mode="r", allow_pickle=False)
            except (OSError, ValueError, EOFError):
                return None
            if stored.shape != (len(self._rows(chunk)), *self.shape) or stored.dtype != np.uint8:
                return None
            self._open[chunk] = stored
        return self._open[chunk]

    def _rows(self, chunk: int) -> IntArray:
        start = chunk * self.chunk_rows
        return np.arange(start, min(start + self.chunk_rows, len(self.labels)), dtype=np.int64)

    def _path(self, chunk: int) -> Path:
        return self._folder / f"{chunk:05d}.npy"

    def _write(self, chunk: int) -> None:
        """Writes a temporary file and renames it: two processes may do this at once, and either may be killed."""
        rows = self._rows(chunk)
        slices = batches(Samples(rows, rows), max(SMALLEST, SLICE_BYTES // math.prod(self.shape)), None)
        part = part_of(self._path(chunk))
        header = {"descr": "|u1", "fortran_order": False, "shape": (len(rows), *self.shape)}
        try:
            # Not through a memory map: on a full disk a memory map kills the process, a write raises OSError.
            with part.open("w+b") as file:
                np.lib.format.write_array_header_1_0(file, header)
                file.seek(0)
                digest = hashlib.sha256(file.read())
                for values, _ in prefetched(self._source, slices):
                    file.write(values.data)
                    digest.update(values.data)
                file.write(digest.digest())
                file.flush()
                sync(file.fileno())
            part.replace(self._path(chunk))
            sync_folder(self._folder)
        finally:
            part.unlink(missing_ok=True)


def _is_whole(path: Path) -> bool:
    """Whether a chunk ends with the digest of its content. Chunks of earlier versions do not, and are written again."""
    digest, left = hashlib.sha256(), path.stat().st_size - DIGEST_BYTES
    with path.open("rb") as file:
        while left > 0 and (part := file.read(min(left, SLICE_BYTES))):
            digest.update(part)
            left -= len(part)
        return file.read() == digest.digest()
