"""Augmentation of a batch at once against one picture after another."""

import torch
import torch.nn.functional as F

from benchmarks.table import Row
from benchmarks.timing import alternate, ratio
from remem.data.augment import AugmentPlan, augment


def one_by_one(images: torch.Tensor, pad: int, generator: torch.Generator) -> torch.Tensor:
    """Crop with padding and flip, picture by picture."""
    shown = []
    side = images.shape[1]
    for image in images:
        top, left = torch.randint(0, 2 * pad + 1, (2,), generator=generator).tolist()
        padded = F.pad(image.permute(2, 0, 1), (pad, pad, pad, pad))
        window = padded[:, top : top + side, left : left + side]
        if torch.rand((), generator=generator) < 0.5:
            window = window.flip(2)
        shown.append(window.float())
    return torch.stack(shown)


def row(side: int, repeats: int) -> Row:
    images = torch.randint(0, 256, (128, side, side, 3), dtype=torch.uint8)
    plan, draws = AugmentPlan("crop", size=side, pad=side // 8, flip=True), torch.Generator()
    took = alternate(
        {"ours": lambda: augment(images, plan, draws), "plain": lambda: one_by_one(images, plan.pad, draws)}, repeats
    )
    return ratio(f"crop and flip of 128 pictures, {side} px", took["ours"], took["plain"], "one picture at a time")


def rows(repeats: int = 20) -> list[Row]:
    return [row(side, repeats) for side in (16, 32)]
