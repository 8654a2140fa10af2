"""losses.py with one value per sample: its mean over the counted samples is the value of a batch."""

import pytest
import torch
from torch import Tensor

from remem.methods import losses

DRAWS = torch.Generator().manual_seed(0)
LOGITS = torch.randn(7, 5, generator=DRAWS)
TEACHER = torch.randn(7, 3, generator=DRAWS)
LABELS = torch.tensor([0, 1, 2, 3, 4, 4, 1])
FEATURES, OTHERS = torch.randn(2, 7, 4, generator=DRAWS)
OLD = LABELS < 3


@pytest.mark.parametrize(
    ("mean", "each"),
    [
        (losses.classify(LOGITS, LABELS), losses.classify(LOGITS, LABELS, "none")),
        (losses.distil(LOGITS, TEACHER, 2.0), losses.distil(LOGITS, TEACHER, 2.0, "none")),
        (losses.sigmoid_targets(LOGITS, LABELS, TEACHER), losses.sigmoid_targets(LOGITS, LABELS, TEACHER, "none")),
        (losses.less_forget(FEATURES, OTHERS), losses.less_forget(FEATURES, OTHERS, "none")),
        (losses.nca_as_shipped(LOGITS, LABELS), losses.nca_as_shipped(LOGITS, LABELS, "none")),
        (
            losses.nca(LOGITS, LABELS, torch.tensor(0.6)),
            losses.nca(LOGITS, LABELS, torch.tensor(0.6), "none"),
        ),
    ],
    ids=["classify", "distil", "sigmoid", "less-forget", "nca-shipped", "nca"],
)
def test_the_mean_of_all_samples(mean: Tensor, each: Tensor) -> None:
    assert each.shape == (7,)
    torch.testing.assert_close(each.mean(), mean, rtol=0, atol=1e-6)


@pytest.mark.parametrize("top", [1, 2, 5])
def test_the_margin_is_a_mean_over_exemplars(top: int) -> None:
    each = losses.rank_margin(LOGITS, LABELS, 3, margin=0.5, top=top, reduction="none")
    mean = losses.rank_margin(LOGITS, LABELS, 3, margin=0.5, top=top)
    assert each.shape == (7,)
    torch.testing.assert_close(each[OLD].mean(), mean, rtol=0, atol=1e-6)


def test_features_that_are_the_teachers_own_are_not_compared() -> None:
    assert losses.less_forget(FEATURES, FEATURES).item() == 0
    assert torch.equal(losses.less_forget(FEATURES, FEATURES, "none"), torch.zeros(7))
