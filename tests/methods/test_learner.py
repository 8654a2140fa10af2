"""learner.py: input statistics, the teacher, the balanced set, and the state between phases."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from factories import blobs, opened, pictures, play, ready, same_tensors
from remem.action import Action
from remem.data.preprocessing import Preprocessing
from remem.episode import Episode
from remem.events import Event
from remem.methods import learner as module
from remem.methods import loop
from remem.methods.events import EpochEnded
from remem.methods.learner import measure
from remem.methods.stage import Stage
from remem.nets.network import Network
from remem.runs.build import open_episode
from remem.runs.devices import open_fabric
from remem.types import Samples


class Visits:
    """Replaces `run_stage`: trains nothing and records every stage and its teacher."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stages: list[Stage] = []
        self.teachers: list[Network | None] = []
        monkeypatch.setattr(module, "run_stage", self)

    def __call__(self, stage: Stage, *, teacher: Network | None, **rest: Any) -> None:
        self.stages.append(stage)
        self.teachers.append(teacher)


def to_phase(index: int, *layers: dict[str, Any]) -> tuple[Episode, Any]:
    """An episode whose next phase is `index`, and the Prepared it was opened from."""
    prepared = ready(blobs(per_class=12), *layers)
    episode = opened(prepared)
    play(episode, prepared, stop=index)
    return episode, prepared


def advance(episode: Episode, prepared: Any) -> None:
    phase = prepared.scenario.phases[episode.next_phase]
    episode.advance(phase, prepared.policy.act(episode.observe(phase)))


def all_held(episode: Episode) -> Samples:
    memory = episode.snapshot().tensors
    labels = np.repeat(memory["memory/labels"].numpy(), memory["memory/counts"].numpy())
    return Samples(memory["memory/rows"].numpy(), labels)


