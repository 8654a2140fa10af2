"""The paper's claims beside our runs: `python results/evidence.py --write-docs` writes docs/reports/evidence.md.

Whatever is stored in `studies/` and `unfinished/` counts, and nothing else; runs that are not there yet are shown as
missing. Differences are paired by class order. The paper's numbers are in `paper.toml`, the words in `evidence.toml`.
"""

import argparse
import math
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from remem.evaluation.metrics import mean_interval
from remem.report.groups import NOTHING
from remem.report.series import samples_per_class, steps
from remem.report.tables import Table, plus_minus
from remem.runs.results import RunResult, load_result
from remem.studies.grid import plan_study, read_study_file

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "reports" / "evidence.md"
KINDS = ("studies", "unfinished")
TABLES = ("table-1", "table-2", "table-1-imagenet", "figure-4")  # one setting per cell
READINGS = {"epochs": "equal epochs", "steps": "equal steps"}  # of runs at equal bytes
STATIC, RMM, ONE_LEVEL, PROPORTIONAL = "static", "rmm-learned", "rmm-one-level-learned", "proportional"
TRANSFERRED, UPPER, CROSSVAL = "rmm-transferred", "rmm-upper-bound", "crossval-fixed"
ORACLES = (UPPER, CROSSVAL)
DATA = {"cifar100": "CIFAR-100", "mini-imagenet": "ImageNet subset"}
HEADLINE = ("lucir-aanets", "pod-aanets")
PHASES = (5, 10, 25)
CLOSE = 1.5  # points
NO_RUNS = "None of its runs is there yet."
HOLDS, FAILS, OPEN, SHOWN = "holds", "does not hold", "open", "not judged"

Measure = Callable[[RunResult], float]
BySeed = Mapping[int, RunResult]


@dataclass(frozen=True)
class Place:
    """Where runs are compared: a data set, a method and a number of phases."""

    data: str
    method: str
    phases: int

    @property
    def words(self) -> tuple[str, ...]:
        return DATA[self.data], self.method, str(self.phases)


PLACES = tuple(Place(data, method, phases) for data in DATA for method in HEADLINE for phases in PHASES)


@dataclass
class Runs:
    """Planned and stored runs by place, policy and seed; a seed is a class order."""

    planned: dict[tuple[Place, str], set[int]] = field(default_factory=dict)
    stored: dict[tuple[Place, str], dict[int, RunResult]] = field(default_factory=dict)

    def at(self, place: Place, policy: str) -> BySeed:
        return self.stored.get((place, policy), {})

    def orders(self, places: Sequence[Place], *policies: str) -> int:
        """Class orders for which all these policies are planned at all these places."""
        return len(set.intersection(*(self.planned.get((p, policy), set()) for p in places for policy in policies)))

    def differences(self, place: Place, one: str, other: str, measure: Measure) -> dict[int, float]:
        left, right = self.at(place, one), self.at(place, other)
        return {seed: measure(left[seed]) - measure(right[seed]) for seed in sorted(left.keys() & right.keys())}


