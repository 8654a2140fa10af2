"""`--devices 2` on a CPU: two processes learn what one learns, and stop as one."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from cli.conftest import Command

SETTINGS = {
    "net.hidden": "[16]",
    "net.batch_norm": "false",  # it would see halves of a batch
    "train.batch_size": "11",  # of 46 samples: the last two are shared as one and one
    "train.precision": "fp32",  # rounding to bf16 would hide what 1e-5 is to show
    "train.lr": "0.02",  # at ten times these rates losses jump, and so does what rounding makes of them
    "train.lr_later": "0.02",
    "train.epochs": "3",
    "finetune.epochs": "2",
}
SET = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
FLAGS = ["--phases", "2", "--budget", "46", "--policy", "fixed-0.6", "--quiet", *SET]
TWO = ["--devices", "2", "--strategy", "ddp"]

# A shell that starts tests in the background lets them ignore Ctrl-C; the command must not inherit that.
PROGRAM = """
import signal
from remem.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""


def predictions(folder: Path) -> dict[str, list[Any]]:
    with np.load(folder / "predictions.npz") as file:
        return {name: file[name].tolist() for name in file.files}


@pytest.mark.parametrize("method", ["icarl", "lucir"])
def test_two_processes_learn_what_one_learns(method: str, vectors: str, tmp_path: Path, remem: Command) -> None:
    """Gradients are summed in another order, so weights agree to 1e-5 and not bit for bit."""
    flags = ["run", "--dataset", vectors, "--method", method, *FLAGS, "--out"]
    command = [sys.executable, "-m", "remem", *flags, str(tmp_path / "two"), *TWO]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert remem(*flags, tmp_path / "one").code == 0
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-5, atol=1e-5)
    results = [json.loads((tmp_path / name / "result.json").read_text()) for name in ("one", "two")]
    assert [result["config"]["train"]["strategy"] for result in results] == ["single", "ddp"]
    assert [len(result["phases"]) for result in results] == [3, 3]
    for field in ("accuracy", "accuracy_cnn", "accuracy_nme", "held_per_class"):
        assert [p[field] for p in results[0]["phases"]] == [p[field] for p in results[1]["phases"]]
    assert predictions(tmp_path / "one") == predictions(tmp_path / "two")
    losses = [
        [json.loads(line).get("loss") for line in (tmp_path / name / "log.jsonl").read_text().splitlines()]
        for name in ("one", "two")
    ]
    for alone, shared in zip(*losses, strict=True):  # what is logged is the loss of whole batches
        assert shared == (None if alone is None else pytest.approx(alone, rel=1e-4, abs=1e-5))


def test_ctrl_c_is_said_once(vectors: str, tmp_path: Path) -> None:
    script, out = tmp_path / "program.py", tmp_path / "run"
    script.write_text(PROGRAM)
    flags = [*FLAGS, "--set", "train.epochs=2000"]
    command = [sys.executable, str(script), "run", "--dataset", vectors, *flags, *TWO, "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 500
    while not (out / "log.jsonl").exists() or not (out / "log.jsonl").read_text():
        assert process.poll() is None, "the run ended by itself"
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes at once
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert said == f"stopped in phase 0; go on with `remem resume {out}`\n"
