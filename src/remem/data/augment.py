"""Batched augmentation: uint8 images (n, h, w, c) -> float32 images (n, c, h', w') in 0..255, random per sample.

Random numbers are drawn on the CPU, so the same generator state gives the same images on any device.
Vectors (n, d) are returned unchanged.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from remem.data.preprocessing import Preprocessing
from remem.data.settings import AugmentSettings
from remem.errors import InputError

KINDS = ("none", "crop", "resized-crop")
AREA = (0.08, 1.0)  # share of the image that a resized crop covers
RATIO = (3 / 4, 4 / 3)  # width : height of a resized crop
ATTEMPTS = 10  # boxes drawn before a resized crop falls back to the centre of the image


@dataclass(frozen=True)
class AugmentPlan:
    """Fully specified augmentation. `size` is the side of resized crops and centre crops."""

    kind: str = "none"  # one of KINDS
    size: int = 0
    pad: int = 0
    flip: bool = False
    brightness: float = 0.0  # factors are uniform in [max(0, 1 - brightness), 1 + brightness]


def plan_for(preprocessing: Preprocessing, shape: tuple[int, ...], settings: AugmentSettings) -> AugmentPlan:
    """The plan for images (h, w, c), from the settings and the data set's defaults; vectors are not augmented."""
    if len(shape) != 3:
        return AugmentPlan()
    kind = preprocessing.augment if settings.kind == "auto" else settings.kind
    if kind not in KINDS:
        raise InputError(f"augment.kind: '{kind}' is not one of {', '.join(KINDS)}")
    side = min(shape[:2])
    return AugmentPlan(
        kind=kind,
        # As on ImageNet, where crops of 224 are taken from images of 256.
        size=max(1, side * 7 // 8) if kind == "resized-crop" else side,
        pad=(side // 8 if settings.pad is None else settings.pad) if kind == "crop" else 0,
        flip=preprocessing.flip and kind != "none" if settings.flip is None else settings.flip,
        brightness=settings.brightness,
    )


def augment(
    images: Tensor, plan: AugmentPlan, generator: torch.Generator, *, start: int = 0, batch: int | None = None
) -> Tensor:
    """Augments training images; returns float32 in channels-last memory format, not normalised.

    `images` may be one process's shard of a batch that starts at position `start`. Random numbers are drawn for the
    whole batch, so that every image is augmented as it would be in a single process.
    """
    if images.ndim == 2:
        return images
    draws = BatchDraws(generator, len(images) if batch is None else batch, slice(start, start + len(images)))
    if plan.kind == "resized-crop":
        pixels = _resized_crop(images, plan, draws)
    elif plan.kind == "crop" or plan.flip:
        pixels = _padded_crop(images, plan, draws).float()
    else:
        pixels = images.float()
    if plan.brightness > 0:
        pixels = _brighten(pixels, plan.brightness, draws)
    return pixels.permute(0, 3, 1, 2)


def plain(images: Tensor, plan: AugmentPlan) -> Tensor:
    """Images for evaluation: the centre crop if training uses resized crops, else the whole image."""
    if images.ndim == 2:
        return images
    if plan.kind == "resized-crop":
        height, width = images.shape[1:3]
        top, left = round((height - plan.size) / 2), round((width - plan.size) / 2)
        images = images[:, top : top + plan.size, left : left + plan.size]
    return images.float().permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True)
class BatchDraws:
    """Draws random numbers for every sample of a batch and returns those of the positions `places`."""

    generator: torch.Generator
    batch: int
    places: slice

    def uniform(self, before: tuple[int, ...], after: tuple[int, ...]) -> Tensor:
        """Uniform in [0, 1), float64, (*before, places, *after)."""
        drawn = torch.rand((*before, self.batch, *after), generator=self.generator, dtype=torch.float64)
        return drawn.narrow(len(before), self.places.start, self.places.stop - self.places.start)

    def below(self, limit: int, before: tuple[int, ...], after: tuple[int, ...]) -> Tensor:
        """Integers from 0 to limit - 1, (*before, places, *after)."""
        drawn = torch.randint(0, limit, (*before, self.batch, *after), generator=self.generator)
        return drawn.narrow(len(before), self.places.start, self.places.stop - self.places.start)


def _flipped(count: int, plan: AugmentPlan, draws: BatchDraws) -> Tensor:
    if not plan.flip:
        return torch.zeros(count, 1, dtype=torch.bool)
    return draws.uniform((), (1,)) < 0.5


def _padded_crop(images: Tensor, plan: AugmentPlan, draws: BatchDraws) -> Tensor:
    """Crops windows of the original size from zero-padded images and flips them, by a single index_select."""
    count, height, width, channels = images.shape
    top, left = draws.below(2 * plan.pad + 1, (2,), (1,))
    columns = torch.arange(width)
    columns = left + torch.where(_flipped(count, plan, draws), width - 1 - columns, columns)  # (n, w)
    rows = top + torch.arange(height)  # (n, h)
    tall, wide = height + 2 * plan.pad, width + 2 * plan.pad
    lines = torch.arange(count)[:, None] * tall + rows
    index = (lines[:, :, None] * wide + columns[:, None, :]).flatten()
    padded = F.pad(images, (0, 0, plan.pad, plan.pad, plan.pad, plan.pad)).reshape(-1, channels)
    return padded.index_select(0, index.to(images.device)).view(count, height, width, channels)


def _boxes(height: int, width: int, draws: BatchDraws) -> Tensor:
    """Top, left, height, width of each sample's crop, float64 (4, n); the rules are those of RandomResizedCrop."""
    size = draws.uniform((2,), (ATTEMPTS,))
    place = draws.uniform((2,), ())
    area = height * width * (AREA[0] + (AREA[1] - AREA[0]) * size[0])
    low, high = math.log(RATIO[0]), math.log(RATIO[1])
    ratio = torch.exp(low + (high - low) * size[1])  # log-uniform
    wide, tall = torch.sqrt(area * ratio).round(), torch.sqrt(area / ratio).round()
    fits = (wide > 0) & (wide <= width) & (tall > 0) & (tall <= height)
    first = fits.int().argmax(dim=1, keepdim=True)
    wide, tall = wide.gather(1, first)[:, 0], tall.gather(1, first)[:, 0]
    top, left = (place[0] * (height - tall + 1)).floor(), (place[1] * (width - wide + 1)).floor()
    middle = torch.tensor(_middle_box(height, width), dtype=torch.float64)[:, None]
    return torch.where(fits.any(dim=1), torch.stack([top, left, tall, wide]), middle)


def _middle_box(height: int, width: int) -> tuple[int, int, int, int]:
    """The largest centred box with an allowed aspect ratio."""
    tall, wide = height, width
    if width / height < RATIO[0]:
        tall = round(width / RATIO[0])
    elif width / height > RATIO[1]:
        wide = round(height * RATIO[1])
    return (height - tall) // 2, (width - wide) // 2, tall, wide


def _resized_crop(images: Tensor, plan: AugmentPlan, draws: BatchDraws) -> Tensor:
    """Bilinear without antialiasing, one box at a time: a batched version would sample the whole image for each."""
    count, height, width, channels = images.shape
    boxes = _boxes(height, width, draws).long().T.tolist()
    mirrored = _flipped(count, plan, draws)[:, 0].tolist()
    shown = torch.empty(count, plan.size, plan.size, channels, device=images.device)
    for image, place, (top, left, tall, wide), mirror in zip(images, shown, boxes, mirrored, strict=True):
        box = image[top : top + tall, left : left + wide].permute(2, 0, 1)[None].float()
        seen = F.interpolate(box, size=(plan.size, plan.size), mode="bilinear", align_corners=False)[0]
        place.copy_((seen.flip(2) if mirror else seen).permute(1, 2, 0))
    return shown


def _brighten(pixels: Tensor, brightness: float, draws: BatchDraws) -> Tensor:
    """Scales pixels, clips at 255 and rounds down, as torchvision's ColorJitter does on 8-bit images."""
    low, high = max(0.0, 1.0 - brightness), 1.0 + brightness
    factor = low + (high - low) * draws.uniform((), (1, 1, 1))
    return (pixels * factor.float().to(pixels.device)).clamp(0, 255).floor()
