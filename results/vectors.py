"""Codecs of vectors: `python results/vectors.py --out results/vectors.json`, needs `cifar100` and `mini-imagenet`.

The vectors are embeddings of CIFAR-100 by a network that was trained on the ImageNet subset. Ten phases of ten classes
are learned with as many samples under every codec, and with as many bytes.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remem.api import run, scenario
from remem.codecs.table import CODECS
from remem.data.arrays import from_arrays
from remem.data.source import Dataset
from remem.evaluation.metrics import mean_interval
from remem.events import ignore
from remem.report.tables import Table, plus_minus
from remem.runs.build import open_episode, prepare
from remem.runs.config import compose
from remem.runs.devices import open_fabric
from remem.types import Reader, Samples

EXACT, CODES = "float32", ("float32", "float16", "int8")
SAMPLES = 3000  # of float32
EQUAL = ("samples", "bytes")


@dataclass(frozen=True)
class Setting:
    """A codec, what is equal to the exact samples, and the budget that follows from both."""

    codec: str
    equal: str
    budget: str


def settings(width: int) -> Iterator[Setting]:
    """Exact samples once; the others with as many samples and with as many bytes."""
    for codec in CODES:
        own, exact = (CODECS[name].size((width,)) or 0 for name in (codec, EXACT))
        for equal in EQUAL if codec != EXACT else EQUAL[:1]:
            yield Setting(codec, equal, f"{SAMPLES * (exact if equal == 'bytes' else own)}B")


def embeddings(seed: int = 0) -> Dataset:
    """CIFAR-100 as features of a network that has seen all classes of the ImageNet subset and none of CIFAR-100."""
    tree = {"preset": "tiny", "seed": seed, "method": {"name": "finetune"}, "data": {"name": "mini-imagenet"}}
    prepared = prepare(compose(tree, {"scenario": {"phases": 1, "base_classes": 99}}))
    episode = open_episode(prepared, open_fabric(prepared.config.train), ignore)
    episode.advance(prepared.scenario.phases[0], None)
    side = prepared.config.data.side
    assert side is not None
    whole = scenario("cifar100", phases=1, image_size=side, order="natural")

    def described(reader: Reader, parts: Sequence[Samples]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        samples = Samples(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("rows", "labels")))
        return episode.learner.describe(reader, samples).features.astype(np.float32), samples.labels

    by_class = {label: rows for phase in whole.phases for label, rows in phase.train.items()}
    train = [Samples(rows, np.full(len(rows), label)) for label, rows in by_class.items()]
    x, y = described(whole.bank, train)
    x_test, y_test = described(whole.eval_bank, [phase.eval_samples for phase in whole.phases])
    return from_arrays(x, y, x_test, y_test, name="cifar100-embeddings")


def measure(data: Dataset, seed: int) -> dict[str, dict[str, Any]]:
    """Accuracies and the most samples held, by codec and reading."""
    phases = scenario(data, phases=9, base_classes=0, order=f"seed:{seed}")
    found = {}
    for setting in settings(phases.bank.shape[0]):
        own = {"memory.codec": setting.codec, "train.precision": "fp32"}
        result = run(phases, method="lucir", policy="fixed-0.6", budget=setting.budget, seed=seed, settings=own)
        found[f"{setting.codec}, {setting.equal}"] = {
            "average": result.average_accuracy,
            "last": result.last_accuracy,
            "held": result.samples_peak,
            "budget": setting.budget,
        }
        print(seed, setting, result.average_accuracy, result.last_accuracy, flush=True)
    return found


def summary(found: dict[str, dict[str, Any]]) -> str:
    """Means over class orders, and differences to exact samples, paired by class order."""
    seeds = list(found.values())
    first = next(iter(seeds[0]))
    rows = []
    for name, one in seeds[0].items():
        codec, equal = name.split(", ")
        cells = [plus_minus(*mean_interval([seed[name][key] for seed in seeds])) for key in ("average", "last")]
        for key in ("average", "last") if name != first else ():
            gains = [seed[name][key] - seed[first][key] for seed in seeds]
            cells.append(plus_minus(*mean_interval(gains), sign="+"))
        rows.append((codec, equal, one["budget"], str(one["held"]), *cells, *["-"] * (4 - len(cells))))
    differences = (f"average - {EXACT}", f"last - {EXACT}")
    header = ("codec", "as many", "budget", "samples held", "average %", "last %", *differences)
    return Table(header, tuple(rows), labels=2).markdown()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Codecs of vectors: as many samples, and as many bytes.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="class orders")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where the figures go")
    options = parser.parse_args(arguments)
    data = embeddings()
    found = {str(seed): measure(data, seed) for seed in options.seeds}
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(summary(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
