"""`data.image_size=auto`: the side with the highest reward on pseudo tasks, under the run's own policy and budget.

In a budget of bytes, smaller images are more images. Tasks are made of phase 0's training data; no test set is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean

from remem.data.datasets import load_dataset
from remem.data.settings import AUTO
from remem.errors import InputError
from remem.policies.policy import ChoosesCodec, Policy
from remem.policies.table import resolve_policy
from remem.rl.config import LearnConfig, normalized
from remem.rl.paths import TaskKey, follow_path
from remem.rl.prefix_tree import RewardCache
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.settings import LearnSettings
from remem.rl.snapshot_cache import MemorySnapshotCache
from remem.runs.build import name_policy
from remem.runs.config import RunConfig

SHARES = (Fraction(1), Fraction(2, 3), Fraction(1, 2), Fraction(1, 3))  # of the data set's own side: 48, 32, 24, 16
SMALLEST = 8  # pixels
TASKS = 2  # pseudo tasks that every side is tried on


@dataclass(frozen=True)
class SizeTrial:
    """A side, and what it led to on every pseudo task."""

    side: int
    held: int  # samples that phase 1 of the first task may hold
    accuracies: tuple[float, ...]  # mean over phases, by task

    @property
    def accuracy(self) -> float:
        return fmean(self.accuracies)


def choose_image_size(config: RunConfig) -> tuple[RunConfig, tuple[SizeTrial, ...]]:
    """Returns the settings with the best side in place of `auto`, and how all sides did. Ties go to the smaller one."""
    if config.train.devices > 1:
        raise InputError(
            f"data.image_size: auto given for {config.train.devices} devices; pseudo tasks have one, expected a number"
        )
    trials = tuple(try_side(config, side) for side in candidate_sides(own_side(config)))
    return with_side(config, best_side(trials)), trials


def best_side(trials: Sequence[SizeTrial]) -> int:
    return max(trials, key=lambda trial: (trial.accuracy, -trial.side)).side


def candidate_sides(own: int) -> tuple[int, ...]:
    """The data set's own side and smaller ones, the largest first."""
    sides = (round(own * share) for share in SHARES)
    return tuple(dict.fromkeys(side for side in sides if side == own or side >= SMALLEST))


def own_side(config: RunConfig) -> int:
    """The side of a data set's images without `data.image_size`."""
    dataset = load_dataset(config.data.model_copy(update={"image_size": None}))
    shape = dataset.train.shape
    if len(shape) != 3:
        raise InputError(f"data.image_size: {AUTO} given, but {dataset.name} holds vectors; expected images")
    # Data sets that are made for resized crops store squares an eighth larger than the size they are read with.
    return min(shape[:2]) * 7 // 8 if dataset.preprocessing.augment == "resized-crop" else min(shape[:2])


def with_side(config: RunConfig, side: int | None) -> RunConfig:
    return config.model_copy(update={"data": config.data.model_copy(update={"image_size": side})})


def try_side(config: RunConfig, side: int) -> SizeTrial:
    """Runs the policy on every task with images of this side."""
    config, _ = name_policy(with_side(config, side))
    policy = resolve_policy(config.policy, config.seed, sample=config.sample_actions)
    learn = LearnSettings(fidelity="full", pool=TASKS)
    tasks = PseudoTasks(
        normalized(LearnConfig(target=_with_codecs(config, policy), learn=learn)), MemorySnapshotCache(0)
    )
    tasks.check()
    keys = [TaskKey(number, learn.fidelity) for number in range(TASKS)]
    runs = [(key, follow_path(tasks.task(key), policy.act)) for key in keys]
    rewards = RewardCache(tasks.train_nodes).of(runs)
    first = tasks.task(keys[0])
    held = first.budget.total(first.phases[0].classes, first.phases[1].samples)
    return SizeTrial(side, held, tuple(fmean(values) for values in rewards))


def _with_codecs(config: RunConfig, policy: Policy) -> RunConfig:
    """The settings with the codecs that a policy brings along."""
    if not (isinstance(policy, ChoosesCodec) and policy.codecs):
        return config
    return config.model_copy(update={"memory": config.memory.model_copy(update={"codec": ",".join(policy.codecs)})})
