"""Features and logits of many samples under a network in evaluation mode: for selection, means and judging."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray

from remem.data.augment import AugmentPlan, plain
from remem.data.batches import batches, prefetched, share
from remem.nets.network import Network
from remem.types import Reader, Samples

LARGEST = 2**24  # bytes of a table in memory
CHUNK = 256  # fixed: the size of a batch can change the last bit of a result


class Described(NamedTuple):
    """What a network says of samples."""

    features: NDArray[np.float32]  # (n, d)
    logits: NDArray[np.float32]  # (n, C)


@contextmanager
def judging(network: Network) -> Iterator[None]:
    """Evaluation mode without gradients, and back to the mode before."""
    before = network.training
    network.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        network.train(before)


def describe(
    network: Network, reader: Reader, samples: Samples, *, plan: AugmentPlan, fabric: Fabric, mirrored: bool = False
) -> Described:
    """One pass over samples with the evaluation transform; `mirrored` flips every image left to right.

    Several processes share the chunks, so all of them must call this; each gets the whole answer.
    """
    features = table(len(samples), network.backbone.width)
    logits = table(len(samples), network.head.classes)
    chunks = list(batches(samples, CHUNK, None))
    mine = share(len(chunks), fabric.global_rank, fabric.world_size)
    start = sum(map(len, chunks[: mine.start]))
    with judging(network), fabric.autocast():
        for values, _ in prefetched(reader, chunks[mine]):
            inputs = plain(fabric.to_device(torch.from_numpy(values)), plan)
            output = network(inputs.flip(-1) if mirrored else inputs)
            stop = start + len(values)
            features[start:stop] = output.features.float().cpu().numpy()
            logits[start:stop] = output.logits.float().cpu().numpy()
            start = stop
    return Described(_joined(features, fabric), _joined(logits, fabric))


def table(rows: int, columns: int) -> NDArray[np.float32]:
    """Zeros; a large table lies in a file without a name, so that memory does not grow with the data."""
    size = 4 * rows * columns
    if size > LARGEST and hasattr(os, "posix_fallocate"):
        with suppress(OSError), tempfile.TemporaryFile() as file:
            os.posix_fallocate(file.fileno(), 0, size)  # a full disk raises here, and would end the process later
            return np.memmap(file, np.float32, "r+", shape=(rows, columns))
    return np.zeros((rows, columns), np.float32)


def _joined(values: NDArray[np.float32], fabric: Fabric) -> NDArray[np.float32]:
    """Every process has filled its own rows and left zeros elsewhere, so the sum is exact."""
    if fabric.world_size == 1:
        return values
    total: Any = fabric.all_reduce(fabric.to_device(torch.from_numpy(values)), reduce_op="sum")
    joined: NDArray[np.float32] = total.cpu().numpy()
    return joined
