"""Tables 1 and 2 in the paper's layout, from any runs. A cell without runs stays empty."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from remem.errors import InputError
from remem.report.groups import ORACLE, REFERENCE, Group, differing, group_runs, paired, varying_settings
from remem.report.sheet import Cell, Column, Sheet
from remem.report.summary import AVERAGE, LAST, summary_notes
from remem.runs.results import RunResult

METHODS = {  # in the order of Table 1
    "lwf": "LwF",
    "icarl": "iCaRL",
    "lucir": "LUCIR",
    "mnemonics": "Mnemonics",
    "podnet": "PODNet",
    "lucir-aanets": "LUCIR-AANets",
    "pod-aanets": "POD-AANets",
}
WITH_RMM = ("lucir-aanets", "pod-aanets")  # blocks of their own, with a row for the learned policy
DATA = {
    "cifar100": "CIFAR-100",
    "imagenet-subset-lucir": "ImageNet-Subset",
    "imagenet-subset-podnet": "ImageNet-Subset",
    "imagenet-full": "ImageNet-Full",
}
PHASES = (5, 10, 25)
BASE, ONE_LEVEL, TWO_LEVELS, TRANSFERRED, UPPER, CROSSVAL = range(1, 7)  # rows of Table 2
ABLATION = {
    BASE: "BaseRow",
    ONE_LEVEL: "One-level RL",
    TWO_LEVELS: "Two-level RL",
    TRANSFERRED: "Two-level RL (T.P.)",
    UPPER: "UpperBound RL",
    CROSSVAL: "CrossVal Fixed",
}
MARGINS = (TWO_LEVELS, TRANSFERRED)


@dataclass(frozen=True)
class Place:
    """A pair of data set and number of phases."""

    data: str
    phases: int

    @property
    def heads(self) -> tuple[str, str]:
        return self.data, f"N={self.phases}"


def ablation_row(run: RunResult) -> int | None:
    """The row of Table 2 that a run belongs to, by what its policy says of itself; None for all other policies."""
    facts, data = run.policy, run.config["data"]["name"]
    source = facts.get("source")
    source = source if isinstance(source, Mapping) else {}
    if run.config["policy"] == REFERENCE:
        return BASE
    if "shares" in facts:  # of a cross-validation
        return CROSSVAL
    if facts.get("kind") != "two-level":
        return None
    if source.get("kind") == "target":
        return UPPER
    if facts.get("levels") == 1:
        return ONE_LEVEL
    return TWO_LEVELS if source.get("kind") == "phase0" and source.get("data") == data else TRANSFERRED


class Cells:
    """Groups of runs by method, row of Table 2 and place."""

    def __init__(self, results: Sequence[RunResult]) -> None:
        self.results = results
        self.groups = group_runs(results)
        self.left_out: list[Group] = []
        self._found: dict[tuple[str, int, Place], Group] = {}
        for group in self.groups:
            row = ablation_row(group.runs[0])
            if row is None or group.policy == "-":
                self.left_out.append(group)
                continue
            key = (group.runs[0].method_name, row, place_of(group.runs[0]))
            if key in self._found:
                keys = ", ".join(differing([self._found[key], group]))
                raise InputError(
                    f"table: {METHODS.get(key[0], key[0])}, {' '.join(key[2].heads)}, {ABLATION[row]}: runs differ in "
                    f"{keys}; expected one setting per cell (give fewer runs, or use --style summary)"
                )
            self._found[key] = group

    def at(self, method: str, row: int, place: Place) -> Group | None:
        return self._found.get((method, row, place))

    def has(self, method: str, row: int) -> bool:
        return any((one, number) == (method, row) for one, number, _ in self._found)

    @property
    def methods(self) -> list[str]:
        """Of all runs, those of Table 1 first and in its order."""
        given = dict.fromkeys(method for method, _, _ in self._found)
        return [*(name for name in METHODS if name in given), *(name for name in given if name not in METHODS)]

    @property
    def places(self) -> list[Place]:
        """All data sets and numbers of phases; data sets of the paper have all of its numbers of phases."""
        given = dict.fromkeys(place for _, _, place in self._found)
        found = []
        for data in dict.fromkeys(place.data for place in given):
            own = {place.phases for place in given if place.data == data}
            found += [Place(data, n) for n in sorted(own | set(PHASES) if data in DATA.values() else own)]
        return found

    def notes(self) -> tuple[str, ...]:
        used = [group for group in self.groups if group not in self.left_out]
        notes = summary_notes([run for group in used for run in group.runs], used)
        keys = [
            key for key in varying_settings(used) if key not in ("data.name", "scenario.phases", "scenario.classes")
        ]
        if keys:
            notes.append(f"the runs of this table differ in {', '.join(keys)}, too")
        if self.left_out:
            notes.append(f"left out, since this table has no row for them: {'; '.join(g.name for g in self.left_out)}")
        return tuple(notes)


def place_of(run: RunResult) -> Place:
    """`CIFAR-100, 30 classes` and 3; the number of classes is named if only a part of them is used."""
    name, scenario = run.config["data"]["name"], run.config["scenario"]
    part = f", {len(run.class_names)} classes" if scenario.get("classes") else ""
    return Place(DATA.get(name, name) + part, scenario["phases"])


def paper_table_1(results: Sequence[RunResult]) -> Sheet:
    """Average accuracies: methods x data sets x N, and the two headline methods with and without a learned policy."""
    cells = Cells(results)
    _require_runs(cells)
    methods = dict.fromkeys([*METHODS, *cells.methods])
    rows: list[tuple[Cell, ...]] = []
    blocks = set()
    for method in methods:
        learned = [row for row in (TWO_LEVELS, TRANSFERRED) if cells.has(method, row)]
        if method in WITH_RMM or learned or method not in METHODS:
            blocks.add(len(rows))
        rows.append((METHODS.get(method, method), *_averages(cells, method, BASE)))
        if method in WITH_RMM and not learned:
            learned = [TWO_LEVELS]
        for row in learned:
            words = "  w/ RMM" if row == TWO_LEVELS else "  w/ RMM (transferred)"
            rows.append((words, *_averages(cells, method, row)))
    columns = [Column(("Method",), "words"), *(Column(place.heads) for place in cells.places)]
    return Sheet(tuple(columns), tuple(rows), frozenset(blocks - {0}), ("average accuracy in %", *cells.notes()))


def paper_table_2(results: Sequence[RunResult]) -> Sheet:
    """The ablation: kinds of policies x data sets x N, average and last accuracies, for every method that is given."""
    cells = Cells(results)
    _require_runs(cells)
    rows: list[tuple[Cell, ...]] = []
    blocks, margins = set(), set()
    for method in cells.methods:
        for row, words in ABLATION.items():
            if row in (BASE, ONE_LEVEL, TRANSFERRED, UPPER):
                blocks.add(len(rows))
            oracle = any((group := cells.at(method, row, place)) and group.oracle for place in cells.places)
            name = METHODS.get(method, method)
            rows.append((str(row), name, words + (ORACLE if oracle else ""), *_pairs(cells, method, row)))
            if row in MARGINS:
                margins.add(len(rows))
                rows.append(("", name, "margin", *_margins(cells, method, row)))
    heads = [Column((name,), "words") for name in ("Row", "Method", "Ablation Setting")]
    columns = [*heads, *(Column((*place.heads, word)) for place in cells.places for word in ("Avg", "Last"))]
    notes = ("accuracy in %; margins are paired differences to row 1 of the same method", *cells.notes())
    return Sheet(tuple(columns), tuple(rows), frozenset(blocks - {0}), notes, frozenset(margins))


def _require_runs(cells: Cells) -> None:
    if not cells.methods:
        names = "; ".join(group.name for group in cells.left_out)
        raise InputError(
            f"table: no run for a table of the paper among {names}; expected policy static, or a learned one"
        )


def _averages(cells: Cells, method: str, row: int) -> list[Cell]:
    groups = (cells.at(method, row, place) for place in cells.places)
    return [None if group is None else group.spread(AVERAGE) for group in groups]


def _pairs(cells: Cells, method: str, row: int) -> list[Cell]:
    groups = (cells.at(method, row, place) for place in cells.places)
    return [None if group is None else group.spread(measure) for group in groups for measure in (AVERAGE, LAST)]


def _margins(cells: Cells, method: str, row: int) -> list[Cell]:
    found: list[Cell] = []
    for place in cells.places:
        group, base = cells.at(method, row, place), cells.at(method, BASE, place)
        both = group is not None and base is not None
        found += [paired(group, base, measure) if both and group and base else None for measure in (AVERAGE, LAST)]
    return found


STYLES: dict[str, Callable[[Sequence[RunResult]], Sheet]] = {"paper-1": paper_table_1, "paper-2": paper_table_2}
