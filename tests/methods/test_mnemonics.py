"""Mnemonics: the outer gradient against finite differences, valid pixels, halves, and the budget."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import factories
from remem.data.arrays import from_arrays
from remem.data.preprocessing import Preprocessing
from remem.data.source import Dataset
from remem.methods.bilevel import Weights, outer_loss, trained_on
from remem.methods.method import Exemplars, Measures, PhaseFacts
from remem.methods.mnemonics import Mnemonics, MnemonicsSettings, as_function, halves, unit_steps, without
from remem.nets.network import Network, build_network
from remem.nets.settings import HeadSettings, NetSettings
from remem.nets.two_branch import Scaled
from remem.types import IntArray, Samples, Values

MNEMONICS = {"method": {"name": "mnemonics"}, "train": {"epochs": 2}, "finetune": {"epochs": 0}}


def forward(weights: Weights, inputs: torch.Tensor) -> torch.Tensor:
    """Two layers with a smooth activation, in the precision of the inputs."""
    return torch.tanh(inputs @ weights["one"]) @ weights["two"]


def problem() -> tuple[dict[str, torch.Tensor], tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    draws = torch.Generator().manual_seed(4)
    weights = {
        "one": torch.randn(5, 7, generator=draws, dtype=torch.float64).requires_grad_(),
        "two": torch.randn(7, 3, generator=draws, dtype=torch.float64).requires_grad_(),
    }
    exemplars = torch.randn(4, 5, generator=draws, dtype=torch.float64).requires_grad_(), torch.tensor([0, 1, 2, 0])
    targets = torch.randn(6, 5, generator=draws, dtype=torch.float64), torch.tensor([0, 1, 2, 2, 1, 0])
    return weights, exemplars, targets


@pytest.mark.parametrize("steps", [1, 3])
def test_outer_gradient_equals_finite_differences(steps: int) -> None:
    weights, exemplars, targets = problem()
    inputs, labels = exemplars

    def value(at: torch.Tensor) -> float:
        return outer_loss(forward, weights, (at, labels), targets, lr=0.3, steps=steps).item()

    loss = outer_loss(forward, weights, exemplars, targets, lr=0.3, steps=steps)
    (grad,) = torch.autograd.grad(loss, inputs)
    assert grad.abs().max() > 1e-3
    width = 1e-5  # the error of central differences is of the order width^2 = 1e-10
    for row in range(4):
        for column in range(5):
            nudge = torch.zeros_like(inputs)
            nudge[row, column] = width
            numeric = (value(inputs.detach() + nudge) - value(inputs.detach() - nudge)) / (2 * width)
            assert grad[row, column].item() == pytest.approx(numeric, abs=1e-8)


def test_the_temporary_model_is_plain_gradient_descent() -> None:
    weights, (inputs, labels), _ = problem()
    learned = trained_on(forward, weights, inputs, labels, lr=0.3, steps=2)
    copies = {name: value.detach().clone().requires_grad_() for name, value in weights.items()}
    for _ in range(2):
        loss = torch.nn.functional.cross_entropy(forward(copies, inputs.detach()), labels)
        loss.backward()
        with torch.no_grad():
            for value in copies.values():
                assert value.grad is not None
                value -= 0.3 * value.grad
                value.grad = None
    for name, value in copies.items():
        torch.testing.assert_close(learned[name], value, rtol=1e-12, atol=1e-12)


def test_halves_split_every_class() -> None:
    samples = Samples(np.arange(8), np.array([0, 0, 0, 0, 0, 1, 2, 2]))
    one, other = halves(samples)
    assert one.rows.tolist() == [0, 2, 4, 5, 6]
    assert other.rows.tolist() == [1, 3, 7]


Pixels = np.ndarray[Any, Any]


def faint(per_class: int = 56) -> Dataset:
    """Six classes of images that differ by a faint pattern under much noise, so that no model is sure of them."""
    rng = np.random.default_rng(5)
    patterns, labels = rng.standard_normal((6, 8, 8, 3)), np.repeat(np.arange(6), per_class)
    images = 128 + 12 * patterns[labels] + 40 * rng.standard_normal((len(labels), 8, 8, 3))
    values = images.clip(0, 255).round().astype(np.uint8)
    preprocessing = Preprocessing(mean=None, std=None, augment="none", flip=False)
    return from_arrays(values, labels, values, labels, name="faint", preprocessing=preprocessing)


class Desk:
    """Exemplars of a trained phase 0 of `faint`, as the episode hands them to a method; records what is read."""

    def __init__(self, *, old: int = 0) -> None:
        prepared = factories.ready(faint(), MNEMONICS)
        episode = factories.opened(prepared)
        factories.play(episode, prepared, stop=1)
        self.network, self._bank = episode.learner.network.eval(), prepared.scenario.bank.fresh_copy()
        phase = prepared.scenario.phases[0]
        sizes = [len(rows) for rows in phase.train.values()]
        self.latest = Samples(np.concatenate(list(phase.train.values())), np.repeat(list(phase.train), sizes))
        self.kept = self.latest.take(slice(None, None, 4))
        self.old = without(self.latest, self.kept).take(slice(0, old))
        self.read: list[list[int]] = []  # rows, call by call
        self.replaced: list[Samples] = []
        self._new_rows: list[IntArray] = []

    def exemplars(self) -> Exemplars:
        return Exemplars(
            self.kept,
            self.old,
            without(self.latest, self.old),
            values=self._values,
            show=lambda values: values.float().permute(0, 3, 1, 2),
            replace=self._replace,
        )

    def refine(self, **settings: float) -> Measures:
        method = Mnemonics(MnemonicsSettings(**settings))  # type: ignore[arg-type]
        return method.refine(self.network, self.exemplars(), PhaseFacts(1, 2, 0))

    def before(self, samples: Samples) -> Pixels:
        return self._bank.read(samples.rows)

    def after(self) -> Pixels:
        """The values of all exemplars that were kept from the latest phase, as stored now."""
        rows = {old: new for part, new_rows in self._moved for old, new in zip(part.rows, new_rows, strict=True)}
        return self._bank.read(np.array([rows[row] for row in self.kept.rows]))

    def loss(self, stored: Pixels) -> float:
        """Cross-entropy, on all data that are not exemplars, of a model trained on these exemplars."""
        forward, weights = as_function(self.network, self.exemplars())
        targets = without(self.latest, self.kept)
        inner = torch.from_numpy(stored).float(), torch.from_numpy(self.kept.labels)
        outer = torch.from_numpy(self.before(targets)).float(), torch.from_numpy(targets.labels)
        return outer_loss(forward, weights, inner, outer, lr=0.05, steps=2).item()

    def _values(self, samples: Samples) -> Pixels:
        self.read.append(samples.rows.tolist())
        return self._bank.read(samples.rows)

    @property
    def _moved(self) -> list[tuple[Samples, IntArray]]:
        return list(zip(self.replaced, self._new_rows, strict=True))

    def _replace(self, samples: Samples, values: Pixels) -> IntArray:
        assert values.dtype == np.uint8
        self.replaced.append(samples)
        self._new_rows.append(self._bank.own(values))
        return self._new_rows[-1]


def test_a_learning_rate_of_zero_changes_no_pixel() -> None:
    """Rounded, not truncated: all 256 levels survive the conversion to float and back."""
    desk = Desk()
    assert desk.refine(refine_lr=0.0, refine_steps=3) == {"refined_share": (0.0,), "refined_distance": (0.0,)}
    assert np.array_equal(desk.before(desk.kept), desk.after())


def test_huge_steps_stay_inside_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clamped, not wrapped: a pixel that increases ends at 255, never near 0."""
    losses = iter([0.5, 0.1, 0.5])  # of the step, of the refined and of the unrefined exemplars: the step is kept
    desk = Desk()

    def fixed(forward: Any, weights: Any, inner: Any, outer: Any, **options: Any) -> torch.Tensor:
        slope = torch.where(torch.arange(inner[0].numel()).view_as(inner[0]) % 2 == 0, 1.0, -1.0)
        value: torch.Tensor = (slope * inner[0]).sum()
        return value - value.detach() + next(losses)

    monkeypatch.setattr("remem.methods.mnemonics.outer_loss", fixed)
    desk.refine(refine_lr=10.0, refine_steps=1)
    expected = np.where(np.arange(desk.after().size).reshape(desk.after().shape) % 2 == 0, 0, 255)
    order = np.argsort(np.concatenate([part.rows for part in desk.replaced]))
    assert np.array_equal(desk.after(), expected[order])  # the batch was in another order than the exemplars


