"""What a policy training will cost: phases 0 of its tasks, then the phases of its runs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from remem.action import TENTHS
from remem.data.batches import SMALLEST
from remem.data.datasets import load_dataset
from remem.data.pseudo import sealed
from remem.data.scenario import build_scenario
from remem.errors import InputError
from remem.nets.heads import HEADS
from remem.rl.config import LearnConfig, normalized
from remem.rl.paths import Task, TaskKey
from remem.rl.pseudo_tasks import PseudoTasks, shortened_tuning, steps_per_epoch
from remem.rl.search import level1_paths
from remem.rl.settings import Fidelity, LearnSettings
from remem.rl.snapshot_cache import MemorySnapshotCache
from remem.runs.build import prepare
from remem.runs.config import RunConfig
from remem.runs.cost import Machine, Range, parallel
from remem.runs.dry_run import plan
from remem.runs.estimate import Trial, estimate_seconds
from remem.runs.prepared import Prepared
from remem.runs.trials import Trials
from remem.types import Json

# CPU seconds of one step of one head on frozen features where many runs are trained together: of any step, and of each
# weight and sample of the batch. On one core of an AMD EPYC, 50 classes of CIFAR-100, 58 samples in a batch: 0.05 to
# 0.09 ms (one row of 64 weights a class) and 0.14 to 0.26 ms (ten rows). Other machines took twice as long.
STEP_TOGETHER, STEP_WEIGHT = Range(0.4e-4, 1.5e-4), Range(0.6e-10, 2e-10)
STEP_ALONE = Range(0.7e-3, 2e-3)  # one by one: 1.0 ms
FEWEST_TRAINED = 0.5  # of all phases; the others share a prefix with an earlier run. Measured: 0.5 to 0.8.
STARTING = Range(2.0, 6.0)  # seconds until worker processes have imported torch
MOST_PATHS = 100_000  # of an exhaustive search that are counted
LITTLE = 0.01  # validation share of the target, which must be evaluated on something that is no test set


@dataclass(frozen=True)
class TaskSeconds:
    """CPU seconds of one pseudo task on a quiet machine."""

    phase0: float
    features: float  # computes them after phase 0
    later: float  # phases 1..N of one full run
    steps: int  # of one head in phases 1..N
    step: Range  # of one step of one head
    together: bool  # whether heads are trained together


@dataclass(frozen=True)
class LearningCost:
    """Seconds of what is left of a policy training, and of one run of its target if that is known."""

    learning: Range
    target: Range | None


class LearningSizes:
    """The first pseudo task of a policy training and its target, ready to be tried out. No test set is read."""

    def __init__(self, config: LearnConfig) -> None:
        self.config = normalized(config)
        self._tasks = PseudoTasks(self.config, MemorySnapshotCache(0))  # nothing is trained

    @cached_property
    def target(self) -> Prepared:
        """Raises InputError if its data cannot be read; only `source = dataset:...` can do without."""
        config = self.config.target
        elsewhere = self.config.learn.source.startswith("dataset:")
        dataset = sealed(load_dataset(config.data)) if elsewhere else self._tasks.dataset
        division = config.scenario.model_copy(update={"validation": LITTLE})
        return prepare(config, scenario=build_scenario(dataset, division, config.data))

    @cached_property
    def task(self) -> Task:
        return self._tasks.task(TaskKey(0, "full"))

    @property
    def task_config(self) -> RunConfig:
        """The settings of a run of the task; memory and batches are in proportion to the target's."""
        config, learn, budget = self.config.on_source, self.config.learn, self.task.budget
        update: Json = {"scenario": self.task.scenario.settings}
        if budget.kind != "growing":
            memory = {"budget": budget.setting, "exemplars": budget.exemplars}
            update["memory"] = config.memory.model_copy(update=memory)
        if learn.scale_batch and not learn.source.startswith("dataset:"):
            here = sum(phase.arriving for phase in self.task.scenario.phases)
            there = sum(phase.arriving + len(phase.eval_samples) for phase in self.target.scenario.phases)
            batch = (2 * config.train.batch_size * here + there) // (2 * there)  # rounded
            update["train"] = config.train.model_copy(update={"batch_size": max(SMALLEST, batch)})
        return config.model_copy(update=update)

    def prepare_task(self) -> Prepared:
        return prepare(self.task_config, scenario=self.task.scenario)

    def seconds(self, prepared: Prepared, trial: Trial) -> TaskSeconds:
        first, *later = estimate_seconds(prepared, plan(prepared), trial)
        train, learn = prepared.config.train, self.config.learn
        steps = steps_per_epoch(self.task, train.batch_size)
        most = max(1, learn.features_steps // steps)
        tuning = shortened_tuning(prepared.config.finetune, most, scale=learn.scale_finetune)
        epochs = min(most, train.epochs_of(1)) + tuning.epochs
        phases = self.task.scenario.phases
        samples = sum(phase.arriving + len(phase.eval_samples) for phase in phases)
        together = self._tasks.batches(TaskKey(0, "features"))
        row = HEADS[prepared.method.head.name].build(prepared.method.head, trial.width).row
        weights = sum(len(phase.classes) for phase in phases) * math.prod(row)
        return TaskSeconds(
            phase0=first,
            features=samples * trial.describe,
            later=sum(later),
            steps=steps * epochs * self.task.length,
            step=STEP_TOGETHER + STEP_WEIGHT * (weights * train.batch_size) if together else STEP_ALONE,
            together=together,
        )

    @property
    def paths(self) -> int:
        """All paths of an exhaustive search through the task, as far as they are counted."""
        return sum(1 for _ in islice(level1_paths(self.task), MOST_PATHS))


def learning_cost(
    sizes: LearningSizes, trials: Trials, machine: Machine, *, done: int, workers: int
) -> LearningCost | None:
    """Estimates what is left after `done` epochs, without the start of workers. None: one trial too many."""
    learn, threads = sizes.config.learn, sizes.config.target.train.threads
    trial = trials.find(sizes.task_config, sizes.prepare_task)
    if trial is None:
        return None
    task = sizes.seconds(sizes.prepare_task(), trial)
    runs = runs_left(learn, done, sizes.paths if learn.search == "exhaustive" else 0)
    seconds = Range()
    for jobs, cost in search_parts(learn, task, trial, runs, done):
        at_a_time = parallel(workers, jobs, threads, machine.cores)
        crowded = max(trial.stretch, machine.crowding(at_a_time * threads))
        seconds += cost * Range(1 / at_a_time, crowded / at_a_time)
    return LearningCost(seconds, target_cost(sizes, trials, machine))


def target_cost(sizes: LearningSizes, trials: Trials, machine: Machine) -> Range | None:
    """One run of the target; None if its data are not there or its trial would be one too many."""
    try:
        target = sizes.target
    except InputError:
        return None
    trial = trials.find(target.config, lambda: target)
    if trial is None:
        return None
    return trial.range(sum(estimate_seconds(target, plan(target), trial)), machine, target.config.train.threads)


def runs_left(learn: LearnSettings, done: int, paths: int = 0) -> dict[Fidelity, int]:
    """Runs that are left after `done` epochs, by fidelity. A search does not know what its log has."""
    if learn.crossval_fixed:
        return {learn.fidelity: len(TENTHS) * learn.pool}
    if learn.search == "exhaustive":
        return {learn.fidelity: paths * learn.pool}
    if learn.search != "reinforce":
        return {learn.fidelity: learn.epochs * learn.paths_per_round * learn.pool}
    left: dict[Fidelity, int] = {}
    for epoch in range(done, learn.all_epochs):
        fidelity = learn.fidelity_of(epoch)
        left[fidelity] = left.get(fidelity, 0) + learn.tasks * learn.runs
    return left


def search_parts(
    learn: LearnSettings, task: TaskSeconds, trial: Trial, runs: Mapping[Fidelity, int], done: int
) -> list[tuple[int, Range]]:
    """CPU seconds of phases 0 and of later phases, each with the number of jobs that can be trained at a time."""
    unshared = learn.fresh_init or not learn.share
    tasks = learn.pool if learn.crossval_fixed or learn.search != "reinforce" else learn.tasks
    trained = Range(1.0 if unshared else FEWEST_TRAINED, 1.0)
    spread = Range(*trial.spread)
    parts, total = [], sum(runs.values())
    for fidelity, count in runs.items():
        features = fidelity == "features"
        first = task.phase0 * learn.phase0_share + task.features if features else task.phase0
        fresh = count if unshared else new_tasks(learn, done) * count / total
        parts.append((tasks * learn.runs if unshared else tasks, spread * (first * fresh)))
        if features:
            later = task.step * task.steps
        else:
            later = spread * (task.later * (learn.short_share if fidelity == "short" else 1.0))
        together = features and task.together
        parts.append((tasks if together else tasks * learn.runs, later * trained * count))
    return parts


def new_tasks(learn: LearnSettings, done: int) -> int:
    """Tasks whose phase 0 is not trained yet."""
    if not learn.pool:
        return learn.tasks * (learn.all_epochs - done)
    return max(0, learn.pool - learn.tasks * done)
