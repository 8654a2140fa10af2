"""Groups of runs that differ only in the seed: what tells them apart, their names, and paired differences."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remem.runs.results import RunResult, Spread

NOTHING = "-"
ORACLE = " (oracle)"
REFERENCE = "static"  # the policy that others are compared with (protocol 3)
BY_SEED = "by seed"
ORDER, SIZES = "scenario.order", ("memory.budget", "memory.exemplars")
ROW_NAMES = ("seed", "policy")  # settings that name a row; neither they nor those of the method have a column

Measure = Callable[[RunResult], float]


@dataclass(frozen=True)
class Group:
    """All runs of one setting, one per seed."""

    runs: tuple[RunResult, ...]
    settings: Mapping[str, Any]  # by dotted name, without the seed
    method: str = ""  # with those of its settings that tell groups apart
    policy: str = ""
    extra: Mapping[str, str] | None = None  # other settings that tell groups apart, in words

    @property
    def name(self) -> str:
        """Unique among the groups that were made together."""
        others = (f"{key} {word}" for key, word in (self.extra or {}).items())
        return ", ".join([self.short_name, *others])

    @property
    def short_name(self) -> str:
        """Unique among groups that differ in method and policy only."""
        return f"{self.method} / {self.policy}" + (ORACLE if self.oracle else "")

    @property
    def oracle(self) -> bool:
        return any(run.oracle for run in self.runs)

    @property
    def complete(self) -> bool:
        return all(run.complete for run in self.runs)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.config["seed"] for run in self.runs)

    def spread(self, measure: Measure) -> Spread:
        return Spread.of([measure(run) for run in self.runs])

    def word(self, key: str) -> str:
        """A setting as text; `-` if the runs lack it."""
        if key not in self.settings:
            return NOTHING
        value = self.settings[key]
        return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def group_runs(results: Sequence[RunResult]) -> list[Group]:
    """Groups of runs in order of appearance, named so that no two have the same name."""
    groups = _by_settings(results)
    extra = varying_settings(groups)
    return [
        Group(group.runs, group.settings, method, policy, {key: group.word(key) for key in extra})
        for group, (method, policy) in zip(groups, _method_and_policy(groups), strict=True)
    ]


def varying_settings(groups: Sequence[Group]) -> list[str]:
    """Dotted names of the settings that differ between groups, except the policy and those of the method."""
    return [key for key in differing(groups) if key not in ROW_NAMES and not key.startswith("method.")]


def run_names(results: Sequence[RunResult]) -> list[str]:
    """A name for each run: its group's, with the seed if the group has several runs."""
    names = {
        id(run): f"{group.name}, seed {run.config['seed']}" if len(group.runs) > 1 else group.name
        for group in group_runs(results)
        for run in group.runs
    }
    return [names[id(run)] for run in results]


def differing(groups: Sequence[Group]) -> list[str]:
    """Dotted names of the settings that differ between these groups; a missing one differs too."""
    keys = dict.fromkeys(key for group in groups for key in group.settings)
    return [key for key in keys if len({group.word(key) for group in groups}) > 1]


def reference_of(group: Group, groups: Sequence[Group]) -> Group | None:
    """The group of `static` that is equal in everything else; None if there is none, or if it is this one."""
    if group.settings["policy"] == REFERENCE:
        return None
    same = (other for other in groups if other is not group and differing([group, other]) == ["policy"])
    return next((other for other in same if other.settings["policy"] == REFERENCE), None)


def paired(group: Group, other: Group, measure: Measure) -> Spread | None:
    """The difference of two groups over the seeds that both have; None if they share none."""
    others = dict(zip(other.seeds, other.runs, strict=True))
    pairs = [(run, others[seed]) for seed, run in zip(group.seeds, group.runs, strict=True) if seed in others]
    gains = [measure(run) - measure(base) for run, base in pairs]
    return Spread.of(gains) if gains else None


def flat(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """{'seed': 1, 'train': {'epochs': 5}} -> ('seed', 1), ('train.epochs', 5); deeper tables are values."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{name}", inner) for name, inner in value.items())
        else:
            yield key, value


def _by_settings(results: Sequence[RunResult]) -> list[Group]:
    """Groups that differ only in the seed; or, if every seed has a class order of its own, in that, too.

    Where classes are uneven, the paper's budget depends on the class order; it does not tell such runs apart.
    """
    settings = {id(run): {key: value for key, value in flat(run.config) if key != "seed"} for run in results}

    def collect(runs: Sequence[RunResult], *without: str) -> list[list[RunResult]]:
        found: dict[str, list[RunResult]] = {}
        for run in runs:
            own = {key: value for key, value in settings[id(run)].items() if key not in without}
            found.setdefault(json.dumps(own, sort_keys=True), []).append(run)
        return list(found.values())

    fewest = 1 if any(_ordered_by_seed(runs, fewest=2) for runs in collect(results, ORDER, *SIZES)) else 2
    groups = []
    for loose in collect(results, ORDER, *SIZES):
        sizes = [loose] if all("the paper's budget (" in run.memory for run in loose) else collect(loose, ORDER)
        for runs in sizes:
            if _ordered_by_seed(runs, fewest):
                own = settings[id(runs[0])] | {ORDER: BY_SEED}
                uneven = len(collect(runs, ORDER)) > 1
                groups.append(Group(tuple(runs), own | dict.fromkeys(SIZES, "the paper's") if uneven else own))
            else:
                groups += [Group(tuple(same), settings[id(same[0])]) for same in collect(runs)]
    place = {id(run): index for index, run in enumerate(results)}
    return sorted(groups, key=lambda group: place[id(group.runs[0])])


def _ordered_by_seed(runs: Sequence[RunResult], fewest: int) -> bool:
    """Whether the class order follows from the seed; for a single run that cannot be told."""
    seeds = [run.config["seed"] for run in runs]
    orders = [run.config.get("scenario", {}).get("order") for run in runs]
    return len(runs) >= fewest and len(set(seeds)) == len(seeds) and orders == [f"seed:{seed}" for seed in seeds]


def _method_and_policy(groups: Sequence[Group]) -> list[tuple[str, str]]:
    """`finetune (replay=false)` and `static` for every group.

    Settings of a method are compared among its own runs only. Where the policy decides nothing, the label does not
    show it, and it counts as one of these settings.
    """
    labels = [group.runs[0].label.removesuffix(ORACLE).split(" / ", 1) for group in groups]
    by_method: dict[str, list[Group]] = {}
    without_policy: dict[str, list[Group]] = {}
    for group, (method, policy) in zip(groups, labels, strict=True):
        by_method.setdefault(method, []).append(group)
        if policy == NOTHING:
            without_policy.setdefault(method, []).append(group)
    own = {method: [key for key in differing(same) if key.startswith("method.")] for method, same in by_method.items()}
    named_by_policy = {method for method, same in without_policy.items() if "policy" in differing(same)}
    names = []
    for group, (method, policy) in zip(groups, labels, strict=True):
        keys = [*own[method], *(["policy"] if policy == NOTHING and method in named_by_policy else [])]
        words = ", ".join(f"{key.removeprefix('method.')}={group.word(key)}" for key in keys)
        names.append((f"{method} ({words})" if words else method, policy))
    return names