@dataclass(frozen=True)
class Row:
    """One comparison: a difference for every class order, per measure, and what the paper prints."""

    place: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]  # by measure, then by class order
    paper: tuple[float | None, ...]
    planned: int  # class orders

    def verdict(self, bound: float, judged: int) -> str:
        """By the first `judged` measures: all must be above the bound; one that is below it decides."""
        found = [side(values, bound) for values in self.values[:judged]]
        return SHOWN if self.planned < 2 else together(found)


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, its comparisons, and the bound above which their intervals must lie."""

    key: str
    rows: Callable[[Runs], list[Row]]
    bound: float = 0.0
    judged: int = 1  # how many of the measures
    measures: tuple[str, ...] = ("average", "last")

    def verdicts(self, rows: Sequence[Row]) -> list[str]:
        """Of the comparisons that are judged."""
        found = [row.verdict(self.bound, self.judged) for row in rows]
        return [word for word in found if word != SHOWN]


def side(values: Sequence[float], bound: float) -> str:
    """Where the 95 % interval of the mean lies; open if it contains the bound, or if there are fewer than two."""
    mean, half = mean_interval(values) if values else (0.0, None)
    if half is None:
        return OPEN
    return HOLDS if mean - half > bound else FAILS if mean + half < bound else OPEN


def together(verdicts: Sequence[str]) -> str:
    """One that does not hold decides; otherwise all must hold."""
    return FAILS if FAILS in verdicts else HOLDS if set(verdicts) == {HOLDS} else OPEN


def average(run: RunResult) -> float:
    return 100 * run.average_accuracy


def last(run: RunResult) -> float:
    return 100 * run.last_accuracy


def imbalance(run: RunResult) -> float:
    """Mean over phases of |log2(samples per new class / samples per old class)|: 0 is even, 1 is two to one."""
    pairs = [samples_per_class(prior, now) for prior, now in steps(run)]
    return fmean(abs(math.log2(new / old)) for old, new in pairs)


def gains(one: str, other: str) -> Callable[[Runs], list[Row]]:
    """Average and last accuracy of one policy minus those of another, wherever both are planned."""

    def rows(runs: Runs) -> list[Row]:
        found = []
        for place in PLACES:
            if orders := runs.orders([place], one, other):
                values = tuple(tuple(runs.differences(place, one, other, m).values()) for m in (average, last))
                found.append(Row(place.words, values, paper_difference(place, one, other), orders))
        return found

    return rows


def growth(runs: Runs) -> list[Row]:
    """The gain over `static` at N = 25 minus that at N = 5, paired by class order."""
    found = []
    for data in DATA:
        for method in HEADLINE:
            few, many = Place(data, method, PHASES[0]), Place(data, method, PHASES[-1])
            values = []
            for measure in (average, last):
                low, high = (runs.differences(place, RMM, STATIC, measure) for place in (few, many))
                values.append(tuple(high[seed] - low[seed] for seed in low if seed in high))
            printed = zip(*(paper_difference(place, RMM, STATIC) for place in (few, many)), strict=True)
            paper = tuple(None if low is None or high is None else high - low for low, high in printed)
            if orders := runs.orders([few, many], RMM, STATIC):
                found.append(Row((*few.words[:2], f"{many.phases} minus {few.phases}"), tuple(values), paper, orders))
    return found


def balance(runs: Runs) -> list[Row]:
    """How many times the ratio of samples per new and per old class is halved: `static` minus learned."""
    found = []
    for place in PLACES:
        if orders := runs.orders([place], STATIC, RMM):
            halvings = runs.differences(place, STATIC, RMM, imbalance)
            found.append(Row(place.words, (tuple(halvings.values()),), (None,), orders))
    return found


CLAIMS = (
    Claim("C1", gains(RMM, STATIC), judged=2),
    Claim("C2", growth),
    Claim("C3", gains(RMM, ONE_LEVEL)),
    Claim("C4", gains(TRANSFERRED, RMM), bound=-CLOSE),
    Claim("C5", gains(RMM, UPPER), bound=-CLOSE),
    Claim("C6", gains(RMM, CROSSVAL)),
    Claim("C7", balance, bound=1.0, measures=("halvings",)),
)
RULE = Claim("rule", gains(RMM, PROPORTIONAL))  # not the paper's: a baseline that it lacks


@cache
def read_toml(name: str) -> dict[str, Any]:
    return tomllib.loads((HERE / name).read_text(encoding="utf-8"))


def paper_numbers(place: Place, policy: str) -> tuple[float | None, float | None]:
    """Average and last accuracy in the paper; None where it prints none."""
    tables, column = read_toml("paper.toml"), PHASES.index(place.phases)
    if place.method == "pod-aanets" and policy in tables["table-2"][place.data]:
        mean, final = tables["table-2"][place.data][policy][column]
        return mean, final
    row = place.method if policy == STATIC else f"{place.method}_{policy}"
    printed = tables["table-1"][place.data].get(row)
    return (None if printed is None else printed[column]), None


def paper_difference(place: Place, one: str, other: str) -> tuple[float | None, ...]:
    pairs = zip(paper_numbers(place, one), paper_numbers(place, other), strict=True)
    return tuple(None if left is None or right is None else left - right for left, right in pairs)


def stored_results(study: str) -> dict[str, RunResult]:
    """Results of a study by name of run, finished or not."""
    files = [path for kind in KINDS for path in sorted((HERE / kind / study / "runs").glob("*.json"))]
    return {path.stem: load_result(path) for path in files}


def collect(studies: Sequence[str]) -> Runs:
    """All planned and stored runs of studies that share their settings."""
    runs = Runs()
    for study in studies:
        stored = stored_results(study)
        for run in plan_study(read_study_file(Path(study))).runs:
            place = Place(run.config.data.name, run.config.method.name, run.config.scenario.phases)
            runs.planned.setdefault((place, run.policy), set()).add(run.config.seed)
            if run.name in stored:
                runs.stored.setdefault((place, run.policy), {}).setdefault(run.config.seed, stored[run.name])
    return runs


def points(values: Sequence[float]) -> str:
    """`+1.20 ± 0.31`; `-` if there are none."""
    return plus_minus(*mean_interval([value / 100 for value in values]), sign="+") if values else NOTHING


def accuracy(runs: BySeed, measure: Measure) -> str:
    return plus_minus(*mean_interval([measure(run) / 100 for run in runs.values()])) if runs else NOTHING


def printed(value: float | None, sign: str = "") -> str:
    return NOTHING if value is None else f"{value:{sign}.2f}"


def claim_table(claim: Claim, rows: Sequence[Row]) -> str:
    header = ["data", "method", "N", "orders"]
    for name in claim.measures:
        header += [name, "paper"]
    lines = []
    for row in rows:
        cells = [*row.place, f"{len(row.values[0])} of {row.planned}"]
        for values, paper in zip(row.values, row.paper, strict=True):
            cells += [points(values), printed(paper, "+")]
        lines.append((*cells, row.verdict(claim.bound, claim.judged)))
    return Table((*header, "verdict"), tuple(lines), labels=2).markdown()


def table_1(runs: Runs, data: str) -> str:
    """Average accuracies, ours and the paper's."""
    cells = [(place.method, policy) for place, policy in runs.planned if place.data == data]
    wanted = [(method, policy) for method, policy in dict.fromkeys(cells) if policy in (STATIC, PROPORTIONAL, RMM)]
    numbers = [n for n in PHASES if any(place.data == data and place.phases == n for place, _ in runs.planned)]
    lines = []
    for method, policy in wanted:
        places = [Place(data, method, n) for n in numbers]
        own = [(accuracy(runs.at(p, policy), average), printed(paper_numbers(p, policy)[0])) for p in places]
        lines.append((method, policy, *(cell for pair in own for cell in pair)))
    header = ("method", "policy", *(head for n in numbers for head in (f"N = {n}", "paper")))
    return Table(header, tuple(lines), labels=2).markdown()


