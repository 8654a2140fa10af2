"""Prints the tables of docs/reports/results.md from the files in this folder: `python results/tables.py`."""

import json
from pathlib import Path

from remem.report.study_table import study_table
from remem.report.tables import Table, hundredths, summary_table
from remem.runs.results import RunResult, load_result
from remem.studies.grid import plan_study, read_study_file
from remem.studies.summary import summarise_study

HERE = Path(__file__).parent
BOTH_HEADS = ("cifar100-methods", "cifar100-tuning")


def table(folder: str) -> str:
    """Returns one experiment as Markdown: averages over seeds or, to compare methods, both heads of every run."""
    files = sorted((HERE / folder).glob("*.json"))
    if folder in BOTH_HEADS:
        return heads_table({path.stem.rpartition("-")[0]: load_result(path) for path in files}).markdown()
    return summary_table([load_result(path) for path in files]).markdown()


def study(name: str) -> str:
    """Returns a study's table, as the command prints it, from the result files of its runs."""
    planned = plan_study(read_study_file(Path(name)))
    results = {run.name: load_result(HERE / "studies" / name / "runs" / f"{run.name}.json") for run in planned.runs}
    return study_table(summarise_study(planned, results)).markdown()


def steps() -> str:
    """Returns the accuracy of every fixed share, seed 0: on the target, and on pseudo tasks with the target's number of
    steps or with the target's batch size.
    """
    study = HERE / "studies" / "glyphs-policies"
    scaled, plain = (
        {round(10 * entry["old_share"]): entry["accuracy"] for entry in json.loads(path.read_text())["shares"]}
        for path in (study / "policies/seed-0/crossval-fixed-pseudo/policy.json", HERE / "pseudo-unscaled.json")
    )
    rows = []
    for tenths in scaled:
        target = load_result(study / "runs" / f"fixed-0.{tenths}_seed-0.json").average_accuracy
        numbers = (target, scaled[tenths], plain[tenths])
        rows.append((f"0.{tenths}", *(f"{100 * number:.2f}" for number in numbers)))
    header = ("old share", "target", "pseudo tasks, as many steps", "pseudo tasks, batches of the target")
    return Table(header, tuple(rows), labels=1).markdown()


def heads_table(runs: dict[str, RunResult]) -> Table:
    """Returns average and last accuracy of both heads, sorted by the own head's average. The own head is marked."""
    rows = []
    for name, run in sorted(runs.items(), key=lambda item: -item[1].average_accuracy):
        cells = [name + (" (oracle)" if run.oracle else "")]
        for head in ("cnn", "nme"):
            mark = "*" if run.head == head else ""
            values = (getattr(run, f"average_accuracy_{head}"), getattr(run.phases[-1], f"accuracy_{head}"))
            cells += [mark + hundredths(value) + mark if value is not None else "-" for value in values]
        rows.append((*cells, hundredths(run.forgetting)))
    header = ("run", "CNN average %", "CNN last %", "NME average %", "NME last %", "forgetting")
    return Table(header, tuple(rows), labels=1)


def main() -> None:
    for folder in sorted(path.name for path in HERE.iterdir() if path.is_dir() and list(path.glob("*.json"))):
        print(f"{folder}\n\n{table(folder)}\n")
    for name in sorted(path.name for path in (HERE / "studies").iterdir()):
        print(f"{name}\n\n{study(name)}\n")
    print(f"pseudo-unscaled\n\n{steps()}\n")


if __name__ == "__main__":
    main()
