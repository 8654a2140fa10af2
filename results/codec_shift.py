"""Measures the domain shift of codecs: `python results/codec_shift.py DIR... [--out FILE.json]`.

DIR are folders of finished runs on images or vectors. Each model is evaluated on the test samples as they are and on
the test samples after each codec, by both of its readouts. A model that was trained on decoded samples and is tested on
raw ones, as all of ours are, loses what the difference shows.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from remem.codecs.codec import Codec
from remem.codecs.table import CODECS, RAW
from remem.data.datasets import load_dataset
from remem.data.scenario import build_scenario
from remem.errors import InputError
from remem.runs.model import Model, load_model
from remem.runs.results import load_result
from remem.types import Values

BLOCK = 2048  # samples at a time


def codecs_for(shape: tuple[int, ...]) -> dict[str, Codec]:
    return {name: CODECS[name] for name in CODECS if name != "file" and CODECS[name].misfit(shape) is None}


def accuracies(model: Model, values: Values, labels: Any) -> dict[str, dict[str, float]]:
    """Accuracy by codec and readout."""
    heads = ("cnn",) if model.class_means is None else ("cnn", "nme")
    found: dict[str, dict[str, float]] = {}
    for name, codec in codecs_for(values.shape[1:]).items():
        blocks = (values[start : start + BLOCK] for start in range(0, len(values), BLOCK))
        shown = values if name == RAW else np.concatenate([codec.decode(codec.encode(b), b.shape[1:]) for b in blocks])
        found[name] = {
            head: float((model.predict(shown, head=head).classes == labels).mean())  # type: ignore[arg-type]
            for head in heads
        }
    return found


def measure(folder: Path) -> dict[str, Any]:
    model, result = load_model(folder), load_result(folder)
    scenario = build_scenario(load_dataset(model.config.data), model.config.scenario, model.config.data)
    rows = np.concatenate([phase.eval_samples.rows for phase in scenario.phases])
    labels = np.concatenate([phase.eval_samples.labels for phase in scenario.phases])
    return {
        "policy": result.policy_name,
        "trained_on": result.phases[-1].codec or RAW,
        "head": result.head,
        "accuracy": accuracies(model, scenario.eval_bank.read(rows), labels),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="DIR", help="folder of a finished run")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also writes the figures as JSON")
    options = parser.parse_args(arguments)
    try:
        measured = {folder.name: measure(folder) for folder in options.runs}
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for name, found in measured.items():
        print(f"{name}: {found['policy']}, trained on {found['trained_on']}, read out by {found['head']}")
        raw = found["accuracy"][RAW]
        for codec, heads in found["accuracy"].items():
            text = ", ".join(f"{head} {100 * own:.1f} ({100 * (own - raw[head]):+.1f})" for head, own in heads.items())
            print(f"  test samples as {codec:15} {text}")
    if options.out is not None:
        options.out.write_text(json.dumps(measured, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
