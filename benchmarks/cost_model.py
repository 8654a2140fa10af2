"""The cost model of docs/reports/scaling.md: what `remem plan` predicts against what runs take, and ImageNet on paper.

python -m benchmarks.cost_model paces      seconds of one sample in one epoch, by method, and the size of snapshots
python -m benchmarks.cost_model check      predicted and measured seconds of small runs that differ in one number
python -m benchmarks.cost_model imagenet   operations of ImageNet-Full with ResNet-18; nothing is trained

Seconds are those of the processor, in one thread: whatever else the machine does hardly counts.
"""

import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls  # type: ignore[import-untyped]
from torch.utils.flop_counter import FlopCounterMode

from remem.nets.network import Network, build_network
from remem.nets.settings import HeadSettings, NetSettings
from remem.runs.build import prepare
from remem.runs.config import compose
from remem.runs.dry_run import plan
from remem.runs.estimate import Trial, estimate_seconds, try_out
from remem.runs.prepared import Prepared
from remem.runs.run import run

METHODS = ("finetune", "icarl", "lucir", "podnet", "lucir-aanets")
BASE: dict[str, Any] = {
    "policy": "fixed-0.6",
    "data": {"name": "glyphs"},
    "scenario": {"phases": 2},
    "memory": {"budget": 2000},
    "train": {"epochs": 1},
    "finetune": {"epochs": 0},
}
VARIANTS: dict[str, dict[str, Any]] = {
    "N = 2, M = 2000, 1 epoch": {},
    "N = 4": {"scenario": {"phases": 4}},
    "M = 4000": {"memory": {"budget": 4000}},
    "2 epochs": {"train": {"epochs": 2}},
    "1 epoch of fine-tuning": {"finetune": {"epochs": 1}},
    "20 classes first": {"scenario": {"base_classes": 20}},
}
# ImageNet-Full as the preset `paper` has it: 1281 images a class on average, E = 20 exemplars a class in the end.
CLASSES, IMAGES, EXEMPLARS, EPOCHS = 1000, 1_281_167, 20_000, 90
SPEEDS = {"a CPU core": 50e9, "a GPU": 20e12, "8 GPUs": 160e12}  # operations in a second that training reaches


def ready(*layers: Mapping[str, Any]) -> Prepared:
    return prepare(compose(BASE, *layers))


def tried(prepared: Prepared, seconds: float) -> Trial:
    return try_out(prepared, plan(prepared), seconds)


def paces(rounds: int = 5) -> str:
    """Milliseconds of one sample in one epoch: phase 0, later phases, and where a sample is only looked at."""
    lines = ["| method | phase 0 | later | ratio | looked at | model MB |", "| :-- | --: | --: | --: | --: | --: |"]
    prepared = {method: ready({"method": {"name": method}}) for method in METHODS}
    trials: dict[str, list[Trial]] = {method: [] for method in METHODS}
    for _ in range(rounds):  # in turn, so that all feel the same noise
        for method, run_of_it in prepared.items():
            trials[method].append(tried(run_of_it, 2.0))
    for method, found in trials.items():
        first, later, describe = (
            1e3 * statistics.median(values)
            for values in zip(*((sum(t.first.values()), sum(t.later.values()), t.describe) for t in found), strict=True)
        )
        numbers = f"{first:.2f} | {later:.2f} | {later / first:.2f} | {describe:.2f}"
        lines.append(f"| {method} | {numbers} | {found[0].model_bytes / 1e6:.2f} |")
    return "\n".join(lines)


def counts(prepared: Prepared) -> list[float]:
    """What the model multiplies with paces: samples x epochs in phase 0, in later phases, and samples looked at."""
    nothing = Trial({"main": 0.0}, {"main": 0.0}, 0.0, 0, 0, 0, 0, 0)
    later = {"main": 1.0, "balanced": 1.0} if prepared.config.finetune.epochs else {"main": 1.0}
    units = (replace(nothing, first={"main": 1.0}), replace(nothing, later=later), replace(nothing, describe=1.0))
    return [sum(estimate_seconds(prepared, plan(prepared), unit)) for unit in units]


