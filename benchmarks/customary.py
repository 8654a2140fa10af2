"""The customary training pipeline: pictures through PIL one by one in a DataLoader, fp32, default layout, `.item()`."""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from remem.methods.schedule import lr_factor
from remem.methods.settings import TrainSettings
from remem.nets.network import Network
from remem.types import IntArray, Values

View = Literal["random", "plain", "mirrored"]  # to train on; to evaluate on, and its mirror image


@dataclass(frozen=True)
class Normalisation:
    """Mean and deviation of each channel, on the scale 0..1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


class Pictures(Dataset[tuple[Tensor, int]]):
    """Shrink to `size`, random crop with padding, flip, to a tensor, normalise: the usual transforms, written out."""

    def __init__(
        self, images: Values, labels: IntArray, normalisation: Normalisation, size: int, view: View = "random"
    ) -> None:
        self._images, self._labels, self._size, self._view = images, labels, size, view
        self._mean, self._std = (torch.tensor(part).view(-1, 1, 1) for part in (normalisation.mean, normalisation.std))

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        picture, size = Image.fromarray(self._images[place]), self._size
        if picture.width != size:
            picture = picture.resize((size, size), Image.Resampling.BILINEAR)
        if self._view == "random":
            pad = size // 8
            left, top = random.randint(0, 2 * pad), random.randint(0, 2 * pad)
            picture = ImageOps.expand(picture, pad).crop((left, top, left + size, top + size))
        if self._view == "mirrored" or (self._view == "random" and random.random() < 0.5):
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        tensor = torch.from_numpy(np.array(picture)).permute(2, 0, 1).float().div(255)
        return (tensor - self._mean) / self._std, int(self._labels[place])


def train(
    network: Network, teacher: Network, pictures: Pictures, settings: TrainSettings, *, workers: int, seed: int
) -> Iterator[float]:
    """Seconds of every step, loading its batch included; icarl's loss and the same optimiser and schedule as ours."""
    torch.manual_seed(seed)
    random.seed(seed)
    loader = DataLoader(pictures, settings.batch_size, shuffle=True, num_workers=workers)
    optimizer = torch.optim.SGD(
        network.parameters(),
        lr=settings.lr_later,
        momentum=settings.momentum,
        nesterov=settings.nesterov,
        weight_decay=settings.weight_decay,
    )
    epochs = settings.epochs_of(1)
    for epoch in range(epochs):
        network.train()
        shown, started = 0.0, time.perf_counter()
        for number, (inputs, labels) in enumerate(loader):
            step = epoch * len(loader) + number
            factor = lr_factor(
                settings.schedule, settings, step=step, steps=epochs * len(loader), epoch=epoch, epochs=epochs
            )
            for group in optimizer.param_groups:
                group["lr"] = settings.lr_later * factor
            loss = icarl(network, teacher, inputs, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            shown += loss.item()
            yield time.perf_counter() - started
            started = time.perf_counter()


def icarl(network: Network, teacher: Network, inputs: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy over all classes and distillation of the old ones at temperature 2."""
    logits = network(inputs).logits
    with torch.no_grad():
        advice = teacher(inputs).logits
    old = advice.shape[1]
    distil = F.kl_div(F.log_softmax(logits[:, :old] / 2, 1), F.softmax(advice / 2, 1), reduction="batchmean")
    return F.cross_entropy(logits, labels) + distil
