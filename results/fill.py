"""Makes the runs of a shipped study that are not stored yet: `python results/fill.py NAME --out DIR --workers 2`.

Finished runs and learned policies are copied to `results/unfinished/NAME/` one by one, so nothing is run twice, on this
machine or another. What another study has with the same settings is copied as well. `--only a+b c` takes the runs whose
names have the words a and b, then those with c.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from remem.errors import InputError
from remem.events import ignore
from remem.parallel.pool import WorkerPool, open_pool
from remem.policies.files import FACTS
from remem.rl.config import LearnConfig, read_stored_learn_settings
from remem.rl.learn import POLICY, learn_in_folder
from remem.runs.config import validate
from remem.storage.jsonfile import read_json
from remem.studies.cost import Settings
from remem.studies.grid import Study, StudyRun, plan_study, read_study_file
from remem.studies.run import PHASE0, POLICIES, RUNS, check_learnings, check_runs, make_jobs

HERE = Path(__file__).parent
KINDS = ("studies", "unfinished")


def settings_key(config: Mapping[str, Any], learned: Mapping[str, Any] | None) -> str:
    """Equal for runs with equal settings: their own, and those of the training of their policy if it has one."""
    parts: list[Any] = [validate(config).public()]
    if learned is not None:
        learn = read_stored_learn_settings(learned["learn"])
        parts += [learn.model_dump(mode="json"), validate(learned["target"]).public()]
    return json.dumps(parts, sort_keys=True)


def learned_settings(learning: LearnConfig) -> dict[str, Any]:
    """The settings of a policy training as its policy states them."""
    return {"learn": learning.learn.model_dump(mode="json"), "target": learning.target.public()}


def stored_runs(results: Path) -> dict[str, Path]:
    """All runs of studies, by their settings."""
    found = {}
    for path in [path for kind in KINDS for path in sorted((results / kind).glob("*/runs/*.json"))]:
        facts = read_json(path, "result of a run", format=1)
        found[settings_key(facts["config"], facts["policy"].get("settings"))] = path
    return found


def stored_policies(results: Path) -> dict[str, Path]:
    """All learned policies of studies, by their settings."""
    found = {}
    for path in [path for kind in KINDS for path in sorted((results / kind).glob(f"*/policies/**/{FACTS}"))]:
        settings = read_json(path, "facts of a policy", format=1)["settings"]
        found[settings_key(settings["target"], settings)] = path.parent
    return found


def chosen(runs: Sequence[StudyRun], only: Sequence[str]) -> list[StudyRun]:
    """The runs whose names have all words of any choice, in the order of the choices."""
    if not only:
        return list(runs)
    found: dict[str, StudyRun] = {}
    for words in only:
        found |= {run.name: run for run in runs if set(words.split("+")) <= set(run.name.split("_"))}
    return list(found.values())


def missing(study: Study, runs: Sequence[StudyRun], results: Path, store: Path) -> Iterator[StudyRun]:
    """Yields the runs that no study has, and copies those that another one has, with their policies."""
    known, policies, settings = stored_runs(results), stored_policies(results), Settings()
    for run in runs:
        learned = None if run.learning is None else learned_settings(study.learnings[run.learning])
        config = settings.prepare(run.config).config.public() | {"policy": run.policy}
        path, own = known.get(settings_key(config, learned)), store / RUNS / f"{run.name}.json"
        if path is None:
            yield run
            continue
        if path.parent.parent.name != store.name:
            copy(path, own)
        if learned is not None and (policy := policies.get(settings_key(learned["target"], learned))):
            copy_policy(policy, store / POLICIES / str(run.learning))


def fill(study: Study, runs: Sequence[StudyRun], results: Path, store: Path, out: Path, pool: WorkerPool) -> None:
    """Trains the policies that the runs need, each before its runs; stores every file when it is complete."""
    alone = [run for run in runs if run.learning is None]
    run_all(alone, out, store, pool)
    for name in dict.fromkeys(run.learning for run in runs if run.learning is not None):
        learn(name, study.learnings[name], results, store, out, pool)
        run_all([run for run in runs if run.learning == name], out, store, pool)


def learn(name: str, learning: LearnConfig, results: Path, store: Path, out: Path, pool: WorkerPool) -> None:
    """Trains a policy, unless a study has one with the same settings."""
    folder, own = out / POLICIES / name, learned_settings(learning)
    known = stored_policies(results).get(settings_key(own["target"], own))
    if known is not None:
        copy_policy(known, folder)
    if not (folder / POLICY).exists():
        check_learnings({name: learning})
        learn_in_folder(learning, folder, ignore, pool, out / PHASE0)
        print(f"learned {name}", flush=True)
    copy_policy(folder, store / POLICIES / name)


def run_all(runs: Sequence[StudyRun], out: Path, store: Path, pool: WorkerPool) -> None:
    names = {run.name for run in runs}
    for job, _ in pool.run(make_jobs(runs, check_runs(runs, out), out)):
        if job.name in names:  # not a shared phase 0
            copy(out / RUNS / job.name / "result.json", store / RUNS / f"{job.name}.json")
            print(job.name, flush=True)


def copy(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if path != to:
        shutil.copy(path, to)


def copy_policy(folder: Path, to: Path) -> None:
    for path in sorted(folder.glob("policy.*")):
        copy(path, to / path.name)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Makes the runs of a shipped study that are not stored yet.")
    parser.add_argument("name", help="a shipped study")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the runs; continues them")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORDS", help="names with all of these words: a+b")
    parser.add_argument("--results", type=Path, default=HERE, metavar="DIR", help="where result files are stored")
    parser.add_argument("--workers", type=int, default=1, metavar="K", help="processes")
    options = parser.parse_args(arguments)
    try:
        study, out = plan_study(read_study_file(Path(options.name))), options.out.absolute()
        store = options.results / "unfinished" / Path(options.name).stem
        runs = list(missing(study, chosen(study.runs, options.only), options.results, store))
        print(f"{len(runs)} of {len(study.runs)} runs to make", flush=True)
        with open_pool(max(1, options.workers), None) as pool:
            fill(study, runs, options.results, store, out, pool)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
