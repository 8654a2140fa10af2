"""`--devices 2` on a CPU: two processes learn what one learns, and stop as one."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from cli.conftest import Command
from cli.processes import LIMIT, Interrupt, run_command, wait_until_gone
from factories import same_tensors
from remem.threads import usable_cores

pytestmark = pytest.mark.skipif(usable_cores() < 2, reason="remem refuses more processes than cores")

SETTINGS = {
    "net.hidden": "[16]",
    "net.batch_norm": "false",  # its statistics are those of half a batch
    "train.batch_size": "11",  # of 46 samples: the last two are divided into one and one
    "train.precision": "fp32",  # bf16 would hide differences of 1e-5
    "train.lr": "0.02",  # at ten times these rates losses jump, and rounding errors grow with them
    "train.lr_later": "0.02",
    "train.epochs": "3",
    "finetune.epochs": "2",
}
SET = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
FLAGS = ["--phases", "2", "--budget", "46", "--policy", "fixed-0.6", "--quiet", *SET]
TWO = ["--devices", "2", "--strategy", "ddp"]


@pytest.fixture(autouse=True)
def reserved_port(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A port for the two processes. It stays bound, so that no other test gets it; they may still listen on it."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MASTER_PORT", str(reserved.getsockname()[1]))
        yield


def predictions(folder: Path) -> dict[str, list[Any]]:
    with np.load(folder / "predictions.npz") as file:
        return {name: file[name].tolist() for name in file.files}


@pytest.mark.parametrize("method", ["icarl", "lucir"])
def test_two_processes_learn_what_one_learns(method: str, vectors: str, tmp_path: Path, remem: Command) -> None:
    """Gradients are summed in another order, so weights agree to 1e-5 and not bit for bit."""
    flags = ["run", "--dataset", vectors, "--method", method, *FLAGS, "--out"]
    command = [sys.executable, "-m", "remem", *flags, str(tmp_path / "two"), *TWO]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
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
    for alone, shared in zip(*losses, strict=True):  # losses of whole batches are logged
        assert shared == (None if alone is None else pytest.approx(alone, rel=1e-4, abs=1e-5))


def test_ctrl_c_is_said_once_and_the_rest_equals_a_run_never_stopped(vectors: str, tmp_path: Path) -> None:
    """With batch norm, whose statistics are each process's own until the end of a stage."""
    out, interrupt = tmp_path / "run", Interrupt(signal.SIGINT, "EpochEnded", group=True)
    flags = [*FLAGS, *TWO, "--set", "net.batch_norm=true"]
    ended = run_command(tmp_path / "mark", interrupt, "run", "--dataset", vectors, *flags, "--out", out)
    assert (ended.code, ended.err) == (130, f"stopped in phase 0; go on with `remem resume {out}`\n")
    assert len(ended.children) == 1
    wait_until_gone(ended.children)
    assert (out / "training.safetensors").exists()
    for words in (["resume", out, "--quiet"], ["run", "--dataset", vectors, *flags, "--out", tmp_path / "whole"]):
        done = subprocess.run([sys.executable, "-m", "remem", *map(str, words)], timeout=LIMIT, check=False)
        assert done.returncode == 0
    one, other = (load_file(path / "model.safetensors") for path in (out, tmp_path / "whole"))
    assert same_tensors(one, other)
    assert predictions(out) == predictions(tmp_path / "whole")