@pytest.mark.parametrize("dataset", [blobs(per_class=60), pictures(per_class=60)], ids=["vectors", "images"])
def test_measure_equals_numpy(dataset: Any) -> None:
    """360 samples: more than one chunk."""
    rows = np.random.default_rng(1).permutation(len(dataset.train.labels))[:350]
    mean, deviation = measure(dataset.train, Samples(rows, dataset.train.labels[rows]))
    values = dataset.train.read(rows).astype(np.float64).reshape(-1, dataset.train.shape[-1])
    np.testing.assert_allclose(mean, values.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(deviation, values.std(axis=0), rtol=1e-9)  # the difference of squares loses a few digits


def test_a_constant_dimension_has_deviation_zero() -> None:
    dataset = blobs()
    dataset.train.values[:, 2] = 0.1  # type: ignore[attr-defined]
    _, deviation = measure(dataset.train, Samples(np.arange(50), dataset.train.labels[:50]))
    assert deviation[2] == 0.0  # exactly zero: the network would divide by any other value
    assert deviation[0] > 0.1


def test_inputs_are_measured_on_phase_0_and_kept() -> None:
    episode, prepared = to_phase(1)
    first = prepared.scenario.phases[0]
    values = prepared.scenario.bank.read(np.concatenate(list(first.train.values())))
    state = episode.learner.state()
    np.testing.assert_allclose(state["mean"].numpy(), values.mean(axis=0, dtype=np.float64), rtol=1e-6)
    np.testing.assert_allclose(state["std"].numpy(), values.std(axis=0, dtype=np.float64), rtol=1e-6)
    advance(episode, prepared)
    assert torch.equal(episode.learner.state()["mean"], state["mean"])


def test_known_preprocessing_is_not_measured() -> None:
    preprocessing = Preprocessing(mean=(0.5, 0.25, 0.125), std=(0.5, 1.0, 0.25), augment="none", flip=False)
    prepared = ready(replace(pictures(), preprocessing=preprocessing))
    episode = opened(prepared)
    play(episode, prepared, stop=1)
    state = episode.learner.state()
    assert state["mean"].tolist() == [127.5, 63.75, 31.875]
    assert state["std"].tolist() == [127.5, 255.0, 63.75]


def test_the_teacher_is_the_model_before_growth_and_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    episode, prepared = to_phase(1)
    before = episode.learner.state()
    visits = Visits(monkeypatch)
    advance(episode, prepared)
    assert [stage.name for stage in visits.stages] == ["main", "balanced"]
    teacher = visits.teachers[0]
    assert teacher is not None
    assert visits.teachers[1] is teacher
    assert teacher is not episode.learner.network
    assert same_tensors(dict(teacher.state_dict()), before)
    assert teacher.head.classes == 2
    assert episode.learner.network.head.classes == 4
    assert not teacher.training
    assert not any(parameter.requires_grad for parameter in teacher.parameters())
    assert any(parameter.requires_grad for parameter in episode.learner.network.parameters())


def test_the_teacher_does_not_change_while_the_student_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    episode, prepared = to_phase(1)
    before = episode.learner.state()
    real, teachers = loop.run_stage, []

    def spy(*args: Any, **kwargs: Any) -> None:
        teachers.append(kwargs["teacher"])
        real(*args, **kwargs)

    monkeypatch.setattr(module, "run_stage", spy)
    advance(episode, prepared)
    assert len(teachers) == 2
    assert same_tensors(dict(teachers[0].state_dict()), before)
    assert not torch.equal(episode.learner.state()["backbone.levels.0.0.weight"], before["backbone.levels.0.0.weight"])


def plain_herding(features: NDArray[np.float32], count: int) -> list[int]:
    """Greedy nearest running mean of unit features, in a simple loop."""
    units = features / np.linalg.norm(features.astype(np.float64), axis=1, keepdims=True)
    picked: list[int] = []
    for k in range(1, count + 1):
        total = units[picked].sum(axis=0)
        gaps = {j: np.linalg.norm(units.mean(axis=0) - (total + units[j]) / k) for j in range(len(units))}
        picked.append(min((j for j in gaps if j not in picked), key=lambda j: gaps[j]))
    return picked


def test_the_balanced_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Budget 23, 9 of it for two old classes: quotas 5 and 4, mean 4.5, so 5 herded samples of each new class."""
    episode, prepared = to_phase(1, {"memory": {"budget": 23}})
    visits = Visits(monkeypatch)
    phase = prepared.scenario.phases[1]
    result = episode.advance(phase, Action(old_total=9))
    assert dict(result.held_per_class) == {0: 5, 1: 4, 2: 7, 3: 7}
    main, balanced = visits.stages
    held = all_held(episode)
    assert main.samples.rows.tolist() == held.rows.tolist()
    expected = held.rows[held.labels < 2].tolist()
    for label in (2, 3):
        rows = held.rows[held.labels == label]
        own = Samples(rows, np.full(len(rows), label))
        features = episode.learner.describe(prepared.scenario.bank, own).features  # nothing has been trained since
        expected += rows[plain_herding(features, 5)].tolist()
    assert balanced.samples.rows.tolist() == expected
    assert balanced.samples.labels.tolist() == [0] * 5 + [1] * 4 + [2] * 5 + [3] * 5
    assert balanced.epochs == 1
    assert balanced.lr == pytest.approx(prepared.config.train.lr_later / 10)
    assert balanced.schedule == "constant"


def test_the_balanced_set_takes_all_where_less_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old classes keep all of their 12 samples each; only 8 of each new class fit."""
    episode, prepared = to_phase(1, {"memory": {"budget": 40}})
    visits = Visits(monkeypatch)
    result = episode.advance(prepared.scenario.phases[1], Action(old_total=24))
    assert dict(result.held_per_class) == {0: 12, 1: 12, 2: 8, 3: 8}
    assert np.bincount(visits.stages[1].samples.labels).tolist() == [12, 12, 8, 8]


@pytest.mark.parametrize(
    "layer",
    [
        {"finetune": {"epochs": 0}},
        {"method": {"name": "joint"}},
        {"method": {"name": "finetune", "replay": False}},
        {"method": {"name": "lwf", "replay": False}},
    ],
)
def test_no_balanced_stage_without_exemplars_or_epochs(layer: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    episode, prepared = to_phase(1, layer)
    visits = Visits(monkeypatch)
    advance(episode, prepared)
    assert [stage.name for stage in visits.stages] == ["main"]


def test_learning_rates_of_first_and_later_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    visits = Visits(monkeypatch)
    to_phase(2, {"train": {"lr": 0.4, "lr_later": 0.3}, "finetune": {"lr_factor": 0.5}})
    assert [(stage.name, stage.lr) for stage in visits.stages] == [("main", 0.4), ("main", 0.3), ("balanced", 0.15)]


def test_joint_restarts_in_every_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    visits = Visits(monkeypatch)
    episode, prepared = to_phase(1, {"method": {"name": "joint"}})
    first = episode.learner.state()
    advance(episode, prepared)
    second = episode.learner.state()
    assert visits.teachers == [None, None]
    assert [stage.lr for stage in visits.stages] == [prepared.config.train.lr] * 2
    assert not torch.equal(first["backbone.levels.0.0.weight"], second["backbone.levels.0.0.weight"])
    assert (len(second["head.old"]), len(second["head.new"])) == (0, 4)
    values = prepared.scenario.bank.read(all_held(episode).rows)
    np.testing.assert_allclose(second["mean"].numpy(), values.mean(axis=0, dtype=np.float64), rtol=1e-6)


def test_the_head_keeps_its_rows_and_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    episode, prepared = to_phase(1)
    before = episode.learner.state()
    Visits(monkeypatch)  # trains nothing, so only the growth remains
    advance(episode, prepared)
    after = episode.learner.state()
    assert torch.equal(after["head.old"], before["head.new"])
    assert after["head.new"].shape == (2, 8)
    body = {name for name in before if name.startswith("backbone")}
    assert all(torch.equal(before[name], after[name]) for name in body)


def test_equal_seeds_give_equal_weights_and_others_do_not() -> None:
    states = [to_phase(1, {"seed": seed})[0].learner.state() for seed in (5, 5, 6)]
    assert same_tensors(states[0], states[1])
    assert not same_tensors(states[0], states[2])


def test_state_is_a_copy_and_load_takes_it_over() -> None:
    episode, prepared = to_phase(2)
    state = episode.learner.state()
    kept = {name: value.clone() for name, value in state.items()}
    advance(episode, prepared)
    assert same_tensors(state, kept)
    fresh = opened(prepared).learner
    fresh.load(state)
    assert same_tensors(fresh.state(), kept)
    assert fresh.network.head.classes == 4


def test_rank_gives_positions_within_each_class() -> None:
    episode, prepared = to_phase(1)
    held = all_held(episode)
    mixed = np.random.default_rng(0).permutation(len(held))
    samples = Samples(held.rows[mixed], held.labels[mixed])
    described = episode.learner.describe(prepared.scenario.bank, samples)
    assert described.features.shape == (24, 8)
    assert described.logits.shape == (24, 2)
    ranking = episode.learner.rank(described.features, samples.labels, phase=1, purpose="rank")
    for label in (0, 1):
        features = described.features[samples.labels == label]
        assert ranking[label].tolist() == plain_herding(features, 12)


def test_mirrors_only_if_images_may_be_flipped() -> None:
    assert opened(ready(pictures(flip=True))).learner.mirrors
    assert not opened(ready(pictures(flip=False))).learner.mirrors
    assert not opened(ready(blobs())).learner.mirrors


def test_describe_is_the_evaluation_pass() -> None:
    prepared = ready(pictures())
    episode = opened(prepared)
    play(episode, prepared, stop=1)
    learner, bank = episode.learner, prepared.scenario.bank
    rows = np.arange(20)
    samples = Samples(rows, np.zeros(20, np.int64))
    plain, both = learner.describe(bank, samples), learner.describe(bank, samples, mirror=True)
    images = torch.from_numpy(bank.read(rows)).permute(0, 3, 1, 2).float()
    learner.network.eval()
    with torch.no_grad():
        expected, flipped = learner.network(images), learner.network(images.flip(3))
    # Another memory layout of the same images: convolutions sum in another order.
    np.testing.assert_allclose(plain.features, expected.features.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(plain.logits, expected.logits.numpy(), rtol=1e-4, atol=1e-5)
    assert plain.mirrored is None
    assert both.mirrored is not None
    np.testing.assert_allclose(both.mirrored, flipped.features.numpy(), rtol=1e-4, atol=1e-5)
    assert np.abs(plain.features - both.mirrored).max() > 1e-3
    assert np.array_equal(both.features, plain.features)
    assert np.array_equal(both.logits, plain.logits)


def test_later_phases_can_have_another_number_of_epochs() -> None:
    """`epochs_later` holds for phases 1..N and for the mixture stage, which follows every epoch of the main stage."""
    events: list[Event] = []
    prepared = ready(
        pictures(), {"method": {"name": "icarl-aanets", "mixture_lr": 0.1}, "train": {"epochs": 3, "epochs_later": 2}}
    )
    episode = open_episode(prepared, open_fabric(prepared.config.train), events.append)
    play(episode, prepared)
    epochs = {(e.phase, e.stage): e.epochs for e in events if isinstance(e, EpochEnded)}
    assert (epochs[0, "main"], epochs[1, "main"], epochs[2, "main"]) == (3, 2, 2)
    assert epochs[1, "mixture"] == 2
    assert epochs[1, "balanced"] == 1


def test_kernels_are_stored_with_channels_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """The format of the inputs, since convolutions on a CPU are faster; states have the usual format."""
    Visits(monkeypatch)
    prepared = ready(pictures())
    episode = opened(prepared)
    play(episode, prepared, stop=1)
    state = episode.learner.state()
    assert all(value.is_contiguous() for value in state.values())
    fresh = opened(prepared).learner
    fresh.load(state)
    for learner in (episode.learner, fresh):
        kernels = [value for value in learner.network.parameters() if value.dim() == 4 and value.shape[-1] > 1]
        assert kernels
        assert all(kernel.is_contiguous(memory_format=torch.channels_last) for kernel in kernels)
