"""augment.py against simple per-image implementations that use the same random numbers."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from torch import Tensor

from remem.data.augment import AugmentPlan, augment, plain, plan_for
from remem.data.preprocessing import Preprocessing
from remem.data.settings import AugmentSettings
from remem.errors import InputError

PHOTO = Preprocessing(mean=None, std=None, augment="crop", flip=True)


def pictures(count: int = 40, height: int = 16, width: int = 16, channels: int = 3) -> Tensor:
    values = np.random.default_rng(0).integers(0, 256, (count, height, width, channels), dtype=np.uint8)
    return torch.from_numpy(values)


def seeded(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def uniform(shape: tuple[int, ...], generator: torch.Generator) -> list[float]:
    return torch.rand(shape, generator=generator, dtype=torch.float64).flatten().tolist()


def crop_one_by_one(images: Tensor, pad: int, flip: bool, brightness: float, generator: torch.Generator) -> Tensor:
    count, height, width, channels = images.shape
    corners = torch.randint(0, 2 * pad + 1, (2, count, 1), generator=generator)
    mirrored = uniform((count, 1), generator) if flip else [1.0] * count
    bright = uniform((count, 1, 1, 1), generator) if brightness else [0.0] * count
    done = []
    for i in range(count):
        canvas = np.zeros((height + 2 * pad, width + 2 * pad, channels), dtype=np.uint8)
        canvas[pad : pad + height, pad : pad + width] = images[i].numpy()
        top, left = int(corners[0, i]), int(corners[1, i])
        picture = canvas[top : top + height, left : left + width]
        if mirrored[i] < 0.5:
            picture = picture[:, ::-1]
        if brightness:
            low, high = max(0.0, 1 - brightness), 1 + brightness
            factor = np.float32(low + (high - low) * bright[i])
            picture = np.clip(picture.astype(np.float32) * factor, 0, 255).astype(np.uint8)
        done.append(torch.from_numpy(picture.astype(np.float32)).permute(2, 0, 1))
    return torch.stack(done)


def boxes_one_by_one(
    count: int, height: int, width: int, generator: torch.Generator
) -> list[tuple[int, int, int, int]]:
    draws = torch.rand((2, count, 10), generator=generator, dtype=torch.float64).tolist()
    place = torch.rand((2, count), generator=generator, dtype=torch.float64).tolist()
    boxes = []
    for i in range(count):
        for size, lean in zip(draws[0][i], draws[1][i], strict=True):
            area = height * width * (0.08 + 0.92 * size)
            ratio = math.exp(math.log(3 / 4) + (math.log(4 / 3) - math.log(3 / 4)) * lean)
            wide, tall = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < wide <= width and 0 < tall <= height:
                top, left = int(place[0][i] * (height - tall + 1)), int(place[1][i] * (width - wide + 1))
                break
        else:
            wide = min(width, round(height * 4 / 3))
            tall = min(height, round(width * 4 / 3))
            top, left = (height - tall) // 2, (width - wide) // 2
        boxes.append((top, left, tall, wide))
    return boxes


@pytest.mark.parametrize("brightness", [0.0, 0.25, 1.5])
@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize(("height", "width", "channels"), [(16, 16, 3), (12, 20, 1)])
def test_crop_equals_the_plain_version(height: int, width: int, channels: int, flip: bool, brightness: float) -> None:
    images = pictures(40, height, width, channels)
    plan = AugmentPlan("crop", size=16, pad=2, flip=flip, brightness=brightness)
    assert torch.equal(
        augment(images, plan, seeded()),
        crop_one_by_one(images, pad=2, flip=flip, brightness=brightness, generator=seeded()),
    )


@pytest.mark.parametrize(("height", "width"), [(32, 32), (20, 33), (8, 64), (64, 8)])
def test_resized_crop_equals_the_plain_version(height: int, width: int) -> None:
    images, plan = pictures(60, height, width), AugmentPlan("resized-crop", size=14, flip=True)
    generator = seeded()
    boxes = boxes_one_by_one(60, height, width, generator)
    mirrored = uniform((60, 1), generator)
    expected = []
    for image, (top, left, tall, wide), mirror in zip(images, boxes, mirrored, strict=True):
        cut = image[top : top + tall, left : left + wide].permute(2, 0, 1)[None].float()
        resized = F.interpolate(cut, size=(14, 14), mode="bilinear", align_corners=False)[0]
        expected.append(resized.flip(2) if mirror < 0.5 else resized)
    assert torch.equal(augment(images, plan, seeded()), torch.stack(expected))


def test_resized_crop_falls_back_to_the_centre() -> None:
    # A line of 1 x 100 pixels: boxes of at least 8 of 100 pixels with ratio 3/4..4/3 are 2 to 12 pixels high.
    images = torch.arange(100, dtype=torch.uint8).view(1, 1, 100, 1)
    shown = augment(images, AugmentPlan("resized-crop", size=1), seeded())
    assert shown.item() == 49  # the box is round(1 * 4/3) = 1 pixel wide and starts at (100 - 1) // 2


@pytest.mark.parametrize("kind", ["none", "crop", "resized-crop"])
def test_equal_generators_give_equal_images(kind: str) -> None:
    images = pictures()
    plan = AugmentPlan(kind, size=14, pad=2, flip=True, brightness=0.3)
    first, second, other = (augment(images, plan, seeded(s)) for s in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("kind", ["none", "crop", "resized-crop"])
def test_output_is_channels_last_float(kind: str) -> None:
    plan = AugmentPlan(kind, size=14, pad=2)
    for shown in (augment(pictures(), plan, seeded()), plain(pictures(), plan)):
        assert shown.dtype == torch.float32
        assert shown.shape[1] == 3
        assert shown.is_contiguous(memory_format=torch.channels_last)
        assert 200 < shown.max() <= 255


def test_none_changes_no_image_and_draws_no_numbers() -> None:
    generator = seeded()
    before = generator.get_state()
    assert torch.equal(augment(pictures(), AugmentPlan(), generator), pictures().permute(0, 3, 1, 2).float())
    assert torch.equal(generator.get_state(), before)


def test_brightness_clips_and_rounds_down() -> None:
    images = torch.tensor([0, 3, 100, 255], dtype=torch.uint8).view(1, 1, 4, 1)
    factor = 0.5 + torch.rand(1, generator=seeded(), dtype=torch.float64).item()
    expected = [math.floor(min(255.0, v * factor)) for v in (0, 3, 100, 255)]
    assert augment(images, AugmentPlan(brightness=0.5), seeded()).flatten().tolist() == expected


def test_plain_takes_the_centre() -> None:
    images = pictures(2, 16, 20)
    shown = plain(images, AugmentPlan("resized-crop", size=14))
    assert torch.equal(shown, images[:, 1:15, 3:17].permute(0, 3, 1, 2).float())
    assert torch.equal(plain(images, AugmentPlan("crop", size=16, pad=2)), images.permute(0, 3, 1, 2).float())


def test_vectors_are_unchanged() -> None:
    vectors = torch.randn(5, 7, generator=seeded())
    plan = AugmentPlan("crop", size=16, pad=2, flip=True, brightness=0.5)
    assert augment(vectors, plan, seeded()) is vectors
    assert plain(vectors, plan) is vectors


def test_an_empty_batch_stays_empty() -> None:
    for kind, side in (("crop", 16), ("resized-crop", 14)):
        assert augment(pictures(0), AugmentPlan(kind, size=14, pad=2, flip=True), seeded()).shape == (0, 3, side, side)


def test_plan_follows_the_data_set_and_the_user() -> None:
    assert plan_for(PHOTO, (32, 32, 3), AugmentSettings()) == AugmentPlan("crop", size=32, pad=4, flip=True)
    assert plan_for(PHOTO, (16, 16, 3), AugmentSettings()).pad == 2
    assert plan_for(PHOTO, (32, 32, 3), AugmentSettings(pad=1, flip=False, brightness=0.25)) == AugmentPlan(
        "crop", size=32, pad=1, brightness=0.25
    )
    large = Preprocessing(mean=None, std=None, augment="resized-crop", flip=True)
    assert plan_for(large, (256, 256, 3), AugmentSettings()) == AugmentPlan("resized-crop", size=224, flip=True)
    assert plan_for(large, (64, 64, 3), AugmentSettings()) == AugmentPlan("resized-crop", size=56, flip=True)
    assert plan_for(PHOTO, (32, 32, 3), AugmentSettings(kind="none")) == AugmentPlan(size=32)
    assert plan_for(PHOTO, (64,), AugmentSettings(brightness=0.5)) == AugmentPlan()


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(InputError, match=r"augment.kind: 'cutout' is not one of none, crop"):
        plan_for(Preprocessing(mean=None, std=None, augment="cutout", flip=False), (8, 8, 1), AugmentSettings())
    for wrong in ({"pad": -1}, {"brightness": -0.1}, {"brightness": float("inf")}, {"kind": "cutout"}, {"angle": 3}):
        with pytest.raises(ValidationError):
            AugmentSettings.model_validate(wrong)


@pytest.mark.parametrize("kind", ["none", "crop", "resized-crop"])
def test_shards_are_augmented_like_the_whole_batch(kind: str) -> None:
    images = pictures(7)
    plan = AugmentPlan(kind, size=12, pad=2, flip=True, brightness=0.3)
    whole = augment(images, plan, seeded())
    parts = [augment(images[a:b], plan, seeded(), start=a, batch=7) for a, b in ((0, 3), (3, 7))]
    assert torch.equal(torch.cat(parts), whole)
