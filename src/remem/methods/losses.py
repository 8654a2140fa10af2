"""Loss terms of the methods: pure functions of float32 tensors, averaged over the batch or one value per sample."""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Reduction = Literal["mean", "none"]
"""As in torch: the mean over a batch, or one value per sample."""


def classify(logits: Tensor, labels: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Softmax cross-entropy over all seen classes."""
    return F.cross_entropy(logits, labels, reduction=reduction)


def distil(logits: Tensor, teacher_logits: Tensor, temperature: float, reduction: Reduction = "mean") -> Tensor:
    """KL(teacher || student) over the teacher's classes at a temperature T, without the factor T^2.

    LUCIR and AANets multiply by T^2 x 0.25 with T = 2, which is 1. The soft cross-entropy of other code differs by the
    teacher's entropy, a constant. All three have the same gradient.
    """
    old = teacher_logits.shape[1]
    log_student = F.log_softmax(logits[:, :old] / temperature, dim=1)  # (n, old)
    log_teacher = F.log_softmax(teacher_logits / temperature, dim=1)
    if reduction == "none":
        return F.kl_div(log_student, log_teacher, reduction="none", log_target=True).sum(1)
    return F.kl_div(log_student, log_teacher, reduction="batchmean", log_target=True)


def sigmoid_targets(
    logits: Tensor, labels: Tensor, teacher_logits: Tensor | None, reduction: Reduction = "mean"
) -> Tensor:
    """iCaRL's loss (Alg. 3): binary cross-entropy, one-hot targets for new classes, the teacher's sigmoid for old ones.

    The labels of exemplars are not used: for old classes the teacher's outputs are the targets.
    """
    targets = F.one_hot(labels, logits.shape[1]).to(logits.dtype)  # (n, C)
    if teacher_logits is not None:
        targets[:, : teacher_logits.shape[1]] = torch.sigmoid(teacher_logits)
    entropy = F.binary_cross_entropy_with_logits(logits, targets, reduction=reduction)
    return entropy.mean(1) if reduction == "none" else entropy


def less_forget(features: Tensor, teacher_features: Tensor, reduction: Reduction = "mean") -> Tensor:
    """1 - cosine similarity of the student's and the teacher's features (LUCIR's L_dis^G, PODNet's POD-flat)."""
    if features is teacher_features:  # both are frozen
        return _reduced(features.new_zeros(len(features)), reduction)
    return _reduced(1 - F.cosine_similarity(features, teacher_features), reduction)


def rank_margin(
    scores: Tensor, labels: Tensor, old: int, *, margin: float, top: int, reduction: Reduction = "mean"
) -> Tensor:
    """LUCIR's inter-class separation: an exemplar's cosine should exceed its top new-class cosines by a margin.

    The mean is over samples of the first `old` classes; without any, it is zero. Values of other samples mean nothing.
    """
    if reduction == "mean":
        exemplars = labels < old
        scores, labels = scores[exemplars], labels[exemplars]  # (m, C), (m,)
    rivals = scores[:, old:]
    if top < rivals.shape[1]:
        rivals = rivals.topk(top, dim=1).values  # (m, top)
    own = scores.gather(1, labels[:, None])  # (m, 1)
    gaps = F.relu(margin - own + rivals)
    return gaps.mean(1) if reduction == "none" else gaps.sum() / max(1, gaps.numel())


def pod_spatial(maps: Sequence[Tensor], teacher_maps: Sequence[Tensor]) -> Tensor:
    """PODNet's pooled distillation: distance of squared maps summed over width and height, averaged over stages."""
    gaps = [
        torch.linalg.vector_norm(_pooled(m) - _pooled(t), dim=1).mean() for m, t in zip(maps, teacher_maps, strict=True)
    ]
    return torch.stack(gaps).mean()


def _pooled(maps: Tensor) -> Tensor:
    energy = maps.float().square()  # (n, c, h, w)
    return F.normalize(torch.cat([energy.sum(3).flatten(1), energy.sum(2).flatten(1)], dim=1))


def nca(logits: Tensor, labels: Tensor, margin: Tensor, reduction: Reduction = "mean") -> Tensor:
    """PODNet's loss as in the paper: hinge of -log(exp(own - margin) / sum of the other classes); logits are (n, C)."""
    own = logits.gather(1, labels[:, None])[:, 0]
    others = logits.scatter(1, labels[:, None], float("-inf"))
    return _reduced(F.relu(others.logsumexp(1) - (own - margin)), reduction)


def nca_as_shipped(logits: Tensor, labels: Tensor, reduction: Reduction = "mean") -> Tensor:
    """PODNet's loss as in its code: the margin cancels out, and the true class enters the sum as exp(0)."""
    shifted = logits - logits.amax(1, keepdim=True)
    own = shifted.gather(1, labels[:, None])[:, 0]
    return _reduced(shifted.scatter(1, labels[:, None], 0.0).logsumexp(1) - own, reduction)


def _reduced(values: Tensor, reduction: Reduction) -> Tensor:
    return values if reduction == "none" else values.mean()
