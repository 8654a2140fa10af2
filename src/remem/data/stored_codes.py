"""The mean sizes of a scenario's samples as stored by codecs."""

from collections.abc import Sequence

import numpy as np

from remem.codecs.table import CODECS
from remem.data.bank import Bank
from remem.types import Phase

MEASURED = 2048  # rows of a phase that are encoded for a mean size


def mean_sizes(bank: Bank, phases: Sequence[Phase], codecs: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Bytes of one sample by each codec: one number, or, where codes differ in size, one for each phase i.

    That is the mean over the training samples of phases 0..i, rounded up: what is held and what arrives are among
    them, and it is known before anything is trained.
    """
    shape = bank.stored_shape
    fixed = [CODECS[codec].size(shape) for codec in codecs]
    return tuple(
        _running_means(bank, phases, codec) if size is None else (size,)
        for codec, size in zip(codecs, fixed, strict=True)
    )


def _running_means(bank: Bank, phases: Sequence[Phase], codec: str) -> tuple[int, ...]:
    total, count, means = 0.0, 0, []
    for phase in phases:
        rows = np.concatenate(list(phase.train.values()))
        step = -(-len(rows) // MEASURED)
        total += float(bank.measure(rows[::step], codec).mean()) * len(rows)
        count += len(rows)
        means.append(int(np.ceil(total / count)))
    return tuple(means)
