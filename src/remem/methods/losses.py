"""The terms of the methods' losses: pure functions of tensors, in float32, mean over the batch."""

import torch
import torch.nn.functional as F
from torch import Tensor


def classify(logits: Tensor, labels: Tensor) -> Tensor:
    """Softmax cross-entropy over all seen classes."""
    return F.cross_entropy(logits, labels)


def distil(logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    """KL(teacher || student) over the teacher's classes at a temperature, without the factor T^2.

    LUCIR and AANets multiply by T^2 x 0.25 with T = 2, which is 1; the soft cross-entropy of other code
    differs by the teacher's entropy, a constant, so all three have the same gradient.
    """
    old = teacher_logits.shape[1]
    log_student = F.log_softmax(logits[:, :old] / temperature, dim=1)  # (n, old)
    log_teacher = F.log_softmax(teacher_logits / temperature, dim=1)
    return F.kl_div(log_student, log_teacher, reduction="batchmean", log_target=True)


def sigmoid_targets(logits: Tensor, labels: Tensor, teacher_logits: Tensor | None) -> Tensor:
    """iCaRL's own loss (Alg. 3): binary cross-entropy, one-hot for new classes, the teacher's sigmoid for old ones.

    Exemplars keep no label of their own: in the columns of old classes the teacher's outputs are the target.
    """
    targets = F.one_hot(labels, logits.shape[1]).to(logits.dtype)  # (n, C)
    if teacher_logits is not None:
        targets[:, : teacher_logits.shape[1]] = torch.sigmoid(teacher_logits)
    return F.binary_cross_entropy_with_logits(logits, targets)
