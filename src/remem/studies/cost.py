"""What a study will cost: the runs and policy trainings that are left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from remem.data.datasets import load_dataset
from remem.data.scenario import build_scenario
from remem.data.source import Dataset
from remem.rl.cost import STARTING, LearningSizes, learning_cost
from remem.runs.build import prepare
from remem.runs.config import RunConfig
from remem.runs.cost import Machine, Range, parallel
from remem.runs.estimate import Trial, estimate_left
from remem.runs.events import RunStarted
from remem.runs.prepared import Prepared
from remem.runs.trials import Trials, steps_key
from remem.studies.events import StudyStarted
from remem.studies.grid import Study

SHARED = "phase 0 of "  # begins the name of a job that trains phase 0 for several runs


@dataclass(frozen=True)
class StudyCost:
    """Seconds of all that is left, and of one whole run."""

    study: Range
    run: Range
    not_tried: int  # runs and policies that were scaled from the others, without a trial


class Settings:
    """Prepares runs for their trials; data sets are read once."""

    def __init__(self) -> None:
        self._datasets: dict[str, Dataset] = {}

    def prepare(self, config: RunConfig) -> Prepared:
        key = config.data.model_dump_json()
        if key not in self._datasets:
            self._datasets[key] = load_dataset(config.data)
        return prepare(config, scenario=build_scenario(self._datasets[key], config.scenario, config.data))


def study_cost(
    study: Study, started: StudyStarted, trials: Trials, machine: Machine, *, workers: int
) -> StudyCost | None:
    """Estimates runs and policy trainings; None if no run is left."""
    if not started.jobs:
        return None
    configs, settings = {run.name: run.config for run in study.runs}, Settings()
    own = {name: configs[name.removeprefix(SHARED)] for name in started.jobs}
    found = {name: trials.find(config, partial(settings.prepare, config)) for name, config in own.items()}
    threads = max(config.train.threads for config in own.values())
    at_a_time = parallel(workers, len(own), threads, machine.cores)
    jobs = job_ranges(started.jobs, found, machine, at_a_time * threads)
    alone = {name: replace(run, done=0) for name, run in started.jobs.items() if name in configs}
    whole = job_ranges(alone, found, machine, threads)
    learned, unknown = learning_ranges(study, started, trials, machine, workers=workers)
    seconds = STARTING + side_by_side(list(jobs.values()), at_a_time)
    for cost in learned:
        seconds += cost
    return StudyCost(seconds, next(iter(whole.values())), list(found.values()).count(None) + unknown)


def job_ranges(
    jobs: Mapping[str, RunStarted], trials: Mapping[str, Trial | None], machine: Machine, needed: float
) -> dict[str, Range]:
    """Seconds of every job. One without a trial takes as long for each sample and epoch as the others on average."""
    known, samples = {}, 0
    for name, run in jobs.items():
        trial = trials[name]
        if trial is not None:
            known[name] = trial.range(estimate_left(run, trial), machine, needed)
            samples += trained_samples(run)
    each = sum(known.values(), Range()) * (1 / max(1, samples))
    return {name: known.get(name, each * trained_samples(run)) for name, run in jobs.items()}


def trained_samples(run: RunStarted) -> int:
    """Samples x epochs of the phases that are left."""
    total = 0
    for index in range(run.done, len(run.phases)):
        epochs = run.epochs_later + run.balanced_epochs if index else run.epochs
        total += epochs * run.phases[index].samples
    return total


def side_by_side(jobs: Sequence[Range], at_a_time: float) -> Range:
    """Seconds of independent jobs: at best all workers are busy to the end, at worst the longest job begins last."""
    total, longest = sum(jobs, Range()), max(jobs, key=lambda job: job.high)
    low = max(total.low / at_a_time, longest.low)
    return Range(low, total.high / at_a_time + longest.high * (1 - 1 / at_a_time))


def learning_ranges(
    study: Study, started: StudyStarted, trials: Trials, machine: Machine, *, workers: int
) -> tuple[list[Range], int]:
    """Seconds of every policy training, and how many are not known. Those that differ only in a seed cost the same."""
    costs: dict[str, Range | None] = {}
    keys = []
    for name in started.learnings:
        config = study.learnings[name]
        scenario = config.target.scenario.model_copy(update={"order": ""})
        parts = (config.learn, scenario, config.target.memory, config.target.train, config.target.finetune)
        keys.append(steps_key(config.target) + "".join(part.model_dump_json() for part in parts))
        if keys[-1] not in costs:
            tried = learning_cost(LearningSizes(config), trials, machine, done=0, workers=workers)
            costs[keys[-1]] = None if tried is None else tried.learning
    known = [cost for key in keys if (cost := costs[key]) is not None]
    mean = sum(known, Range()) * (1 / max(1, len(known)))
    return [costs[key] or mean for key in keys], len(keys) - len(known)
