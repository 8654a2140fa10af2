"""Resizing and decoding: exact means, every kind of image file as RGB squares, broken files named."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from remem.data.images import decode, resize, short_side
from remem.errors import DamagedFileError


def save(path: Path, values: np.ndarray, **options: Any) -> Path:
    Image.fromarray(values).save(path, **options)
    return path


def test_block_means_are_rounded_half_up() -> None:
    image = np.array([[0, 1, 9, 9], [0, 1, 9, 8], [255, 255, 1, 0], [255, 255, 0, 0]], dtype=np.uint8)
    # Means 0.5, 8.75, 255, 0.25.
    assert resize(image[None, :, :, None], 2)[0, :, :, 0].tolist() == [[1, 9], [255, 0]]


def test_block_means_of_an_odd_factor() -> None:
    image = np.zeros((1, 3, 3, 2), dtype=np.uint8)
    image[0, :, :, 0] = [[0, 0, 0], [0, 4, 0], [0, 0, 0]]  # 4 / 9
    image[0, :, :, 1] = [[0, 0, 0], [0, 5, 0], [0, 0, 0]]  # 5 / 9
    assert resize(image, 1).tolist() == [[[[0, 1]]]]


def test_block_means_equal_a_plain_loop() -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 12, 12, 3), dtype=np.uint8)
    small = resize(images, 4)
    for n, y, x, c in np.ndindex(3, 4, 4, 3):
        block = images[n, 3 * y : 3 * y + 3, 3 * x : 3 * x + 3, c].astype(int)
        assert small[n, y, x, c] == int(block.sum() / 9 + 0.5)


def test_other_sizes_are_resampled_channel_by_channel() -> None:
    images = np.random.default_rng(1).integers(0, 256, (2, 10, 10, 3), dtype=np.uint8)
    expected = [np.asarray(Image.fromarray(image).resize((7, 7), Image.Resampling.BILINEAR)) for image in images]
    assert np.array_equal(resize(images, 7), np.stack(expected))
    assert resize(np.repeat(images, 2, axis=3), 16).shape == (2, 16, 16, 6)


def test_oblong_images_lose_their_ends() -> None:
    images = np.zeros((1, 2, 6, 1), dtype=np.uint8)
    images[0, :, :, 0] = [0, 0, 10, 20, 0, 0]
    assert resize(images, 2)[0, :, :, 0].tolist() == [[10, 20], [10, 20]]
    assert resize(images, 1).ravel().tolist() == [15]


# Where the first row and the first column of the stored pixels belong in the picture (EXIF 2.3, tag 274).
ORIENTATIONS = {
    1: lambda picture: picture,
    2: lambda picture: picture[:, ::-1],
    3: lambda picture: picture[::-1, ::-1],
    4: lambda picture: picture[::-1],
    5: lambda picture: picture.transpose(1, 0, 2),
    6: lambda picture: np.rot90(picture, 1),  # a phone held upright stores its picture turned to the left
    7: lambda picture: picture.transpose(1, 0, 2)[::-1, ::-1],
    8: lambda picture: np.rot90(picture, -1),
}


@pytest.mark.parametrize("suffix", ["png", "webp", "tif"])
@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_pictures_are_turned_as_their_exif_tag_says(orientation: int, suffix: str, tmp_path: Path) -> None:
    picture = np.random.default_rng(3).integers(0, 256, (9, 14, 3), dtype=np.uint8)
    tags = Image.Exif()
    tags[274] = orientation
    stored = np.ascontiguousarray(ORIENTATIONS[orientation](picture))
    options = {"webp": {"lossless": True, "exact": True}}.get(suffix, {})
    path = save(tmp_path / f"photo.{suffix}", stored, exif=tags, **options)
    assert short_side(path) == 9
    assert np.array_equal(decode(path, 9), picture[:, 2:11])


def test_photos_of_a_phone_are_upright(tmp_path: Path) -> None:
    picture = np.zeros((16, 16, 3), dtype=np.uint8)
    picture[:8] = 255  # the sky
    tags = Image.Exif()
    tags[274] = 6
    path = save(tmp_path / "photo.jpg", np.ascontiguousarray(np.rot90(picture)), exif=tags, quality=95)
    assert (decode(path, 2)[:, :, 0] > 127).tolist() == [[True, True], [False, False]]


def test_an_exif_tag_that_cannot_be_read_is_ignored(tmp_path: Path) -> None:
    picture = np.zeros((8, 8, 3), dtype=np.uint8)
    for number, tags in enumerate((b"Exif\0\0II*\0", b"Exif\0\0" + b"\xff" * 40, b"Exif\0\0MM\0*\0\0\0\x08\xff\xff")):
        path = save(tmp_path / f"{number}.jpg", picture, exif=tags)
        assert decode(path, 8).max() == 0


def test_decode_takes_the_centre_square(tmp_path: Path) -> None:
    values = np.random.default_rng(2).integers(0, 256, (8, 13, 3), dtype=np.uint8)
    path = save(tmp_path / "wide.png", values)
    assert short_side(path) == 8
    assert np.array_equal(decode(path, 8), values[:, 2:10])


def test_decode_scales_the_shorter_side(tmp_path: Path) -> None:
    values = np.random.default_rng(2).integers(0, 256, (8, 16, 3), dtype=np.uint8)
    whole = np.asarray(Image.fromarray(values).resize((8, 4), Image.Resampling.BILINEAR))
    assert np.array_equal(decode(save(tmp_path / "wide.png", values), 4), whole[:, 2:6])


def test_grey_and_palette_become_rgb(tmp_path: Path) -> None:
    grey = np.arange(16, dtype=np.uint8).reshape(4, 4)
    assert np.array_equal(decode(save(tmp_path / "grey.png", grey), 4), np.repeat(grey[:, :, None], 3, axis=2))
    palette = Image.new("P", (2, 2), 1)
    palette.putpalette([0, 0, 0, 10, 20, 30])
    palette.save(tmp_path / "palette.png")
    assert decode(tmp_path / "palette.png", 2)[1, 1].tolist() == [10, 20, 30]


def test_sixteen_bits_keep_the_upper_eight(tmp_path: Path) -> None:
    values = np.array([[0x0000, 0x00FF], [0x0100, 0xFFFF]], dtype=np.uint16)
    decoded = decode(save(tmp_path / "deep.png", values), 2)
    assert decoded[:, :, 0].tolist() == [[0, 0], [1, 255]]
    assert decoded.shape == (2, 2, 3)


def test_transparent_parts_become_white(tmp_path: Path) -> None:
    values = np.zeros((2, 2, 4), dtype=np.uint8)
    values[0, :, 3] = 255
    decoded = decode(save(tmp_path / "alpha.png", values), 2)
    assert decoded[0].tolist() == [[0, 0, 0]] * 2
    assert decoded[1].tolist() == [[255, 255, 255]] * 2


@pytest.mark.parametrize(("name", "options"), [("a.jpg", {"quality": 95}), ("a.webp", {"lossless": True})])
def test_other_formats(tmp_path: Path, name: str, options: dict[str, object]) -> None:
    values = np.full((6, 5, 3), (200, 100, 50), dtype=np.uint8)
    decoded = decode(save(tmp_path / name, values, **options), 5)
    assert decoded.shape == (5, 5, 3)
    assert np.abs(decoded.astype(int) - values[:5, :5]).max() <= 3  # JPEG's rounding of one flat colour


def test_cmyk_jpeg(tmp_path: Path) -> None:
    Image.new("CMYK", (3, 3), (0, 0, 0, 0)).save(tmp_path / "print.jpg")
    assert decode(tmp_path / "print.jpg", 3).min() >= 250


def test_broken_files_are_named(tmp_path: Path) -> None:
    noise = np.random.default_rng(3).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "JPEG")
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(buffer.getvalue()[: len(buffer.getvalue()) // 2])
    assert short_side(cut) == 64  # the header is whole
    with pytest.raises(DamagedFileError, match=r"cut\.jpg"):
        decode(cut, 64)
    text = tmp_path / "text.png"
    text.write_text("no image")
    with pytest.raises(DamagedFileError, match=r"text\.png"):
        short_side(text)
    movie = save(tmp_path / "movie.gif", noise).rename(tmp_path / "movie.png")
    with pytest.raises(DamagedFileError, match=r"movie\.png"):
        decode(movie, 8)
    with pytest.raises(DamagedFileError, match=r"absent\.png"):
        decode(tmp_path / "absent.png", 8)


def test_images_with_too_many_pixels_are_refused_by_their_headers(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    Image.new("L", (300, 200)).save(path)
    for read in (lambda: decode(path, 4, max_pixels=59_999), lambda: short_side(path, 59_999)):
        with pytest.raises(DamagedFileError, match=r"300 x 200 pixels; expected at most data\.max_pixels=59999"):
            read()
    assert short_side(path, 60_000) == 200
    Image.new("1", (20_000, 10_000)).save(path)  # 25 kB, decoded 800 MB
    with pytest.raises(DamagedFileError, match=r"20000 x 10000|decompression bomb"):
        decode(path, 4)
