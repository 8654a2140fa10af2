"""`remem study --workers 2` against two bare processes that do the same runs, half of them each.

Both have the same serial time, so the ratio of their times is the ratio of their speed-ups. Runs have different seeds:
none shares a phase 0, which bare processes could not do."""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean

from benchmarks.table import Row
from remem.runs.build import prepare
from remem.runs.results import load_result
from remem.runs.run import run_in_folder
from remem.runs.trees import read_overrides
from remem.studies.grid import StudyRun, plan_study, read_study_file

STUDY = "glyphs-policies"
CHANGES = ('study.policies=["fixed-0.6"]', "study.seeds=[0, 1, 2, 3, 4, 5]", "study.order_by_seed=false")


def runs() -> tuple[StudyRun, ...]:
    return plan_study(read_study_file(Path(STUDY)), read_overrides(CHANGES)).runs


def bare(out: Path) -> float:
    """Seconds that two processes take, from their start to the end of the slower one."""
    names = [run.name for run in runs()]
    started = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.workers", str(out)]
    processes = [subprocess.Popen([*command, *names[half::2]]) for half in range(2)]
    if any([process.wait() for process in processes]):
        raise SystemExit("a bare process failed")
    return time.perf_counter() - started


def study(out: Path) -> float:
    """Seconds of the command."""
    program = "from remem.cli.main import main; main()"
    flags = [flag for change in CHANGES for flag in ("--set", change)]
    command = [sys.executable, "-c", program, "study", STUDY, *flags, "--workers", "2", "--quiet", "--out", str(out)]
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def rows() -> list[Row]:
    """Bare, study, bare: what the machine does in between is the mean of both."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        before, took, after = bare(root / "before"), study(root / "study"), bare(root / "after")
        for run in runs():
            ours, plain = (load_result(root / place / run.name) for place in ("study/runs", "before"))
            if ours.average_accuracy != plain.average_accuracy:
                raise SystemExit(f"{run.name}: other results than in a bare process")
    two = fmean((before, after))
    detail = (
        f"a study of {len(runs())} runs in {took:.0f} s; two bare processes {before:.0f} s before, {after:.0f} s after"
    )
    return [Row("`--workers 2`, of the speed-up of two bare processes", 100 * two / took, "%", "at least 90%", detail)]


def main() -> None:
    """One bare process: these runs, one after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", nargs="+")
    options = parser.parse_args()
    for run in runs():
        if run.name in options.runs:
            run_in_folder(prepare(run.config), options.out / run.name)


if __name__ == "__main__":
    main()