def test_a_refinement_that_does_not_help_is_dropped() -> None:
    """Steps of a hundred grey levels on images that a model already tells apart: nothing changes."""
    desk = Desk()
    assert desk.refine(refine_lr=0.4, refine_steps=1)["refined_share"] == (0.0,)
    assert np.array_equal(desk.before(desk.kept), desk.after())


def test_refined_exemplars_train_a_model_that_does_better_on_the_other_data() -> None:
    """Descent, on the outer loss. The margin is many times the effect of rounding, which the next test bounds."""
    desk = Desk()
    before = desk.loss(desk.before(desk.kept))
    desk.refine(refine_lr=0.001, refine_steps=20)
    assert desk.loss(desk.after()) < 0.97 * before


def test_one_step_moves_every_exemplar_by_the_learning_rate_against_the_gradient() -> None:
    """By an independent plain version: one batch, all other data as targets, rounding at most half a grey level."""
    desk = Desk()
    desk.refine(refine_lr=0.0005, refine_steps=1)
    forward, weights = as_function(desk.network, desk.exemplars())
    targets = without(desk.latest, desk.kept)
    values = torch.from_numpy(desk.before(desk.kept)).float().requires_grad_()
    inner = values, torch.from_numpy(desk.kept.labels)
    outer = torch.from_numpy(desk.before(targets)).float(), torch.from_numpy(targets.labels)
    (grad,) = torch.autograd.grad(outer_loss(forward, weights, inner, outer, lr=0.05, steps=2), values)
    for image, one, stored in zip(values.detach(), grad, desk.after(), strict=True):
        size = math.sqrt(sum(value**2 for value in one.flatten().tolist()) / one.numel())
        expected = (image - 0.0005 * 255 * one / size).clamp(0, 255)
        # float32 sums in another order: 1e-3 of a grey level beside the rounding
        assert (torch.from_numpy(stored).float() - expected).abs().max() <= 0.5 + 1e-3


