"""Searches for one best path instead of a policy: all paths of level 1, random paths, or TPE by Optuna.

A path is run on every task of the pool; its value is the mean of its total rewards. Rewards come from the same cache as
in policy training. Every search is deterministic: after a stop it proposes the same paths again, finds their rewards in
the cache and goes on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Protocol

from remem.action import CHANGES, EVEN, TENTHS, Action, State
from remem.errors import InputError
from remem.memory.allocator import Allocator, canonical
from remem.policies.path import FixedPath
from remem.policies.rmm import PolicySettings, TwoLevelPolicy
from remem.rl.config import LearnConfig
from remem.rl.paths import ActionPath, Task, TaskSource, follow_path, sample_path, task_key
from remem.rl.prefix_tree import RewardCache
from remem.rl.settings import LearnSettings
from remem.seeding import Streams


class Proposer(Protocol):
    """Proposes paths and is told their values."""

    def ask(self, count: int) -> Sequence[ActionPath]: ...

    def tell(self, values: Sequence[float]) -> None: ...


@dataclass(frozen=True)
class Round:
    """Some paths and their values; `best` is the best path so far."""

    index: int
    values: tuple[float, ...]
    best: ActionPath


class PathSearch:
    """Proposes paths in rounds and keeps the best one; ties go to the one that was proposed first."""

    def __init__(self, config: LearnConfig, tasks: TaskSource, rewards: RewardCache) -> None:
        self._learn, self._rewards = config.learn, rewards
        self._keys = [task_key(config.learn, number, 0, "") for number in range(config.learn.pool)]
        self._tasks = [tasks.path_task(key) for key in self._keys]
        self._proposer = make_proposer(config.learn, self._tasks, config.target.seed)
        self.mean_rewards: list[float] = []  # one per complete round
        self._best: tuple[float, ActionPath] | None = None

    @property
    def policy(self) -> FixedPath:
        assert self._best is not None, "no path has been run"
        return FixedPath(self._best[1])

    @property
    def length(self) -> int:
        """Rewards of one run: phases 0..N of the first task."""
        return self._tasks[0].length + 1

    def rounds(self) -> Iterator[Round]:
        for index in range(self._learn.all_epochs):
            paths = self._proposer.ask(self._learn.paths_per_round)
            values = self._values(paths)
            self._proposer.tell(values)
            for path, value in zip(paths, values, strict=True):
                if self._best is None or value > self._best[0]:
                    self._best = value, path
            self.mean_rewards.append(fmean(values))
            yield Round(index, tuple(values), self.policy.actions)

    def _values(self, paths: Sequence[ActionPath]) -> list[float]:
        """The mean total reward of every path over all tasks."""
        runs = [
            (task_key(self._learn, key.number, 0, str([action.key() for action in path])), _carried_out(task, path))
            for path in paths
            for key, task in zip(self._keys, self._tasks, strict=True)
        ]
        totals = iter(map(sum, self._rewards.of(runs)))
        return [fmean(next(totals) for _ in self._keys) for _ in paths]


def _carried_out(task: Task, path: ActionPath) -> ActionPath:
    """The path through a task, where each action becomes the nearest feasible one."""
    return follow_path(task, FixedPath(path).act)


def make_proposer(learn: LearnSettings, tasks: Sequence[Task], seed: int) -> Proposer:
    if learn.search == "exhaustive":
        return AllPaths(tasks)
    if learn.search == "random":
        return RandomPaths(tasks[0], learn.levels, seed)
    return TpePaths(tasks[0], learn.levels, seed)


class AllPaths:
    """Every path of level 1 that is reachable in some task, in one round."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._paths = sorted({path for task in tasks for path in level1_paths(task)})

    def ask(self, count: int) -> Sequence[ActionPath]:
        return self._paths

    def tell(self, values: Sequence[float]) -> None:
        """Nothing depends on them."""


def level1_paths(task: Task) -> Iterator[ActionPath]:
    """All reachable old shares of phases 1..N; both halves of a phase's classes get the same."""

    def extend(allocator: Allocator, path: ActionPath) -> Iterator[ActionPath]:
        if len(path) == task.length:
            yield path
            return
        facts = task.phases[len(path) + 1]
        state = allocator.observe(facts)
        for tenths in state.choices()[0]:
            action = canonical(state, Action(old_tenths=tenths))
            after = Allocator(task.budget, [*sizes[: len(path) + 1]], old_tenths=allocator.old_tenths)
            after.decide(state, action)
            after.add_phase(facts.classes)
            yield from extend(after, (*path, action))

    sizes = [facts.classes for facts in task.phases]
    yield from extend(Allocator(task.budget, sizes[:1]), ())


class RandomPaths:
    """Paths of a policy that has learned nothing: every feasible action is equally probable."""

    def __init__(self, task: Task, levels: int, seed: int) -> None:
        self._task, self._policy = task, TwoLevelPolicy(PolicySettings(levels=levels))
        self._rng = Streams(seed, "search").numpy(0, "random")

    def ask(self, count: int) -> Sequence[ActionPath]:
        return [sample_path(self._task, self._policy, self._rng)[0] for _ in range(count)]

    def tell(self, values: Sequence[float]) -> None:
        """Nothing depends on them."""


class TpePaths:
    """Optuna's tree-structured Parzen estimator: the first share, its changes, and the splits are parameters."""

    def __init__(self, task: Task, levels: int, seed: int) -> None:
        try:
            import optuna
        except ImportError:
            raise InputError(
                "learn.search: tpe given, but Optuna is not installed; expected `pip install remem[search]`"
            ) from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(
            seed=Streams(seed, "search").integer(0, "tpe") % 2**32, constant_liar=True, n_startup_trials=20
        )
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._task, self._levels = task, levels
        self._trials: list[Any] = []

    def ask(self, count: int) -> Sequence[ActionPath]:
        self._trials = [self._study.ask() for _ in range(count)]
        return [self._path(trial) for trial in self._trials]

    def tell(self, values: Sequence[float]) -> None:
        for trial, value in zip(self._trials, values, strict=True):
            self._study.tell(trial, value)

    def _path(self, trial: Any) -> ActionPath:
        """One parameter for each decision. A change beyond the reachable shares becomes the nearest reachable one."""

        def act(state: State) -> Action:
            if state.phase == 1:
                tenths = trial.suggest_int("share", TENTHS[0], TENTHS[-1])
            else:
                tenths = state.old_tenths + trial.suggest_int(f"change {state.phase}", CHANGES[0], CHANGES[-1])
            split = EVEN
            if self._levels == 2 and state.splits:
                split = trial.suggest_int(f"split {state.phase}", TENTHS[0], TENTHS[-1])
            return Action(old_tenths=tenths, level2_tenths=split).nearest(state)

        return follow_path(self._task, act)
