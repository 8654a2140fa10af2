"""A whole phase of `icarl` in the manner of PyCIL against `Episode`: `python -m benchmarks.plain_phase SIDE`.

SIDE is ours or plain. Selection, one epoch, class means and both readouts: CIFAR-100, ResNet-32, one thread, CPU
seconds. Everything is a fifth of 50 + 10 classes, because all work is done class by class or sample by sample.
"""

import argparse
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist  # type: ignore[import-untyped]
from torch.utils.data import DataLoader

from benchmarks.customary import Pictures, View
from benchmarks.herding import distances, normalised
from benchmarks.phase import BATCH, Customary, answer, held, normalisation, prepared_run, untrained
from benchmarks.table import Row
from benchmarks.timing import CpuClock, Turns, shown, speed_up, wait_for_turn
from remem.data.bank import Bank
from remem.events import ignore
from remem.nets.base import Output
from remem.nets.network import Network
from remem.runs.build import open_episode
from remem.runs.devices import limit_threads, open_fabric
from remem.runs.prepared import Prepared
from remem.types import Samples

BASE, NEW, EACH, EXEMPLARS = 10, 2, 500, 20  # classes of phases 0 and 1; samples and exemplars of a class
SIDES = ("ours", "plain")

Floats = NDArray[np.floating]
Parts = dict[str, float]  # parts of a phase and how often they count

OURS: Parts = {"train": 1, "evaluate": 1}  # selection opens the training
PLAIN: Parts = {"train": 1, "means": 1, "read out": 1}
PYCIL: Parts = {"train": 1, "exemplar means": 1, "read out": 1}
LATER = NEW / BASE  # a later phase selects from as many classes as the phase before it brought
COMPARED: list[tuple[str, Parts, Parts, str]] = [
    (
        f"selection after phase 0: {BASE} classes of {EACH}, described for their means",
        {"select": 1},
        {"select": 1},
        "at least 50x",
    ),
    (
        f"phase 1 of one epoch: {BASE} classes selected from, {NEW} new",
        OURS,
        PLAIN | {"select": 1},
        "at least 3.5x",
    ),
    (f"a later phase of one epoch: {NEW} classes selected from, {NEW} new", OURS, PLAIN | {"select": LATER}, ""),
    ("a later phase, plain means of exemplars alone, not mirrored", OURS, PYCIL | {"select": LATER}, ""),
    ("its training alone", {"train": 1}, {"train": 1}, ""),
]


def prepared_phase() -> Prepared:
    """Phase 1 holds 20 exemplars of every old class and all new data."""
    old = BASE * EXEMPLARS
    return prepared_run(1, 1, {"memory": {"exemplars": old, "budget": old + NEW * EACH}}, base=BASE, new=NEW)


def run_ours() -> None:
    """Phase 1 for each turn, as a run finds it: phase 0 has been evaluated."""
    prepared = prepared_phase()
    first, second = prepared.scenario.phases[:2]
    episode = open_episode(prepared, open_fabric(prepared.config.train), ignore)
    episode.train(first, None)
    snapshot = episode.snapshot()
    action = prepared.policy.act(episode.observe(second))
    wait_for_turn()
    while True:
        episode.restore(snapshot)
        episode.class_means()  # what the evaluation of phase 0 leaves behind
        clock = CpuClock()
        with clock("train"):
            episode.train(second, action)
        with clock("evaluate"):
            result = episode.evaluate()
        # The episode measures selection itself, in wall-clock seconds: never less than those of the CPU.
        answer(clock.seconds | {"select": result.seconds["select"]})


