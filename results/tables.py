"""Prints the tables of docs/reports/results.md from the files in this folder: `python results/tables.py`."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from remem.cli.demo import POLICIES as DEMO_POLICIES
from remem.errors import InputError
from remem.evaluation.metrics import mean_interval
from remem.methods.table import METHODS
from remem.report.groups import NOTHING, ORACLE
from remem.report.study_table import study_table
from remem.report.summary import summary_table
from remem.report.tables import Table, comparison_table, hundredths, plus_minus
from remem.runs.config import compose
from remem.runs.results import RunResult, load_result
from remem.runs.trees import nested, value_at
from remem.studies.grid import Study, plan_study, read_study_file
from remem.studies.summary import summarise_study

HERE = Path(__file__).parent
STUDIES = ("glyphs-policies", "glyphs-scarce", "cifar100-methods", "cifar100-without-replay")
NO_REPLAY = "finetune-without-replay"
HEADS = ("cnn", "nme")


@dataclass(frozen=True)
class Candidate:
    """Runs of a tuning study that have some settings, one per seed."""

    label: str
    study: str
    where: Mapping[str, Any] = field(default_factory=dict)  # tells its runs from others of the study
    equals: Mapping[str, Any] = field(default_factory=dict)  # settings of the question's method that it stands for


@dataclass(frozen=True)
class Question:
    """Candidates for the defaults of a method; all are compared with the first."""

    title: str
    method: str
    keys: tuple[str, ...]  # settings in which candidates differ; none: no default answers the question
    candidates: tuple[Candidate, ...]


def varied(study: str, key: str) -> list[Any]:
    """Returns the values of a setting that a shipped study compares."""
    return list(read_study_file(Path(f"studies/{study}.toml"))["study"]["vary"][key])


def fine_tuning(epochs: int) -> str:
    return f"{epochs} epochs of fine-tuning" if epochs else "no fine-tuning"


TUNED = {"method.freeze_old": True, "finetune.epochs": 20}  # the runs of tuning-lucir that others are compared with
MIXTURE_LR = value_at(METHODS["lucir-aanets"].settings().model_dump(), "mixture_lr", None)  # of tuning-branches, too
# `mnemonics` without refinement and without weight transfer is `lucir`.
QUESTIONS = (
    Question(
        "How far exemplars are refined",
        "mnemonics",
        ("method.refine_steps", "method.refine_lr"),
        (
            Candidate("not refined (lucir)", "tuning-lucir", TUNED, {"method.refine_steps": 0}),
            *(
                Candidate(f"refine_lr={rate}", "tuning-mnemonics", {"method.refine_lr": rate})
                for rate in varied("tuning-mnemonics", "method.refine_lr")
            ),
        ),
    ),
    Question(
        "Frozen rows and fine-tuning",
        "lucir",
        tuple(TUNED),
        tuple(
            Candidate(
                f"{'old rows frozen' if frozen else 'all rows learn'}, {fine_tuning(epochs)}",
                "tuning-lucir",
                {"method.freeze_old": frozen, "finetune.epochs": epochs},
            )
            for frozen in varied("tuning-lucir", "method.freeze_old")
            for epochs in reversed(varied("tuning-lucir", "finetune.epochs"))
        ),
    ),
    Question(
        "Initial scale",
        "lucir",
        ("method.scale",),
        (Candidate("scale=1", "tuning-scale"), Candidate("scale=8", "tuning-lucir", TUNED)),
    ),
    Question(
        "Mixture rate of AANets",
        "lucir-aanets",
        ("method.mixture_lr",),
        tuple(
            Candidate(f"mixture_lr={rate}", "tuning-aanets", {"method.mixture_lr": rate})
            for rate in varied("tuning-aanets", "method.mixture_lr")
        ),
    ),
    Question(
        "One branch or two, 15 epochs",
        "lucir-aanets",
        (),
        (
            Candidate("lucir", "tuning-lucir", TUNED),
            Candidate("lucir-aanets", "tuning-aanets", {"method.mixture_lr": MIXTURE_LR}),
        ),
    ),
    Question(
        "One branch or two, 5 epochs",
        "lucir-aanets",
        (),
        tuple(Candidate(name, "tuning-branches", {"method.name": name}) for name in ("lucir", "lucir-aanets")),
    ),
    *(
        Question(
            f"Fine-tuning or another old share, {method}",
            method,
            ("policy", "finetune.epochs"),
            tuple(
                Candidate(
                    f"{policy}, {fine_tuning(epochs)}",
                    "tuning-recipe",
                    {"method.name": method, "policy": policy, "finetune.epochs": epochs},
                )
                for epochs in reversed(varied("tuning-recipe", "finetune.epochs"))
                for policy in ("static", "fixed-0.5", "fixed-0.7")
            ),
        )
        for method in ("lucir", "podnet", "lucir-aanets", "pod-aanets")
    ),
    *(
        Question(
            f"Which policy ships, {method}",
            method,
            ("policy",),
            tuple(
                Candidate(policy, "tuning-shipped", {"method.name": method, "policy": policy})
                for policy in ("static", "fixed-0.6", "rmm-glyphs", "rmm-cifar100", "rmm-mini-imagenet")
            ),
        )
        for method in ("lucir", "podnet")
    ),
)


def demo() -> str:
    """Returns the table that `remem demo` prints."""
    return comparison_table([load_result(HERE / "demo" / f"{policy}.json") for policy in DEMO_POLICIES]).text()


def two_devices() -> str:
    """Returns averages over seeds of one process and of two."""
    files = sorted((HERE / "two-devices").glob("*.json"))
    return summary_table([load_result(path) for path in files]).markdown()


def streams() -> str:
    """Returns accuracies and file sizes after every update of the two streams, and the accuracies of runs."""
    header = ("samples", "update", "brought", "classes", "accuracy %", "run %", "held", "file bytes", "budget")
    rows = []
    for kind, found in json.loads((HERE / "streams.json").read_text()).items():
        for number, call in enumerate(found["updates"]):
            run = hundredths(found["run"][number]) if number < len(found["run"]) else "-"
            counts = (str(call[name]) for name in ("held", "file_bytes"))
            known = (str(call["samples"]), str(call["classes"]), hundredths(call["accuracy"]), run)
            rows.append((kind, str(number + 1), *known, *counts, found["budget"]))
    return Table(header, tuple(rows), labels=1).markdown()


def study(name: str) -> str:
    """Returns a study's table, as the command prints it."""
    planned, results = study_results("studies", name)
    return study_table(summarise_study(planned, results)).markdown()


