"""Small pieces of work to be tortured: a run, a learning and a study on random vectors, and what they leave."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RUN = ("--phases", "2", "--budget", "40", "--policy", "fixed-0.6", "--set", "train.epochs=2")
QUICK = ("--set", "finetune.epochs=1", "--set", "net.hidden=[8]", "--set", "train.batch_size=16")
INSIDE = ("--set", "train.checkpoint_minutes=1e-9")  # saved after every step, so that kills fall inside epochs
LEARN = ("--phases", "2", "--base-classes", "4", "--budget", "30", "--epochs", "2", "--tasks", "1", "--runs", "2")
COMPARED = ("result.json", "policy.json", "policy.safetensors", "model.safetensors", "rewards.jsonl", "summary.json")


def write_data(path: Path, seed: int = 0) -> str:
    """Six classes of vectors; the name of the data set."""
    rng = np.random.default_rng(seed)
    labels = [np.repeat(np.arange(6), count) for count in (12, 6)]
    x = [rng.normal(size=(len(y), 5)).astype(np.float32) + y[:, None] for y in labels]
    np.savez(path, x_train=x[0], y_train=labels[0], x_test=x[1], y_test=labels[1])
    return f"npz:{path}"


@dataclass(frozen=True)
class Workload:
    """A command that works in a folder, and how to go on with it after a kill."""

    start: Callable[[Path], list[str]]  # the folder -> the command
    resume: Callable[[Path], list[str]] = lambda out: ["resume", str(out)]
    begun: Callable[[Path], bool] = lambda out: any(out.glob("*.json"))  # whether there is something to go on with
    has_workers: bool = False  # whether it starts processes of its own


def workloads(folder: Path, seed: int = 0) -> dict[str, Workload]:
    """By kind, all that is tortured."""
    data = write_data(folder / "data.npz", seed)
    study = folder / "study.toml"
    study.write_text(
        f'[study]\npolicies = ["static", "fixed-0.6"]\nseeds = [0]\n[data]\nname = "{data}"\n[scenario]\nphases = 2\n'
        "[train]\nepochs = 1\ncheckpoint_minutes = 1e-9\n[finetune]\nepochs = 0\n[net]\nhidden = [8]\n"
    )
    run = ["run", "--dataset", data, *RUN, *QUICK, *INSIDE]
    learning = ["learn-policy", "--dataset", data, *LEARN, *QUICK, "--workers", "1"]
    full = ["learn-policy", "--dataset", data, *LEARN, *QUICK, *INSIDE, "--fidelity", "full", "--workers", "2"]
    return {
        "run": _in_folder(run),
        "learning": _in_folder(learning),  # in the command's own process
        "full learning": _in_folder(full, has_workers=True),
        "study": _in_folder(["study", str(study), "--workers", "1"], has_workers=True),
    }


def _in_folder(words: list[str], *, has_workers: bool = False) -> Workload:
    return Workload(lambda out: [*words, "--out", str(out)], has_workers=has_workers)


def contents(out: Path) -> dict[str, Any]:
    """All that must be equal, by file: JSON without seconds, everything else as bytes."""
    found: dict[str, Any] = {}
    for path in sorted(out.rglob("*")):
        if path.name in COMPARED:
            name = path.relative_to(out).as_posix()
            found[name] = timeless(json.loads(path.read_text())) if path.suffix == ".json" else path.read_bytes()
    return found


def timeless(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {key: timeless(value) for key, value in tree.items() if key != "seconds"}
    return [timeless(value) for value in tree] if isinstance(tree, list) else tree