@dataclass(frozen=True)
class PlainPhase:
    """The same phase, class by class, with a pass over the data for everything that is asked."""

    prepared: Prepared
    network: Network

    def features(self, bank: Bank, samples: Samples, view: View = "plain") -> Floats:
        return np.concatenate([output.features.numpy() for output in self._outputs(bank, samples, view)])

    def select(self, samples: Samples) -> list[list[int]]:
        """Exemplars of every class: features of the class, then herding by the loop of the paper."""
        found = []
        for own in by_class(samples):
            features = self.features(self.prepared.scenario.bank, own)
            found.append(distances(normalised(features, np.arange(len(own))), EXEMPLARS))
        return found

    def class_means(self, samples: Samples, views: Sequence[View]) -> Floats:
        means = []
        for own in by_class(samples):
            features = np.concatenate([self.features(self.prepared.scenario.bank, own, view) for view in views])
            mean = units(features).mean(axis=0)
            means.append(mean / np.linalg.norm(mean))
        return np.stack(means)

    def read_out(self, samples: Samples, means: Floats) -> tuple[Floats, Floats]:
        """Predictions of the head and of the nearest mean, in a pass each."""
        bank = self.prepared.scenario.eval_bank
        cnn = np.concatenate([output.logits.argmax(1).numpy() for output in self._outputs(bank, samples, "plain")])
        return cnn, cdist(units(self.features(bank, samples)), means, "sqeuclidean").argmin(axis=1)

    def _outputs(self, bank: Bank, samples: Samples, view: View) -> Iterator[Output]:
        used = normalisation(self.prepared)
        pictures = Pictures(bank.read(samples.rows), samples.labels, used, bank.shape[0], view)
        self.network.eval()
        with torch.no_grad():
            for inputs, _ in DataLoader(pictures, BATCH):
                yield self.network(inputs)


def by_class(samples: Samples) -> list[Samples]:
    return [samples.of([label]) for label in np.unique(samples.labels)]


def units(features: Floats) -> Floats:
    found: Floats = features / np.linalg.norm(features, axis=1, keepdims=True)
    return found


def run_plain() -> None:
    """Phase 1 for each turn; the parts of a phase in the order in which they come."""
    limit_threads(1)
    prepared = prepared_phase()
    first, second = prepared.scenario.phases[:2]
    arrived, samples = held(prepared, EACH, 0), held(prepared, EXEMPLARS, EACH)
    exemplars = held(prepared, EXEMPLARS, EXEMPLARS)
    test = first.eval_samples.with_(second.eval_samples)
    weights = untrained(prepared)
    wait_for_turn()
    while True:
        training, clock = Customary(prepared, weights, samples), CpuClock()
        phase = PlainPhase(prepared, training.network)
        with clock("select"):
            phase.select(arrived)
        with clock("train"):
            deque(training.steps(), maxlen=0)
        with clock("means"):
            means = phase.class_means(samples, ("plain", "mirrored"))
        with clock("exemplar means"):
            phase.class_means(exemplars, ("plain",))
        with clock("read out"):
            phase.read_out(test, means)
        answer(clock.seconds)


def rows(turns: int = 4) -> list[Row]:
    measured: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    with ExitStack() as stack:
        sides = {side: stack.enter_context(Turns("benchmarks.plain_phase", side)) for side in SIDES}
        for turn in range(turns + 1):
            for side, process in sides.items():
                found = process.turn()
                if turn:  # the first warms up
                    measured[side].append(found)
    return rows_of(measured["ours"], measured["plain"])


def rows_of(ours: Sequence[dict[str, float]], plain: Sequence[dict[str, float]]) -> list[Row]:
    """Compares sums of parts, each with its weight."""
    return [
        Row(
            what,
            speed_up(total(ours, our_parts), total(plain, plain_parts)),
            "x",
            wanted,
            f"{listed(ours, our_parts)} against {listed(plain, plain_parts)}",
        )
        for what, our_parts, plain_parts, wanted in COMPARED
    ]


def total(turns: Sequence[dict[str, float]], parts: Parts) -> list[float]:
    return [sum(weight * turn[part] for part, weight in parts.items()) for turn in turns]


def listed(turns: Sequence[dict[str, float]], parts: Parts) -> str:
    """The median of the sum and, if there are several, of every part."""
    whole = shown(median(total(turns, parts)))
    each = [f"{part} {shown(median(total(turns, {part: weight})))}" for part, weight in parts.items()]
    return whole if len(each) == 1 else f"{whole} ({', '.join(each)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=SIDES)
    run_ours() if parser.parse_args().side == "ours" else run_plain()


if __name__ == "__main__":
    main()
