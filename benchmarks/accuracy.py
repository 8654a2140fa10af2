"""Final accuracy of one shortened incremental phase of `icarl`: ours, ours in fp32, and the customary pipeline.

`python -m benchmarks.accuracy SEED [EPOCHS]` does one seed and prints a line of JSON.
"""

import json
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

from scipy import stats  # type: ignore[import-untyped]

from benchmarks.phase import Customary, Ours, accuracy, held, prepared_run
from benchmarks.table import Row
from benchmarks.timing import child

SEEDS, AT_ONCE = 6, 2
BASE_CLASSES, OLD_EACH, NEW_EACH, EPOCHS = 10, 40, 150, 10
READOUTS = ("head", "nearest mean")


def readouts(seed: int, epochs: int = EPOCHS) -> dict[str, tuple[float, float]]:
    """All three from the same phase 0, which is trained in fp32, on the same samples; all are read out in fp32."""
    first = prepared_run(1, epochs, seed=seed, base=BASE_CLASSES, precision="fp32")
    beginner = Ours(first)
    beginner.learner.fit(first.scenario.phases[0], held(first, NEW_EACH, 0), first.scenario.bank)
    weights = beginner.learner.state()
    samples = held(first, OLD_EACH, NEW_EACH)
    trained = {}
    for name, precision in (("ours", "auto"), ("fp32", "fp32")):
        ours = Ours(prepared_run(1, epochs, seed=seed, base=BASE_CLASSES, precision=precision))
        ours.fit(weights, samples)
        trained[name] = ours.learner.state()
    plain = Customary(first, weights, samples, seed)
    for _ in plain.steps():
        pass
    trained["customary"] = plain.weights()
    found = {}
    for name, state in trained.items():
        beginner.learner.load(state)
        found[name] = accuracy(first, beginner.learner, samples)
    return found


def row(what: str, ours: list[float], plain: list[float]) -> Row:
    """The mean gap in points, and how far it can be from the true one by the chance of seeds."""
    gaps = [a - b for a, b in zip(ours, plain, strict=True)]
    chance = stats.t.ppf(0.975, len(gaps) - 1) * statistics.stdev(gaps) / len(gaps) ** 0.5
    detail = f"{statistics.fmean(ours):.1f}% against {statistics.fmean(plain):.1f}%, ± {chance:.1f} (95 %); by seed "
    detail += ", ".join(f"{gap:+.1f}" for gap in gaps)
    return Row(what, statistics.fmean(gaps), "points", "equal within noise", detail)


def rows(seeds: int = SEEDS) -> list[Row]:
    """Seeds side by side, one thread each."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda seed: child("benchmarks.accuracy", str(seed)), range(seeds)))
    made = []
    for place, readout in enumerate(READOUTS):
        ours, fp32, plain = ([100 * one[side][place] for one in found] for side in ("ours", "fp32", "customary"))
        made.append(row(f"accuracy after a phase, {readout}", ours, plain))
        made.append(row(f"the same, ours in fp32, {readout}", fp32, plain))
    return made


if __name__ == "__main__":
    print(json.dumps(readouts(*map(int, sys.argv[1:]))))
