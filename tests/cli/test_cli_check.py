"""`remem check`: whole folders are whole, and every damaged file is named with what to do."""

import shutil
from pathlib import Path

import pytest

from cli.conftest import TINY, Command
from remem.cli.main import main
from remem.storage.jsonfile import read_json, write_json

LEARN = ("--phases", "2", "--base-classes", "4", "--budget", "40", "--epochs", "1", "--tasks", "1", "--runs", "2")


@pytest.fixture(scope="module")
def whole(vectors: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, a learning and a study."""
    folder = tmp_path_factory.mktemp("whole")
    study = folder / "study.toml"
    study.write_text(
        f'[study]\npolicies = ["static"]\nseeds = [0, 1]\n[data]\nname = "{vectors}"\n[scenario]\nphases = 2\n'
        "[train]\nepochs = 1\n[finetune]\nepochs = 0\n[net]\nhidden = [8]\n"
    )
    for words in (
        ["run", "--dataset", vectors, *TINY, "--out", folder / "run"],
        ["learn-policy", "--dataset", vectors, *TINY[:-2], *LEARN, "--workers", 1, "--out", folder / "learning"],
        ["study", study, "--workers", 1, "--out", folder / "study"],
    ):
        with pytest.raises(SystemExit, match="0"):
            main([*map(str, words), "--quiet"])
    return folder


def test_whole_folders_are_whole(whole: Path, remem: Command) -> None:
    for kind in ("run", "learning", "study"):
        said = remem("check", whole / kind)
        assert (said.code, said.out, said.err) == (0, f"{whole / kind}: {kind}, whole\n", "")
    (whole / "learning" / "learning.json").rename(whole / "aside")
    assert remem("check", whole / "learning").out == f"{whole / 'learning'}: policy, whole\n"
    (whole / "aside").rename(whole / "learning" / "learning.json")
    assert remem("check", whole).code == 2


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("run/config.json", "its settings are needed: put a copy back"),
        ("run/result.json", "makes it again from the checkpoint"),
        ("run/checkpoint.safetensors", "the run is complete and needs none: remove it"),
        ("run/model.safetensors", "remove result.json, then `remem resume"),
        ("run/predictions.npz", "remove result.json, then `remem resume"),
        ("learning/learning.json", "its settings are needed: put a copy back"),
        ("learning/rewards.jsonl", "remove it, and its phase is trained again"),
        ("learning/checkpoint.safetensors", "goes on from the other one, or from the rewards"),
        ("learning/policy.json", "makes it again from the rewards"),
        ("learning/policy.safetensors", "makes it again from the rewards"),
        ("study/study.json", "its settings are needed: put a copy back"),
        ("study/summary.json", "writes it again"),
        ("study/runs/seed-1/result.json", "makes it again from the checkpoint"),
    ],
)
def test_every_damaged_file_is_named_with_what_to_do(
    name: str, way: str, whole: Path, remem: Command, tmp_path: Path
) -> None:
    kind = name.partition("/")[0]
    shutil.copytree(whole / kind, tmp_path / kind)
    path = tmp_path / name
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle] ^= 1
    path.write_bytes(bytes(content if path.suffix != ".npz" else content[:middle]))  # a date inside would not matter
    said = remem("check", tmp_path / kind)
    assert said.code == 2
    assert any(str(path) in line and way in line for line in said.err.splitlines()), said.err


@pytest.mark.parametrize(
    "name", ["config.json", "result.json", "checkpoint.safetensors", "model.safetensors", "predictions.npz"]
)
def test_files_of_another_run_are_noticed(name: str, whole: Path, remem: Command, tmp_path: Path) -> None:
    shutil.copytree(whole / "study", tmp_path / "study")
    runs = tmp_path / "study" / "runs"
    shutil.copy(whole / "study" / "runs" / "seed-1" / name, runs / "seed-0" / name)
    for folder in (tmp_path / "study", runs / "seed-0"):
        said = remem("check", folder)
        assert said.code == 2
        assert any("of another run" in line for line in said.err.splitlines()), said.err
    assert remem("check", runs / "seed-1").code == 0


def test_a_summary_of_other_runs_is_noticed(whole: Path, remem: Command, tmp_path: Path) -> None:
    shutil.copytree(whole / "study", tmp_path / "study")
    path = tmp_path / "study" / "summary.json"
    summary = read_json(path, "summary", format=1)
    summary["runs"][0]["last_accuracy"] += 0.01
    write_json(path, summary)
    said = remem("check", tmp_path / "study")
    way = f"not the numbers of the runs beside it; `remem resume {tmp_path / 'study'}` writes it again"
    assert (said.code, said.err) == (2, f"{path}: {way}\n")


def test_what_it_says_works(whole: Path, remem: Command, tmp_path: Path) -> None:
    """A damaged model of a complete run, and a half-written file."""
    shutil.copytree(whole / "run", tmp_path / "run")
    (tmp_path / "run" / "model.safetensors").write_bytes(b"x")
    (tmp_path / "run" / "log.jsonl.77.part").write_bytes(b"x")
    assert remem("check", tmp_path / "run").err.count("\n") == 2
    (tmp_path / "run" / "result.json").unlink()
    assert remem("resume", tmp_path / "run", "--quiet").code == 0
    assert remem("check", tmp_path / "run").code == 0
