"""Resizes image arrays and decodes image files to square uint8 images."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image

from remem.data.settings import MAX_PIXELS
from remem.errors import DamagedFileError, is_damage

Pixels = NDArray[np.uint8]

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "PPM", "TIFF")
IN_WORDS = "JPEG, PNG, WebP, BMP, PPM or TIFF"
BLOCK = 4096  # images averaged at a time, to keep the array of 32-bit sums small
TURNS = {  # EXIF orientation -> how the stored pixels become the picture
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def resize(images: Pixels, size: int) -> Pixels:
    """Crops (n, h, w, c) to the centre square and resizes it to `size`.

    Integer factors give exact block means; other sizes are resampled with antialiasing.
    """
    height, width = images.shape[1:3]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    images = images[:, top : top + side, left : left + side]
    if side == size:
        return images
    if side % size == 0:
        starts = range(0, len(images), BLOCK)
        return np.concatenate([_block_means(images[start : start + BLOCK], size) for start in starts])
    return np.stack([_resample(image, size) for image in images])


def _block_means(images: Pixels, size: int) -> Pixels:
    k = images.shape[1] // size
    sums = np.zeros((len(images), size, size, images.shape[3]), dtype=np.uint32)
    for y in range(k):
        for x in range(k):
            sums += images[:, y::k, x::k]
    means: Pixels = ((sums + k * k // 2) // (k * k)).astype(np.uint8)  # rounded half up
    return means


def _resample(image: Pixels, size: int) -> Pixels:
    """Resamples channel by channel, so that any number of channels works."""
    planes = [Image.fromarray(np.ascontiguousarray(image[:, :, c])) for c in range(image.shape[2])]
    return np.stack([np.asarray(p.resize((size, size), Image.Resampling.BILINEAR)) for p in planes], axis=2)


def decode(path: Path, size: int, content: bytes | None = None, *, max_pixels: int = MAX_PIXELS) -> Pixels:
    """Decodes a file to (size, size, 3): the shorter side is scaled to `size`, then the centre square is cropped.

    `content` has the bytes of the file if they were read already.
    """
    try:
        with _opened(path if content is None else io.BytesIO(content), max_pixels) as image:
            return square(image, size)
    except Exception as error:  # Pillow raises many exception types for broken files
        if not is_damage(error):
            raise
        raise _broken(path, error) from error


def square(image: Image.Image, size: int) -> Pixels:
    """The centre square of an image as (size, size, 3), upright as viewers show it."""
    rgb = _rgb(image)
    turn = TURNS.get(_orientation(image))
    rgb = rgb if turn is None else rgb.transpose(turn)
    side = min(rgb.size)
    left, top = (rgb.width - side) // 2, (rgb.height - side) // 2
    box = (left, top, left + side, top + side)
    return np.asarray(rgb.resize((size, size), Image.Resampling.BILINEAR, box=box))


def short_side(path: Path, max_pixels: int = MAX_PIXELS) -> int:
    """The shorter side, read from the header without decoding the image."""
    try:
        with _opened(path, max_pixels) as image:
            return min(image.size)
    except Exception as error:
        if not is_damage(error):
            raise
        raise _broken(path, error) from error


@contextmanager
def _opened(path: Path | io.BytesIO, max_pixels: int) -> Iterator[Image.Image]:
    """The image, of which only the header is read yet. Pillow's own limit warns, and refuses only twice as many."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of many pixels, and of tags that are damaged
        with Image.open(path, formats=FORMATS) as image:
            if image.width * image.height > max_pixels:
                pixels = f"{image.width} x {image.height} pixels"
                raise ValueError(f"{pixels}; expected at most data.max_pixels={max_pixels}")
            yield image


def _orientation(image: Image.Image) -> Any:
    """The EXIF tag of an image whose pixels are loaded: those of a TIFF are turned by then, and the tag is gone.

    A tag that cannot be read counts as none, as in viewers.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return image.getexif().get(ExifTags.Base.Orientation)
    except Exception as error:
        if not is_damage(error):
            raise
        return None


def _broken(path: Path, error: Exception) -> DamagedFileError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return DamagedFileError(f"{path}: not a whole {IN_WORDS} image ({reason})")


def _rgb(image: Image.Image) -> Image.Image:
    """Converts to RGB: 16-bit grey keeps its upper 8 bits, transparent pixels become white."""
    if image.mode == "F":
        raise ValueError("pixels are floats; expected 8 or 16 bits")
    if image.mode.startswith("I"):
        upper = np.clip(np.asarray(image).astype(np.int64) >> 8, 0, 255)  # Pillow's own conversion clips at 255
        return Image.fromarray(upper.astype(np.uint8)).convert("RGB")
    if "A" in image.mode.upper() or "transparency" in image.info:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("RGB")
