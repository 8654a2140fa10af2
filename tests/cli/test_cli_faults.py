"""Faults of the machine and strange input: one line with the file and the way on, exit code 2; `--debug` shows more."""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from PIL import Image

from cli.conftest import TINY, Command
from cli.processes import LIMIT
from remem.cli.boundary import explain, without_debug


def loop(folder: Path) -> Path:
    (folder / "loop").symlink_to(folder / "loop")
    return folder / "loop"


def test_a_file_that_cannot_grow_is_named(vectors: str, tmp_path: Path) -> None:
    """A limit on the size of files, in a process of its own: the first file above it is the checkpoint."""
    out = tmp_path / "run"
    command = [sys.executable, "-m", "remem", "run", "--dataset", vectors, *TINY, "--set", "net.hidden=[64]"]
    ended = subprocess.run(
        [*command, "--out", str(out)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000)),
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (
        2,
        f"error: {out / 'checkpoint.safetensors'}: File too large; raise the limit on the size of files and go on with "
        f"`remem resume {out}`\n",
    )
    assert sorted(path.name for path in out.iterdir()) == ["config.json", "log.jsonl"]


def test_a_damaged_image_gets_one_line(tmp_path: Path) -> None:
    """Pillow logs a line of its own about this TIFF. In a process of its own: pytest takes all logs."""
    for part, label in product(("train", "val"), "ab"):
        (tmp_path / part / label).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / part / label / "1.tif")
    path = tmp_path / "train" / "a" / "1.tif"
    samples_per_pixel = b"\x15\x01\x03\x00\x01\x00\x00\x00"
    content = path.read_bytes()
    assert samples_per_pixel + b"\x03\x00" in content
    path.write_bytes(content.replace(samples_per_pixel + b"\x03\x00", samples_per_pixel + b"\x00\x08"))
    command = [sys.executable, "-m", "remem", "plan", "--dataset", f"folder:{tmp_path}", "--phases", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert ended.returncode == 2
    [line] = ended.stderr.splitlines()
    assert str(path) in line


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 kB, which root can have."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("command", ["run", "study"])
def test_a_full_disk_ends_in_one_line_with_the_way_on(
    command: str, remem: Command, vectors: str, small_disk: Path, tmp_path: Path
) -> None:
    out = small_disk / "my out"
    flags = ["--dataset", vectors, *TINY, "--set", "net.hidden=[64]", "--quiet"]
    if command == "study":
        file = tmp_path / "study.toml"
        file.write_text(f"[data]\nname = '{vectors}'\n[scenario]\nphases = 2\n[study]\nseeds = [0]\n")
        flags = [str(file), "--workers", "1", "--set", "train.epochs=1", "--set", "net.hidden=[64]", "--quiet"]
    filler = small_disk / "filler"
    filler.write_bytes(bytes(40_000))
    said = remem(command, *flags, "--out", out)
    assert (said.code, said.err.count("\n")) == (2, 1), said
    assert "No space left on device; free some space and go on with `remem resume" in said.err
    assert f"remem resume '{out}'" in said.err
    filler.unlink()
    subprocess.run(["mount", "-o", "remount,size=10m", str(small_disk)], check=True)
    assert remem("resume", out, "--quiet").code == 0
    assert remem("check", out).code == 0


def test_links_in_a_circle_and_long_names_are_one_line(remem: Command, tmp_path: Path) -> None:
    for path, what in ((loop(tmp_path), "levels of symbolic links"), (tmp_path / ("x" * 300), "File name too long")):
        for command in (["resume", path], ["predict", path, path], ["run", path, "--out", tmp_path / "run"]):
            said = remem(*command)
            assert (said.code, said.err.count("\n")) == (2, 1), said
        said = remem("run", "--dataset", f"npz:{path}", "--out", tmp_path / "run")
        assert (said.code, said.err.count("\n")) == (2, 1), said
        assert what in said.err


STRANGE = {
    "no such user": ["--dataset", "folder:~nosuchuser/images"],
    "a home of no user": ["--data-root", "~nosuchuser", "--dataset", "cifar100"],
    "many digits": ["--seed", "9" * 5000],
    "many digits of an order": ["--order", f"seed:{'9' * 5000}"],
    "many digits of a budget": ["--budget", "9" * 5000],
    "many digits of a setting": ["--set", f"train.epochs={'9' * 5000}"],
    "deep setting": ["--set", f"net.hidden={'[' * 3000}{']' * 3000}"],
    "deep key": ["--set", f"{'a.' * 3000}b=1"],
    "a date": ["--set", "train.epochs=2020-01-01"],
}


@pytest.mark.parametrize("case", STRANGE)
def test_strange_values_are_one_line(case: str, remem: Command, vectors: str, tmp_path: Path) -> None:
    said = remem("run", "--dataset", vectors, *TINY, *STRANGE[case], "--out", tmp_path / "run")
    assert (said.code, said.err.count("\n")) == (2, 1), said


@pytest.mark.parametrize(
    "text",
    [
        "[study]\nseeds = [1]\nvary = { 'train.lr' = [2020-01-01] }\n",
        "x = " + "[" * 2000 + "]" * 2000,
        "x = " + "9" * 5000,
        ".".join("a" * 2000) + " = 1",
        "x = 12:00:00\n",
        "\ud800",
    ],
)
@pytest.mark.parametrize("command", ["run", "study"])
def test_strange_files_are_one_line(text: str, command: str, remem: Command, tmp_path: Path) -> None:
    path = tmp_path / "file.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    said = remem(command, path, "--out", tmp_path / "out")
    assert (said.code, said.err.count("\n")) == (2, 1), said
    assert str(path) in said.err


def test_debug_shows_the_traceback_wherever_it_stands(remem: Command, tmp_path: Path) -> None:
    for words in (["--debug", "resume", tmp_path], ["resume", tmp_path, "--debug"]):
        said = remem(*words)
        assert said.code == 2
        assert said.err.startswith("Traceback")
        assert said.err.splitlines()[-1].startswith(f"error: {tmp_path}: no run, learning or study")
    assert without_debug(["run", "--", "--debug"]) == (["run", "--", "--debug"], False)


def test_errors_of_the_system_by_what_the_user_can_do(tmp_path: Path) -> None:
    def error_of(path: Path) -> OSError:
        try:
            path.open().close()
        except OSError as error:
            return error
        raise AssertionError

    for path, way in ((tmp_path / "none", "check the path"), (tmp_path, "expected a file, not a folder")):
        code, line = explain(error_of(path)) or (0, "")
        assert (code, line.startswith(f"{path}: "), line.endswith(way)) == (2, True, True)
    assert explain(OSError(5, "Input/output error", "disk")) == (1, "disk: Input/output error")
    assert (explain(MemoryError()) or (0, ""))[0] == 1
    assert explain(KeyError("a defect")) is None
