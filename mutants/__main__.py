"""Tests the tests: `python -m mutants [--package NAME] [--sample N | --all] [--seed K] [--workers N]`."""

import argparse
import json
import random
import signal
import sys
import time
import tomllib
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from mutants.operators import Mutant, mutants
from mutants.record import PACKAGES
from mutants.recording import Recording, renewed
from mutants.trial import Trial, run_trials, try_mutant, warm_up

REPORT = Path("results/mutation.json")
PARTIAL = Path(".mutants/report.json")  # a part of the packages says nothing about the whole
STORE = Path(".mutants/recording.json")
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
SAMPLE = 1000
PASSED, FAILED, INTERRUPTED = 0, 1, 2  # exit codes of pytest; a module that cannot be imported interrupts it
NO_TESTS = 5


def generate(package: str) -> list[Mutant]:
    """All mutants of a package, in a fixed order."""
    found = []
    for path in sorted(Path("src/remem", package).glob("*.py")):
        found += mutants(str(path), path.read_text(encoding="utf-8"))
    return found


def without_equivalent(found: Sequence[Mutant], known: Sequence[dict[str, Any]]) -> list[Mutant]:
    """Leaves out the mutants that are known to change nothing that matters; a column tells equal changes apart."""
    listed = {(one["file"], one["text"], one["change"], one.get("column")) for one in known}
    return [
        one for one in found if not listed & {(one.file, one.text, one.change, column) for column in (None, one.column)}
    ]


def sample(found: Sequence[Mutant], size: int, seed: int) -> list[Mutant]:
    """A random mutant from each of `size` equal parts of the list: every module is represented by its share."""
    rng, size = random.Random(seed), min(size, len(found))
    bounds = [place * len(found) // size for place in range(size + 1)] if size else [0]
    return [found[rng.randrange(start, end)] for start, end in pairwise(bounds)]


def outcomes_of(chosen: Sequence[Mutant], recording: Recording, workers: int) -> list[str]:
    """The outcome of every mutant: killed, survived or timeout."""
    trials = []
    for mutant in chosen:
        stages = recording.stages(mutant)
        seconds = recording.seconds(stages[0] + stages[1])
        trials.append(Trial(partial(try_mutant, mutant, stages), 20 + 6 * seconds))
    outcomes, began = [""] * len(chosen), time.monotonic()
    for done, (place, code) in enumerate(run_trials(trials, workers), start=1):
        outcomes[place] = "timeout" if code is None else "survived" if code in (PASSED, NO_TESTS) else "killed"
        if outcomes[place] == "survived":
            print(f"\r{described(chosen[place])}", file=sys.stderr)
        print(f"\r{done}/{len(chosen)} in {time.monotonic() - began:.0f} s", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return outcomes


def summary(generated: int, outcomes: Sequence[str]) -> dict[str, Any]:
    """Counts, and the share of tested mutants that a test noticed; one that never ends is noticed too."""
    counts = {name: outcomes.count(name) for name in ("killed", "survived", "timeout")}
    score = round(100 * (1 - counts["survived"] / len(outcomes)), 1) if outcomes else None
    return {"generated": generated, "tested": len(outcomes), **counts, "score": score}


def report(seed: int, generated: dict[str, int], chosen: Sequence[Mutant], outcomes: Sequence[str]) -> dict[str, Any]:
    """What `results/mutation.json` holds."""
    by_package = {
        package: summary(number, [o for m, o in zip(chosen, outcomes, strict=True) if package_of(m) == package])
        for package, number in generated.items()
    }
    survivors = [described(m) for m, outcome in zip(chosen, outcomes, strict=True) if outcome == "survived"]
    whole = summary(sum(generated.values()), outcomes)
    return {"seed": seed, "all": whole, "packages": by_package, "survivors": survivors}


def described(mutant: Mutant) -> str:
    return f"{mutant.file}:{mutant.line}:{mutant.column}: {mutant.change}"


def package_of(mutant: Mutant) -> str:
    return Path(mutant.file).parent.name


def print_table(result: dict[str, Any]) -> None:
    columns = ("generated", "tested", "killed", "timeout", "survived", "score")
    print("".join(f"{name:>11}" for name in ("", *columns)))
    for name, row in {**result["packages"], "all": result["all"]}.items():
        print(f"{name:>11}" + "".join(f"{row[column]!s:>11}" for column in columns))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--package", choices=PACKAGES, action="append", help="only this one; may be repeated")
    parser.add_argument("--file", help="only mutants of files with this in their path")
    parser.add_argument("--sample", type=int, default=SAMPLE, help="how many mutants")
    parser.add_argument("--all", action="store_true", help="all mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--workers", type=int, default=2, help="children at a time")
    parser.add_argument("--keep", action="store_true", help="trust recorded lines although the code has changed")
    parser.add_argument("--out", type=Path, help=f"the report; {REPORT}, or {PARTIAL} if only a part is tested")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # either ends the children too
    warm_up()
    recording = renewed(STORE, options.workers, keep=options.keep)
    known = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["mutant"]
    found = {name: without_equivalent(generate(name), known) for name in options.package or PACKAGES}
    pooled = [mutant for one in found.values() for mutant in one if options.file is None or options.file in mutant.file]
    chosen = pooled if options.all else sample(pooled, options.sample, options.seed)
    outcomes = outcomes_of(chosen, recording, options.workers)
    result = report(options.seed, {name: len(one) for name, one in found.items()}, chosen, outcomes)
    out = options.out or (PARTIAL if options.package or options.file else REPORT)
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print_table(result)
    print(f"{len(result['survivors'])} survivors in {out}")


if __name__ == "__main__":
    main()