def fitted(took: Mapping[str, float]) -> dict[str, float]:
    """Seconds of every run by the three paces that suit all of them best."""
    table = np.array([counts(ready(VARIANTS[name])) for name in took])
    seconds = np.array(list(took.values()))
    paces = nnls(table / seconds[:, None], np.ones(len(seconds)))[0]  # errors count as shares of a run
    return dict(zip(took, (table @ paces).tolist(), strict=True))


def check() -> str:
    """Small runs in this process, each beside what a few batches just before it foretold."""
    predicted, took = {}, {}
    for name, changes in VARIANTS.items():
        prepared = ready(changes)
        predicted[name] = sum(estimate_seconds(prepared, plan(prepared), tried(prepared, 2.0)))
        took[name] = sum(sum(phase.seconds.values()) for phase in run(prepared).phases)
    return check_table(predicted, took)


def check_table(predicted: Mapping[str, float], took: Mapping[str, float]) -> str:
    lines = ["| run | measured s | a few batches foretold | three paces for all runs |", "| :-- | --: | --: | --: |"]
    fit = fitted(took)
    for name, seconds in took.items():
        shares = (
            f"{predicted[name]:.1f} ({predicted[name] / seconds:.2f}) | {fit[name]:.1f} ({fit[name] / seconds:.2f})"
        )
        lines.append(f"| {name} | {seconds:.1f} | {shares} |")
    return "\n".join(lines)


@dataclass(frozen=True)
class Operations:
    """Floating-point operations of one run."""

    phases: int
    first: float  # phase 0
    later: float  # every other phase

    @property
    def total(self) -> float:
        return self.first + self.phases * self.later


def resnet18() -> Network:
    network = build_network(NetSettings(name="resnet18"), (224, 224, 3), HeadSettings(name="cosine"), seed=0)
    network.head.grow(CLASSES, torch.Generator().manual_seed(0))
    return network


def forward_operations(network: Network) -> int:
    """Of one picture of 224 px; a multiplication and an addition count as two."""
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        network.eval()(torch.zeros(1, 3, 224, 224))
    return int(counter.get_total_flops())


def imagenet_work(forward: int, phases: int) -> Operations:
    """A step costs three forward passes, and one more for the teacher; looking at samples costs one.

    M gives old classes 20 exemplars each in the end and new ones all of their data, as on CIFAR-100.
    """
    half, new = IMAGES / 2, IMAGES / 2 / phases
    held = EXEMPLARS + new
    looked_first, looked_later = 2 * half, 2 * held + 2 * new
    first = 3 * forward * half * EPOCHS + forward * looked_first
    return Operations(phases, first, 4 * forward * held * EPOCHS + forward * looked_later)


def days(operations: float, speed: float) -> str:
    return f"{operations / speed / 86400:.3g}"


def imagenet() -> str:
    network = resnet18()
    forward, size = forward_operations(network), sum(v.nbytes for v in network.state_dict().values())
    lines = [f"{forward / 1e9:.2f} GFLOP forward, {size / 1e6:.1f} MB of weights", ""]
    lines += [f"| N | phase 0, EFLOP | a later phase | all | {' | '.join(f'days on {name}' for name in SPEEDS)} |"]
    lines += ["| --: " * (4 + len(SPEEDS)) + "|"]
    for phases in (5, 10, 25):
        work = imagenet_work(forward, phases)
        parts = " | ".join(f"{part / 1e18:.2f}" for part in (work.first, work.later, work.total))
        lines.append(f"| {phases} | {parts} | {' | '.join(days(work.total, speed) for speed in SPEEDS.values())} |")
    return "\n".join(lines)


PARTS = {"paces": paces, "check": check, "imagenet": imagenet}


def main() -> None:
    time.perf_counter = time.process_time  # for the trials of `remem plan` and the clocks of a run alike
    for name in sys.argv[1:] or PARTS:
        print(f"{PARTS[name]()}\n")


if __name__ == "__main__":
    main()
