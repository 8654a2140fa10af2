"""Too little of everything, for real: disk, permissions, memory, open files. One line each, and a way on."""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copy, rmtree, which
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

from cli.conftest import TINY, Command
from cli.processes import LIMIT
from factories import same_tensors, timeless

FLAGS = (*TINY, "--set", "net.hidden=[64]", "--quiet")
NOBODY = 65534


class SmallDisk:
    """A file system of some kilobytes in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def change(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", self.folder], check=True, capture_output=True)


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[SmallDisk]:
    """Mounts one; skips where that is not allowed."""
    folder.mkdir()
    if not sys.platform.startswith("linux") or which("mount") is None:
        pytest.skip("mounts a tmpfs; needs Linux")
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder]
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"may not mount a tmpfs: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True, capture_output=True)


def outcome(out: Path) -> Any:
    return timeless(json.loads((out / "result.json").read_text())), load_file(out / "model.safetensors")


def assert_same_run(out: Path, whole: Path) -> None:
    (result, weights), (expected, others) = outcome(out), outcome(whole)
    assert result == expected
    assert same_tensors(weights, others)


@pytest.fixture(scope="module")
def whole(vectors: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that had enough of everything."""
    out = tmp_path_factory.mktemp("whole") / "run"
    command = [sys.executable, "-m", "remem", "run", "--dataset", vectors, *FLAGS, "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT)
    return out


def checkpoints(out: Path) -> list[int]:
    """Kilobytes of the last checkpoint and of the one before it."""
    names = ("checkpoint.safetensors", "checkpoint.previous.safetensors")
    return [-(-(out / name).stat().st_size // 4096) * 4 for name in names]


def test_a_disk_that_fills_up_inside_a_checkpoint(vectors: str, whole: Path, remem: Command, tmp_path: Path) -> None:
    """There is room for the checkpoints of phases 0 and 1, and for half of the one of phase 2."""
    last, before = checkpoints(whole)
    with small_disk(tmp_path / "disk", 2 * before + last // 2 + 24) as disk:
        out = disk.folder / "run"
        said = remem("run", "--dataset", vectors, *FLAGS, "--out", out)
        assert (said.code, said.err) == (
            2,
            f"error: {out / 'checkpoint.safetensors'}: No space left on device; "
            "free some space and go on with the same command or `remem resume`\n",
        )
        assert remem("check", out).code == 0
        assert not list(out.glob("*.part"))
        again = remem("resume", out, "--quiet")  # still full
        assert (again.code, again.err.count("\n")) == (2, 1), again
        disk.change("size=2m")
        assert remem("resume", out, "--quiet").code == 0
        assert_same_run(out, whole)


def test_a_checkpoint_that_may_not_be_so_large(vectors: str, whole: Path, remem: Command, tmp_path: Path) -> None:
    """The same without a disk of its own: the last checkpoint is the first file above the limit."""
    sizes = [(whole / name).stat().st_size for name in ("checkpoint.safetensors", "checkpoint.previous.safetensors")]
    assert sizes[0] > sizes[1]
    out, limit = tmp_path / "run", sizes[1]
    ended = subprocess.run(
        [sys.executable, "-m", "remem", "run", "--dataset", vectors, *FLAGS, "--out", str(out)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.startswith(f"error: {out / 'checkpoint.safetensors'}: File too large; ")
    assert ended.stderr.count("\n") == 1
    assert (out / "checkpoint.safetensors").stat().st_size == limit  # of phase 1
    assert (out / "checkpoint.previous.safetensors").exists()
    assert remem("resume", out, "--quiet").code == 0
    assert_same_run(out, whole)


def test_a_disk_that_is_full_from_the_beginning(vectors: str, remem: Command, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64) as disk:
        (disk.folder / "ballast").write_bytes(bytes(64 * 1024 - 4096))
        for words in (
            ("run", "--dataset", vectors, *FLAGS),
            ("learn-policy", "--dataset", vectors, *TINY, "--base-classes", "4", "--workers", "1"),
        ):
            said = remem(*words, "--out", disk.folder / words[0])
            assert (said.code, said.err.count("\n")) == (2, 1), said
            assert "No space left on device" in said.err
            assert str(disk.folder / words[0]) in said.err


def test_a_disk_that_cannot_be_written(vectors: str, remem: Command, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1024) as disk:
        out = disk.folder / "run"
        assert remem("run", "--dataset", vectors, *FLAGS, "--out", out).code == 0
        (out / "result.json").unlink()  # as a kill just before it was written
        disk.change("ro")
        said = remem("run", "--dataset", vectors, *FLAGS, "--out", disk.folder / "other")
        assert (said.code, said.err) == (
            2,
            f"error: --out: {disk.folder / 'other'} cannot be written (Read-only file system)\n",
        )
        said = remem("resume", out)
        assert (said.code, said.err.count("\n")) == (2, 1), said
        assert "Read-only file system; choose a folder that can be written" in said.err
        assert str(out) in said.err
        disk.change("rw")
        assert remem("resume", out, "--quiet").code == 0


class Plain:
    """The command as a user without privileges, who owns nothing but `home`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            os.chown(home, NOBODY, NOBODY)

    def python(self, *words: object) -> subprocess.CompletedProcess[str]:
        own = {"HOME": str(self.home), "MPLCONFIGDIR": str(self.home), "PYTHONDONTWRITEBYTECODE": "1"}
        command, environment = [sys.executable, *map(str, words)], {**os.environ, **own}
        return subprocess.run(
            command, env=environment, cwd=self.home, capture_output=True, text=True, timeout=LIMIT, **self._user
        )

    def remem(self, *words: object) -> tuple[int, str]:
        ended = self.python("-m", "remem", *words)
        return ended.returncode, ended.stderr


@pytest.fixture
def plain() -> Iterator[Plain]:
    """In a folder that all may enter: those of pytest are closed to others."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    (place / "home").mkdir()
    user = Plain(place / "home")
    if user.python("-c", "import remem").returncode:
        rmtree(place)
        pytest.skip("a user without privileges cannot read the package")
    yield user
    rmtree(place)


def test_files_and_folders_without_permission(vectors: str, plain: Plain) -> None:
    data = plain.home / "data.npz"
    copy(vectors.removeprefix("npz:"), data)
    data.chmod(0o644)
    run = ["run", "--dataset", f"npz:{data}", *FLAGS]
    closed = plain.home / "closed"
    closed.mkdir(mode=0o555)
    assert plain.remem(*run, "--out", closed / "run") == (
        2,
        f"error: --out: {closed / 'run'} cannot be written (Permission denied)\n",
    )
    out = plain.home / "run"
    assert plain.remem(*run, "--out", out) == (0, "")
    (out / "result.json").unlink()
    for name in ("checkpoint.safetensors", "config.json"):
        (out / name).chmod(0)
        code, line = plain.remem("resume", out)
        assert (code, line) == (
            2,
            f"error: {out / name}: Permission denied; change its permissions, or choose another\n",
        )
    data.chmod(0)
    code, line = plain.remem(*run, "--out", plain.home / "other")
    assert (code, line.count("\n")) == (2, 1), line
    assert f"{data}" in line
    assert "Permission denied" in line


LIMITED = """
import os, resource, sys
import numpy, torch
import remem.cli.run, remem.runs.run, remem.data.arrays, remem.methods.table  # before the limit
from remem.cli.main import main

kind, amount = sys.argv[1], int(sys.argv[2])
if kind == "memory":
    amount += int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (amount, amount))
else:
    amount += max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (amount, amount))
main(sys.argv[3:])
"""


def with_limit(kind: str, amount: int, words: Sequence[object]) -> tuple[int, str]:
    """The command with so many more bytes, or open files, than it has after its imports."""
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs /proc")
    command = [sys.executable, "-c", LIMITED, kind, str(amount), *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    return ended.returncode, ended.stderr


def test_a_network_that_does_not_fit_into_memory(vectors: str, tmp_path: Path) -> None:
    large = ("--set", "net.hidden=[20000,20000]")
    code, line = with_limit("memory", 2**29, ["run", "--dataset", vectors, *FLAGS, *large, "--out", tmp_path / "run"])
    assert (code, line.count("\n")) == (1, 1), line
    assert line.startswith("error: out of memory (1600000000 bytes at once); ")


def test_a_data_set_that_does_not_fit_into_memory(tmp_path: Path) -> None:
    path, labels = tmp_path / "large.npz", np.repeat(np.arange(6), 200)
    large = np.zeros((1200, 2**17), np.float32)  # 629 MB
    np.savez_compressed(path, x_train=large, y_train=labels, x_test=large[::200], y_test=labels[::200])
    code, line = with_limit("memory", 2**28, ["run", "--dataset", f"npz:{path}", *FLAGS, "--out", tmp_path / "run"])
    assert (code, line.count("\n")) == (1, 1), line
    assert line.startswith("error: out of memory (")
    assert not (tmp_path / "run").exists()


def test_too_few_open_files(vectors: str, tmp_path: Path) -> None:
    code, line = with_limit("files", 1, ["run", "--dataset", vectors, *FLAGS, "--out", tmp_path / "run"])
    assert (code, line.count("\n")) == (2, 1), line
    assert "Too many open files" in line
    assert line.endswith("raise the limit on open files (`ulimit -n`)\n")
