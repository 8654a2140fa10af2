"""Uniform selection: a random ranking, the baseline of herding."""

from collections.abc import Sequence

import numpy as np

from remem.types import IntArray


def shuffle(groups: Sequence[IntArray], rng: np.random.Generator) -> list[IntArray]:
    """Every group of positions in a random order."""
    return [rng.permutation(group) for group in groups]