def study_results(folder: str, name: str) -> tuple[Study, dict[str, RunResult]]:
    """Returns the plan of a reported study, and the results of its runs by name."""
    planned = plan_study(read_study_file(Path(f"studies/{name}.toml")))
    return planned, {run.name: load_result(HERE / folder / name / "runs" / f"{run.name}.json") for run in planned.runs}


def by_method() -> dict[str, list[RunResult]]:
    """Returns the runs of every method on CIFAR-100, one per seed, and those without exemplars."""
    planned, results = study_results("studies", "cifar100-methods")
    runs: dict[str, list[RunResult]] = {}
    for run in planned.runs:
        runs.setdefault(run.config.method.name, []).append(results[run.name])
    runs[NO_REPLAY] = list(study_results("studies", "cifar100-without-replay")[1].values())
    return runs


def heads() -> str:
    """Returns both readouts of every method, means over seeds, sorted by the own head's average; it is in italics."""
    rows = []
    for name, runs in sorted(by_method().items(), key=lambda item: -mean_of(item[1], "average_accuracy")):
        cells = [name + (ORACLE if runs[0].oracle else ""), str(len(runs))]
        for head in HEADS:
            mark = "*" if runs[0].head == head else ""
            if any(getattr(run, f"average_accuracy_{head}") is None for run in runs):
                cells += [NOTHING, NOTHING]
                continue
            average = mean_of(runs, f"average_accuracy_{head}")
            last = fmean(getattr(run.phases[-1], f"accuracy_{head}") for run in runs)
            cells += [mark + hundredths(value) + mark for value in (average, last)]
        rows.append((*cells, hundredths(mean_of(runs, "forgetting"))))
    header = ("method", "seeds", "CNN average %", "CNN last %", "NME average %", "NME last %", "forgetting")
    return Table(header, tuple(rows), labels=1).markdown()


