"""AANets: the two-branch forward against a simple version, and which parameters each stage trains."""

import copy
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import factories
from remem.episode import Episode
from remem.methods.aanets import balanced_at_random
from remem.methods.loop import run_stage
from remem.methods.method import PhaseFacts
from remem.methods.stage import Objective, Stage
from remem.nets.backbones import build_backbone
from remem.nets.blocks import ResNet
from remem.nets.settings import NetSettings
from remem.nets.two_branch import Scaled, TwoBranch
from remem.types import Samples

IMAGES = {"method": {"name": "lucir-aanets"}, "train": {"epochs": 2}, "finetune": {"epochs": 0}}


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def backbone(name: str = "small") -> ResNet:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        made = build_backbone(NetSettings(name=name), (16, 16, 3))
    assert isinstance(made, ResNet)
    return made


@pytest.mark.parametrize("name", ["small", "resnet32", "resnet32-pod", "resnet18", "resnet18-pod"])
def test_equal_branches_equal_a_single_branch(name: str) -> None:
    """Initially both branches are the phase-0 network, so any mixture of them equals it."""
    one = backbone(name).eval()
    two = TwoBranch(copy.deepcopy(one)).eval()
    x = random(2, 3, 16, 16)
    with torch.no_grad():
        expected, got = one(x), two(x)
        torch.testing.assert_close(got.vector, expected.vector, rtol=1e-5, atol=1e-6)
        for a, b in zip(got.maps, expected.maps, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_forward_is_the_mixture_of_both_branches_at_every_level() -> None:
    one = backbone()
    two = TwoBranch(copy.deepcopy(one)).eval()
    with torch.no_grad():
        two.weights.copy_(torch.tensor([0.3, 0.8, 0.6]))
        for module in two.stable.modules():
            if isinstance(module, Scaled):
                module.factor.add_(0.2 * random(*module.factor.shape, seed=2))
        for parameter in two.plastic.parameters():
            parameter.add_(0.05 * random(*parameter.shape, seed=3))
    stable = copy.deepcopy(one).eval()  # the same branch with the factors multiplied into plain kernels
    stable.load_state_dict(folded(two))
    x = images = random(4, 3, 16, 16)
    maps = []
    for level, (mine, theirs, weight) in enumerate(
        zip(stable.levels, two.plastic.levels, [0.3, 0.8, 0.6], strict=True)
    ):
        a, b = mine(x), theirs(x)
        maps.append(weight * a + (1 - weight) * b)
        x = maps[-1] if level == 2 else weight * F.relu(a) + (1 - weight) * F.relu(b)
    output = two(images)
    torch.testing.assert_close(output.vector, x.mean((2, 3)), rtol=1e-5, atol=1e-6)
    for got, expected in zip(output.maps, maps, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def folded(two: TwoBranch) -> dict[str, torch.Tensor]:
    state = {}
    for name, value in two.stable.state_dict().items():
        if name.endswith("kernel"):
            value = value * two.stable.state_dict()[name.replace("kernel", "factor")]
        if not name.endswith("factor"):
            state[f"levels.{name.replace('kernel', 'weight')}"] = value
    return state


def test_one_factor_per_kernel() -> None:
    """53,808 factors on ResNet-32, as published: 'neuron-level scaling' has one scalar per pair of channels."""
    two = TwoBranch(build_backbone(NetSettings(name="resnet32"), (32, 32, 3)))
    assert sum(m.factor.numel() for m in two.stable.modules() if isinstance(m, Scaled)) == 53_808
    frozen = {name for name, _ in two.stable.named_buffers() if name.endswith("kernel")}
    assert frozen
    assert not frozen & {name for name, _ in two.stable.named_parameters()}


def state_after(stop: int, *layers: Mapping[str, object]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The network before and after the last of `stop` phases."""
    prepared = factories.ready(factories.pictures(), IMAGES, *layers)
    episode = factories.opened(prepared)
    factories.play(episode, prepared, stop=stop - 1)
    before = episode.learner.state()
    factories.play(episode, prepared, stop=stop)
    return before, episode.learner.state()


def test_kernels_of_phase_0_never_move_and_everything_else_does() -> None:
    before, after = state_after(3)
    moved = {
        name
        for name in before
        if before[name].shape == after[name].shape and not torch.equal(before[name], after[name])
    }
    kernels = {name for name in after if name.endswith("kernel")}
    assert kernels
    assert not kernels & moved
    assert {name for name in after if name.endswith("factor")} <= moved
    assert {name for name in after if "plastic" in name and name.endswith("weight")} <= moved
    assert {name for name in after if "stable" in name and name.endswith("running_mean")} <= moved


def test_the_mixture_is_learned_unless_its_lr_is_zero() -> None:
    _, learned = state_after(2, {"method": {"mixture_lr": 1.0}})
    _, fixed = state_after(2, {"method": {"mixture_lr": 0.0}})
    assert torch.equal(fixed["backbone.weights"], torch.full((2,), 0.5))
    assert (learned["backbone.weights"] - 0.5).abs().min() > 1e-4


def upper_level(*layers: Mapping[str, object]) -> tuple[Episode, Stage]:
    """An episode after phase 1 of `pictures`, and the stage that trains the mixture there."""
    prepared = factories.ready(factories.pictures(), IMAGES, {"method": {"mixture_lr": 1.0}}, *layers)
    episode = factories.opened(prepared)
    factories.play(episode, prepared, stop=2)
    learner, held = episode.learner, episode._memory.samples()
    stage = learner.method.stages(PhaseFacts(1, 2, 2), learner.network, held, prepared.config.train)[0].after_epoch
    assert stage is not None
    return episode, stage


@pytest.mark.parametrize(("broken", "towards"), [("plastic", 1.0), ("stable", 0.0)])
def test_the_mixture_prefers_the_branch_that_works(broken: str, towards: float) -> None:
    """One branch is made useless. Gradient descent on the balanced loss must turn to the other one."""
    episode, stage = upper_level({"train": {"epochs": 8}})
    network = episode.learner.network
    assert isinstance(network.backbone, TwoBranch)
    branch = getattr(network.backbone, broken)
    with torch.no_grad():
        network.backbone.weights.fill_(0.5)
        for name, value in branch.named_parameters():
            value.copy_(random(*value.shape, seed=len(name)))
    run_stage(stage, network, episode.bank, episode.learner._context, phase=1, teacher=None)
    weights = network.backbone.weights.detach()
    assert (weights.mean() - 0.5) * (towards - 0.5) > 0.02
    assert ((weights >= 0) & (weights <= 1)).all()


def test_the_mixture_is_trained_on_balanced_data() -> None:
    """All exemplars and, for each new class, as many samples as an old class has on average."""
    episode, stage = upper_level({"memory": {"budget": 40, "exemplars": 12}})
    held = np.bincount(episode._memory.samples().labels)
    assert held.tolist() == [6, 6, 14, 14]
    assert np.bincount(stage.samples.labels).tolist() == [6, 6, 6, 6]


def test_fine_tuning_does_not_move_the_mixture() -> None:
    """The weights after phase 1 are the same with and without fine-tuning, while the branches differ."""
    learned = {"method": {"mixture_lr": 1.0}}
    _, without = state_after(2, learned)
    _, tuned = state_after(2, learned, {"finetune": {"epochs": 3}})
    assert not torch.equal(without["backbone.weights"], torch.full((2,), 0.5))
    assert torch.equal(without["backbone.weights"], tuned["backbone.weights"])
    plastic = [name for name in tuned if "plastic" in name and name.endswith("conv1.weight")]
    assert plastic
    assert all(not torch.equal(without[name], tuned[name]) for name in plastic)


def slope(weights: torch.Tensor, gradient: float) -> Objective:
    """A loss with the same gradient everywhere."""
    return lambda output, labels, teacher: {"slope": gradient * weights.sum()}


def test_a_constant_gradient_moves_the_mixture_by_its_learning_rate_at_any_length() -> None:
    """The steps of a phase add up to the learning rate, whatever the number of epochs and the schedule."""
    for train in ({"epochs": 2}, {"epochs": 9, "schedule": "step"}, {"epochs": 4, "schedule": "cosine"}):
        plain = {"momentum": 0.0, "nesterov": False, **train}
        episode, stage = upper_level({"train": plain, "method": {"mixture_lr": 0.0625}})
        network = episode.learner.network
        assert isinstance(network.backbone, TwoBranch)
        weights = network.backbone.weights
        with torch.no_grad():
            weights.fill_(0.25)
        ascent = replace(stage, objective=slope(weights, -1.0))
        run_stage(ascent, network, episode.bank, episode.learner._context, phase=1, teacher=None)
        # float32 sums of up to 18 steps of a number near 0.3
        torch.testing.assert_close(weights.detach(), torch.full_like(weights, 0.3125), rtol=0, atol=1e-6)


def test_the_mixture_stops_at_its_bounds() -> None:
    episode, stage = upper_level({"train": {"epochs": 3}})
    network = episode.learner.network
    assert isinstance(network.backbone, TwoBranch)
    weights = network.backbone.weights
    for sign, bound in ((-1.0, 1.0), (1.0, 0.0)):
        steep = replace(stage, lr=5.0, objective=slope(weights, sign))
        run_stage(steep, network, episode.bank, episode.learner._context, phase=1, teacher=None)
        assert torch.equal(weights.detach(), torch.full_like(weights, bound))


def test_the_result_of_a_phase_has_the_weights_of_the_stable_branch() -> None:
    prepared = factories.ready(factories.pictures(), IMAGES, {"method": {"mixture_lr": 1.0}})
    episode = factories.opened(prepared)
    first, *later = factories.play(episode, prepared)
    assert first.measures == {}
    weights = episode.learner.state()["backbone.weights"].tolist()
    assert later[-1].measures == {"branch_weights": tuple(weights)}
    assert weights != [0.5, 0.5]


def test_the_upper_level_trains_nothing_but_the_mixture() -> None:
    episode, stage = upper_level()  # after phase 1 the branches differ, so the mixture has a gradient
    learner = episode.learner
    before = learner.state()
    run_stage(stage, learner.network, episode.bank, learner._context, phase=1, teacher=None)
    after = learner.state()
    assert {name for name in before if not torch.equal(before[name], after[name])} == {"backbone.weights"}


def test_phase_0_has_one_branch_and_its_snapshot_restores() -> None:
    prepared = factories.ready(factories.pictures(), IMAGES)
    episode = factories.opened(prepared)
    factories.play(episode, prepared, stop=1)
    assert isinstance(episode.learner.network.backbone, ResNet)
    factories.play(episode, prepared, stop=2)
    assert isinstance(episode.learner.network.backbone, TwoBranch)
    copy_of = factories.opened(prepared)
    copy_of.restore(episode.snapshot())
    for one, other in zip(factories.play(episode, prepared), factories.play(copy_of, prepared), strict=True):
        assert factories.facts_of(one) == factories.facts_of(other)
    assert factories.same_tensors(episode.learner.state(), copy_of.learner.state())


def test_balanced_data_has_as_many_of_a_new_class_as_of_an_old_one() -> None:
    labels = np.repeat([0, 1, 2, 3], [4, 6, 20, 3])
    chosen = balanced_at_random(PhaseFacts(1, 2, 2), Samples(np.arange(33), labels))
    assert np.bincount(chosen.labels).tolist() == [4, 6, 5, 3]
    assert len(np.unique(chosen.rows)) == len(chosen.rows)


@pytest.mark.parametrize("name", ["icarl-aanets", "lucir-aanets", "pod-aanets"])
def test_each_runs_on_images_and_on_vectors(name: str) -> None:
    for dataset in (factories.pictures(), factories.blobs()):
        prepared = factories.ready(dataset, {"method": {"name": name}, "train": {"epochs": 1}})
        results = factories.play(factories.opened(prepared), prepared)
        assert [result.phase for result in results] == [0, 1, 2]
        assert all(result.held_old + result.held_new <= 40 for result in results[1:])
