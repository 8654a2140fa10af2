"""The selections by name: each ranks the samples of several classes at once, best first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remem.registry import Registry
from remem.selection.herding import herd
from remem.selection.uniform import shuffle
from remem.types import IntArray

# (features (n, d), groups of positions, one per class, random stream, threads) -> each group's positions, best first
Rank = Callable[[NDArray[np.floating], Sequence[IntArray], np.random.Generator, int], list[IntArray]]


@dataclass(frozen=True)
class SelectionEntry:
    summary: str
    rank: Rank


SELECTIONS: Registry[SelectionEntry] = Registry("selection")
SELECTIONS.add(
    "herding",
    SelectionEntry(
        "nearest running mean, greedily (iCaRL)", lambda f, groups, _, threads: herd(f, groups, threads=threads)
    ),
)
SELECTIONS.add("uniform", SelectionEntry("at random", lambda _, groups, rng, __: shuffle(groups, rng)))