def table_2(runs: Runs) -> str:
    """`pod-aanets` on CIFAR-100: average and last accuracies, ours and the paper's."""
    places = [Place("cifar100", "pod-aanets", n) for n in (5, 25)]
    policies = dict.fromkeys(policy for place, policy in runs.planned if place in places)
    lines = []
    for policy in (name for name in policies if not name.startswith("fixed-")):
        line = [policy + (" (oracle)" if policy in ORACLES else "")]
        for place in places:
            for measure, paper in zip((average, last), paper_numbers(place, policy), strict=True):
                line += [accuracy(runs.at(place, policy), measure), printed(paper)]
        lines.append(tuple(line))
    heads = (f"N = {place.phases} {word}" for place in places for word in ("average", "last"))
    header = ("policy", *(head for name in heads for head in (name, "paper")))
    return Table(header, tuple(lines), labels=1).markdown()


def scenario_table(study: str) -> str:
    """Every policy of a study: accuracies, its gain over `static`, and what the learned policy has above it."""
    runs = collect([study])
    if not runs.stored:
        return NO_RUNS
    learned = RMM if any(policy == RMM for _, policy in runs.planned) else "rmm"
    lines = []
    for place, policy in sorted(runs.planned, key=lambda cell: cell[0].method):
        gain = runs.differences(place, policy, STATIC, average) if policy != STATIC else {}
        ahead = runs.differences(place, learned, policy, average) if policy != learned else {}
        stored = runs.at(place, policy)
        numbers = (accuracy(stored, average), accuracy(stored, last), *(points([*d.values()]) for d in (gain, ahead)))
        lines.append((place.method, policy, f"{len(stored)} of {runs.orders([place], policy)}", *numbers))
    header = ("method", "policy", "orders", "average %", "last %", f"average - {STATIC}", f"{learned} - it")
    return Table(header, tuple(lines), labels=2).markdown()


def codec_table(studies: Mapping[str, str]) -> str:
    """All raw policies of a setting, those with codecs at equal bytes, and their distance to the best raw one.

    `studies` has the names of `raw`, and of those with codecs by reading.
    """
    raw = only(collect([studies["raw"]]), lambda policy: "codec" not in policy and "@" not in policy)
    (place,) = {place for place, _ in raw.planned}
    complete = [policy for (_, policy), by_seed in raw.stored.items() if len(by_seed) == raw.orders([place], policy)]
    best = max(complete, key=lambda policy: fmean(map(average, raw.at(place, policy).values())), default=STATIC)
    readings = [("raw", raw)]
    for key, reading in READINGS.items():
        found = collect([studies[key]])
        readings.append((reading, only(found, lambda policy: (place, policy) not in raw.planned)))
    if not any(runs.stored for _, runs in readings):
        return NO_RUNS
    lines = []
    for reading, runs in readings:
        for _, policy in runs.planned:
            stored = runs.at(place, policy)
            ahead = [
                tuple(measure(run) - measure(raw.at(place, best)[seed]) for seed, run in sorted(stored.items()))
                for measure in (average, last)
                if (reading, policy) != ("raw", best)
            ]
            held = f"{fmean(run.samples_peak for run in stored.values()):.0f}" if stored else NOTHING
            numbers = accuracy(stored, average), accuracy(stored, last), *(points(own) for own in ahead or [(), ()])
            lines.append((policy, reading, f"{len(stored)} of {runs.orders([place], policy)}", held, *numbers))
    header = ("policy", "reading", "orders", "samples", "average %", "last %", f"average - {best}", f"last - {best}")
    return Table(header, tuple(lines), labels=2).markdown()


