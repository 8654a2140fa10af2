"""episode.py: held samples are described once, nothing stale is used, and a resumed run is equal bit for bit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from factories import NO_REPLAY, UNEVEN, blobs, facts_of, opened, pictures, ready, same_tensors
from remem.action import Action
from remem.data.source import Dataset
from remem.episode import Episode
from remem.evaluation.metrics import FloatArray
from remem.methods.describe import Described, describe
from remem.runs.prepared import Prepared
from remem.storage.tensorfile import Snapshot
from remem.types import Samples

ACTIONS = (None, Action(4, 8), Action(5, 2), Action(6, 7))  # the harder half has more, less, more
UNTUNED = {"finetune": {"epochs": 0}}  # fine-tuning ranks the new classes, which is another matter
MNEMONICS = {"method": {"name": "mnemonics", "refine_lr": 0.1, "refine_steps": 1}, **UNTUNED}


def many() -> Dataset:
    """Classes of 86 samples: three are a batch of 256 and one of 2, whose logits depend on it in the last bit."""
    return blobs(classes=6, per_class=86, spread=2.5)


CASES: dict[str, tuple[Callable[[], Dataset], dict[str, Any]]] = {
    "vectors": (blobs, UNEVEN),
    "pictures": (pictures, UNEVEN),
    "small last batches": (many, {"scenario": {"base_classes": 3, "phases": 1}, "memory": {"budget": 300}}),
    "refined exemplars": (pictures, {**UNEVEN, **MNEMONICS}),
    "at random": (pictures, {**UNEVEN, "memory": {"selection": "uniform"}}),
    "no replay": (blobs, {**UNEVEN, **NO_REPLAY}),
}


def advanced(episode: Episode, prepared: Prepared) -> list[dict[str, Any]]:
    """Facts of all remaining phases; every action splits old memory by entropy."""
    phases = prepared.scenario.phases[episode.next_phase :]
    return [facts_of(episode.advance(phase, ACTIONS[phase.index])) for phase in phases]


def stopped_after(phase: int, prepared: Prepared) -> tuple[Episode, Snapshot]:
    """An episode after a phase, and its snapshot."""
    episode = opened(prepared)
    for index in range(phase + 1):
        episode.advance(prepared.scenario.phases[index], ACTIONS[index])
    return episode, episode.snapshot()


def restored(snapshot: Snapshot, prepared: Prepared) -> Episode:
    episode = opened(prepared)
    episode.restore(snapshot)
    return episode


def means(episode: Episode) -> FloatArray:
    found = episode.class_means()
    assert found is not None
    return found


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[Samples]:
    """The samples of every pass over data that describes them."""
    seen: list[Samples] = []

    def spy(network: Any, reader: Any, samples: Samples, **options: Any) -> Described:
        seen.append(samples)
        return describe(network, reader, samples, **options)

    monkeypatch.setattr("remem.methods.learner.describe", spy)
    return seen


def test_every_held_sample_is_described_once_in_a_phase(passes: list[Samples]) -> None:
    prepared = ready(pictures(), UNEVEN, UNTUNED)
    episode = opened(prepared)
    for phase in prepared.scenario.phases:
        passes.clear()
        episode.train(phase, ACTIONS[phase.index])
        assert passes == []  # the ranking has been prepared by the last evaluation
        result = episode.evaluate()
        evaluated, *held = passes
        assert len(evaluated) == len(result.predictions.labels)
        rows = np.concatenate([samples.rows for samples in held])
        assert sorted(rows.tolist()) == sorted(episode.snapshot().tensors["memory/rows"].tolist())
        passes.clear()
        assert episode.class_means() is not None
        assert passes == []
        episode.evaluate()
        assert [len(samples) for samples in passes] == [len(evaluated)]


def test_without_class_means_nothing_is_described_but_the_test_samples(passes: list[Samples]) -> None:
    prepared = ready(blobs(), UNEVEN, NO_REPLAY)
    episode, _ = stopped_after(1, prepared)
    passes.clear()
    result = episode.advance(prepared.scenario.phases[2], None)
    assert [len(samples) for samples in passes] == [len(result.predictions.labels)]
    assert episode.class_means() is None


@pytest.mark.parametrize("limit", [None, 0], ids=["kept", "over the limit"])
@pytest.mark.parametrize("name", CASES)
def test_a_run_resumed_after_any_phase_is_equal(name: str, limit: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    build, layer = CASES[name]
    prepared = ready(build(), layer)
    episode = opened(prepared)
    expected, snapshots = [], []
    for phase in prepared.scenario.phases:
        expected.append(facts_of(episode.advance(phase, ACTIONS[phase.index])))
        snapshots.append(episode.snapshot())
    if limit is not None:
        monkeypatch.setattr("remem.methods.describe.KEPT_BYTES", limit)
    assert advanced(opened(prepared), prepared) == expected
    for done, snapshot in enumerate(snapshots, 1):
        resumed = restored(snapshot, prepared)
        assert advanced(resumed, prepared) == expected[done:]
        assert resumed.snapshot().facts == snapshots[-1].facts
        assert same_tensors(resumed.snapshot().tensors, snapshots[-1].tensors)


def test_a_resumed_run_describes_the_latest_classes_in_the_same_batches(passes: list[Samples]) -> None:
    prepared = ready(many(), UNEVEN, {"memory": {"budget": 300}})
    _, snapshot = stopped_after(1, prepared)
    kept = passes[-1]
    resumed = restored(snapshot, prepared)
    passes.clear()
    resumed.train(prepared.scenario.phases[2], ACTIONS[2])
    assert passes[0].rows.tolist() == kept.rows.tolist()
    assert set(kept.labels.tolist()) == {2, 3}


def test_what_exceeds_the_limit_is_described_again(passes: list[Samples], monkeypatch: pytest.MonkeyPatch) -> None:
    """28 samples with 16 features and 2 logits: 28 x 18 x 4 bytes."""
    prepared = ready(pictures(), {"net": {"width": 8}}, UNTUNED)
    for limit, again in ((28 * 18 * 4, 0), (28 * 18 * 4 - 1, 1)):
        monkeypatch.setattr("remem.methods.describe.KEPT_BYTES", limit)
        episode, _ = stopped_after(0, prepared)
        passes.clear()
        episode.train(prepared.scenario.phases[1], ACTIONS[1])
        assert len(passes) == again


def test_nothing_of_another_snapshot_is_used() -> None:
    prepared = ready(pictures(), UNEVEN)
    episode, snapshot = stopped_after(1, prepared)
    before = means(episode)
    other = opened(prepared)
    other.advance(prepared.scenario.phases[0], None)
    other.advance(prepared.scenario.phases[1], Action(8, 5))
    assert not np.array_equal(means(other), before)
    other.restore(snapshot)
    assert np.array_equal(means(other), before)
    other.advance(prepared.scenario.phases[2], ACTIONS[2])
    episode.advance(prepared.scenario.phases[2], ACTIONS[2])
    assert same_tensors(other.snapshot().tensors, episode.snapshot().tensors)


def test_nothing_of_before_a_phase_is_used_after_it() -> None:
    """Only phase 0 is evaluated, so phase 2 must describe the classes of phase 1 itself."""
    prepared = ready(blobs(), {"scenario": {"base_classes": 2, "phases": 2}})
    once, never = opened(prepared), opened(prepared)
    for phase in prepared.scenario.phases:
        for episode in (once, never):
            episode.train(phase, ACTIONS[phase.index])
        if phase.index == 0:
            once.evaluate()
    assert same_tensors(once.snapshot().tensors, never.snapshot().tensors)
    assert np.array_equal(means(once), means(never))


def test_class_means_are_those_of_refined_exemplars() -> None:
    prepared = ready(pictures(), MNEMONICS)
    episode, _ = stopped_after(0, prepared)
    for phase in prepared.scenario.phases[1:]:
        before = means(episode)
        result = episode.advance(phase, ACTIONS[phase.index])
        assert result.measures["refined_share"][0] > 0
        assert np.array_equal(means(episode), means(restored(episode.snapshot(), prepared)))
        assert not np.array_equal(means(episode)[: len(before)], before)
