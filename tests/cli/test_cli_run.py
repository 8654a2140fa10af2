"""`remem run` and `remem resume`: what they write and what they print."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from cli.conftest import TINY, Command
from factories import pictures, write_folder
from remem import __version__ as version
from remem.runs.results import RunResult, save_result


def test_settings_come_from_preset_file_flags_and_set_in_that_order(
    remem: Command, vectors: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        'policy = "fixed-0.3"\n[scenario]\nphases = 1\n[train]\nepochs = 9\nbatch_size = 32\n'
        '[memory]\nselection = "uniform"\n[finetune]\nepochs = 0\n[net]\nhidden = [8]\n'
    )
    out = tmp_path / "run"
    flags = ["--dataset", vectors, "--phases", 2, "--budget", "40", "--exemplars", 12, "--policy", "fixed-0.6"]
    said = remem("run", config, *flags, "--base-classes", 2, "--seed", 4, "--set", "train.epochs=1", "--out", out)
    assert said.code == 0
    settings = json.loads((out / "result.json").read_text())["config"]
    assert (settings["policy"], settings["seed"]) == ("fixed-0.6", 4)  # a flag above the file
    assert settings["scenario"] == {
        "sizes": None,
        "phases": 2,
        "base_classes": 2,
        "classes": None,
        "order": "seed:0",
        "validation": 0.0,
    }
    assert settings["memory"] == {"budget": 40, "exemplars": 12, "selection": "uniform"}
    assert (settings["train"]["epochs"], settings["train"]["batch_size"]) == (1, 32)  # --set above all, then the file
    assert settings["train"]["lr"] == 0.2  # the preset


def test_a_run_leaves_its_files_and_keeps_the_budget(remem: Command, vectors: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    said = remem("run", "--dataset", vectors, *TINY, "--budget", 30, "--exemplars", 10, "--out", out)
    assert said.code == 0
    assert said.err == ""
    written = {path.name for path in out.iterdir()}
    assert written >= {"result.json", "model.safetensors", "predictions.npz", "log.jsonl", "config.json"}
    result = json.loads((out / "result.json").read_text())
    assert result["status"] == "complete"
    for phase in result["phases"][1:]:
        assert phase["held_old"] + phase["held_new"] <= 30
        assert sum(phase["held_per_class"].values()) == phase["held_old"] + phase["held_new"]
    with np.load(out / "predictions.npz", allow_pickle=False) as predictions:
        labels, guessed = predictions["labels_2"], predictions["nme_2"]
    assert result["last_accuracy"] == np.mean(labels == guessed)


def test_what_is_printed_agrees_with_the_result(remem: Command, vectors: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    said = remem("run", "--dataset", vectors, *TINY, "--budget", 30, "--exemplars", 10, "--out", out)
    result = json.loads((out / "result.json").read_text())
    first, memory, training = said.out.splitlines()[:3]
    assert "6 classes: 3 in phase 0, then 2 phases of 2, 1" in first
    assert (
        "M = 30 samples, not the paper's 160 (E = 120 and 40 new samples of the largest phase); E = 10; policy static"
        in memory
    )
    assert "icarl, network mlp, epochs 1, " in training
    done = [line for line in said.out.splitlines() if " done, accuracy " in line]
    assert [line.partition(",")[0] for line in done] == [f"phase {k} of 2 done" for k in range(3)]
    for phase in result["phases"]:
        cells = [str(phase["phase"]), str(phase["classes_seen"]), f"{100 * phase['accuracy']:.2f}"]
        rows = [line.split() for line in said.out.splitlines() if line.split()[:3] == cells]
        assert [row[-2:] for row in rows] == [[str(phase["held_old"]), str(phase["held_new"])]]
    assert f"average accuracy {100 * result['average_accuracy']:.2f} %" in said.out
    assert f"in {out}: result.json" in said.out


def test_quiet_prints_where_the_result_is_and_nothing_else(remem: Command, vectors: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    said = remem("run", "--dataset", vectors, *TINY, "--quiet", "--out", out)
    assert said == (0, f"{out / 'result.json'}\n", "")
    assert remem("resume", out, "--quiet") == (0, f"{out / 'result.json'}\n", "")


def test_resuming_a_complete_run_says_so_and_changes_nothing(remem: Command, vectors: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    remem("run", "--dataset", vectors, *TINY, "--out", out)
    before = (out / "result.json").read_bytes()
    said = remem("resume", out)
    assert said.code == 0
    assert said.out.startswith(f"{out}: this run is complete")
    assert (out / "result.json").read_bytes() == before


def test_a_method_that_keeps_all_data_is_called_an_oracle(remem: Command, vectors: str, tmp_path: Path) -> None:
    said = remem("run", "--dataset", vectors, *TINY, "--method", "joint", "--out", tmp_path / "run")
    assert said.code == 0
    assert "memory   all data of all seen classes (oracle" in said.out
    assert said.out.count("oracle") == 2


def test_accuracy_on_training_data_is_called_so_at_the_end(remem: Command, vectors: str, tmp_path: Path) -> None:
    said = remem("run", "--dataset", vectors, *TINY, "--validation", 0.1, "--out", tmp_path / "run")
    [totals] = [line for line in said.out.splitlines() if line.startswith("average accuracy ")]
    assert totals.endswith(", evaluated on a share of the training data (0.1)")


def test_python_dash_m_and_version(remem: Command) -> None:
    said = remem("--version")
    assert said == (0, f"remem {version}\n", "")
    done = subprocess.run([sys.executable, "-m", "remem", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == said.out


def photos(root: Path, classes: int = 6, *, without: str = "") -> str:
    write_folder(root, pictures(classes))
    if without:
        shutil.rmtree(root / "val" / without)
    return f"folder:{root}"


def test_classes_that_are_not_evaluated_are_named_in_every_command(remem: Command, tmp_path: Path) -> None:
    data = photos(tmp_path / "photos", without="class 3")
    keys = ("train.epochs=1", "finetune.epochs=0", "net.width=4", "scenario.phases=2")
    flags = ("--dataset", data, *(word for key in keys for word in ("--set", key)))
    note = "1 class has no evaluation samples and counts in no accuracy: class 3"
    assert f"note     {note}" in remem("plan", *flags).out
    assert note in json.loads(remem("plan", *flags, "--json").out)["notes"]
    assert f"note     {note}" in remem("run", *flags, "--out", tmp_path / "run").out
    file = tmp_path / "study.toml"
    file.write_text(f"[data]\nname = '{data}'\n[study]\npolicies = ['static', 'fixed-0.6']\n")
    sets = (word for key in keys for word in ("--set", key))
    said = remem("study", file, *sets, "--workers", 1, "--out", tmp_path / "study")
    assert (said.code, said.err) == (0, f"note: {note}\n")  # once for all runs


def test_new_classes_in_the_data_of_a_begun_run(remem: Command, tmp_path: Path) -> None:
    data, out = photos(tmp_path / "photos"), tmp_path / "run"
    keys = ("train.epochs=1", "finetune.epochs=0", "net.width=4")
    remem("run", "--dataset", data, "--phases", 2, *(w for key in keys for w in ("--set", key)), "--out", out)
    result = json.loads((out / "result.json").read_text())
    (out / "result.json").unlink()
    save_result(out / "result.json", RunResult.model_validate({**result, "status": "running"}))
    shutil.copytree(tmp_path / "photos" / "train" / "class 0", tmp_path / "photos" / "train" / "emu")
    said = remem("resume", out)
    assert (said.code, said.err) == (
        2,
        f"error: {out}: the data have new classes since this run began (emu), and a run cannot take them in; put them "
        "elsewhere to go on, or let a model learn them as they come: `remem update MODEL DATA`\n",
    )
    shutil.rmtree(tmp_path / "photos" / "train" / "emu")
    (tmp_path / "photos" / "train" / "class 0" / "000.png").unlink()
    said = remem("resume", out)
    assert "the data have changed since this run began; going on needs the same data; for data that keep" in said.err
