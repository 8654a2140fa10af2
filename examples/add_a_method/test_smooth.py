"""smooth.py: both terms of its loss against values worked out by hand."""

import math

import pytest
import torch
from torch import Tensor

from remem.methods import smooth
from remem.methods.method import PhaseFacts
from remem.nets.base import Output
from remem.nets.network import Network, build_network
from remem.nets.settings import HeadSettings, NetSettings


def network() -> Network:
    return build_network(NetSettings(name="mlp"), (2,), HeadSettings(name="linear"), seed=0)


def output(features: list[list[float]], logits: list[list[float]]) -> Output:
    values = torch.tensor(logits)
    return Output(torch.tensor(features), (), values, values)


def losses(facts: PhaseFacts, teacher: Output | None, **settings: float) -> dict[str, Tensor]:
    """For one sample of class 1 with features (1, 0) and probabilities 1/4 and 3/4."""
    objective = smooth.Smooth(smooth.SmoothSettings(**settings)).objective(facts, network())
    return objective(output([[1.0, 0.0]], [[0.0, math.log(3)]]), torch.tensor([1]), teacher)


def test_phase_0_is_cross_entropy_with_a_tenth_for_the_other_class() -> None:
    terms = losses(PhaseFacts(0, 0, 2), None, smoothing=0.2)
    expected = -0.1 * math.log(1 / 4) - 0.9 * math.log(3 / 4)
    assert terms.keys() == {"classify"}
    assert terms["classify"].item() == pytest.approx(expected)


def test_feature_term_is_weighted_by_the_root_of_old_to_new_classes() -> None:
    teacher = output([[3.0, 4.0]], [[0.0]])  # its cosine with (1, 0) is 3/5
    terms = losses(PhaseFacts(1, 8, 2), teacher, keep=3.0)
    assert terms["keep"].item() == pytest.approx(3.0 * math.sqrt(8 / 2) * (1 - 3 / 5))
