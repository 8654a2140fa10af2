"""One incremental phase of `icarl` on CIFAR-100, in a process of its own: `python -m benchmarks.phase SIDE ...`.

SIDE is ours or customary; both begin with the same network and the same samples. For every line of input they train a
few steps and print a line of JSON.
"""

import argparse
import copy
import json
import statistics
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import torch

from benchmarks import customary
from benchmarks.peak import forward_flops, peak_flops
from benchmarks.timing import wait_for_turn
from remem.data.augment import augment, plan_for
from remem.evaluation import metrics
from remem.events import Emit, Event, ignore
from remem.methods.events import EpochEnded
from remem.methods.learner import Learner
from remem.runs.build import network_builder, open_episode, prepare
from remem.runs.config import compose
from remem.runs.devices import limit_threads, open_fabric
from remem.runs.prepared import Prepared
from remem.runs.trees import Tree
from remem.types import Samples, Values

BATCH = 128
NETS = {32: "resnet32", 16: "small"}  # by the side of a picture: that of the papers, and that of preset `small`
MOST_TURNS = 100  # epochs of the schedule; who asks stops long before


def prepared_run(
    threads: int,
    epochs: int,
    *layers: Tree,
    size: int = 32,
    seed: int = 0,
    base: int = 50,
    new: int = 10,
    precision: str = "auto",
) -> Prepared:
    keys: Tree = {
        "seed": seed,
        "data": {"name": "cifar100", "image_size": size},
        "scenario": {"order": "lucir", "base_classes": base, "phases": (100 - base) // new},
        "method": {"name": "icarl"},
        "net": {"name": NETS[size]},
        "train": {"batch_size": BATCH, "epochs": epochs, "threads": threads, "precision": precision},
        "finetune": {"epochs": 0},
    }
    return prepare(compose(keys, *layers))


def held(prepared: Prepared, old_each: int, new_each: int) -> Samples:
    """The first samples of every class of phases 0 and 1."""
    first, second = prepared.scenario.phases[:2]
    parts = [(label, rows[:old_each]) for label, rows in first.train.items()]
    parts += [(label, rows[:new_each]) for label, rows in second.train.items()]
    labels = np.repeat([label for label, _ in parts], [len(rows) for _, rows in parts])
    return Samples(np.concatenate([rows for _, rows in parts]), labels)


def untrained(prepared: Prepared) -> dict[str, torch.Tensor]:
    """Weights of a network that knows the classes of phase 0."""
    network = network_builder(prepared)(0)
    network.head.grow(len(prepared.scenario.phases[0].classes), torch.Generator().manual_seed(0))
    return dict(network.state_dict())


class Ours:
    """The real Learner; `emit` receives its events."""

    def __init__(self, prepared: Prepared, emit: Emit = ignore) -> None:
        self._prepared = prepared
        self.learner: Learner = open_episode(prepared, open_fabric(prepared.config.train), emit).learner

    def fit(self, weights: dict[str, torch.Tensor], samples: Samples) -> None:
        self.learner.load(weights)
        scenario = self._prepared.scenario
        self.learner.fit(scenario.phases[1], samples, scenario.bank)


def normalisation(prepared: Prepared) -> customary.Normalisation:
    used = prepared.scenario.preprocessing
    assert used.mean is not None
    assert used.std is not None
    return customary.Normalisation(used.mean, used.std)


class Customary:
    """The same phase through the customary pipeline; `values` are its pictures where they are not those of the run."""

    def __init__(
        self,
        prepared: Prepared,
        weights: dict[str, torch.Tensor],
        samples: Samples,
        seed: int = 0,
        values: Values | None = None,
    ) -> None:
        scenario, phase = prepared.scenario, prepared.scenario.phases[1]
        self._settings, self._seed = prepared.config.train, seed
        self.network = network_builder(prepared)(0)
        self.network.restore(weights)
        self._own = self.network.mean.clone(), self.network.std.clone()
        self.network.mean.zero_()  # its transforms normalise
        self.network.std.fill_(1.0)
        self._teacher = copy.deepcopy(self.network).eval().requires_grad_(False)
        self.network.head.grow(len(phase.classes), torch.Generator().manual_seed(seed))
        values = scenario.bank.read(samples.rows) if values is None else values
        self._pictures = customary.Pictures(values, samples.labels, normalisation(prepared), scenario.bank.shape[0])

    def steps(self, workers: int = 0) -> Iterator[float]:
        """Seconds of every step of all epochs."""
        return customary.train(
            self.network, self._teacher, self._pictures, self._settings, workers=workers, seed=self._seed
        )

    def weights(self) -> dict[str, torch.Tensor]:
        """As ours would have them: the network normalises."""
        return dict(self.network.state_dict()) | {"mean": self._own[0], "std": self._own[1]}


def accuracy(prepared: Prepared, learner: Learner, samples: Samples) -> tuple[float, float]:
    """Of both readouts on the test samples of phases 0 and 1: the head, and the nearest mean of what is held."""
    scenario = prepared.scenario
    test = scenario.phases[0].eval_samples.with_(scenario.phases[1].eval_samples)
    tested, known = learner.describe(scenario.eval_bank, test), learner.describe(scenario.bank, samples)
    means = metrics.class_means(known.features, samples.labels, sorted(set(samples.labels.tolist())))
    nearest = metrics.nearest_mean(tested.features, means)
    return metrics.accuracy(test.labels, tested.logits.argmax(1)), metrics.accuracy(test.labels, nearest)


def data_seconds(prepared: Prepared, samples: Samples) -> float:
    """Of reading and augmenting one batch."""
    scenario, draws, times = prepared.scenario, torch.Generator().manual_seed(0), []
    plan = plan_for(scenario.preprocessing, scenario.bank.shape, prepared.config.augment)
    for _ in range(20):
        started = time.perf_counter()
        augment(torch.from_numpy(scenario.bank.read(samples.rows[:BATCH])), plan, draws)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def train_ours(prepared: Prepared, samples: Samples) -> None:
    """An epoch for each turn."""
    image = torch.zeros(1, *np.roll(prepared.scenario.bank.shape, 1).tolist())

    def print_epoch(event: Event) -> None:
        if not isinstance(event, EpochEnded):
            return
        steps = -(-len(samples) // BATCH)
        found = {"step": event.seconds / steps, "data": data_seconds(prepared, samples)}
        train = prepared.config.train
        found |= {"flops": BATCH * flops, "peak": peak_flops(train.threads, train.precision)}
        answer(found | {"precision": train.precision})

    ours = Ours(prepared, print_epoch)
    ours.learner.load(untrained(prepared))
    flops = forward_flops(ours.learner.network, image)
    wait_for_turn()
    ours.fit(untrained(prepared), samples)


def train_customary(prepared: Prepared, samples: Samples, workers: int) -> None:
    """An epoch for each turn; its first step, which starts the workers, is left out: a real epoch has fifty others.

    Its pictures have 32 px, as they come. Smaller ones are made by its transforms, one by one, in every epoch.
    """
    limit_threads(prepared.config.train.threads)
    values = prepared_run(1, 1).scenario.bank.read(samples.rows)
    steps = Customary(prepared, untrained(prepared), samples, values=values).steps(workers)
    wait_for_turn()
    while epoch := list(islice(steps, -(-len(samples) // BATCH))):
        answer({"step": statistics.fmean(epoch[1:])})


def answer(found: Mapping[str, Any]) -> None:
    print(json.dumps(found), flush=True)
    wait_for_turn()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=("ours", "customary"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--steps", type=int, default=3, help="in an epoch")
    parser.add_argument("--size", type=int, choices=NETS, default=32, help="side of a picture in pixels")
    options = parser.parse_args()
    prepared = prepared_run(options.threads, MOST_TURNS, size=options.size)
    samples = held(prepared, 20, 500).take(slice(-options.steps * BATCH, None))
    if options.side == "ours":
        train_ours(prepared, samples)
    else:
        train_customary(prepared, samples, options.workers)


if __name__ == "__main__":
    main()
