"""`remem update`, `rollback`: a model folder that grows, keeps its settings, and refuses what costs too much."""

import json
import signal
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from cli.conftest import Command
from cli.processes import Interrupt, run_command
from factories import pictures, write_folder
from remem.cli.main import main
from remem.estimator.saved import load_stream
from remem.estimator.versions import ModelFolder
from remem.runs.model import load_model
from remem.storage.event_log import read_log

QUICK = ("--set", "train.epochs=4", "--set", "finetune.epochs=1", "--set", "net.hidden=[16]")
FIRST = ("--budget", "40", "--policy", "fixed-0.2", "--seed", "3", *QUICK)
CENTRES = 4 * np.random.default_rng(1).standard_normal((6, 5))


def write(path: Path, classes: list[int], each: int = 12, *, seed: int = 0, labels: list[int] | None = None) -> Path:
    """Vectors around the centres of some classes, and their labels, or others."""
    rng = np.random.default_rng(seed)
    y = np.repeat(classes, each)
    x = (CENTRES[y] + 0.5 * rng.standard_normal((len(y), 5))).astype(np.float32)
    np.savez(path, x=x, y=y if labels is None else np.array(labels))
    return path


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `model` of three classes after one update, and data for more."""
    folder = tmp_path_factory.mktemp("base")
    write(folder / "first.npz", [0, 1, 2])
    write(folder / "more.npz", [3, 4, 1], seed=1)
    write(folder / "check.npz", [0, 1, 2, 3, 4, 5], 10, seed=2)
    with pytest.raises(SystemExit, match="0"):
        main(["update", str(folder / "model"), str(folder / "first.npz"), *FIRST])
    return folder


@pytest.fixture
def home(base: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    copytree(base, tmp_path, dirs_exist_ok=True)
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_model_is_made_and_grows(base: Path, home: Path, remem: Command) -> None:
    model = home / "model"
    assert sorted(path.name for path in (model / "versions" / "0001").iterdir()) == [
        "exemplars.safetensors",
        "model.safetensors",
    ]
    said = remem("update", model, home / "more.npz")
    assert (said.code, said.err) == (0, "")
    assert "arrived  36 vectors of 5; classes: 2 new (3, 4), 1 known (1)\n" in said.out
    assert "memory   40 samples of 5 classes, at most 40; " in said.out
    assert f"version  2 of {model}; 2 versions kept, " in said.out
    assert "each with exemplars of its own\n" in said.out
    stream = load_stream(ModelFolder(model).current)
    assert (stream.classes, stream.updates) == ((0, 1, 2, 3, 4), 2)
    assert stream.memory().total_samples <= 40
    with np.load(home / "check.npz") as check:
        labels = load_model(model).predict(check["x"][:50]).labels
        assert np.mean(np.array(labels, int) == check["y"][:50]) > 0.8
    assert remem("predict", model, home / "check.npz", "--quiet").code == 0
    assert remem("check", model).out == f"{model}: model, whole\n"


def test_the_first_update_says_what_was_made(tmp_path: Path, base: Path, remem: Command) -> None:
    said = remem("update", tmp_path / "new" / "model", base / "first.npz", *FIRST)
    assert said.out.splitlines()[:2] == [
        "arrived  36 vectors of 5; classes: 3 new (0, 1, 2)",
        "model    icarl, policy fixed-0.2, budget 40 samples",
    ]
    assert files(tmp_path / "new" / "model" / "versions") == files(base / "model" / "versions")  # equal updates
    said = remem("update", tmp_path / "quiet", base / "first.npz", *FIRST, "--quiet")
    assert (said.out, said.err) == (f"{tmp_path / 'quiet' / 'versions' / '0001'}\n", "")


def test_the_same_settings_may_be_given_again_and_no_others(home: Path, remem: Command) -> None:
    model, before = home / "model", files(home / "model")
    for given, message in (
        (("--method", "lucir"), "method.name: 'lucir' given, but {} was made with 'icarl'; settings of a model cannot"),
        (("--policy", "fixed-0.7"), "policy: 'fixed-0.7' given, but {} was made with 'fixed-0.2'"),
        (("--codec", "float16"), "memory.codec: 'float16' given, but {} was made with 'raw'"),
        (("--seed", "4"), "seed: 4 given, but {} was made with 3"),
        (("--preset", "paper"), "preset: 'paper' given, but {} was made with 'small'"),
        (("--set", "train.rate=1.5"), "train.lr: 1.5 given, but {} was made with"),
        (("--set", "train.epoch=1"), "train.epoch: no such setting"),
    ):
        said = remem("update", model, home / "more.npz", *given)
        assert (said.code, said.err.count("\n")) == (2, 1)
        assert message.format(model) in said.err
    assert files(model) == before
    again = ("--method", "icarl", "--backbone", "auto", "--preset", "small", *FIRST, "--set", "train.device=auto")
    assert remem("update", model, home / "more.npz", *again).code == 0


def test_the_budget_may_change(home: Path, remem: Command) -> None:
    said = remem("update", home / "model", home / "more.npz", "--budget", "2kB")
    assert said.code == 0
    assert " of 2.0 kB; took " in said.out
    stream = load_stream(ModelFolder(home / "model").current)
    assert stream.budget_setting == "2000B"
    assert (ModelFolder(home / "model").current / "exemplars.safetensors").stat().st_size <= 2000
    said = remem("update", home / "model", home / "more.npz", "--budget", "2")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "budget: 2 samples are less than one for each" in said.err


def test_versions_are_kept_and_rolled_back(home: Path, remem: Command) -> None:
    model = home / "model"
    first = files(model / "versions" / "0001")
    for seed in (4, 5):
        data = write(home / "again.npz", [0, 1], seed=seed)
        assert remem("update", model, data, "--keep", 2, "--quiet").code == 0
    assert sorted(path.name for path in (model / "versions").iterdir()) == ["0002", "0003"]
    said = remem("rollback", model)
    assert said.code == 0
    assert said.out.startswith(f"{model}: version 2 again, version 3 is deleted; no older version kept, ")
    said = remem("rollback", model)
    assert (said.code, said.err) == (2, f"error: {model}: version 2 is the only one; there is none to go back to\n")
    assert remem("update", model, home / "more.npz", "--keep", 1).code == 0
    assert load_stream(ModelFolder(model).current).updates == 3
    assert first != files(model / "versions" / "0003")
    assert remem("rollback", home / "nothing").err.count("\n") == 1


def test_what_an_update_costs_old_classes_is_measured(home: Path, remem: Command) -> None:
    said = remem("update", home / "model", home / "more.npz", "--check", home / "check.npz", "--max-drop", 30)
    assert said.code == 0
    (line,) = [line for line in said.out.splitlines() if line.startswith("check ")]
    before, after, new = line.split(" before, ")[0], line.split(" before, ")[1].split(" after")[0], line.split("; ")[1]
    assert before.startswith("check    old classes ")
    assert after.endswith(" %")
    assert "(30 samples)" in line
    assert new.startswith("new classes ")
    assert new.endswith("(20 samples)")  # class 5 is unknown and counts nowhere
    entry = read_log(home / "model" / "log.jsonl")[-1]
    assert (entry["event"], entry["version"], entry["new_classes"], entry["known_classes"]) == ("update", 2, 2, 1)
    assert f"{100 * entry['accuracy_before']:.1f} % before, {100 * entry['accuracy_after']:.1f} % after" in line


def test_an_update_that_was_made_bad_is_rejected(home: Path, remem: Command) -> None:
    """Old classes whose labels are exchanged among each other."""
    model, before = home / "model", files(home / "model")
    labels = np.repeat([1, 2, 0], 40).tolist()
    bad = write(home / "bad.npz", [0, 1, 2], 40, seed=3, labels=labels)
    said = remem("update", model, bad, "--check", home / "check.npz", "--max-drop", 2)
    assert said.code == 1
    assert said.err.startswith("rejected: old classes lost ")
    assert said.err.endswith(f" points, more than 2; {model} stays at version 1\n")
    assert said.err.count("\n") == 1
    assert "check    old classes " in said.out
    assert files(model) == before
    said = remem("update", model, bad, "--check", home / "check.npz")  # measured, not guarded
    assert said.code == 0
    assert remem("rollback", model).code == 0
    assert files(model / "versions") == {
        name[9:]: content for name, content in before.items() if name[:9] == "versions/"
    }


def test_mistakes_are_one_line_and_change_nothing(home: Path, remem: Command) -> None:
    model, before = home / "model", files(home / "model")
    strange = write(home / "strange.npz", [5])
    np.savez(home / "wide.npz", x=np.zeros((2, 7), np.float32), y=[0, 1])
    run = home / "run"
    run.mkdir()
    (run / "config.json").touch()
    for words, message in (
        ((model, home / "none.npz"), "no such file or folder; expected a folder of class folders"),
        ((model, home / "wide.npz"), "samples of shape (7,); expected vectors of shape (5,)"),
        ((model, home / "more.npz", "--max-drop", 2), "--max-drop: 2 given without data to measure on"),
        ((model, home / "more.npz", "--check", strange), "none of a known class; expected samples of old classes"),
        ((run, home / "more.npz"), "run: holds config.json, but no model; expected a folder of its own"),
        ((home / "new", home / "more.npz", "--method", "joint"), "method: joint keeps all data"),
        ((home / "new", home / "more.npz", "--method", "licarl"), "licarl"),
    ):
        said = remem("update", *words)
        assert (said.code, said.out, said.err.count("\n")) == (2, "", 1), said
        assert message in said.err
    assert files(model) == before
    assert not (home / "new").exists()
    (model / "versions" / "0001" / "exemplars.safetensors").write_bytes(b"no samples")
    said = remem("update", model, home / "more.npz")
    assert (said.code, said.err.count("\n")) == (2, 1)


def test_epochs_of_all_updates_are_logged_and_tracked(home: Path, remem: Command) -> None:
    pytest.importorskip("tensorboard")
    assert remem("update", home / "model", home / "more.npz", "--track", "tensorboard", "--quiet").code == 0
    entries = read_log(home / "model" / "log.jsonl")
    assert [entry["event"] for entry in entries] == [*["epoch"] * 4, "update", *["epoch"] * 5, "update"]
    assert [entry["update"] for entry in entries if entry["event"] == "update"] == [1, 2]
    assert any((home / "model" / "tensorboard").rglob("events*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_old_version(number: signal.Signals, home: Path) -> None:
    before = files(home / "model")
    interrupt = Interrupt(number, "EpochEnded", phase=1)
    ended = run_command(home / "mark", interrupt, "update", home / "model", home / "more.npz")
    assert (ended.code, ended.err) == (128 + number, f"stopped; {home / 'model'} stays at version 1\n")
    assert files(home / "model") == before


def test_a_signal_in_the_first_update_leaves_nothing(home: Path) -> None:
    interrupt = Interrupt(signal.SIGTERM, "EpochEnded")
    ended = run_command(home / "mark", interrupt, "update", home / "new", home / "first.npz", *FIRST)
    assert (ended.code, ended.err) == (143, "stopped; nothing was written\n")
    assert not (home / "new").exists()


def test_folders_of_pictures(tmp_path: Path, remem: Command) -> None:
    write_folder(tmp_path / "data", pictures(4, 6, side=8))
    quick = ("--budget", "2kB", "--set", "train.epochs=1", "--set", "net.width=4", "--set", "net.blocks=[1, 1]")
    said = remem("update", tmp_path / "model", tmp_path / "data" / "train", *quick)
    assert said.code == 0
    assert "arrived  24 images of 8 x 8; classes: 4 new (class 0, class 1, class 2, class 3)" in said.out
    assert "note     2.0 kB hold about 10 images of 8 x 8, 2 per class; --codec ycc420-5 holds more," in said.out
    assert load_model(tmp_path / "model").class_names == tuple(f"class {label}" for label in range(4))
    said = remem("predict", tmp_path / "model", tmp_path / "data" / "val" / "class 1", "--format", "json")
    assert {entry["label"] for entry in json.loads(said.out)["predictions"]} <= {f"class {label}" for label in range(4)}
