"""paths.py: states, canonical actions and sampled paths, all without any training."""

import numpy as np
import pytest

from factories import blobs, opened, play, ready
from remem.action import Action, State
from remem.policies.fixed import Fixed
from remem.policies.rmm import TwoLevelPolicy
from remem.policies.static import Static
from remem.rl.paths import Task, TaskKey, follow_path, sample_path
from rl_factories import make_path, make_task, observe


def test_states_by_hand() -> None:
    """4 + 2 + 2 classes of 9 samples, M = 40; 0.5 leaves 20 of 18, 0.6 would leave 16: 0.5 is the lowest."""
    task = make_task()
    first, second = observe(task, 1), observe(task, 2, old_tenths=6)
    assert (first.phase, first.new_classes, first.old_classes, first.arriving, first.budget) == (1, 2, 4, 18, 40)
    assert first.vector() == (0.5, 0.0)
    assert first.feasible == (5, 6, 7, 8, 9)
    assert first.splits
    assert second.vector() == (2 / 6, 0.6)
    assert second.reachable == (5, 6, 7)


def test_a_policy_sees_the_states_of_its_own_path() -> None:
    seen: list[State] = []

    def act(state: State) -> Action:
        seen.append(state)
        return Action(8 if state.phase == 1 else 7)

    task = make_task()
    assert follow_path(task, act) == make_path((8, 5), (7, 5))
    assert seen == [observe(task, 1), observe(task, 2, old_tenths=8)]


def test_states_are_those_that_an_episode_observes() -> None:
    prepared = ready(blobs(), {"policy": "fixed-0.7"})
    episode = opened(prepared)
    play(episode, prepared, stop=2)
    task = Task(TaskKey(0, "full"), prepared.scenario, prepared.budget)
    assert observe(task, 2, old_tenths=7) == episode.observe(prepared.scenario.phases[2])


def test_a_fixed_share_takes_the_nearest_feasible_one() -> None:
    assert follow_path(make_task(), Fixed(7).act) == make_path((7, 5), (7, 5))
    assert follow_path(make_task(), Fixed(2).act) == make_path((5, 5), (5, 5))
    with pytest.raises(ValueError, match="a path consists of shares"):
        follow_path(make_task(), Static().act)


def test_paths_consist_of_canonical_actions() -> None:
    """Four single classes: 0.2 becomes 0.7, the lowest feasible share, and only phase 0's four classes are split."""
    assert follow_path(make_task(phases=4), lambda state: Action(2, 9)) == make_path((7, 9), (7, 5), (7, 5), (7, 5))


def test_the_most_probable_path_of_an_untrained_policy_stays_in_the_middle() -> None:
    path, choices = sample_path(make_task(), TwoLevelPolicy(), None)
    assert path == make_path((5, 5), (5, 5))
    assert [choice.first for choice in choices] == [True, False]
    assert choices[0].feasible == (False,) * 4 + (True,) * 5


def test_equal_generators_sample_equal_feasible_paths() -> None:
    task, policy, seen = make_task(phases=4), TwoLevelPolicy(), set()
    for seed in range(30):
        path, _ = sample_path(task, policy, np.random.default_rng(seed))
        assert path == sample_path(task, policy, np.random.default_rng(seed))[0]
        before = 0
        for phase, action in enumerate(path, start=1):
            state = observe(task, phase, before)
            assert action.old_tenths in state.reachable
            assert action.level2_tenths in range(1, 10) if state.splits else action.level2_tenths == 5
            before = action.old_tenths
        seen.add(path)
    assert len(seen) > 20


def test_all_fidelities_of_a_task_have_the_same_streams_and_only_fresh_runs_have_their_own() -> None:
    assert {TaskKey(3, fidelity).stream for fidelity in ("full", "short", "features")} == {"pseudo 3"}
    assert TaskKey(3, "full", run="0.1.2").stream == "pseudo 3"
    assert TaskKey(3, "full", run="0.1.2", fresh=True).stream == "pseudo 3 0.1.2"
