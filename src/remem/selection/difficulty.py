"""Class difficulty: the mean prediction entropy of a class's held training samples (protocol 2.3)."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from remem.types import IntArray

BLOCK = 2**14  # samples converted to float64 at a time


def class_entropy(logits: NDArray[np.floating], labels: IntArray) -> dict[int, float]:
    """Mean softmax entropy, in nats, of every class in `labels`; logits are (n, C)."""
    blocks = [_entropy(logits[start : start + BLOCK]) for start in range(0, max(1, len(logits)), BLOCK)]
    entropy = np.concatenate(blocks)  # (n,)
    classes, where = np.unique(labels, return_inverse=True)
    means = np.bincount(where, weights=entropy) / np.bincount(where)
    return dict(zip(classes.tolist(), means.tolist(), strict=True))


def _entropy(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Entropy of every row: log Z - E[z]."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    powers = np.exp(shifted)
    mass = powers.sum(axis=1)
    entropy: NDArray[np.float64] = np.log(mass) - (powers * shifted).sum(axis=1) / mass
    return entropy


def split(entropy: Mapping[int, float]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ceil(n / 2) harder classes and the rest, both ascending; ties go to the lower class."""
    ranked = sorted(entropy, key=lambda label: (-entropy[label], label))
    half = -(-len(ranked) // 2)
    return tuple(sorted(ranked[:half])), tuple(sorted(ranked[half:]))
