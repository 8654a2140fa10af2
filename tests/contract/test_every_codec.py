"""Contracts of all registered codecs: sizes as billed, determinism, stability, quality on photos, odd shapes."""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_sample_images

from remem.codecs.codec import LENGTH_BYTES, Codec, bill
from remem.codecs.table import CODECS
from remem.data.images import resize
from remem.types import Values

SHAPES = [(1, 1, 1), (1, 1, 3), (5, 7, 3), (8, 8, 1), (16, 16, 3), (17, 16, 1), (32, 32, 3), (33, 35, 3), (1,), (6,)]
# The least signal-to-noise ratio on the photos below at 32 px, in dB; about 1 dB below what was measured.
PSNR = {
    **{"raw": np.inf, "ycc420": 34, "ycc420-5": 32, "ycc420-4": 28, "webp-90": 33, "webp-75": 30},
    **{"half": 21, "half-ycc420": 21, "quarter": 17, "quarter-ycc420": 17},
}
# What encoding a decoded sample once more may change, in dB: a rung is left by coding what was decoded.
AGAIN = {name: 54 if name.startswith("ycc") else 28 for name in PSNR} | {"raw": np.inf}


def _fitting() -> Iterator[Any]:
    for name in CODECS:
        for shape in SHAPES:
            if not CODECS[name].from_file and CODECS[name].misfit(shape) is None:
                yield pytest.param(CODECS[name], shape, id=f"{name}-{'x'.join(map(str, shape))}")


FITTING = list(_fitting())


def noise(shape: tuple[int, ...], count: int = 5) -> Values:
    rng = np.random.default_rng(len(shape) + shape[0])
    if len(shape) == 1:
        return (3 * rng.standard_normal((count, *shape))).astype(np.float32)
    return rng.integers(0, 256, (count, *shape), dtype=np.uint8)


def photos(side: int, channels: int = 3) -> Values:
    """Parts of two photos that come with scikit-learn, reduced by block means."""
    block = 4 * side
    parts = [
        image[top : top + block, left : left + block]
        for image in load_sample_images().images
        for top in range(0, image.shape[0] - block + 1, block)
        for left in range(0, image.shape[1] - block + 1, block)
    ]
    return resize(np.stack(parts), side)[..., :channels]


def psnr(one: Values, other: Values) -> float:
    error = float(np.mean((one.astype(np.float64) - other) ** 2))
    return float(10 * np.log10(255**2 / error)) if error else np.inf


def decoded(codec: Codec, values: Values) -> Values:
    return codec.decode(codec.encode(values), values.shape[1:])


@pytest.mark.parametrize(("codec", "shape"), FITTING)
def test_values_come_back_in_shape_and_type(codec: Codec, shape: tuple[int, ...]) -> None:
    values = noise(shape)
    before = values.copy()
    back = decoded(codec, values)
    assert back.shape == values.shape
    assert back.dtype == values.dtype
    assert np.array_equal(values, before)
    assert decoded(codec, values[:0]).shape == (0, *shape)


@pytest.mark.parametrize(("codec", "shape"), FITTING)
def test_a_code_costs_what_is_billed(codec: Codec, shape: tuple[int, ...]) -> None:
    codes, size = codec.encode(noise(shape)), codec.size(shape)
    lengths = [len(code) for code in codes]
    if size is None:
        assert bill(codec, codes, shape).tolist() == [length + LENGTH_BYTES for length in lengths]
    else:
        assert set(lengths) == {size}
        assert bill(codec, codes, shape).tolist() == lengths


@pytest.mark.parametrize(("codec", "shape"), FITTING)
def test_a_code_depends_on_its_sample_alone(codec: Codec, shape: tuple[int, ...]) -> None:
    values = noise(shape)
    codes = codec.encode(values)
    assert codec.encode(values[::-1].copy())[::-1] == codes
    assert [codec.encode(value[None])[0] for value in values] == codes
    assert np.array_equal(codec.decode(codes[::-1], shape)[::-1], codec.decode(codes, shape))


@pytest.mark.parametrize("name", PSNR)
@pytest.mark.parametrize("channels", [1, 3])
def test_photos_keep_their_quality(name: str, channels: int) -> None:
    values = photos(32, channels)
    once = decoded(CODECS[name], values)
    assert psnr(values, once) >= PSNR[name]
    assert psnr(once, decoded(CODECS[name], once)) >= AGAIN[name]


def test_every_image_codec_has_a_floor() -> None:
    images = {name for name in CODECS if CODECS[name].misfit((32, 32, 3)) is None} - {"file"}
    assert images == PSNR.keys()


def test_black_white_and_grey_stay_what_they_are() -> None:
    for name in ("ycc420", "ycc420-5", "ycc420-4", "half", "quarter"):
        for level in (0, 255):
            flat = np.full((1, 32, 32, 3), level, np.uint8)
            assert np.array_equal(decoded(CODECS[name], flat), flat), name
        grey = decoded(CODECS[name], np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1).repeat(3, axis=3))
        assert (grey == grey[..., :1]).all(), name


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("ycc420", "cca2d390ffc25761"),
        ("ycc420-5", "cdf215e2dde93710"),
        ("ycc420-4", "2e32dbabacf7a4bf"),
        ("half", "e5689966dc4a40eb"),
        ("quarter", "15d9676272ea8669"),
        ("half-ycc420", "258afc6d09c0e9a7"),
    ],
)
def test_bytes_and_pixels_are_the_same_on_every_processor(name: str, digest: str) -> None:
    """Codes written today must be readable for ever: digests of codes and of decoded pixels."""
    values = np.random.default_rng(1).integers(0, 256, (3, 19, 18, 3), dtype=np.uint8)
    codes = CODECS[name].encode(values)
    pixels = CODECS[name].decode(codes, values.shape[1:])
    assert hashlib.sha256(b"".join(codes) + pixels.tobytes()).hexdigest()[:16] == digest
