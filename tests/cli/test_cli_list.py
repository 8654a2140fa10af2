"""`remem list` and `remem data`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Command
from remem.runs.presets import PRESETS

KNOWN = {
    "methods": {"finetune", "lwf", "icarl", "joint"},
    "policies": {
        "static",
        "rmm",
        "rmm-glyphs",
        "rmm-codec",
        "rmm-one-level",
        "rmm-one-level-cifar100",
        "rmm-one-level-glyphs",
        "rmm-cifar100",
        "rmm-mini-imagenet",
        "rmm-without-finetuning",
        "proportional",
        "auto",
        *(f"fixed-0.{tenths}" for tenths in range(1, 10)),
    },
    "datasets": {"glyphs", "digits", "cifar100", "mini-imagenet", "imagenet-full", "folder:PATH", "npz:PATH"},
    "backbones": {"resnet32", "resnet18", "small", "mlp"},
    "selections": {"herding", "uniform"},
    "codecs": {"raw", "ycc420", "ycc420-5", "ycc420-4", "webp-90", "webp-75", "file", "float16", "int8"},
    "presets": set(PRESETS),
}


@pytest.mark.parametrize("kind", KNOWN)
def test_every_list_has_a_line_for_each_name(kind: str, remem: Command) -> None:
    lines = json.loads(remem("list", kind, "--json").out)
    assert lines.keys() >= KNOWN[kind]
    assert all(line.strip() and "\n" not in line for line in lines.values())
    plain = remem("list", kind).out.splitlines()
    assert [line.split(maxsplit=1) for line in plain] == [[name, line] for name, line in lines.items()]


def test_starting_the_command_does_not_load_torch() -> None:
    program = "import sys, remem.cli.main; print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_help_names_every_flag_of_the_interface(remem: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    alone = remem()
    assert alone.code == 0
    assert alone.out.split() == remem("--help").out.split()
    text = remem("run", "--help").out
    scenario = "--dataset --order --phases --base-classes --budget --exemplars --policy --selection --validation"
    training = "--method --backbone --preset --device --devices --strategy --set"
    for flag in f"{scenario} {training} --seed --data-root --quiet --out".split():
        assert f"{flag} " in text


def test_data_list_tells_what_is_there(remem: Command, tmp_path: Path) -> None:
    for split in ("train", "val"):
        (tmp_path / "mini-imagenet" / split).mkdir(parents=True)
    said = remem("data", "list", "--data-root", tmp_path)
    assert said.out.splitlines()[0] == f"data root: {tmp_path}"
    states = {line.split()[0]: " ".join(line.split()[1:3]) for line in said.out.splitlines()[1:]}
    assert states["mini-imagenet"].startswith("there ")
    assert states["cifar100"].startswith("missing ")
    assert states["digits"] == "built in"


def test_data_list_knows_both_forms_of_cifar(remem: Command, tmp_path: Path) -> None:
    def state() -> str:
        lines = remem("data", "list", "--data-root", tmp_path).out.splitlines()
        return next(line.split()[1] for line in lines if line.startswith("cifar100"))

    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    for name in ("train.bin", "test.bin"):
        (folder / name).touch()
    assert state() == "missing"
    (folder / "fine_label_names.txt").touch()
    assert state() == "there"


def test_data_check(remem: Command, vectors: str, tmp_path: Path) -> None:
    assert remem("data", "check", "digits") == (0, "digits: whole\n", "")
    assert remem("data", "check", vectors) == (0, f"{vectors}: whole\n", "")
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"nothing")
    said = remem("data", "check", f"npz:{broken}")
    assert (said.code, said.out) == (2, "")
    assert str(broken) in said.err


def test_data_get_hands_name_and_root_to_the_download(
    remem: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(name: str, root: Path, *, progress: "object") -> Path:
        assert callable(progress)
        progress(50, 100)
        return root / name

    monkeypatch.setattr("remem.data.fetch.fetch", fetch)
    said = remem("data", "get", "cifar100", "--data-root", tmp_path, "--quiet")
    assert said == (0, f"{tmp_path / 'cifar100'}\n", "")
    assert "did you mean 'cifar100'" in remem("data", "get", "cifar10").err


def test_what_may_not_be_downloaded_is_said(remem: Command, tmp_path: Path) -> None:
    said = remem("data", "get", "imagenet-full", "--data-root", tmp_path)
    assert said.code == 2
    assert "error: imagenet-full" in said.err
