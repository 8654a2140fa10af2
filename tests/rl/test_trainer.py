"""trainer.py: the epochs of Algorithm 1, with fake episodes instead of trained ones."""

from copy import deepcopy
from statistics import fmean
from typing import Any

import pytest

from factories import same_tensors
from remem.policies.network import PolicyNetwork
from remem.policies.rmm import PolicySettings, TwoLevelPolicy
from remem.rl.config import LearnConfig, compose_learning
from remem.rl.paths import ActionPath, Node, Task, TaskKey, sample_path
from remem.rl.prefix_tree import RewardCache, one_by_one
from remem.rl.reinforce import Reinforce, Run
from remem.rl.snapshot_cache import MemorySnapshotCache
from remem.rl.trainer import PolicyTrainer
from remem.seeding import Streams
from rl_factories import FakeTrainer, fake_rewards, make_task

SEED = 5


class FakeTasks:
    """Tasks by number alone: every fidelity and every run has the same phases."""

    def path_task(self, key: TaskKey) -> Task:
        return make_task(key.number)


def make_config(**learn: Any) -> LearnConfig:
    settings = {"epochs": 3, "tasks": 2, "runs": 3, "pool": 3, "lr_eta": 0.3, "lr_phi": 0.3, **learn}
    return compose_learning({"seed": SEED, "learn": settings})


class Setup:
    """A trainer, and everything that its fake episodes were asked for."""

    def __init__(self, config: LearnConfig) -> None:
        self.config = config
        self.fakes = FakeTrainer(MemorySnapshotCache(10**9))
        self.asked: list[Node] = []
        self.rewards = RewardCache(one_by_one(self._train))
        self.trainer = PolicyTrainer(config, FakeTasks(), self.rewards)

    def _train(self, key: TaskKey, path: ActionPath) -> dict[ActionPath, float]:
        self.asked.append((key, path))
        return self.fakes.train(Task(key, make_task(key.number).scenario, make_task().budget), path)

    def expected_nodes(self, epoch: int, policy: PolicyNetwork) -> list[tuple[int, ActionPath, Any]]:
        """Task number, path and choices of every run of an epoch; each has a random stream of its own."""
        learn, streams, nodes = self.config.learn, Streams(SEED, "policy"), []
        for place, number in enumerate(learn.tasks_of(epoch)):
            for run in range(learn.runs):
                rng = streams.numpy(epoch, f"task {place} run {run}")
                nodes.append((number, *sample_path(make_task(number), policy, rng)))
        return nodes


def test_an_epoch_has_z_runs_of_each_of_its_k_tasks_sampled_from_their_own_streams() -> None:
    setup = Setup(make_config())
    policy, epochs = deepcopy(setup.trainer.policy), []
    for epoch in setup.trainer.train():
        expected = setup.expected_nodes(epoch.index, policy)
        assert [(run.task, run.choices) for run in epoch.runs] == [(str(n), choices) for n, _, choices in expected]
        assert [run.rewards for run in epoch.runs] == [fake_rewards(path) for _, path, _ in expected]
        policy = deepcopy(setup.trainer.policy)  # the next epoch samples from the updated policy
        epochs.append(epoch)
    assert [epoch.index for epoch in epochs] == [0, 1, 2]
    assert [[run.task for run in epoch.runs] for epoch in epochs] == [
        ["0", "0", "0", "1", "1", "1"],
        ["2", "2", "2", "0", "0", "0"],
        ["1", "1", "1", "2", "2", "2"],
    ]
    assert setup.trainer.mean_rewards == [fmean(run.total for run in epoch.runs) for epoch in epochs]


def test_every_epoch_is_one_step_of_reinforce_on_its_runs() -> None:
    setup = Setup(make_config(baseline="average", entropy=0.1))
    policy = TwoLevelPolicy(PolicySettings(hidden=32), seed=SEED)
    separate = Reinforce(policy, setup.config.learn)
    for epoch in setup.trainer.train():
        assert separate.step(epoch.runs) == epoch.update
        assert same_tensors(setup.trainer.policy.state_dict(), policy.state_dict())
        assert epoch.update.grad_norm > 0


def test_an_epoch_is_trained_when_it_is_asked_for_and_no_earlier() -> None:
    setup = Setup(make_config())
    epochs = setup.trainer.train()
    assert setup.asked == []
    next(epochs)
    assert {key.number for key, _ in setup.asked} == {0, 1}
    assert len(setup.trainer.mean_rewards) == 1


def test_no_phase_is_trained_twice_and_nothing_is_asked_for_that_is_known() -> None:
    setup = Setup(make_config(epochs=6))
    runs = [run for epoch in setup.trainer.train() for run in epoch.runs]
    assert len(set(setup.asked)) == len(setup.asked) == setup.fakes.trained < sum(len(run.rewards) for run in runs)


def test_runs_that_share_nothing_take_the_same_paths() -> None:
    shared, alone, fresh = (Setup(make_config(**learn)) for learn in ({}, {"share": False}, {"fresh_init": True}))
    found = [[epoch.runs for epoch in setup.trainer.train()] for setup in (shared, alone, fresh)]
    assert found[0] == found[1] == found[2]  # fake rewards depend on the path alone
    assert shared.fakes.trained < alone.fakes.trained == fresh.fakes.trained == 3 * 2 * 3 * 3
    assert {(key.run, key.fresh) for key, _ in shared.asked} == {("", False)}
    assert {key.run for key, _ in alone.asked} == {
        f"{epoch}.{place}.{run}" for epoch in range(3) for place in range(2) for run in range(3)
    }
    assert {key.fresh for key, _ in alone.asked} == {False}
    assert {key.fresh for key, _ in fresh.asked} == {True}


@pytest.mark.parametrize("done", [1, 2, 3])
@pytest.mark.parametrize("baseline", ["average", "leave-one-out"])
def test_a_resumed_trainer_has_the_epochs_that_are_left_and_the_same_policy(baseline: str, done: int) -> None:
    config = make_config(baseline=baseline)
    whole = Setup(config)
    epochs = list(whole.trainer.train())
    first = Setup(config)
    for _, epoch in zip(range(done), first.trainer.train(), strict=False):
        assert epoch == epochs[epoch.index]
    resumed = Setup(config)
    resumed.trainer.mean_rewards = list(first.trainer.mean_rewards)
    resumed.trainer.reinforce.load(first.trainer.reinforce.state())
    assert list(resumed.trainer.train()) == epochs[done:]
    assert resumed.trainer.mean_rewards == whole.trainer.mean_rewards
    assert same_tensors(resumed.trainer.reinforce.state(), whole.trainer.reinforce.state())


def test_the_policy_has_the_shape_that_the_settings_name() -> None:
    trainer = Setup(make_config(levels=1, hidden=7)).trainer
    assert trainer.policy.settings == PolicySettings(hidden=7, levels=1)
    runs: tuple[Run, ...] = next(trainer.train()).runs
    assert {choice.level2 for run in runs for choice in run.choices} == {None}
    expected = TwoLevelPolicy(PolicySettings(hidden=7, levels=1), seed=SEED).state_dict()
    assert same_tensors(Setup(make_config(levels=1, hidden=7)).trainer.policy.state_dict(), expected)
