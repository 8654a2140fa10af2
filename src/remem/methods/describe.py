"""Features and logits of many samples, computed in evaluation mode; for selection, class means and evaluation."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from remem.data.augment import AugmentPlan, plain
from remem.data.batches import batches, prefetched, shard
from remem.methods.hoarding import HoardWatch, Processes
from remem.nets.network import Network
from remem.types import Reader, Samples

LARGEST = 2**24  # bytes; larger tables are stored in a temporary file
CHUNK = 256  # samples per batch; fixed, since the batch size can change the last bit of a result
KEPT_BYTES = 2**28  # larger features and logits are not kept from phase to phase but computed again


class Described(NamedTuple):
    """Features and logits of samples under a network."""

    features: NDArray[np.float32]  # (n, d)
    logits: NDArray[np.float32]  # (n, C)
    mirrored: NDArray[np.float32] | None = None  # (n, d), features of the mirror images if they were asked for


class Devices(Processes, Protocol):
    """Where samples are described: what `describe` needs of Fabric."""

    @property
    def global_rank(self) -> int: ...

    def autocast(self) -> AbstractContextManager[Any]: ...

    def to_device(self, obj: Any) -> Any: ...

    def all_reduce(self, data: Any, *, reduce_op: str) -> Any: ...


@contextmanager
def evaluating(network: Network) -> Iterator[None]:
    """Switches to evaluation mode without gradients and restores the previous mode."""
    before = network.training
    network.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        network.train(before)


def describe(
    network: Network, reader: Reader, samples: Samples, *, plan: AugmentPlan, fabric: Devices, mirror: bool = False
) -> Described:
    """One pass over samples with the evaluation transform; `mirror` adds features of the mirror images.

    Several processes divide the work, so all of them must call this; each gets the complete result.
    """
    features = table(len(samples), network.backbone.width)
    logits = table(len(samples), network.head.classes)
    mirrored = table(len(samples), network.backbone.width) if mirror else None
    chunks = list(batches(samples, CHUNK, None))
    own = shard(len(chunks), fabric.global_rank, fabric.world_size)
    start, watch = sum(map(len, chunks[: own.start])), HoardWatch(network)
    with evaluating(network), fabric.autocast():
        for values, _ in prefetched(reader, chunks[own]):
            inputs = plain(fabric.to_device(torch.from_numpy(values)), plan)
            output = network(inputs)
            stop = start + len(values)
            features[start:stop] = output.features.float().cpu().numpy()
            logits[start:stop] = output.logits.float().cpu().numpy()
            if mirrored is not None:
                mirrored[start:stop] = network(inputs.flip(-1)).features.float().cpu().numpy()
            start = stop
            if len(chunks) > 1:  # one alone says nothing
                watch.after_batch(len(values))
    watch.check("samples that are described", fabric)
    parts = (features, logits) if mirrored is None else (features, logits, mirrored)
    return Described(*(_joined(part, fabric) for part in parts))


def table(rows: int, columns: int) -> NDArray[np.float32]:
    """An array of zeros; a large one is mapped to an unnamed temporary file, to bound memory use."""
    size = 4 * rows * columns
    if size > LARGEST and hasattr(os, "posix_fallocate"):
        with suppress(OSError), tempfile.TemporaryFile() as file:
            os.posix_fallocate(file.fileno(), 0, size)  # a full disk raises here; later it would kill the process
            return np.memmap(file, np.float32, "r+", shape=(rows, columns))
    return np.zeros((rows, columns), np.float32)


def _joined(values: NDArray[np.float32], fabric: Devices) -> NDArray[np.float32]:
    """Adds up the tables of all processes; exact, since each process fills its own rows and leaves zeros elsewhere."""
    if fabric.world_size == 1:
        return values
    total: Any = fabric.all_reduce(fabric.to_device(torch.from_numpy(values)), reduce_op="sum")
    joined: NDArray[np.float32] = total.cpu().numpy()
    return joined


def keeps(samples: int, columns: int) -> bool:
    """Whether features and logits of so many samples, with so many columns in all, are kept until the next phase."""
    return 4 * samples * columns <= KEPT_BYTES
