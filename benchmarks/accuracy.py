"""Final accuracy of one shortened incremental phase of `icarl`, ours and the customary pipeline, over some seeds."""

import statistics

from benchmarks.phase import Customary, Ours, accuracy, held, prepared_run
from benchmarks.table import Row
from remem.types import Samples

SEEDS = 3
BASE_CLASSES, OLD_EACH, NEW_EACH = 10, 40, 150
FIRST_EPOCHS, EPOCHS, THREADS = 5, 5, 2


def readouts(seed: int) -> dict[str, tuple[float, float]]:
    """Both pipelines from the same phase 0 on the same samples."""
    first = prepared_run(THREADS, FIRST_EPOCHS, seed, BASE_CLASSES)
    beginner = Ours(first)
    everything = held(first, NEW_EACH, 0)
    beginner.learner.fit(first.scenario.phases[0], everything, first.scenario.bank)
    weights = beginner.learner.state()
    later = prepared_run(THREADS, EPOCHS, seed, BASE_CLASSES)
    samples: Samples = held(later, OLD_EACH, NEW_EACH)
    ours = Ours(later)
    ours.fit(weights, samples)
    found = {"ours": accuracy(later, ours.learner, samples)}
    plain = Customary(later, weights, samples, seed)
    for _ in plain.steps():
        pass
    ours.learner.load(plain.weights())
    return found | {"customary": accuracy(later, ours.learner, samples)}


def rows(seeds: int = SEEDS) -> list[Row]:
    found = [readouts(seed) for seed in range(seeds)]
    made = []
    for place, name in enumerate(("head", "nearest mean")):
        ours, plain = ([100 * one[side][place] for one in found] for side in ("ours", "customary"))
        gaps = [a - b for a, b in zip(ours, plain, strict=True)]
        detail = f"{statistics.fmean(ours):.1f}% against {statistics.fmean(plain):.1f}%; by seed "
        detail += ", ".join(f"{gap:+.1f}" for gap in gaps)
        made.append(
            Row(f"accuracy after a phase, {name}", statistics.fmean(gaps), "points", "equal within noise", detail)
        )
    return made