def mean_of(runs: Sequence[RunResult], name: str) -> float:
    return fmean(getattr(run, name) for run in runs)


def tuning(question: Question) -> str:
    """Returns validation accuracies of the candidates, over the seeds that all have, and differences to the first."""
    runs = {candidate.label: runs_of(candidate) for candidate in question.candidates}
    seeds = sorted(set.intersection(*(set(own) for own in runs.values())))
    paired = {label: [own[seed] for seed in seeds] for label, own in runs.items()}
    reference, *_ = paired.values()
    extra = [name for name, measure in MEASURES.items() if any(map(measure, paired.values()))]
    rows = []
    for candidate in question.candidates:
        own = paired[candidate.label]
        average = plus_minus(*mean_interval([run.average_accuracy for run in own]))
        gains = [run.average_accuracy - other.average_accuracy for run, other in zip(own, reference, strict=True)]
        difference = NOTHING if own is reference else plus_minus(*mean_interval(gains), sign="+")
        measured = (MEASURES[name](own) or NOTHING for name in extra)
        default = ("yes" if is_default(question, candidate, own[0]) else "no",) if question.keys else ()
        rows.append((candidate.label, str(len(own)), average, difference, *measured, *default))
    last = ("default",) if question.keys else ()
    header = ("candidate", "seeds", "validation average %", "average - first row", *extra, *last)
    return Table(header, tuple(rows), labels=1).markdown()


def runs_of(candidate: Candidate) -> dict[int, RunResult]:
    """Returns a candidate's results by seed."""
    planned, results = study_results("tuning", candidate.study)
    found = {}
    for run in planned.runs:
        tree = run.config.public()
        if all(value_at(tree, key, None) == value for key, value in candidate.where.items()):
            found[run.config.seed] = results[run.name]
    if not found:
        raise InputError(f"{candidate.study}: no run has {dict(candidate.where)}")
    return found


def is_default(question: Question, candidate: Candidate, run: RunResult) -> bool:
    """Returns whether the method has the candidate's settings if a user gives none."""
    config = run.config
    given = {"preset": config["preset"], "data": {"name": config["data"]["name"]}}
    default = compose(given, nested("method.name", question.method)).public()
    if candidate.equals:
        return all(value_at(default, key, None) == value for key, value in candidate.equals.items())
    return all(value_at(default, key, None) == value_at(config, key, None) for key in question.keys)


def measured(runs: Sequence[RunResult], name: str) -> list[tuple[float, ...]]:
    """Returns a measure of every phase that has it."""
    return [phase.measures[name] for run in runs for phase in run.phases if name in phase.measures]


def values_changed(runs: Sequence[RunResult]) -> str | None:
    shares = measured(runs, "refined_share")
    return hundredths(fmean(share for (share,) in shares)) if shares else None


def mean_change(runs: Sequence[RunResult]) -> str | None:
    distances = measured(runs, "refined_distance")
    return f"{fmean(distance for (distance,) in distances):.2f}" if distances else None


def branch_weights(runs: Sequence[RunResult]) -> str | None:
    """Weights of the stable branch after the last phase, level by level."""
    last = [run.phases[-1].measures["branch_weights"] for run in runs if "branch_weights" in run.phases[-1].measures]
    return ", ".join(f"{fmean(level):.2f}" for level in zip(*last, strict=True)) or None


MEASURES: dict[str, Callable[[Sequence[RunResult]], str | None]] = {
    "values changed %": values_changed,
    "mean change (grey levels)": mean_change,
    "final branch weights": branch_weights,
}
TABLES: dict[str, Callable[[], str]] = {
    **{name: partial(study, name) for name in STUDIES},
    "cifar100-methods, both readouts": heads,
    "two-devices": two_devices,
    "streams": streams,
    **{f"tuning: {question.title}": partial(tuning, question) for question in QUESTIONS},
}


def main() -> int:
    """Prints every table, and one line for each that lacks files. Returns the exit code."""
    missing = 0
    for title, table in {"demo": demo, **TABLES}.items():
        try:
            print(f"{title}\n\n{table()}\n")
        except InputError as error:
            missing += 1
            print(f"{title}\n\n{error}\n")
    return min(missing, 1)


if __name__ == "__main__":
    sys.exit(main())
