"""Codes of rows as arrays, for snapshots, and the mean sizes of the codes of a scenario's samples."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remem.codecs.codec import Shape
from remem.codecs.table import CODECS
from remem.data.bank import Bank
from remem.types import IntArray, Phase

MEASURED = 2048  # rows of a phase that are encoded for a mean size


def code_arrays(codes: Mapping[int, bytes], rows: IntArray, codec: str, shape: Shape) -> dict[str, NDArray[Any]]:
    """The codes of these rows in order: exactly the bytes that they are billed for."""
    found = [codes[row] for row in rows.tolist()]
    arrays: dict[str, NDArray[Any]] = {"data": np.frombuffer(bytearray(b"".join(found)), np.uint8)}
    if CODECS[codec].size(shape) is None:
        arrays["lengths"] = np.array([len(code) for code in found], np.int32)
    return arrays


def codes_from(arrays: Mapping[str, NDArray[Any]], rows: IntArray, codec: str, shape: Shape) -> dict[int, bytes]:
    """The inverse of `code_arrays`. Raises ValueError if the arrays do not fit the rows."""
    size = CODECS[codec].size(shape)
    lengths = arrays["lengths"].astype(np.int64) if size is None else np.full(len(rows), size, np.int64)
    ends, data = np.cumsum(lengths), arrays["data"].tobytes()
    if len(lengths) != len(rows) or (lengths < 0).any() or (int(ends[-1]) if len(ends) else 0) != len(data):
        raise ValueError(f"codes of {codec} that do not fit {len(rows)} rows")
    bounds = zip((ends - lengths).tolist(), ends.tolist(), strict=True)
    return {row: data[start:end] for row, (start, end) in zip(rows.tolist(), bounds, strict=True)}


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