def codec_sources(studies: Mapping[str, str]) -> str:
    """Which commands make the runs of a setting."""
    return "`remem study " + "`, `".join(dict.fromkeys(studies[key] for key in ("raw", *READINGS))) + "`"


def only(runs: Runs, wanted: Callable[[str], bool]) -> Runs:
    """The runs whose policies are wanted."""
    planned = {cell: seeds for cell, seeds in runs.planned.items() if wanted(cell[1])}
    return Runs(planned, {cell: stored for cell, stored in runs.stored.items() if wanted(cell[1])})


def decisions(runs: Runs) -> str:
    """What learned policies chose, run by run."""
    lines = []
    for (place, policy), by_seed in runs.stored.items():
        for seed, run in sorted(by_seed.items()):
            actions = [phase.action for phase in run.phases if phase.action is not None]
            if policy in (RMM, ONE_LEVEL, TRANSFERRED, UPPER, CROSSVAL) and actions:
                shares = counted([f"{action.old_share:.1f}" for action in actions])
                halves = counted([NOTHING if action.level2 is None else f"{action.level2:.1f}" for action in actions])
                lines.append((*place.words, policy, str(seed), shares, halves))
    if not lines:
        return "No run with a learned policy is there yet."
    return Table(("data", "method", "N", "policy", "order", "old shares", "harder half"), tuple(lines), 7).markdown()


def counted(values: Sequence[str]) -> str:
    """`0.5, 0.6 x 3` instead of every value."""
    same = [(value, len(list(group))) for value, group in groupby(values)]
    return ", ".join(value if times == 1 else f"{value} x {times}" for value, times in same)


def compute() -> str:
    """Runs and hours of every study."""
    lines = []
    words = read_toml("evidence.toml")
    for study in dict.fromkeys([*TABLES, *words["titles"], *(own[key] for own in words["bytes"] for key in READINGS)]):
        planned, stored = len(plan_study(read_study_file(Path(study))).runs), stored_results(study)
        seconds = sum(sum(phase.seconds.values()) for run in stored.values() for phase in run.phases)
        lines.append((f"`{study}`", f"{len(stored)} of {planned}", f"{seconds / 3600:.1f}"))
    return Table(("study", "runs", "hours on one core"), tuple(lines), labels=1).markdown()


def page() -> str:
    """The whole of docs/reports/evidence.md."""
    runs, words = collect(TABLES), read_toml("evidence.toml")
    rows = {claim.key: claim.rows(runs) for claim in CLAIMS}
    verdicts, sections = [], []
    for claim in CLAIMS:
        own, found = words["claims"][claim.key], claim.verdicts(rows[claim.key])
        decided = f"{sum(word != OPEN for word in found)} of {len(found)}"
        verdicts.append((claim.key, own["words"], decided, together(found)))
        sections += [f"## {claim.key}: {own['words']}", own["reading"], claim_table(claim, rows[claim.key])]
        sections.append(own.get("remark", ""))
    summary = Table(("claim", "in words", "comparisons decided", "verdict"), tuple(verdicts), labels=2).markdown()
    sections += ["## A rule without learning", words["rule"], claim_table(RULE, RULE.rows(runs))]
    parts = ["# Evidence", words["introduction"], summary, *sections, "## Table 1: average accuracy in %"]
    for data, name in DATA.items():
        parts += [f"### {name}", table_1(runs, data)]
    parts += ["## Table 2: `pod-aanets` on CIFAR-100", table_2(runs), "## Other settings", words["scenarios"]]
    for study, title in words["titles"].items():
        parts += [f"### {title}", f"`remem study {study}`", scenario_table(study)]
        parts.append(words["remarks"].get(study, ""))
    parts += ["## Memory in bytes: fewer exact samples or more coarse ones", words["codecs"]]
    for studies in words["bytes"]:
        parts += [f"### {studies['title']}", codec_sources(studies), codec_table(studies), studies.get("remark", "")]
    parts += ["## What the policies chose", words["decisions"], decisions(runs)]
    parts += ["## Compute", words["compute"], compute()]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The claims of the paper beside the stored runs, as Markdown.")
    parser.add_argument("--write-docs", action="store_true", help=f"write {PAGE.name} instead of printing it")
    if parser.parse_args(arguments).write_docs:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
