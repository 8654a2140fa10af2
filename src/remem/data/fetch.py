"""Downloads data sets: resumes interrupted downloads, verifies checksums, and moves the unpacked folder into place."""

import http.client
import os
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pooch

from remem.errors import DamagedFileError, InputError
from remem.registry import Registry
from remem.storage.atomic import folder_lock

Progress = Callable[[int, int | None], None]  # bytes so far, total bytes if the server sends them

ATTEMPTS = 5  # connections before an interrupted download is reported to the user
PAUSE = 1.0  # seconds between connections
TIMEOUT = 60.0  # seconds without a byte
CHUNK = 1 << 18


@dataclass(frozen=True)
class Download:
    """A tar archive on the web, the folder it unpacks to and the files it must contain."""

    url: str
    digest: str  # algorithm:hex
    folder: str
    files: tuple[str, ...]

    def lacking(self, folder: Path) -> list[str]:
        return [file for file in self.files if not (folder / file).is_file()]


DOWNLOADS: Registry[Download] = Registry("downloadable data set")
DOWNLOADS.add(
    "cifar100",
    Download(
        url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        digest="md5:eb9058c3a382ffc7106e4002c42a8d85",
        folder="cifar-100-python",
        files=("train", "test", "meta"),
    ),
)

_IMAGENET = (
    "its licence asks every user to register; get ILSVRC2012 from image-net.org and put it below the data root "
    "as imagenet/train/<wnid>/*.JPEG and imagenet/val/<wnid>/*.JPEG"
)
_BUILT_IN = "there is nothing to download, it comes with remem"
BY_HAND = {
    "imagenet-full": _IMAGENET,
    "imagenet-subset-lucir": _IMAGENET,
    "imagenet-subset-podnet": _IMAGENET,
    "mini-imagenet": "its pictures are ImageNet's; put your copy below the data root as "
    "mini-imagenet/train/<class>/<image> and mini-imagenet/val/<class>/<image>",
    "glyphs": _BUILT_IN,
    "digits": _BUILT_IN,
}


def fetch(
    name: str, root: Path, *, progress: Progress | None = None, url: str | None = None, digest: str | None = None
) -> Path:
    """Downloads a data set below `root` and returns its folder; a complete folder is not downloaded again.

    `url` and `digest` (algorithm:hex) replace the official ones, for mirrors.
    """
    if name in BY_HAND:
        raise InputError(f"{name}: not downloaded; {BY_HAND[name]}")
    download = DOWNLOADS[name]
    folder = root / download.folder
    if not download.lacking(folder):
        return folder
    if folder.exists() and not _is_empty(folder):  # its files may belong to the user: delete and overwrite nothing
        lacking = ", ".join(download.lacking(folder))
        raise DamagedFileError(f"{name}: {folder} is there without {lacking}; remove or rename it and run again")
    source = url or download.url
    if not source.startswith(("http://", "https://")):
        raise InputError(f"url: '{source}' given, an address with http:// or https:// expected")
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{name}: cannot create the data root {root} ({error.strerror})") from error
    with folder_lock(root, f"{name}: another process downloads to {root}; wait until it is done, and run again"):
        part = root / f"{download.folder}.tar.part"
        _download(name, source, part, progress or _silent)
        _verify(name, source, part, digest or download.digest)
        _unpack(name, part, folder, download)
        part.unlink()
    return folder


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _silent(done: int, total: int | None) -> None:
    """The default progress callback."""


def _download(name: str, url: str, part: Path, progress: Progress) -> None:
    """Fills `part`; every new connection resumes where the last one ended."""
    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE)
        try:
            if _connect(url, part, progress):
                return
            reason = "connection closed too early"
        except urllib.error.HTTPError as error:
            error.close()
            if error.code < 500:
                raise InputError(f"{name}: {url} answers {error.code} {error.reason}") from error
            reason = f"{error.code} {error.reason}"
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
    held = part.stat().st_size if part.exists() else 0
    raise InputError(f"{name}: download from {url} broke off after {held} bytes ({reason}); run again to resume")


def _connect(url: str, part: Path, progress: Progress) -> bool:
    """Downloads over one connection; returns whether the file is complete, as far as the server sends its size."""
    held = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={held}-"} if held else {})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        error.close()
        if error.headers.get("Content-Range") == f"bytes */{held}":  # the file is complete
            return True
        part.unlink()  # longer than the file on the server: not a part of it
        return False
    with response:
        resumed = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {held}-")
        done = held if resumed else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else None
        with part.open("ab" if resumed else "wb") as file:
            while chunk := response.read(CHUNK):
                file.write(chunk)
                done += len(chunk)
                progress(done, total)
    return total is None or done == total


def _verify(name: str, url: str, part: Path, digest: str) -> None:
    algorithm, _, expected = digest.partition(":")
    found = pooch.file_hash(str(part), alg=algorithm)
    if found != expected.lower():
        part.unlink()
        raise DamagedFileError(
            f"{name}: the file from {url} has {algorithm} {found}, expected {expected}; it was deleted"
        )


def _unpack(name: str, archive: Path, folder: Path, download: Download) -> None:
    """Unpacks into a temporary folder next to `folder` and renames it, so `folder` is complete or absent."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unpacking-") as scratch:
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(scratch, filter="data")  # refuses paths and links that point outside
        except (tarfile.TarError, EOFError) as error:
            archive.unlink()
            raise DamagedFileError(f"{name}: the archive cannot be unpacked ({error})") from error
        inside = Path(scratch) / folder.name
        if lacking := download.lacking(inside):
            archive.unlink()
            raise DamagedFileError(f"{name}: the archive holds no {folder.name}/{lacking[0]}")
        if folder.exists():
            folder.rmdir()  # it is empty; not every system can rename onto a folder
        os.replace(inside, folder)
