"""episode.py: the order of a phase, and which rows are held, read and dropped."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from factories import NO_REPLAY, UNEVEN, blobs, facts_of, opened, pictures, play, ready
from remem.action import Action
from remem.data.source import Dataset
from remem.episode import Episode
from remem.errors import NotHeldError
from remem.memory.allocation import allocate, decide
from remem.memory.store import Memory
from remem.methods.learner import Learner
from remem.runs.prepared import Prepared
from remem.types import EMPTY, Group, IntArray, Phase, PhaseResult, Samples, Values


def steps(prepared: Prepared, episode: Episode | None = None) -> Iterator[tuple[Episode, Phase, PhaseResult]]:
    """Plays a run phase by phase."""
    episode = opened(prepared) if episode is None else episode
    for phase in prepared.scenario.phases:
        (result,) = play(episode, prepared, stop=phase.index + 1)
        yield episode, phase, result


def held_rows(episode: Episode) -> dict[int, list[int]]:
    """The rows in memory by class, in stored order, from the snapshot."""
    tensors = episode.snapshot().tensors
    counts = tensors["memory/counts"].tolist()
    parts = torch.split(tensors["memory/rows"], counts)
    return {label: part.tolist() for label, part in zip(tensors["memory/labels"].tolist(), parts, strict=True)}


def test_phase_follows_the_order_of_the_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank, cut, open the budget, load, train, and only then evaluate."""
    prepared = ready(blobs())
    episode = opened(prepared)
    play(episode, prepared, stop=1)
    calls: list[str] = []

    def record_calls(owner: type, name: str) -> None:
        real = getattr(owner, name)

        def spy(self: Any, *args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            return real(self, *args, **kwargs)

        monkeypatch.setattr(owner, name, spy)

    for name in ("rank", "cut", "open", "load"):
        record_calls(Memory, name)
    record_calls(Learner, "fit")
    record_calls(Episode, "evaluate")
    play(episode, prepared, stop=2)
    distinct = [name for name, before in zip(calls, [None, *calls], strict=False) if name != before]
    assert distinct[: distinct.index("fit") + 1] == ["rank", "cut", "open", "load", "fit"]
    assert distinct[-1] == "evaluate"


def test_phases_must_come_in_order_and_with_an_action() -> None:
    prepared = ready(blobs())
    first, second, third = prepared.scenario.phases
    episode = opened(prepared)
    with pytest.raises(ValueError, match="phase 1 was given, phase 0 is next"):
        episode.advance(second, Action(old_tenths=5))
    episode.advance(first, None)
    with pytest.raises(ValueError, match="phase 0 was given, phase 1 is next"):
        episode.advance(first, None)
    with pytest.raises(ValueError, match="phase 1 needs an action"):
        episode.advance(second, None)
    assert episode.next_phase == 1
    assert third.index == 2


def test_training_needs_no_evaluation() -> None:
    """A user stream has no test samples, so phases are trained without evaluation."""
    prepared = ready(blobs(), {"policy": "fixed-0.6"})
    evaluated, trained = opened(prepared), opened(prepared)
    expected = play(evaluated, prepared)
    for phase in prepared.scenario.phases:
        unlabelled = replace(phase, eval_samples=EMPTY)
        action = prepared.policy.act(trained.observe(unlabelled)) if phase.index else None
        trained.train(unlabelled, action)
    weights = trained.learner.state()
    assert all(torch.equal(value, weights[name]) for name, value in evaluated.learner.state().items())
    assert trained.samples_peak == evaluated.samples_peak == max(r.held_old + r.held_new for r in expected[1:])
    with pytest.raises(ValueError, match="no phase so far has samples to evaluate on"):
        trained.evaluate()


def test_evaluating_twice_gives_the_same_result_and_changes_nothing() -> None:
    prepared = ready(blobs())
    episode = opened(prepared)
    episode.train(prepared.scenario.phases[0], None)
    before = {name: value.clone() for name, value in episode.snapshot().tensors.items()}
    assert facts_of(episode.evaluate()) == facts_of(episode.evaluate())
    assert all(torch.equal(value, before[name]) for name, value in episode.snapshot().tensors.items())


def test_evaluate_needs_a_phase_trained_in_this_episode() -> None:
    prepared = ready(blobs())
    episode, other = opened(prepared), opened(prepared)
    with pytest.raises(ValueError, match="no phase has been trained"):
        episode.evaluate()
    episode.train(prepared.scenario.phases[0], None)
    other.restore(episode.snapshot())
    with pytest.raises(ValueError, match="no phase has been trained"):
        other.evaluate()


def test_observe_returns_the_state_of_the_protocol() -> None:
    prepared = ready(blobs(), UNEVEN, {"memory": {"budget": 30, "exemplars": 12}})
    phases = prepared.scenario.phases
    episode = opened(prepared)
    episode.advance(phases[0], None)
    state = episode.observe(phases[1])
    assert state.vector() == (2 / 2, 0.0)  # no old share before phase 1
    assert (state.phase, state.new_classes, state.old_classes, state.old_tenths) == (1, 2, 2, 0)
    assert (state.budget, state.exemplars, state.arriving, state.splits) == (30, 12, 40, True)
    # 30 samples, 2 + 2 classes, 40 arriving (more than any share leaves): 3 to 27 of 30 for the old
    assert state.feasible == (1, 2, 3, 4, 5, 6, 7, 8, 9)
    episode.advance(phases[1], Action(old_tenths=4))
    state = episode.observe(phases[2])
    assert state.vector() == (1 / 4, 0.4)
    assert (state.old_classes, state.new_classes, state.arriving) == (4, 1, 20)
    # the largest tenth that leaves room for all 20 is 3 (30 - 9 = 21); the old classes need 4, the new one 1
    assert state.feasible == (3, 4, 5, 6, 7, 8, 9)
    assert state.reachable == (3, 4, 5)
    episode.advance(phases[2], Action(old_tenths=5))
    state = episode.observe(phases[3])
    assert state.vector() == (1 / 5, 0.5)
    assert not state.splits  # phase 2 brought a single class


def test_growing_budget_of_every_phase() -> None:
    prepared = ready(blobs(), UNEVEN, {"memory": {"budget": "growing:3", "exemplars": None}})
    totals = [(r.budget, r.held_old, r.held_new) for _, _, r in steps(prepared)]
    # 3 x old classes + the new data, all of which fits: M_i is full in every phase
    assert totals == [(None, 0, 40), (46, 6, 40), (32, 12, 20), (35, 15, 20)]


def test_phase_0_uses_all_data_and_has_no_action() -> None:
    prepared = ready(blobs())
    episode = opened(prepared)
    (result,) = play(episode, prepared, stop=1)
    assert (result.decision, result.budget, result.accuracy_old) == (None, None, None)
    assert (result.held_old, result.held_new) == (0, 40)
    assert {label: sorted(rows) for label, rows in held_rows(episode).items()} == {
        label: rows.tolist() for label, rows in prepared.scenario.phases[0].train.items()
    }


@pytest.mark.parametrize("policy", ["static", "fixed-0.1", "fixed-0.5", "fixed-0.9"])
@pytest.mark.parametrize("budget", [6, 7, 23, 40, 500])
def test_the_budget_is_never_exceeded(policy: str, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts held rows after every load, independently of the check in Memory."""
    real, most = Memory.load, [0]

    def counting(self: Memory, label: int, rows: IntArray, sizes: IntArray | None) -> None:
        real(self, label, rows, sizes)
        total = sum(len(self.rows(known)) for known in self.counts())
        if self.bound is not None:
            most[0] = max(most[0], total)

    monkeypatch.setattr(Memory, "load", counting)
    layers = {"policy": policy, "memory": {"budget": budget}, "train": {"epochs": 1}, "finetune": {"epochs": 0}}
    prepared = ready(blobs(per_class=9), UNEVEN, layers)
    episode, before = opened(prepared), 0
    for _, phase, result in steps(prepared, episode):
        held = result.held_old + result.held_new
        assert held == sum(result.held_per_class.values())
        if phase.index:
            assert result.budget == budget
            assert held == min(budget, before + phase.arriving)  # no memory stays unused while samples are available
            assert min(result.held_per_class.values()) >= 1
        before = held
    assert episode.samples_peak == most[0] <= budget


class Recorder:
    """A source that records every row read from it."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.rows: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def read(self, rows: IntArray) -> Values:
        self.rows |= set(rows.tolist())
        return np.asarray(self._source.read(rows))


def recorded(dataset: Dataset) -> tuple[Dataset, Recorder]:
    recorder = Recorder(dataset.train)
    return replace(dataset, train=recorder), recorder


@pytest.mark.parametrize("layer", [{}, {"method": {"name": "lwf"}}, NO_REPLAY], ids=["icarl", "lwf", "no replay"])
def test_only_held_rows_are_read(layer: dict[str, Any]) -> None:
    """Rows read during phase i are held after phase i-1 or after phase i."""
    dataset, recorder = recorded(blobs())
    prepared = ready(dataset, UNEVEN, layer)
    before: set[int] = set()
    for episode, _, result in steps(prepared):
        held = {row for rows in held_rows(episode).values() for row in rows}
        assert recorder.rows <= before | held
        assert held <= recorder.rows  # every held row is used
        assert len(held) == result.held_old + result.held_new
        before, recorder.rows = held, set()


def test_the_view_raises_on_rows_that_are_not_held() -> None:
    prepared = ready(blobs())
    episode = opened(prepared)
    play(episode, prepared, stop=2)
    held = {row for rows in held_rows(episode).values() for row in rows}
    gone = next(row for row in range(80) if row not in held)
    with pytest.raises(NotHeldError, match=f"row {gone} is not held"):
        episode.learner.describe(episode._held, Samples(np.array([gone]), np.array([0])))


def test_discarded_rows_never_come_back() -> None:
    prepared = ready(blobs(), UNEVEN)
    gone: set[int] = set()
    before: dict[int, list[int]] = {}
    for episode, _, _ in steps(prepared):
        held = held_rows(episode)
        assert not gone & {row for rows in held.values() for row in rows}
        for label, rows in before.items():
            assert set(held[label]) <= set(rows)
            gone |= set(rows) - set(held[label])
        before = held
    assert gone


def test_old_rankings_never_change() -> None:
    """From phase 2 on, the classes of phase 0 keep a prefix of their rows."""
    prepared = ready(blobs(), UNEVEN)
    kept: list[dict[int, list[int]]] = [held_rows(episode) for episode, _, _ in steps(prepared)]
    for label in (0, 1):
        for earlier, later in pairwise(kept[1:]):
            assert later[label] == earlier[label][: len(later[label])]
    assert len(kept[3][0]) < len(kept[1][0])


def test_held_samples_equal_the_quotas_of_the_allocation() -> None:
    """Quotas are recomputed from the decision and the groups of the snapshot. Level-2 groups keep their split."""
    prepared = ready(blobs(classes=9), {"scenario": {"phases": 2, "base_classes": 4}, "memory": {"budget": 36}})
    phases, episode = prepared.scenario.phases, opened(prepared)
    episode.advance(phases[0], None)
    actions = {1: Action(old_tenths=5, level2_tenths=8), 2: Action(old_tenths=6, level2_tenths=3)}
    for phase in phases[1:]:
        state, before = episode.observe(phase), {label: len(rows) for label, rows in held_rows(episode).items()}
        result = episode.advance(phase, actions[phase.index])
        groups = [Group(**group) for group in episode.snapshot().facts["groups"]]
        arriving = {label: len(rows) for label, rows in phase.train.items()}
        expected = allocate(state.budget, decide(state, actions[phase.index]), groups, held=before, arriving=arriving)
        assert dict(result.held_per_class) == {**expected.old, **expected.new}
    assert [group.level2_tenths for group in groups] == [8, 3]
    first = {label: result.held_per_class[label] for label in groups[0].classes}
    # 22 old samples over phases of 4 and 3 classes: 12.57 and 9.43 -> 13 and 9; of 13 the harder half has 8/10: 10 to 3
    assert sorted(first.values()) == [1, 2, 5, 5]
    assert sum(first[label] for label in groups[0].hard) == 10
    # of 9 the two harder classes have 2 x 3 : 1 x 7 parts, 6/13: 4.15 -> 4
    assert sum(result.held_per_class[label] for label in groups[1].hard) == 4
    assert result.decision is not None
    assert (result.decision.old_share, result.decision.level1, result.decision.level2) == (0.6, 0.1, 0.3)


def test_the_harder_half_has_the_higher_entropy() -> None:
    prepared = ready(blobs(classes=7, spread=2.5), {"scenario": {"phases": 1, "base_classes": 5}})
    episode = opened(prepared)
    play(episode, prepared, stop=1)
    rows = held_rows(episode)
    entropy = {}
    for label, own in rows.items():
        described = episode.learner.describe(prepared.scenario.bank, Samples(np.array(own), np.full(len(own), label)))
        p = torch.softmax(torch.from_numpy(described.logits).double(), dim=1)
        entropy[label] = float(-(p * p.log()).sum(dim=1).mean())
    play(episode, prepared)
    (group,) = episode.snapshot().facts["groups"]
    ranked = sorted(entropy, key=lambda label: -entropy[label])
    assert sorted(group["hard"]) == sorted(ranked[:3])
    assert sorted(group["easy"]) == sorted(ranked[3:])


def test_without_replay_no_old_samples_are_held() -> None:
    for _, phase, result in steps(ready(blobs(), UNEVEN, NO_REPLAY)):
        assert result.held_old == 0
        assert result.held_new == min(phase.arriving, 40)
        assert result.decision is None
        assert (result.accuracy_nme is None) == (phase.index > 0)  # a class without a sample has no mean
        assert {label for label, count in result.held_per_class.items() if count} == set(phase.classes)


def test_joint_holds_all_samples_and_has_no_budget() -> None:
    seen = 0
    for _, phase, result in steps(ready(blobs(), UNEVEN, {"method": {"name": "joint"}})):
        seen += phase.arriving
        assert result.held_old + result.held_new == seen
        assert (result.budget, result.decision) == (None, None)


def test_larger_quota_draws_a_superset_of_rows() -> None:
    def drawn(budget: int) -> dict[int, set[int]]:
        prepared = ready(blobs(), {"memory": {"budget": budget}, "policy": "fixed-0.5"})
        episode = opened(prepared)
        play(episode, prepared, stop=2)
        return {label: set(rows) for label, rows in held_rows(episode).items()}

    small, large = drawn(20), drawn(30)
    assert [len(small[label]) for label in (2, 3)] == [5, 5]
    for label in (2, 3):
        assert small[label] < large[label]


def test_evaluation_covers_all_seen_classes_and_both_heads() -> None:
    prepared = ready(pictures(), UNEVEN)
    for _, phase, result in steps(prepared):
        seen = [p.eval_samples for p in prepared.scenario.phases[: phase.index + 1]]
        labels = np.concatenate([samples.labels for samples in seen])
        assert result.predictions.labels.tolist() == labels.tolist()
        assert result.classes_seen == len(np.unique(labels))
        assert result.predictions.nme is not None
        hits = {"cnn": labels == result.predictions.cnn, "nme": labels == result.predictions.nme}
        assert result.accuracy_cnn == hits["cnn"].mean()
        assert result.accuracy == result.accuracy_nme == hits["nme"].mean()  # icarl reads out by the nearest mean
        by_phase = [hits["nme"][np.isin(labels, p.classes)].mean() for p in prepared.scenario.phases[: phase.index + 1]]
        assert result.accuracy_by_phase == pytest.approx(by_phase)
        assert result.accuracy_new == pytest.approx(by_phase[-1])
        assert dict(result.accuracy_per_class) == pytest.approx(
            {c: hits["nme"][labels == c].mean() for c in range(result.classes_seen)}
        )


def test_nearest_means_are_over_held_samples_and_their_mirror_images() -> None:
    prepared = ready(pictures())
    episode = opened(prepared)
    result = play(episode, prepared)[-1]
    learner, scenario = episode.learner, prepared.scenario
    means = []
    for label, rows in held_rows(episode).items():
        own = Samples(np.array(rows), np.full(len(rows), label))
        described = learner.describe(scenario.bank, own, mirror=True)
        assert described.mirrored is not None
        both = np.concatenate([described.features, described.mirrored]).astype(np.float64)
        units = both / np.linalg.norm(both, axis=1, keepdims=True)
        means.append(units.mean(axis=0) / np.linalg.norm(units.mean(axis=0)))
    evaluated = Samples(np.concatenate([p.eval_samples.rows for p in scenario.phases]), result.predictions.labels)
    features = learner.describe(scenario.eval_bank, evaluated).features.astype(np.float64)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    nearest = [int(np.argmin([np.linalg.norm(f - mean) for mean in means])) for f in features]
    assert result.predictions.nme is not None
    assert result.predictions.nme.tolist() == nearest


def test_owned_rows_are_really_dropped() -> None:
    prepared = ready(blobs())
    episode = opened(prepared)
    play(episode, prepared, owned=True)
    held = {row for rows in held_rows(episode).values() for row in rows}
    assert set(episode._bank.owned()) == held
    assert len(held) == 40
    assert min(held) >= 120  # the source's own rows were never loaded
