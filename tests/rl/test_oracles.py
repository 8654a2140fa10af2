"""oracles.py: the best fixed share, the paths that fixed shares take, and the comparison of all of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from factories import blobs
from remem.data.pseudo import pseudo_scenario
from remem.data.settings import ScenarioSettings
from remem.errors import InputError
from remem.events import Event, ignore
from remem.memory.allocation import make_state
from remem.memory.budget import Budget
from remem.rl.events import NodesTrained
from remem.rl.learn import learn_in_folder
from remem.rl.oracles import Pair, best_fixed, fixed_paths
from remem.rl.paths import Task, TaskKey
from remem.seeding import Streams
from rl_factories import learn_config, make_path, make_task, reward_lines


def test_the_highest_mean_wins() -> None:
    assert best_fixed({Pair(2): [1.0, 1.0], Pair(3): [0.0, 3.0], Pair(9): [1.4, 1.4]}) == Pair(3)
    assert best_fixed({Pair(3): [1.0], Pair(3, 2): [1.5]}) == Pair(3, 2)


def test_ties_go_to_the_middle_then_to_the_lower() -> None:
    assert best_fixed({Pair(1): [2.0], Pair(4): [2.0], Pair(8): [2.0], Pair(9): [1.0]}) == Pair(4)
    assert best_fixed({Pair(6): [2.0, 1.0], Pair(4): [1.0, 2.0], Pair(5): [1.0, 1.0]}) == Pair(4)
    assert best_fixed({Pair(9): [0.5]}) == Pair(9)
    assert best_fixed({Pair(5, 1): [2.0], Pair(9): [2.0]}) == Pair(9)  # the exact codec


def test_shares_that_are_feasible_nowhere_are_left_out_and_others_take_the_nearest() -> None:
    """M = 40 and 18 arriving samples: 0.5 to 0.9. M = 40 and 9 arriving ones, four phases of one class: 0.7 to 0.9."""
    pairs, singles = make_task(), make_task(1, phases=4)
    assert list(fixed_paths([pairs])) == [Pair(5), Pair(6), Pair(7), Pair(8), Pair(9)]
    assert list(fixed_paths([singles])) == [Pair(7), Pair(8), Pair(9)]
    both = fixed_paths([singles, pairs])
    assert list(both) == [Pair(5), Pair(6), Pair(7), Pair(8), Pair(9)]
    assert both[Pair(6)] == [make_path((7, 5)) * 4, make_path((6, 5)) * 2]
    assert both[Pair(5)][0] == both[Pair(6)][0]  # the same path: it is trained once


def test_one_sample_per_class_leaves_one_share_or_none() -> None:
    """Four old and four new classes share 8 samples by halves; no tenth of 51 is 50."""
    assert fixed_paths([make_task(phases=1, budget=8)]) == {Pair(5): [make_path((5, 5))]}
    division = ScenarioSettings(phases=1, base_classes=50)
    crowd = pseudo_scenario(blobs(classes=51, per_class=2), range(51), division, Streams(0))
    assert fixed_paths([Task(TaskKey(0, "full"), crowd, Budget("fixed", 51, 20))]) == {}


def test_a_budget_that_leaves_no_fixed_share_feasible_is_refused(
    npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = learn_config(npz, crossval_fixed=True)
    monkeypatch.setattr("remem.memory.allocator.make_state", lambda *facts: replace(make_state(*facts), feasible=()))
    with pytest.raises(InputError, match="budget: it leaves no fixed share feasible in any phase of any task"):
        learn_in_folder(config, tmp_path / "out", ignore)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("source", "oracle"), [("phase0", False), ("target", True)])
def test_all_fixed_shares_are_compared_and_the_best_one_stays(
    source: str, oracle: bool, npz: Path, tmp_path: Path
) -> None:
    """Stopped after five nodes, and resumed."""
    out, config = tmp_path / "out", learn_config(npz, crossval_fixed=True, source=source)

    def interrupt(event: Event) -> None:
        if isinstance(event, NodesTrained) and event.trained == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn_in_folder(config, out, interrupt)
    assert len(reward_lines(out)) == 5
    events = list[Event]()
    policy = learn_in_folder(config, out, events.append)
    lines, last = reward_lines(out), events[-1]
    assert isinstance(last, NodesTrained)
    assert last.trained == len(lines) - 5
    assert (policy.name, policy.oracle, policy.facts["kind"]) == ("crossval-fixed", oracle, "fixed")
    rewards = {(line["task"]["number"], tuple(map(tuple, line["path"]))): line["reward"] for line in lines}
    shares = {round(10 * share["old_share"]): share for share in policy.facts["shares"]}
    # Phase 0 of the target: M = 28, and 22 arriving samples fit beside 0.2 of it; the target itself: M = 37 and 11.
    assert list(shares) == ([7, 8, 9] if oracle else [2, 3, 4, 5, 6, 7, 8, 9])
    for tenths in (7, 8, 9):  # feasible in every phase; lower ones become the nearest that is
        path = ((tenths, 5), (tenths, 5))
        totals = [sum(rewards[number, path[:depth]] for depth in range(3)) for number in (0, 1)]
        assert shares[tenths]["reward"] == pytest.approx(sum(totals) / 2, abs=1e-12)
        assert shares[tenths]["accuracy"] == pytest.approx(sum(totals) / 6, abs=1e-12)
    best = policy.facts["old_tenths"]
    assert shares[best]["reward"] == max(share["reward"] for share in shares.values())
    assert policy.facts["rewards"] == [shares[best]["reward"]]
