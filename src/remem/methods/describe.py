"""Features and logits of many samples under a network in evaluation mode: for selection, means and judging."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray

from remem.data.augment import AugmentPlan, plain
from remem.data.batches import batches, prefetched
from remem.nets.network import Network
from remem.types import Reader, Samples

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
    """One pass over samples with the evaluation transform; `mirrored` flips every image left to right."""
    features = np.empty((len(samples), network.backbone.width), np.float32)
    logits = np.empty((len(samples), network.head.classes), np.float32)
    start = 0
    with judging(network), fabric.autocast():
        for values, _ in prefetched(reader, batches(samples, CHUNK, None)):
            inputs = plain(fabric.to_device(torch.from_numpy(values)), plan)
            output = network(inputs.flip(-1) if mirrored else inputs)
            stop = start + len(values)
            features[start:stop] = output.features.float().cpu().numpy()
            logits[start:stop] = output.logits.float().cpu().numpy()
            start = stop
    return Described(features, logits)
