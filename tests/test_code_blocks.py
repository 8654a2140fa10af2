"""Every code block of the README, the tutorial and the guides runs, page by page, in an empty folder.

Long commands are shortened by settings that any user can give (SHORT); lines that need a network or an hour are named
with the reason (LEFT_OUT). Output that follows a command is not compared: tests of the commands do that.
"""

import re
import shlex
import shutil
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from remem.cli.main import main
from remem.codecs.table import CODECS
from remem.policies.table import POLICIES

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "docs/tutorial.md", *sorted(f"docs/guides/{p.name}" for p in (ROOT / "docs/guides").glob("*.md"))]
ELSEWHERE = {"docs/guides/add-a-method.md"}  # tests/test_add_a_method.py runs it
QUICK = ("train.epochs=1", "finetune.epochs=0")
SHORT: dict[str, tuple[str, ...]] = {  # settings added to a command
    "run": QUICK,
    "update": QUICK,
    "study": (*QUICK, "study.seeds=[0]"),
    "learn-policy": (*QUICK, "learn.epochs=1", "learn.tasks=1", "learn.pool=1", "learn.runs=2"),
}
GLYPHS = ("scenario.classes=12", "scenario.phases=2")  # data sets of many classes
OBJECTS = ("apple", "bicycle", "castle", "orchid", "rocket", "tank")
PROGRAMS = ("remem", "make", "pip", "python", "tensorboard")
LEFT_OUT = {  # beginnings of lines that are not run
    "make ": "tests of the demo and this very run",
    "pip ": "needs a network",
    "python -m venv": "needs a network",
    "python examples/": "tests/test_train_with_stable_baselines3.py",
    "tensorboard --logdir": "a server",
    "remem data get": "needs a network",
    "remem run --dataset cifar100": "needs the data; tests/runs/test_real_runs.py",
    "remem learn-policy policies/": "needs the data; tests/policies/test_files.py",
    "remem resume": "tests/cli/test_cli_interrupt.py",
}
REPLACED = {  # in Python: the same settings, and fewer steps of an agent
    r"n_steps=48, batch_size=48": "n_steps=6, batch_size=6",
    r"model\.learn\(240\)": "model.learn(6)",
    r"(remem\.run\((?!.*settings=).*)\)$": r'\1, settings={"train.epochs": 1, "finetune.epochs": 0})',
}


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str


def blocks(page: str) -> Iterator[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield Block(match[1], match[2])


def commands(block: Block) -> list[str]:
    """The lines of a block of commands, joined and without comments; none for output and other text."""
    lines = [line for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]
    if block.language or not lines or lines[0].split()[0] not in PROGRAMS:
        return []
    return [re.sub(r"\s+#\s.*", "", line).strip() for line in lines]


def shortened(line: str) -> list[str]:
    words = shlex.split(line)
    if words[0] != "remem" or words[1] not in SHORT:
        return words
    settings = SHORT[words[1]]
    if words[1] == "study" and "digits-policies" in words:
        settings = (*settings, 'study.policies=["static", "fixed-0.6"]')
    if "glyphs" in words:
        settings = (*settings, *GLYPHS)
    extra = [word for setting in settings for word in ("--set", setting)]
    workers = ["--workers", "1"] if words[1] in ("study", "learn-policy") and "--workers" not in words else []
    return [*words, *extra, *workers]


def prepare_files() -> None:
    """What pages take for granted: a folder of images, and arrays to predict."""
    stream = np.random.default_rng(0)
    for part, label in ((part, label) for part in ("train", "val") for label in range(8)):
        folder = Path("PATH", part, f"class {label}")
        folder.mkdir(parents=True)
        for number in range(12):
            picture = np.clip(30 * label + stream.integers(0, 30, (16, 16, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(picture).save(folder / f"{number}.png")
    for day, places in (("monday", (0, 1, 2)), ("tuesday", (2, 3, 4)), ("wednesday", (5,)), ("check", range(5))):
        for label in places:
            shutil.copytree(Path("PATH/train", f"class {label}"), Path("photos", day, OBJECTS[label]))
    shutil.copy("PATH/val/class 3/0.png", "photo.jpg")
    np.savez("new.npz", x=stream.integers(0, 16, (3, 8, 8, 1)).astype(np.uint8))
    labels = np.repeat(np.arange(8), 10)
    vectors = 3 * np.eye(8)[labels] + stream.standard_normal((80, 8))
    np.savez("mine.npz", x_train=vectors, y_train=labels, x_test=vectors, y_test=labels)


def run_command(words: list[str]) -> None:
    if words[0] != "remem":
        pytest.fail(f"{shlex.join(words)}: neither run nor left out with a reason")
    with pytest.raises(SystemExit) as stop:
        main(words[1:])
    assert stop.value.code == 0, shlex.join(words)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE])
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for registry, name in product((POLICIES, CODECS), ("_entries", "_paths")):  # pages may register their own
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    prepare_files()
    names: dict[str, Any] = {}
    ran = 0
    for block in blocks(page):
        if block.language == "toml":
            Path("study.toml").write_text(block.text)
        elif block.language == "python":
            code = block.text
            for long, quick in REPLACED.items():
                code = re.sub(long, quick, code, flags=re.MULTILINE)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of other libraries, such as small rollouts
                exec(compile(code, page, "exec"), names)
            ran += 1
        for line in commands(block):
            if not any(line.startswith(beginning) for beginning in LEFT_OUT):
                run_command(shortened(line))
                ran += 1
    assert ran or page.endswith("parallel.md")


def test_every_page_with_code_is_known() -> None:
    assert "docs/tutorial.md" in PAGES
    assert len(PAGES) >= 9


def test_lines_that_are_left_out_exist() -> None:
    """A reason for a line that no page has is out of date."""
    lines = [line for page in PAGES for block in blocks(page) for line in commands(block)]
    unused = [beginning for beginning in LEFT_OUT if not any(line.startswith(beginning) for line in lines)]
    assert unused in ([], ["tensorboard --logdir"])  # that one is in the reference


def test_the_tutorial_shows_a_picture() -> None:
    text = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    found = re.search(r"!\[.*?\]\((images/.*?)\)", text)
    assert found is not None
    assert (ROOT / "docs" / found[1]).read_text(encoding="utf-8").startswith("<?xml")
