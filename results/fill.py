"""Makes the runs of a shipped study that are not stored yet: `python results/fill.py NAME --out DIR --workers 2`.

Finished runs and learned policies are copied to `results/unfinished/NAME/` one by one, so what was run once is never
run again, also on another machine. `--only WORD...` takes the runs whose names contain all words of any argument.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from remem.errors import InputError
from remem.events import ignore
from remem.parallel.pool import WorkerPool, open_pool
from remem.rl.learn import POLICY, learn_in_folder
from remem.studies.grid import Study, StudyRun, plan_study, read_study_file
from remem.studies.run import POLICIES, RUNS, check_learnings, check_runs, make_jobs

HERE = Path(__file__).parent


def missing(study: Study, stored: Sequence[Path], only: Sequence[str]) -> list[StudyRun]:
    """Returns the runs that no folder of results has, in the order of `only`, then in that of the study."""
    left = [run for run in study.runs if not any((folder / RUNS / f"{run.name}.json").exists() for folder in stored)]
    if not only:
        return left
    chosen: dict[str, StudyRun] = {}
    for words in only:
        chosen |= {run.name: run for run in left if set(words.split("+")) <= set(run.name.split("_"))}
    return list(chosen.values())


def fill(study: Study, runs: Sequence[StudyRun], out: Path, store: Path, pool: WorkerPool) -> None:
    """Trains the policies that the runs need, then runs them; copies every file to `store` when it is complete."""
    learnings = {run.learning: study.learnings[run.learning] for run in runs if run.learning is not None}
    for name in learnings:
        if (store / POLICIES / name / POLICY).exists() and not (out / POLICIES / name / POLICY).exists():
            shutil.copytree(store / POLICIES / name, out / POLICIES / name, dirs_exist_ok=True)
    to_learn = {name: learning for name, learning in learnings.items() if not (out / POLICIES / name / POLICY).exists()}
    checks = check_runs(runs, out)
    check_learnings(to_learn)
    for name, learning in to_learn.items():
        learn_in_folder(learning, out / POLICIES / name, ignore, pool)
        for path in (out / POLICIES / name).glob("policy.*"):
            (store / POLICIES / name).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, store / POLICIES / name)
        print(f"learned {name}", flush=True)
    names = {run.name for run in runs}
    for job, _ in pool.run(make_jobs(runs, checks, out)):
        if job.name in names:  # not a shared phase 0
            (store / RUNS).mkdir(parents=True, exist_ok=True)
            shutil.copy(out / RUNS / job.name / "result.json", store / RUNS / f"{job.name}.json")
            print(job.name, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Makes the runs of a shipped study that are not stored yet.")
    parser.add_argument("name", help="a shipped study")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder of the runs; resumes what is there"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="WORDS", help="names with all of these words: a+b")
    parser.add_argument("--results", type=Path, default=HERE, metavar="DIR", help="where result files are stored")
    parser.add_argument("--workers", type=int, default=1, metavar="K", help="processes")
    options = parser.parse_args(arguments)
    try:
        study = plan_study(read_study_file(Path(options.name)))
        store = options.results / "unfinished" / options.name
        runs = missing(study, [store, options.results / "studies" / options.name], options.only)
        print(f"{len(runs)} of {len(study.runs)} runs to make", flush=True)
        with open_pool(max(1, options.workers), None) as pool:
            fill(study, runs, options.out.absolute(), store, pool)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
