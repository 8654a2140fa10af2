"""The best fixed share, and the paths that fixed shares take."""

from remem.data.pseudo import pseudo_scenario
from remem.data.settings import ScenarioSettings
from remem.memory.budget import Budget
from remem.rl.oracles import best_fixed, fixed_paths
from remem.rl.paths import Task, TaskKey
from remem.seeding import Streams
from rl_factories import made_task
from factories import blobs


def test_the_highest_mean_wins() -> None:
    assert best_fixed({2: [1.0, 1.0], 3: [0.0, 3.0], 9: [1.4, 1.4]}) == 3


def test_ties_go_to_the_middle_then_to_the_lower() -> None:
    assert best_fixed({1: [2.0], 4: [2.0], 8: [2.0], 9: [1.0]}) == 4
    assert best_fixed({6: [2.0, 1.0], 4: [1.0, 2.0], 5: [1.0, 1.0]}) == 4
    assert best_fixed({9: [0.5]}) == 9


def test_shares_that_are_feasible_nowhere_are_left_out_and_others_take_the_nearest() -> None:
    """M = 40 and 18 arriving samples: 0.5 to 0.9. M = 40 and 9 arriving ones, four phases of one class: 0.7 to 0.9."""
    pairs, singles = made_task(), made_task(1, phases=4)
    assert list(fixed_paths([pairs])) == [5, 6, 7, 8, 9]
    assert list(fixed_paths([singles])) == [7, 8, 9]
    both = fixed_paths([singles, pairs])
    assert list(both) == [5, 6, 7, 8, 9]
    assert both[6] == [((7, 5),) * 4, ((6, 5),) * 2]
    assert both[5][0] == both[6][0]  # the same path: it is trained once


def test_one_sample_per_class_leaves_one_share_or_none() -> None:
    """Four old and four new classes share 8 samples by halves; no tenth of 51 is 50."""
    assert fixed_paths([made_task(phases=1, budget=8)]) == {5: [((5, 5),)]}
    division = ScenarioSettings(phases=1, base_classes=50)
    crowd = pseudo_scenario(blobs(classes=51, per_class=2), range(51), division, Streams(0))
    assert fixed_paths([Task(TaskKey(0, "full"), crowd, Budget("fixed", 51, 20))]) == {}
