"""Selections by name: each ranks the samples of several classes at once, best first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remem.registry import Registry
from remem.selection.herding import herd
from remem.selection.uniform import shuffle
from remem.types import IntArray

Rank = Callable[[NDArray[np.floating], Sequence[IntArray], np.random.Generator, int], list[IntArray]]
"""(features (n, d), positions of each class, generator, threads) -> positions of each class, best first."""


@dataclass(frozen=True)
class SelectionEntry:
    """A registered selection."""

    summary: str
    rank: Rank
    draws: bool = True  # whether it uses the generator; without, equal samples have equal rankings


SELECTIONS: Registry[SelectionEntry] = Registry("selection")
SELECTIONS.add(
    "herding",
    SelectionEntry(
        "nearest running mean, greedily (iCaRL)",
        lambda f, groups, _, threads: herd(f, groups, threads=threads),
        draws=False,
    ),
)
SELECTIONS.add("uniform", SelectionEntry("at random", lambda _, groups, rng, __: shuffle(groups, rng)))
