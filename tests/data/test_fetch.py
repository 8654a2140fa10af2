"""fetch.py against a local web server that drops connections, ignores Range, or serves the wrong file."""

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from remem.data import fetch as module
from remem.data.fetch import fetch
from remem.errors import DamagedFileError, InputError
from remem.storage.atomic import folder_lock

FOLDER = "cifar-100-python"


def packed(files: dict[str, bytes], link: tuple[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        if link is not None:
            info = tarfile.TarInfo(link[0])
            info.type, info.linkname = tarfile.SYMTYPE, link[1]
            tar.addfile(info)
    return buffer.getvalue()


NOISE = b"".join(hashlib.sha256(bytes([i % 256, i // 256])).digest() for i in range(20_000))  # does not compress
ARCHIVE = packed({f"{FOLDER}/train": NOISE, f"{FOLDER}/test": b"rows", f"{FOLDER}/meta": b"names"})
DIGEST = f"md5:{hashlib.md5(ARCHIVE).hexdigest()}"


class Server(ThreadingHTTPServer):
    """Serves `content`; the k-th response is truncated after `cuts[k]` bytes, if there is such an entry."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = ARCHIVE
        self.ranges = True
        self.sized = True
        self.status = 200
        self.cuts: list[int] = []
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/file.tar.gz"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.asked.append(asked)
        whole = self.server.content
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.server.ranges else 0
        if self.server.status != 200:
            self.send_error(self.server.status)
            return
        if asked and self.server.ranges and start >= len(whole):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(whole)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(whole) - 1}/{len(whole)}")
        if self.server.sized:
            self.send_header("Content-Length", str(len(whole) - start))
        self.end_headers()
        cut = self.server.cuts.pop(0) if self.server.cuts else len(whole)
        self.wfile.write(whole[start:][:cut])

    def log_message(self, format: str, *args: object) -> None:
        """Suppresses the log."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(module, "PAUSE", 0.0)
    monkeypatch.setenv("no_proxy", "*")
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def names_in(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def assert_whole(root: Path, folder: Path) -> None:
    assert folder == root / FOLDER
    assert names_in(root) == [FOLDER]
    assert (folder / "train").read_bytes() == NOISE
    assert (folder / "meta").read_bytes() == b"names"


def test_a_file_is_fetched_over_one_connection(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    root = tmp_path / "made" / "here"
    folder = fetch(
        "cifar100", root, progress=lambda done, total: seen.append((done, total)), url=server.url, digest=DIGEST
    )
    assert_whole(root, folder)
    assert server.asked == [None]
    assert seen[-1] == (len(ARCHIVE), len(ARCHIVE))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_complete_folders_are_not_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    for name in ("train", "test", "meta"):
        (tmp_path / FOLDER / name).touch()
    assert fetch("cifar100", tmp_path, url=server.url, digest=DIGEST) == tmp_path / FOLDER
    assert server.asked == []


def test_an_empty_folder_is_filled(server: Server, tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    assert_whole(tmp_path, fetch("cifar100", tmp_path, url=server.url, digest=DIGEST))


def test_a_folder_with_other_content_is_not_touched(server: Server, tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "train").write_bytes(b"mine")
    with pytest.raises(DamagedFileError, match=rf"{FOLDER} is there without test, meta; remove or rename it"):
        fetch("cifar100", tmp_path, url=server.url, digest=DIGEST)
    assert server.asked == []
    assert (tmp_path / FOLDER / "train").read_bytes() == b"mine"


def test_a_dropped_connection_is_resumed(server: Server, tmp_path: Path) -> None:
    server.cuts = [100_000, 50_000]
    assert_whole(tmp_path, fetch("cifar100", tmp_path, url=server.url, digest=DIGEST))
    assert server.asked == [None, "bytes=100000-", "bytes=150000-"]


def test_a_later_call_resumes_too(server: Server, tmp_path: Path) -> None:
    server.cuts = [1000] * module.ATTEMPTS
    with pytest.raises(InputError, match=r"broke off after 5000 bytes .*run again to resume"):
        fetch("cifar100", tmp_path, url=server.url, digest=DIGEST)
    assert names_in(tmp_path) == [f"{FOLDER}.tar.part"]
    assert_whole(tmp_path, fetch("cifar100", tmp_path, url=server.url, digest=DIGEST))
    assert server.asked[-1] == "bytes=5000-"


def test_a_server_without_ranges_restarts_the_download(server: Server, tmp_path: Path) -> None:
    server.ranges, server.cuts = False, [100_000]
    assert_whole(tmp_path, fetch("cifar100", tmp_path, url=server.url, digest=DIGEST))
    assert server.asked == [None, "bytes=100000-"]


def test_a_server_that_sends_no_size(server: Server, tmp_path: Path) -> None:
    server.sized = False
    totals: set[int | None] = set()
    folder = fetch("cifar100", tmp_path, progress=lambda _, total: totals.add(total), url=server.url, digest=DIGEST)
    assert_whole(tmp_path, folder)
    assert totals == {None}


def test_a_complete_part_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / f"{FOLDER}.tar.part").write_bytes(ARCHIVE)
    assert_whole(tmp_path, fetch("cifar100", tmp_path, url=server.url, digest=DIGEST))
    assert server.asked == [f"bytes={len(ARCHIVE)}-"]


def test_a_part_that_is_too_long_restarts_the_download(server: Server, tmp_path: Path) -> None:
    (tmp_path / f"{FOLDER}.tar.part").write_bytes(ARCHIVE + b"more")
    assert_whole(tmp_path, fetch("cifar100", tmp_path, url=server.url, digest=DIGEST))
    assert server.asked == [f"bytes={len(ARCHIVE) + 4}-", None]


def test_a_wrong_file_is_refused_and_removed(server: Server, tmp_path: Path) -> None:
    server.content = packed({f"{FOLDER}/train": b"something else"})
    wrong = hashlib.md5(server.content).hexdigest()
    with pytest.raises(DamagedFileError, match=f"cifar100: .* has md5 {wrong}, expected {DIGEST[4:]}; it was deleted"):
        fetch("cifar100", tmp_path, url=server.url, digest=DIGEST)
    assert names_in(tmp_path) == []


def test_a_stale_part_is_refused_and_deleted(server: Server, tmp_path: Path) -> None:
    (tmp_path / f"{FOLDER}.tar.part").write_bytes(b"x" * 1000)
    with pytest.raises(DamagedFileError, match="it was deleted"):
        fetch("cifar100", tmp_path, url=server.url, digest=DIGEST)
    assert_whole(tmp_path, fetch("cifar100", tmp_path, url=server.url, digest=DIGEST))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (packed({f"{FOLDER}/train": b"a", "../escaped": b"b"}), "cannot be unpacked"),
        (packed({f"{FOLDER}/train": b"a"}, link=(f"{FOLDER}/escape", "../../..")), "cannot be unpacked"),
        (packed({"elsewhere/train": b"a"}), f"holds no {FOLDER}/train"),
        (packed({f"{FOLDER}/train": b"a", f"{FOLDER}/meta": b"b"}), f"holds no {FOLDER}/test"),
        (b"no archive at all", "cannot be unpacked"),
        (ARCHIVE[: len(ARCHIVE) // 2], "cannot be unpacked"),
    ],
)
def test_bad_archives_leave_nothing(server: Server, tmp_path: Path, content: bytes, message: str) -> None:
    server.content = content
    root = tmp_path / "root"
    with pytest.raises(DamagedFileError, match=message):
        fetch("cifar100", root, url=server.url, digest=f"sha256:{hashlib.sha256(content).hexdigest()}")
    assert names_in(root) == []
    assert names_in(tmp_path) == ["root"]


def test_a_missing_file_is_not_requested_again(server: Server, tmp_path: Path) -> None:
    server.status = 404
    with pytest.raises(InputError, match="answers 404"):
        fetch("cifar100", tmp_path, url=server.url, digest=DIGEST)
    assert len(server.asked) == 1


def test_server_errors_are_retried(server: Server, tmp_path: Path) -> None:
    server.status = 503
    with pytest.raises(InputError, match=r"after 0 bytes \(503"):
        fetch("cifar100", tmp_path, url=server.url, digest=DIGEST)
    assert len(server.asked) == module.ATTEMPTS


def test_no_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.0)
    monkeypatch.setenv("no_proxy", "*")
    with Server() as closed:
        url = closed.url
    with pytest.raises(InputError, match="broke off after 0 bytes"):
        fetch("cifar100", tmp_path, url=url, digest=DIGEST)


def test_data_sets_without_downloads_are_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"imagenet-full: not downloaded; .*imagenet/train/<wnid>"):
        fetch("imagenet-full", tmp_path)
    with pytest.raises(InputError, match=r"mini-imagenet/train/<class>"):
        fetch("mini-imagenet", tmp_path)
    with pytest.raises(InputError, match="comes with remem"):
        fetch("glyphs", tmp_path)
    with pytest.raises(InputError, match="did you mean 'cifar100'"):
        fetch("cifar10", tmp_path)
    with pytest.raises(InputError, match="http:// or https://"):
        fetch("cifar100", tmp_path, url="file:///etc/passwd")


def test_a_data_root_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot create the data root"):
        fetch("cifar100", tmp_path / "file" / "root")


def test_two_downloads_to_one_place_do_not_mix(tmp_path: Path) -> None:
    with folder_lock(tmp_path), pytest.raises(InputError, match=r"another process downloads to .*; wait until it is"):
        fetch("cifar100", tmp_path, url="http://127.0.0.1:9/never-asked")
