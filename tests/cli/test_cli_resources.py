"""Too little of everything, for real: disk, permissions, memory, open files. One line each, and a way on."""

import ctypes
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copy, which
from typing import Any, NamedTuple

import numpy as np
import pytest
from safetensors.torch import load_file

from cli.conftest import TINY, Command
from cli.processes import LIMIT
from factories import same_tensors, timeless
from remem.cli.main import main
from remem.storage.generations import save_generation
from remem.storage.tensorfile import Snapshot

FLAGS = (*TINY, "--set", "net.hidden=[128,128]", "--quiet")
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2  # of Linux


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
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
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


class Whole(NamedTuple):
    """The run that had enough of everything, and the bytes of its checkpoints by phase."""

    out: Path
    checkpoints: list[int]


@pytest.fixture(scope="module")
def whole(vectors: str, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    out, sizes = tmp_path_factory.mktemp("whole") / "run", list[int]()

    def noted(path: Path, snapshot: Snapshot) -> None:
        save_generation(path, snapshot)
        sizes.append(path.stat().st_size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("remem.runs.writer.save_generation", noted)
        with pytest.raises(SystemExit, match="0"):
            main(["run", "--dataset", vectors, *FLAGS, "--out", str(out)])
    return Whole(out, sizes)


def test_a_disk_that_fills_up_inside_a_checkpoint(vectors: str, whole: Whole, remem: Command, tmp_path: Path) -> None:
    """There is room for the checkpoints of phases 0 and 1, and for half of the one of phase 2."""
    first, second, third = whole.checkpoints
    with small_disk(tmp_path / "disk", (first + second + third // 2) // 1024 + 24) as disk:
        out = disk.folder / "run"
        said = remem("run", "--dataset", vectors, *FLAGS, "--out", out)
        assert (said.code, said.err) == (
            2,
            f"error: {out / 'checkpoint.safetensors'}: No space left on device; "
            f"free some space and go on with `remem resume {out}`\n",
        )
        found = [(out / f"checkpoint{name}.safetensors").stat().st_size for name in (".previous", "")]
        assert found == [pytest.approx(first, abs=99), pytest.approx(second, abs=99)]  # but for digits of seconds
        assert not list(out.glob("*.part"))
        again = remem("resume", out, "--quiet")  # still full
        assert (again.code, again.err) == (2, said.err)
        disk.change("size=4m")
        assert remem("resume", out, "--quiet").code == 0
        assert_same_run(out, whole.out)


def test_a_checkpoint_that_may_not_be_so_large(vectors: str, whole: Whole, remem: Command, tmp_path: Path) -> None:
    """The same without a disk of its own: the last checkpoint is the first file above the limit."""
    _, second, third = whole.checkpoints
    assert third > second + 200
    out, limit = tmp_path / "run", (second + third) // 2
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
    assert (out / "checkpoint.safetensors").stat().st_size == pytest.approx(second, abs=99)
    assert (out / "checkpoint.previous.safetensors").exists()
    assert remem("resume", out, "--quiet").code == 0
    assert_same_run(out, whole.out)


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


def bound_by_permissions() -> None:
    """In a new process of root: what gives root access to everything is gone from now on."""
    library = ctypes.CDLL(None, use_errno=True)
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        if library.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")


def python(*words: object) -> subprocess.CompletedProcess[str]:
    """Python as a user whom permissions bind."""
    root = os.geteuid() == 0
    return subprocess.run(
        [sys.executable, *map(str, words)],
        preexec_fn=bound_by_permissions if root else None,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def plainly(*words: object) -> tuple[int, str]:
    ended = python("-m", "remem", *words)
    return ended.returncode, ended.stderr


@pytest.fixture
def binding(tmp_path: Path) -> None:
    """Skips where permissions bind nobody."""
    (tmp_path / "closed file").touch(mode=0)
    if os.geteuid() == 0 and not sys.platform.startswith("linux"):
        pytest.skip("root may do anything")
    try:
        ended = python("-c", f"open({str(tmp_path / 'closed file')!r})")
    except subprocess.SubprocessError as error:
        pytest.skip(f"root may do anything ({error})")
    if ended.returncode == 0:
        pytest.skip("permissions do not count here")


@pytest.mark.usefixtures("binding")
def test_files_and_folders_without_permission(vectors: str, tmp_path: Path) -> None:
    data = tmp_path / "data.npz"
    copy(vectors.removeprefix("npz:"), data)
    run = ["run", "--dataset", f"npz:{data}", *FLAGS]
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    assert plainly(*run, "--out", closed / "run") == (
        2,
        f"error: --out: {closed / 'run'} cannot be written (Permission denied)\n",
    )
    out = tmp_path / "run"
    assert plainly(*run, "--out", out) == (0, "")
    (out / "result.json").unlink()
    for path, words in (
        (out / "checkpoint.safetensors", ["resume", out]),
        (out / "config.json", ["resume", out]),
        (data, [*run, "--out", tmp_path / "other"]),
    ):
        path.chmod(0)
        line = f"error: {path}: Permission denied; change its permissions, or choose another\n"
        assert plainly(*words) == (2, line)
        path.chmod(0o644)
    assert plainly("resume", out, "--quiet") == (0, "")


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
    large = np.zeros((1200, 2**16), np.float32)  # 315 MB
    np.savez_compressed(path, x_train=large, y_train=labels, x_test=large[::200], y_test=labels[::200])
    code, line = with_limit("memory", 2**27, ["run", "--dataset", f"npz:{path}", *FLAGS, "--out", tmp_path / "run"])
    assert (code, line.count("\n")) == (1, 1), line
    assert line.startswith("error: out of memory (300. MiB at once); ")
    assert not (tmp_path / "run").exists()


def test_too_few_open_files(vectors: str, tmp_path: Path) -> None:
    code, line = with_limit("files", 1, ["run", "--dataset", vectors, *FLAGS, "--out", tmp_path / "run"])
    assert (code, line.count("\n")) == (2, 1), line
    assert "Too many open files" in line
    assert line.endswith("raise the limit on open files (`ulimit -n`)\n")
