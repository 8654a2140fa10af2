"""One incremental phase of `icarl` on CIFAR-100, in a process of its own: `python -m benchmarks.phase SIDE ...`.

The last line that it prints is JSON; SIDE is ours or customary. Both begin with the same network and the same samples.
"""

import argparse
import copy
import json
import statistics
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from benchmarks import customary
from benchmarks.peak import forward_flops, peak_flops
from remem.data.augment import augment, plan_for
from remem.evaluation import metrics
from remem.methods.learner import Learner
from remem.nets.network import Network
from remem.runs.build import Prepared, limit_threads, network_builder, open_episode, open_fabric, prepare
from remem.runs.config import compose
from remem.types import Samples

BATCH = 128


def prepared_run(threads: int, epochs: int, seed: int = 0, base: int = 50) -> Prepared:
    keys: dict[str, Any] = {
        "seed": seed,
        "data": {"name": "cifar100", "image_size": 32},
        "scenario": {"order": "lucir", "base_classes": base, "phases": (100 - base) // 10},
        "method": {"name": "icarl"},
        "net": {"name": "resnet32"},
        "train": {"batch_size": BATCH, "epochs": epochs, "threads": threads, "precision": "fp32"},
        "finetune": {"epochs": 0},
    }
    return prepare(compose(keys))


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
    """The real Learner; epochs as it reports them."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self.epochs: list[Mapping[str, Any]] = []
        self.learner: Learner = open_episode(prepared, open_fabric(prepared.config.train), self._note).learner

    def _note(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "epoch":
            self.epochs.append(event)

    def fit(self, weights: dict[str, torch.Tensor], samples: Samples) -> None:
        self.learner.load(weights)
        scenario = self._prepared.scenario
        self.learner.fit(scenario.phases[1], samples, scenario.bank)


def fit_customary(
    prepared: Prepared, weights: dict[str, torch.Tensor], samples: Samples, *, workers: int, seed: int
) -> tuple[Network, list[float]]:
    """The same phase through the customary pipeline: the network, and the seconds of every step."""
    look, phase = prepared.scenario.look, prepared.scenario.phases[1]
    assert look.mean is not None
    assert look.std is not None
    network = network_builder(prepared)(0)
    network.restore(weights)
    ours = network.mean.clone(), network.std.clone()
    network.mean.zero_()  # its transforms normalise
    network.std.fill_(1.0)
    teacher = copy.deepcopy(network).eval().requires_grad_(False)
    network.head.grow(len(phase.classes), torch.Generator().manual_seed(seed))
    values = prepared.scenario.bank.read(samples.rows)
    pictures = customary.Pictures(values, samples.labels, customary.Look(look.mean, look.std))
    steps = list(customary.train(network, teacher, pictures, prepared.config.train, workers=workers, seed=seed))
    network.mean.copy_(ours[0])
    network.std.copy_(ours[1])
    return network, steps


def accuracy(prepared: Prepared, learner: Learner, samples: Samples) -> tuple[float, float]:
    """Of both readouts on the test samples of phases 0 and 1: the head, and the nearest mean of what is held."""
    scenario = prepared.scenario
    judged = scenario.phases[0].judge.with_(scenario.phases[1].judge)
    tested, known = learner.describe(scenario.judge, judged), learner.describe(scenario.bank, samples)
    means = metrics.class_means(known.features, samples.labels, sorted(set(samples.labels.tolist())))
    nearest = metrics.nearest_mean(tested.features, means)
    return metrics.accuracy(judged.labels, tested.logits.argmax(1)), metrics.accuracy(judged.labels, nearest)


def data_seconds(prepared: Prepared, samples: Samples) -> float:
    """Of reading and augmenting one batch."""
    scenario, draws, times = prepared.scenario, torch.Generator().manual_seed(0), []
    plan = plan_for(scenario.look, scenario.bank.shape, prepared.config.augment)
    for _ in range(20):
        started = time.perf_counter()
        augment(torch.from_numpy(scenario.bank.read(samples.rows[:BATCH])), plan, draws)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=("ours", "customary"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4, help="in an epoch; the first of the epochs is not counted")
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    prepared = prepared_run(options.threads, options.epochs)
    samples = held(prepared, 20, 500).take(slice(-options.steps * BATCH, None))
    weights = untrained(prepared)
    if options.side == "ours":
        ours = Ours(prepared)
        ours.fit(weights, samples)
        steps = [epoch["seconds"] / options.steps for epoch in ours.epochs[1:]]
        image = torch.zeros(1, *np.roll(prepared.scenario.bank.shape, 1).tolist())
        found: dict[str, Any] = {
            "data": data_seconds(prepared, samples),
            "flops": BATCH * forward_flops(ours.learner.network, image),
            "peak": peak_flops(options.threads),
        }
    else:
        limit_threads(options.threads)
        _, all_steps = fit_customary(prepared, weights, samples, workers=options.workers, seed=0)
        # Starting workers is part of the first step of an epoch, which a real epoch has fifty of: it is left out.
        steps = [seconds for place, seconds in enumerate(all_steps[options.steps :]) if place % options.steps]
        found = {}
    print(json.dumps({"steps": steps, **found}))


if __name__ == "__main__":
    main()
