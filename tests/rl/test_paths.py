"""Paths are arithmetic: states, moves that come to the same, and draws that need no training."""

import numpy as np
import pytest

from remem.memory.allocation import feasible_tenths
from remem.policies.fixed import Fixed
from remem.policies.rmm import TwoLevelPolicy
from remem.policies.static import Static
from remem.rl.paths import Task, TaskKey, carried_out, drawn, state_before, walk
from remem.action import Action
from remem.action import State
from rl_factories import made_task
from factories import blobs, opened, play, ready


def test_states_by_hand() -> None:
    """4 + 2 + 2 classes of 9 samples, M = 40; 0.5 leaves 20 of 18, 0.6 would leave 16: 0.5 is the lowest."""
    task = made_task()
    first, second = state_before(task, 1, 0), state_before(task, 2, 6)
    assert (first.phase, first.new_classes, first.old_classes, first.arriving, first.budget) == (1, 2, 4, 18, 40)
    assert first.vector() == (0.5, 0.0)
    assert first.feasible == (5, 6, 7, 8, 9)
    assert first.splits
    assert second.vector() == (2 / 6, 0.6)
    assert second.reachable == (5, 6, 7)


def test_after_the_last_phase_nothing_can_be_chosen() -> None:
    end = state_before(made_task(), 3, 6)
    assert (end.feasible, end.splits, end.old_classes, end.old_tenths) == ((), False, 8, 6)


def test_states_are_those_that_an_episode_observes() -> None:
    prepared = ready(blobs(), {"policy": "fixed-0.7"})
    episode = opened(prepared)
    play(episode, prepared, stop=2)
    task = Task(TaskKey(0, "full"), prepared.scenario, prepared.budget)
    assert state_before(task, 2, 7) == episode.observe(prepared.scenario.phases[2])


def test_a_fixed_share_takes_the_nearest_feasible_one() -> None:
    assert walk(made_task(), Fixed(7).act) == ((7, 5), (7, 5))
    assert walk(made_task(), Fixed(2).act) == ((5, 5), (5, 5))
    with pytest.raises(ValueError, match="a path is made of shares"):
        walk(made_task(), Static().act)


def test_actions_that_come_to_the_same_are_the_same_move() -> None:
    """One class in phase 1 leaves nothing to split in phase 2; one sample per class may leave no share to choose."""
    singles = made_task(phases=4)
    assert not state_before(singles, 2, 8).splits
    assert carried_out(state_before(singles, 2, 8), Action(old_tenths=8, level2_tenths=9)) == (8, 5)
    assert carried_out(state_before(singles, 1, 0), Action(old_tenths=8, level2_tenths=9)) == (8, 9)
    assert feasible_tenths(60, old_classes=50, new_classes=10, arriving=90) == ()
    stuck = State(2, 10, 50, 6, 60, 20, 90, (), splits=True)
    assert carried_out(stuck, Action(old_tenths=3, level2_tenths=4)) == (3, 4)


def test_the_most_probable_path_of_an_untrained_policy_is_the_middle_that_stays() -> None:
    path, choices = drawn(made_task(), TwoLevelPolicy(), None)
    assert path == ((5, 5), (5, 5))
    assert [choice.first for choice in choices] == [True, False]
    assert choices[0].feasible == (False,) * 4 + (True,) * 5


def test_equal_generators_draw_equal_feasible_paths() -> None:
    task, policy, seen = made_task(phases=4), TwoLevelPolicy(), set()
    for seed in range(30):
        path, _ = drawn(task, policy, np.random.default_rng(seed))
        assert path == drawn(task, policy, np.random.default_rng(seed))[0]
        before = 0
        for phase, (share, split) in enumerate(path, start=1):
            state = state_before(task, phase, before)
            assert share in state.reachable
            assert split in range(1, 10) if state.splits else split == 5
            before = share
        seen.add(path)
    assert len(seen) > 20


def test_all_fidelities_of_a_task_have_the_same_streams_and_only_fresh_runs_have_their_own() -> None:
    assert {TaskKey(3, fidelity).stream for fidelity in ("full", "short", "features")} == {"pseudo 3"}
    assert TaskKey(3, "full", run="0.1.2").stream == "pseudo 3"
    assert TaskKey(3, "full", run="0.1.2", fresh=True).stream == "pseudo 3 0.1.2"
