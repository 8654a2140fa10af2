"""Streams against runs: `python results/streams.py cifar100 vectors --out results/streams.json`.

Twelve updates: six that bring new classes, as a run's phases do, then known classes again, one class alone, single
samples, and known and new classes together. After each, the model is saved and its files are measured. After the first
six, accuracy is compared with `remem run` on the same phases, under the same budget.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remem import IncrementalClassifier
from remem.api import run, scenario
from remem.data.arrays import from_arrays
from remem.data.scenario import Scenario

NEW = (10, 4, 4, 4, 4, 4)  # classes of the first six updates
EXTRA = 3  # classes that come later
KINDS: dict[str, dict[str, Any]] = {
    "cifar100": {"budget": "1MB", "codec": "raw"},
    "vectors": {"budget": "100kB", "codec": "int8"},
}


def make_scenario(kind: str) -> Scenario:
    """30 classes in six phases, and some more for the updates after them."""
    if kind == "cifar100":
        whole = scenario("cifar100", phases=1, image_size=16)
        order, bank, test = whole.class_order, whole.bank, whole.eval_bank
        parts = [(bank.read(rows), label) for phase in whole.phases for label, rows in phase.train.items()]
        tests = [(test.read(p.eval_samples.rows), p.eval_samples.labels) for p in whole.phases]
        x, y = np.concatenate([part for part, _ in parts]), np.repeat(range(len(order)), [len(p) for p, _ in parts])
        x_test, y_test = (np.concatenate([part[place] for part in tests]) for place in (0, 1))
    else:
        rng = np.random.default_rng(0)
        centres = rng.standard_normal((sum(NEW) + EXTRA, 64)).astype(np.float32)
        y, y_test = (np.repeat(range(len(centres)), count) for count in (300, 100))
        x, x_test = (
            (centres[labels] + 2.5 * rng.standard_normal((len(labels), 64))).astype(np.float32)
            for labels in (y, y_test)
        )
    kept, seen = y < sum(NEW) + EXTRA, y_test < sum(NEW) + EXTRA
    data = from_arrays(x[kept], y[kept], x_test[seen], y_test[seen], name=kind)
    return scenario(data, phases=len(NEW) + EXTRA - 1, base_classes=NEW[0], order="natural")


def arrays(made: Scenario) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Training and test samples with their labels."""
    train = [(rows, label) for phase in made.phases for label, rows in phase.train.items()]
    rows, labels = (
        np.concatenate([part for part, _ in train]),
        np.repeat([k for _, k in train], [len(r) for r, _ in train]),
    )
    test = [phase.eval_samples for phase in made.phases]
    return (
        made.bank.read(rows),
        labels,
        made.eval_bank.read(np.concatenate([part.rows for part in test])),
        np.concatenate([part.labels for part in test]),
    )


def updates(labels: NDArray[Any]) -> list[NDArray[Any]]:
    """Which samples each of the twelve updates brings."""
    ends, last = np.cumsum(NEW), sum(NEW)
    first = [np.flatnonzero((labels >= end - size) & (labels < end)) for end, size in zip(ends, NEW, strict=True)]

    def of(label: int, count: int) -> NDArray[Any]:
        return np.flatnonzero(labels == label)[:count]

    later = [
        np.concatenate([of(label, 100) for label in (0, 11, 25)]),  # known classes again
        of(last, 500),  # one new class alone
        of(3, 1),  # a single sample of a known class
        of(last + 1, 1),  # a single sample of a new one
        np.concatenate([of(last + 2, 500), of(last + 1, 200), of(7, 50)]),  # new and known
        of(29, 300),
    ]
    return first + later


def measure(kind: str) -> dict[str, Any]:
    """Accuracies on all classes so far and sizes of files after every update, and the accuracy of the run."""
    settings = KINDS[kind]
    x, y, x_test, y_test = arrays(make_scenario(kind))
    limit = int(float(settings["budget"][:-2]) * {"k": 1e3, "M": 1e6}[settings["budget"][-2]])
    clf = IncrementalClassifier(method="icarl", policy="fixed-0.6", **settings)
    calls = []
    with tempfile.TemporaryDirectory() as folder:
        for places in updates(y):
            clf.partial_fit(x[places], y[places])
            clf.save(Path(folder) / "model")
            size = sum(path.stat().st_size for path in Path(folder).rglob("exemplars.safetensors"))
            known = np.isin(y_test, clf.classes_)
            accuracy = clf.score(x_test[known], y_test[known])
            held = clf.memory_
            calls.append(
                {
                    "samples": len(places),
                    "classes": len(clf.classes_),
                    "accuracy": accuracy,
                    "held": held.total_samples,
                    "bytes": held.total_bytes,
                    "file_bytes": size,
                    "within": size <= limit,
                }
            )
            print(kind, calls[-1], flush=True)
    keep, seen = y < sum(NEW), y_test < sum(NEW)
    data = from_arrays(x[keep], y[keep], x_test[seen], y_test[seen], name=kind)
    same = scenario(data, phases=len(NEW) - 1, base_classes=NEW[0], order="natural")
    options = {"budget": settings["budget"], "settings": {"memory.codec": settings["codec"]}}
    result = run(same, method="icarl", policy="fixed-0.6", **options)
    return {**settings, "updates": calls, "run": [phase.accuracy for phase in result.phases]}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Streams of twelve updates against runs on the same phases.")
    parser.add_argument("kinds", nargs="+", choices=KINDS, help="which samples")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where the figures go")
    options = parser.parse_args(arguments)
    found = json.loads(options.out.read_text()) if options.out.exists() else {}
    for kind in options.kinds:
        found[kind] = measure(kind)
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