def test_exemplars_are_never_judged_on_themselves() -> None:
    """Each half of the old exemplars is judged on the other half, new exemplars on all that is not among them."""
    desk = Desk(old=10)
    desk.refine(refine_steps=2, refine_batch=4)
    position = 0
    one, other = ({*half.rows.tolist()} for half in halves(desk.old))
    kept = {*desk.kept.rows.tolist()}
    rest = {*without(desk.exemplars().latest, desk.kept).rows.tolist()}
    versions = {old: new for part, rows in desk._moved for old, new in zip(part.rows, rows, strict=True)}
    for part in desk.replaced:
        batch, *drawn = desk.read[position : position + 4]  # its values, two steps, and the last comparison
        position += 4
        assert batch == part.rows.tolist()
        if {*batch} <= one:
            allowed = other
        elif {*batch} <= other:
            allowed = {versions[row] for row in one}  # which have been refined by then
        else:
            assert {*batch} <= kept
            allowed = rest | {versions[row] for row in one | other}
        assert all({*rows} <= allowed for rows in drawn)
    assert position == len(desk.read)
    assert sorted(np.concatenate([part.rows for part in desk.replaced])) == sorted(kept | one | other)


def test_the_batch_limits_how_many_exemplars_exist_twice() -> None:
    desk = Desk()
    desk.refine(refine_batch=2)
    assert max(map(len, desk.replaced)) == 2
    assert sum(map(len, desk.replaced)) == len(desk.kept)


def test_by_default_most_of_what_is_stored_changes() -> None:
    """The share and the distance are those of the stored values."""
    desk = Desk()
    measures = desk.refine()
    before, after = desk.before(desk.kept).astype(int), desk.after().astype(int)
    (share,), (distance,) = measures["refined_share"], measures["refined_distance"]
    assert share == (before != after).sum() / before.size
    assert distance == pytest.approx(abs(before - after).sum() / before.size, rel=1e-12)
    assert share > 0.3


def test_the_result_of_a_phase_has_the_share_that_was_refined() -> None:
    prepared = factories.ready(factories.pictures(), MNEMONICS)
    first, *later = factories.play(factories.opened(prepared), prepared)
    assert first.measures == {}
    assert all(0 < result.measures["refined_share"][0] <= 1 for result in later)


@pytest.mark.parametrize("data", ["pictures", "blobs"])
def test_without_refinement_and_transfer_it_is_lucir(data: str) -> None:
    """Less-forget, margin ranking, imprinting and frozen rows: every number of every phase is that of `lucir`."""
    made = factories.pictures() if data == "pictures" else factories.blobs()
    runs = []
    for method in ({"name": "lucir"}, {"name": "mnemonics", "refine_steps": 0, "transfer": False}):
        prepared = factories.ready(made, {"method": method})
        episode = factories.opened(prepared)
        runs.append(([factories.facts_of(r) for r in factories.play(episode, prepared)], episode.learner.state()))
    assert runs[0][0] == runs[1][0]
    assert factories.same_tensors(runs[0][1], runs[1][1])


