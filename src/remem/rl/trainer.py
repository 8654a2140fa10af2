"""Policy training: Algorithm 1 of the paper, lines 3-22. Folders and resuming are in learn.py.

The states of an action path depend on counts only. Therefore the actions of all runs of an epoch are sampled first
(lines 11 and 13), then every phase that is not in the reward cache is trained (lines 12 and 14-19). Samples and rewards
are the same as in the paper's order.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from remem.policies.rmm import PolicySettings, TwoLevelPolicy
from remem.policies.rmm_codec import ThreeLevelPolicy
from remem.rl.config import LearnConfig
from remem.rl.paths import Node, TaskSource, sample_path, task_key
from remem.rl.prefix_tree import RewardCache
from remem.rl.reinforce import Reinforce, Run, Update
from remem.seeding import Streams


@dataclass(frozen=True)
class Epoch:
    """One epoch of policy training: its K x Z runs and the policy update."""

    index: int
    runs: tuple[Run, ...]
    update: Update


class PolicyTrainer:
    """Trains a policy of one to three levels. Equal seeds sample equal paths, whichever worker trains the phases."""

    def __init__(self, config: LearnConfig, tasks: TaskSource, rewards: RewardCache) -> None:
        self._learn, self._seed = config.learn, config.target.seed
        self._tasks, self._rewards = tasks, rewards
        shape = PolicySettings(hidden=config.learn.hidden, levels=config.learn.levels)
        self.policy: TwoLevelPolicy | ThreeLevelPolicy  # line 3
        if config.learn.levels == 3:
            rungs = tasks.path_task(task_key(config.learn, 0, 0, "")).budget.rungs
            self.policy = ThreeLevelPolicy(rungs, shape, seed=self._seed)
        else:
            self.policy = TwoLevelPolicy(shape, seed=self._seed)
        self.reinforce = Reinforce(self.policy, config.learn)
        self.mean_rewards: list[float] = []  # one per complete epoch

    def train(self) -> Iterator[Epoch]:
        """Runs lines 4-22 for the remaining epochs, one at a time."""
        learn, streams = self._learn, Streams(self._seed, "policy")
        for epoch in range(len(self.mean_rewards), learn.all_epochs):  # line 4
            nodes, choices = list[Node](), []
            for place, number in enumerate(learn.tasks_of(epoch)):  # lines 5-6: K pseudo tasks
                for run in range(learn.runs):  # line 7: Z runs of each
                    key = task_key(learn, number, epoch, f"{epoch}.{place}.{run}")
                    rng = streams.numpy(epoch, f"task {place} run {run}")
                    path, chosen = sample_path(self._tasks.path_task(key), self.policy, rng)  # lines 9-11, 13
                    nodes.append((key, path))
                    choices.append(chosen)
            rewards = self._rewards.of(nodes)  # lines 8, 12, 14-19: r_0 .. r_N of every run
            runs = tuple(Run(str(n[0].number), c, r) for n, c, r in zip(nodes, choices, rewards, strict=True))
            update = self.reinforce.step(runs)  # lines 20-22
            self.mean_rewards.append(fmean(run.total for run in runs))
            yield Epoch(epoch, runs, update)
