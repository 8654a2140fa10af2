"""A user's mistake: exit code 2 and one line that names the field, what came and what was expected."""

from pathlib import Path

import pytest

from cli.conftest import TINY, Command, Said


def is_one_line(said: Said) -> bool:
    return said.code == 2 and said.err.startswith("error: ") and said.err.count("\n") == 1


MISTAKES = {
    "method": (["--method", "lucri"], "no method named 'lucri'; did you mean 'lucir'?"),
    "data set": (["--dataset", "cifar10"], "no data set named 'cifar10'; did you mean 'cifar100'?"),
    "policy": (["--policy", "fixed-0.65"], "no policy named 'fixed-0.65'; did you mean 'fixed-0.6'?"),
    "selection": (["--selection", "herdng"], "no selection named 'herdng'; did you mean 'herding'?"),
    "backbone": (["--backbone", "mpl"], "no backbone named 'mpl'; did you mean 'mlp'?"),
    "preset": (["--preset", "papier"], "preset: 'papier' given, expected one of small, tiny, paper"),
    "setting": (["--set", "train.epoch=5"], "train.epoch: no such setting; did you mean 'train.epochs'?"),
    "no value": (["--set", "train.epochs"], "--set: 'train.epochs' given, expected key=value such as train.epochs=5"),
    "too small": (
        ["--set", "train.epochs=0"],
        "train.epochs: 0 given; input should be greater than or equal to 1 (epochs per phase)\n",
    ),
    "in a list": (
        ["--set", "net.hidden=[8, 0]"],
        "net.hidden.1: 0 given; input should be greater than or equal to 1 (",
    ),
    "of a method": (["--set", "method.weight=-1"], "method.weight: -1 given; "),
    "text for a number": (["--set", "train.epochs=few"], "train.epochs: 'few' given; "),
    "truth for a number": (["--set", "train.epochs=true"], "train.epochs: True given; input should be neither"),
    "truth for a number or none": (["--set", "scenario.base_classes=false"], "scenario.base_classes: False given; "),
    "budget": (["--budget", "5"], "budget: 5 samples are less than one for each of the 6 classes of phases 0 to 2"),
    "no budget": (["--budget", "lots"], "'lots' is not a budget"),
    "phases": (["--phases", "9"], "phases: 9 given; expected at most 3, the classes left after phase 0's 3"),
    "base classes": (["--base-classes", "6"], "base_classes: 6 given; expected 0 to 5 of 6 classes"),
    "validation": (["--validation", "1"], "validation: 1.0 given; expected a share from 0 to below 1"),
    "order": (["--order", "podnet-4"], "podnet-4"),
    "backbone for images": (["--backbone", "resnet32", "--set", "net.hidden=[]"], "resnet32"),
    "optimizer": (["--set", "train.optimizer=adamm"], "train.optimizer: 'adamm' given"),
    "device": (["--device", "tpv"], "device tpv"),
    "seed": (["--set", "seed=-1"], "seed: -1 given; "),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_value_is_one_line_before_any_training(
    mistake: str, remem: Command, vectors: str, tmp_path: Path
) -> None:
    flags, message = MISTAKES[mistake]
    out = tmp_path / "run"
    said = remem("run", "--dataset", vectors, *TINY, *flags, "--out", out)
    assert is_one_line(said), said
    assert message in said.err
    assert not (out / "log.jsonl").exists()


def test_missing_data_are_named_with_the_place_and_the_ways_to_set_it(remem: Command, tmp_path: Path) -> None:
    said = remem("run", "--dataset", "cifar100", "--data-root", tmp_path, "--out", tmp_path / "run")
    assert is_one_line(said)
    assert said.err.startswith("error: cifar100: ")
    assert f"cifar-100-python/train below {tmp_path}; " in said.err
    assert "--data-root" in said.err
    assert "$REMEM_DATA" in said.err


def test_a_broken_archive_is_named_brackets_and_all(remem: Command, tmp_path: Path) -> None:
    path = tmp_path / "[bold]broken.npz"
    path.write_bytes(b"PK\x03\x04 and then nothing")
    said = remem("run", "--dataset", f"npz:{path}", "--out", tmp_path / "run")
    assert is_one_line(said)
    assert str(path) in said.err


@pytest.mark.parametrize(("text", "message"), [(None, "no such config file"), ("policy = ", "not a TOML file")])
def test_a_config_file_that_cannot_be_read(remem: Command, tmp_path: Path, text: str | None, message: str) -> None:
    config = tmp_path / "config.toml"
    if text is not None:
        config.write_text(text)
    said = remem("run", config, "--out", tmp_path / "run")
    assert is_one_line(said)
    assert f"{config}: {message}" in said.err


def test_a_folder_that_holds_a_run_is_not_overwritten(remem: Command, vectors: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    same = ("run", "--dataset", vectors, *TINY, "--out", out)
    assert remem(*same).code == 0
    before = (out / "result.json").read_bytes()
    again = remem(*same)
    assert is_one_line(again)
    assert f"go on with `remem resume {out}`" in again.err
    other = remem(*same, "--seed", 7)
    assert is_one_line(other)
    assert "seed is 7, but this run began with 0; settings cannot change" in other.err
    assert (out / "result.json").read_bytes() == before


def test_out_is_a_file(remem: Command, vectors: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    said = remem("run", "--dataset", vectors, *TINY, "--out", tmp_path / "taken")
    assert is_one_line(said)
    assert "is a file; expected a folder" in said.err


def test_resuming_what_is_not_a_run(remem: Command, tmp_path: Path) -> None:
    said = remem("resume", tmp_path)
    assert is_one_line(said)
    assert f"{tmp_path}: no run, learning or study; expected a folder with one of config.json, " in said.err


def test_resuming_from_a_damaged_checkpoint(remem: Command, vectors: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    remem("run", "--dataset", vectors, *TINY, "--out", out)
    (out / "result.json").unlink()  # as if it had been stopped
    checkpoint = out / "checkpoint.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-20])
    said = remem("resume", out)
    assert is_one_line(said)
    assert str(checkpoint) in said.err


def test_mistakes_that_the_parser_finds_end_with_2_too(remem: Command) -> None:
    assert remem("run").code == 2  # --out is missing
    assert remem("run", "--phases", "many", "--out", "x").code == 2
    assert remem("list", "animals").code == 2
    assert remem("frobnicate").code == 2


def test_any_other_error_is_not_hidden(
    remem: Command, vectors: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("remem.runs.build.prepare", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        remem("run", "--dataset", vectors, *TINY, "--out", tmp_path / "run")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["run", "--foo", "x"], "error: No such option: --foo"),
        (["run", "--phases", "many", "--out", "x"], "error: Invalid value for '--phases': "),
        (["run", "--out"], "error: Option '--out' requires an argument; see remem"),
        (["run"], "error: Missing option '--out'; see remem run --help\n"),
        (["run", "--out", ""], "error: Invalid value for '--out': '' given; expected a folder; see"),
        (
            ["study", "digits-policies", "--out", ""],
            "error: Invalid value for '--out': '' given; expected a folder; see",
        ),
        (["demo", "--out", ""], "error: Invalid value for '--out': '' given; expected a folder; see"),
        (["runn"], "error: No such command 'runn'. Did you mean 'run'?; see remem --help\n"),
        (["policy", "draw"], "error: No such command 'draw'"),
    ],
)
def test_a_wrong_flag_is_one_line(arguments: list[str], line: str, remem: Command) -> None:
    said = remem(*arguments)
    assert is_one_line(said)
    assert said.err.startswith(line)