def test_a_gradient_of_zero_moves_nothing() -> None:
    steps = unit_steps(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
    expected = torch.tensor([[0.0, 0.0], [3.0, 4.0]]) / math.sqrt(12.5)
    torch.testing.assert_close(steps, expected, rtol=1e-6, atol=0)


def test_a_run_replaces_exemplars_within_the_budget_and_resumes() -> None:
    prepared = factories.ready(factories.pictures(), MNEMONICS)
    episode = factories.opened(prepared)
    factories.play(episode, prepared, stop=2)
    source_rows = 6 * 14
    held = episode._memory.samples()
    old = held.of(range(2))
    assert (old.rows >= source_rows).all()  # every exemplar is a refined row
    assert len(episode.bank.owned()) == len(old)  # earlier versions are dropped
    assert episode.samples_peak <= 40
    changed = [
        not np.array_equal(value, prepared.scenario.bank.read(np.arange(source_rows))[i])
        for i, value in enumerate(episode.bank.owned().values())
    ]
    assert any(changed)
    other = factories.opened(prepared)
    other.restore(episode.snapshot())
    for one, two in zip(factories.play(episode, prepared), factories.play(other, prepared), strict=True):
        assert factories.facts_of(one) == factories.facts_of(two)
    assert factories.same_tensors(episode.learner.state(), other.learner.state())


def test_weight_transfer_freezes_the_kernels_of_phase_0() -> None:
    prepared = factories.ready(factories.pictures(), MNEMONICS, {"method": {"transfer": True}})
    episode = factories.opened(prepared)
    factories.play(episode, prepared, stop=1)
    kernel = episode.learner.network.backbone.levels[1].blocks[0].conv1.weight.detach().clone()  # type: ignore[union-attr,index]
    factories.play(episode, prepared)
    layer = episode.learner.network.backbone.levels[1].blocks[0].conv1  # type: ignore[union-attr,index]
    assert isinstance(layer, Scaled)
    assert torch.equal(layer.kernel, kernel)
    assert not torch.equal(layer.factor, torch.ones_like(layer.factor))


def test_vectors_move_in_units_of_their_standard_deviation() -> None:
    """One step of 0.01 in root mean square: the mean over dimensions of (change / deviation)^2 is 0.01^2."""
    rate = {"method": {"refine_lr": 0.01, "refine_steps": 1}}
    prepared = factories.ready(factories.blobs(), MNEMONICS, rate)
    episode = factories.opened(prepared)
    factories.play(episode, prepared, stop=2)
    source = prepared.scenario.bank.read(np.arange(6 * 20)).astype(np.float64)
    deviation = episode.learner.network.std.numpy().astype(np.float64)
    for value in episode.bank.owned().values():
        moved = (source - value) / deviation  # from every original
        nearest = np.sqrt((moved**2).mean(axis=1)).min()
        assert nearest == pytest.approx(0.01, rel=1e-3)  # float32 values of order 3 with changes of order 0.01


def test_refining_exemplars_lowers_the_outer_loss() -> None:
    weights, (inputs, labels), targets = problem()
    losses = []
    for _ in range(30):
        loss = outer_loss(forward, weights, (inputs, labels), targets, lr=0.3, steps=2)
        losses.append(loss.item())
        (grad,) = torch.autograd.grad(loss, inputs)
        inputs = (inputs - 2.0 * grad).detach().requires_grad_()
    assert losses[-1] < 0.8 * losses[0]


class Shifting(Mnemonics):
    """Adds 3 to the first of four values in place of a refinement."""

    def _move(self, network: Network, stored: Values, *rest: Any) -> Values:
        moved = stored.copy()
        moved[:, 0] += 3
        return moved


def test_measures_are_shares_of_all_values_in_all_batches() -> None:
    """5 new and 4 old exemplars of four values, in batches of 2: one value in four moves, by 3.

    Then there is no room for the new versions of two of the nine: they stay as they are, and are not counted.
    """
    stored, versions = np.arange(48, dtype=np.float32).reshape(12, 4), dict[int, list[float]]()
    full: set[int] = set()
    network = build_network(NetSettings(name="mlp"), (4,), HeadSettings(name="cosine"), seed=0)

    def put(samples: Samples, values: Values) -> IntArray:
        assert len(samples) <= 2
        versions.update(zip(samples.rows.tolist(), values.tolist(), strict=True))
        return np.array([row if row in full else row + 100 for row in samples.rows.tolist()])

    exemplars = Exemplars(
        Samples(np.arange(5), np.full(5, 2)),
        Samples(np.arange(8, 12), np.array([0, 0, 1, 1])),
        Samples(np.arange(8), np.full(8, 2)),
        values=lambda samples: stored[samples.rows % 100],
        show=lambda values: values,
        replace=put,
    )
    method = Shifting(MnemonicsSettings(refine_batch=2))
    assert method.refine(network, exemplars, PhaseFacts(1, 3, 0)) == {
        "refined_share": (0.25,),
        "refined_distance": (0.75,),
    }
    assert versions == {row: [4 * row + 3, 4 * row + 1, 4 * row + 2, 4 * row + 3] for row in (*range(5), *range(8, 12))}
    full.update((0, 9))
    share, measures = 7 / 9 / 4, method.refine(network, exemplars, PhaseFacts(1, 3, 0))
    assert measures["refined_share"] == pytest.approx((share,))
    assert measures["refined_distance"] == pytest.approx((3 * share,))
