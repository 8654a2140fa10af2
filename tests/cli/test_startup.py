"""What a command loads before it can say that something is misspelt: counted in modules, not in seconds."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

from cli.conftest import Command
from factories import pictures, write_folder
from remem.cli.completion import REGISTRIES, completer

HEAVY = ("torch", "lightning_fabric", "sklearn", "scipy", "pandas", "matplotlib", "plotly", "torch._dynamo")
PROGRAM = """
import json, sys
from remem.cli.main import main
try:
    main(sys.argv[2:])
except SystemExit as stop:
    print(json.dumps([stop.code, [name for name in sys.argv[1].split() if name in sys.modules]]))
"""


def loaded(*arguments: object) -> tuple[int, list[str], str]:
    """The exit code of a command in a process of its own, the heavy modules that it loaded, and what it complained."""
    words = [sys.executable, "-c", PROGRAM, " ".join(HEAVY), *map(str, arguments)]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    code, modules = json.loads(ended.stdout.splitlines()[-1])
    return code, modules, ended.stderr


TYPOS: dict[str, Sequence[str]] = {
    "--methd": ["run", "--methd", "lucir", "--out", "x"],
    "'lucri'; did you mean 'lucir'": ["run", "--method", "lucri", "--out", "x"],
    "'fixed-60'; did you mean 'fixed-0.6'": ["run", "--policy", "fixed-60", "--out", "x"],
    "'rrm'; did you mean 'rmm'": ["policy", "show", "rrm"],
    "'cifar10'; did you mean 'cifar100'": ["run", "--dataset", "cifar10", "--out", "x"],
    "no readable cifar-100-python": ["run", "--dataset", "cifar100", "--data-root", "/nowhere", "--out", "x"],
    "no folder /nowhere/train": ["plan", "--dataset", "folder:/nowhere"],
    "'smal'; did you mean 'small'": ["run", "--backbone", "smal", "--out", "x"],
    "'herdng'; did you mean 'herding'": ["run", "--selection", "herdng", "--out", "x"],
    "codec: no codec named 'rw'": ["plan", "--codec", "rw"],
    "order: 'lucri' given": ["learn-policy", "--order", "lucri", "--out", "x"],
    "did you mean 'train.epochs'": ["run", "--set", "train.epoch=3", "--out", "x"],
    "preset: 'papr' given": ["plan", "--preset", "papr"],
    "no such config file": ["run", "nothing.toml", "--out", "x"],
    "/nowhere: no such folder; expected the folder of a finished run": ["predict", "/nowhere", "photo.jpg"],
    "/nowhere: no run, learning or study": ["resume", "/nowhere"],
    "/nowhere: no such folder; expected a folder with one of": ["check", "/nowhere"],
    "Did you mean 'run'": ["rnu"],
    "/nowhere: no such file or folder; expected runs": ["report", "/nowhere", "--out", "x.html"],
    "/nowhere: no such file or folder": ["table", "/nowhere"],
    "train.epch: no such setting": ["demo", "--set", "train.epch=3", "--out", "x"],
}


@pytest.mark.parametrize("message", TYPOS)
def test_typos_are_refused_before_anything_heavy_is_loaded(message: str) -> None:
    code, modules, said = loaded(*TYPOS[message])
    assert (code, modules) == (2, [])
    assert message in said
    assert said.count("\n") == 1


def test_typos_in_a_study_are_refused_before_anything_heavy_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    for line, message in {
        "methods = ['lucri']": "did you mean 'lucir'",
        "policies = ['fixed-6']": "did you mean 'fixed-0.6'",
        "seds = [1]": "study.seds: no such setting",
    }.items():
        file.write_text(f"[data]\nname = 'digits'\n[study]\n{line}\n")
        code, modules, said = loaded("study", file, "--out", tmp_path / "out")
        assert (code, modules) == (2, [])
        assert message in said


def test_help_loads_nothing_heavy() -> None:
    for arguments in (["-h"], ["run", "-h"], ["list", "methods", "-h"], ["data", "list", "-h"], ["predict", "--help"]):
        code, modules, said = loaded(*arguments)
        assert (code, modules, said) == (0, [], "")


def test_predicting_one_photo_loads_torch_and_nothing_else(remem: Command, tmp_path: Path) -> None:
    """Methods with the heaviest imports: AANets (k-means of scikit-learn) and bf16 (Fabric's precision)."""
    write_folder(tmp_path / "photos", pictures())
    out, keys = tmp_path / "run", ("train.epochs=1", "finetune.epochs=0", "net.width=4", "train.precision=bf16")
    flags = ("--dataset", f"folder:{tmp_path / 'photos'}", "--method", "lucir-aanets", "--phases", 2)
    assert remem("run", *flags, *(word for key in keys for word in ("--set", key)), "--out", out).code == 0
    Image.new("RGB", (20, 30), "red").save(tmp_path / "photo.png")
    code, modules, _ = loaded("predict", out, tmp_path / "photo.png")
    assert (code, modules) == (0, ["torch"])


@pytest.mark.parametrize("command", ["run", "plan", "study", "resume", "predict", "list", "policy", "demo", "table"])
def test_dash_h_is_help(command: str, remem: Command) -> None:
    said = remem(command, "-h")
    assert (said.code, said.err) == (0, "")
    assert said.out == remem(command, "--help").out
    assert "Usage: remem" in said.out


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("remem run --method lu", {"lucir", "lucir-aanets"}),
        ("remem plan --policy fixed-0.6", {"fixed-0.6"}),
        ("remem run --dataset di", {"digits"}),
        ("remem run --backbone resnet32", {"resnet32", "resnet32-pod"}),
        ("remem learn-policy --preset pa", {"paper"}),
        ("remem run --budg", {"--budget"}),
        ("remem pre", {"predict"}),
    ],
)
def test_the_shell_completes_commands_flags_and_names(words: str, names: set[str]) -> None:
    last = str(len(words.split()) - 1)
    asked = {**os.environ, "_REMEM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": last}
    said = subprocess.run([sys.executable, "-m", "remem"], env=asked, capture_output=True, text=True, check=False)
    assert set(said.stdout.split()) == names


def test_every_registry_of_names_is_found() -> None:
    for key in REGISTRIES:
        complete = completer(key)
        assert complete is not None
        assert complete("")
    assert completer("seed") is None
