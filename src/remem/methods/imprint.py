"""Imprinting: initialises the head's rows of new classes with their mean features (LUCIR, section 3.1)."""

import torch
import torch.nn.functional as F

from remem.methods.method import Describe, PhaseFacts
from remem.nets.network import Network
from remem.types import Samples


def imprint_means(network: Network, facts: PhaseFacts, held: Samples, describe: Describe) -> None:
    """Sets every new row to its class mean, scaled to the average norm of the old rows. No effect in phase 0."""
    if facts.index == 0 or not facts.new_classes:
        return
    new = held.of(facts.new_labels)
    units = F.normalize(torch.from_numpy(describe(new).features))
    labels = torch.from_numpy(new.labels)
    means = torch.stack([units[labels == label].mean(0) for label in facts.new_labels])
    length = network.head.old.detach().norm(dim=1).mean()
    network.head.imprint(F.normalize(means).to(length) * length)
