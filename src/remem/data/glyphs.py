"""`glyphs`: images of 100 characters from many scripts, drawn locally with the fonts that ship with matplotlib.

Nothing is downloaded. The test set uses one face of each of three font families, and training never sees it. No two
characters have the same shape at any size; a test measures that.

The pixels are the same on every processor. Shapes and colours are computed in float64 and rounded to whole numbers of
1 / UNIT; everything after that is integer arithmetic. Processors differ in the last bit of a float64, which is 2^36
times smaller than the steps of that rounding.
"""

import math
import os
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
import PIL
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from remem.data.arrays import as_values, from_arrays
from remem.data.preprocessing import Preprocessing
from remem.data.settings import DataSettings
from remem.data.source import Dataset, DatasetEntry, cache_folder, never_damaged

Pixels = NDArray[np.uint8]

VERSION = 2  # increase it whenever the images change; caches of older versions are then ignored
CHARACTERS = "ABEGKMNPQSUVWXYZ3479bdekmnrÆŒØƢƩɔəɤɸΞΨβζλμωЖИЧЮЪЂЉбйԳԶԷԸԹՀՂՃՇՊՎՔՖխկչպջადეკლორფჭჯ&@#%$€§¶©÷*√∞⌘♪♫♭♮♀♡"
CLUTTER = "/\\()~-|_"  # background strokes; no class looks like one of them
FACES = {  # the test set has one face of each family, the training set the others
    "train": (
        *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-BoldOblique"),
        *("DejaVuSerif", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
        *("DejaVuSansMono-Bold", "DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique"),
    ),
    "test": ("DejaVuSans-Oblique", "DejaVuSerif-Bold", "DejaVuSansMono"),
}
PER_CLASS = {"train": 300, "test": 60}
SIZE = 16  # side of an image
UNIT = 2**16  # whole numbers from 0 to UNIT stand for brightness and coverage from 0 to 1
FINE = 2 * SIZE  # side of the grid on which shapes are deformed before they are averaged down
PREPROCESSING = Preprocessing(mean=(0.5, 0.5, 0.5), std=(0.326, 0.326, 0.326), augment="crop", flip=False)
STENCIL = 64  # side of an undistorted mask
INK = 44  # longer side of the character within its mask

# Difficulty. Tuned so that a small network trained on all classes jointly reaches about 87 %, and about 51 % with 20
# instead of 300 samples per class.
ROTATION = math.radians(17)
SHEAR = 0.25
SCALE = (0.8, 1.3)  # of the character's longer side, which is 11 pixels at scale 1
STRETCH = 0.18  # largest log of width over height
SHIFT = 0.2  # in half image sides
BEND = 0.085  # standard deviation of the smooth displacement field, in half image sides
STROKE = (0.28, 0.58)  # threshold after blurring: a low one gives bold strokes
CONTRAST = 0.35  # smallest difference in brightness between character and background
NOISE = 0.12  # largest standard deviation of the pixel noise


def stencil(character: str, font: ImageFont.FreeTypeFont) -> Pixels:
    """The mask (STENCIL, STENCIL) of a character, centred by its bounding box, its longer side scaled to INK."""
    canvas = Image.new("L", (4 * STENCIL, 4 * STENCIL))
    ImageDraw.Draw(canvas).text((2 * STENCIL, 2 * STENCIL), character, font=font, fill=255, anchor="mm")
    ink = canvas.crop(canvas.getbbox())
    scale = INK / max(ink.size)
    ink = ink.resize((max(1, round(ink.width * scale)), max(1, round(ink.height * scale))), Image.Resampling.BOX)
    mask = Image.new("L", (STENCIL, STENCIL))
    mask.paste(ink, ((STENCIL - ink.width) // 2, (STENCIL - ink.height) // 2))
    return np.asarray(mask)


def stencils(characters: str, faces: Sequence[str]) -> Pixels:
    """Masks of all characters in all faces: (faces, characters, STENCIL, STENCIL)."""
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    basic = ImageFont.Layout.BASIC  # the other layout engine is not installed everywhere
    fonts = [ImageFont.truetype(folder / f"{face}.ttf", 3 * STENCIL // 2, layout_engine=basic) for face in faces]
    return np.stack([np.stack([stencil(character, font) for character in characters]) for font in fonts])


def _uniform(rng: np.random.Generator, low: float, high: float, *shape: int) -> Tensor:
    return torch.from_numpy(rng.uniform(low, high, shape))


def _whole(values: Tensor) -> Tensor:
    """Fractions as whole numbers of 1 / UNIT."""
    return (values * UNIT).round().long()


def _bent(masks: Tensor, rng: np.random.Generator, shift: float) -> Tensor:
    """Rotates, shears, scales, shifts and bends masks (n, STENCIL, STENCIL); returns (n, FINE, FINE)."""
    count = len(masks)
    angle = _uniform(rng, -ROTATION, ROTATION, count)
    shear = _uniform(rng, -SHEAR, SHEAR, count)
    # grid_sample maps output pixels to mask positions, so scales enter as reciprocals
    zoom = 1 / _uniform(rng, *SCALE, count)
    stretch = torch.exp(_uniform(rng, -STRETCH, STRETCH, count))
    cos, sin = torch.cos(angle) * zoom, torch.sin(angle) * zoom
    across = torch.stack([cos * stretch, (shear * cos - sin) * stretch], dim=1)
    down = torch.stack([sin / stretch, (shear * sin + cos) / stretch], dim=1)
    turn = torch.stack([across, down], dim=1)  # (n, 2, 2)
    move = _uniform(rng, -shift, shift, count, 2, 1)
    grid = F.affine_grid(torch.cat([turn, -turn @ move], dim=2), [count, 1, FINE, FINE], align_corners=False)
    bend = torch.from_numpy(rng.normal(0, BEND, (count, 2, 4, 4)))
    grid = grid + F.interpolate(bend, (FINE, FINE), mode="bicubic", align_corners=True).permute(0, 2, 3, 1)
    return F.grid_sample(masks[:, None], grid, align_corners=False)[:, 0]


def _thickened(shapes: Tensor, rng: np.random.Generator) -> Tensor:
    """Varies the stroke width and averages down to coverage (n, SIZE, SIZE) in 0..1."""
    soft = F.avg_pool2d(shapes[:, None], 3, stride=1, padding=1)
    threshold = _uniform(rng, *STROKE, len(shapes))[:, None, None, None]
    return F.avg_pool2d(((soft - threshold) * 4 + 0.5).clamp(0, 1), FINE // SIZE)[:, 0]


def _colours(count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Colours of background, character and clutter, each (n, 3); the first two differ by at least CONTRAST."""
    ground, ink, clutter = _uniform(rng, 0, 1, 3, count, 3)
    gap = ink.mean(1, keepdim=True) - ground.mean(1, keepdim=True)
    wanted = _uniform(rng, CONTRAST, 2 * CONTRAST, count, 1)
    push = torch.where(gap < 0, -1.0, 1.0) * (wanted - gap.abs()).clamp(min=0) / 2
    return ground - push, ink + push, clutter


def draw(masks: Tensor, strokes: Tensor, rng: np.random.Generator) -> Pixels:
    """Images (n, SIZE, SIZE, 3) of masks (n, s, s), each over a clutter stroke from `strokes` (m, s, s)."""
    count = len(masks)
    ground, ink, clutter = (_whole(colour)[:, None, None, :] for colour in _colours(count, rng))
    ramp = torch.linspace(-1, 1, SIZE, dtype=torch.float64)
    light = _uniform(rng, -0.15, 0.15, 2, count, 1, 1)
    picture = ground + _whole(light[0] * ramp[:, None] + light[1] * ramp)[..., None]
    stroke = strokes[torch.from_numpy(rng.integers(0, len(strokes), count))]
    for shapes, shift, colour in ((stroke, 1.0, clutter), (masks, SHIFT, ink)):
        cover = _whole(_thickened(_bent(shapes, rng, shift), rng))[..., None]
        picture = (picture * (UNIT - cover) + colour * cover) // UNIT
    grain = torch.from_numpy(rng.standard_normal((count, SIZE, SIZE, 3)))
    picture = picture + _whole(grain * _uniform(rng, 0, NOISE, count, 1, 1, 1))
    return ((picture.clamp(0, UNIT) * 255 + UNIT // 2) // UNIT).to(torch.uint8).numpy()


def build(split: str) -> Pixels:
    """All images of a split, (classes, samples, SIZE, SIZE, 3); samples cycle through the faces."""
    faces = FACES[split]
    shapes = torch.from_numpy(stencils(CHARACTERS, faces)).double() / 255  # (faces, classes, s, s)
    strokes = torch.from_numpy(stencils(CLUTTER, faces)).double().flatten(0, 1) / 255
    face = torch.arange(PER_CLASS[split]) % len(faces)
    key = list(FACES).index(split)
    streams = [np.random.default_rng([VERSION, key, label]) for label in range(len(CHARACTERS))]
    return np.stack([draw(shapes[face, label], strokes, rng) for label, rng in enumerate(streams)])


def cached(folder: Path | None) -> dict[str, Pixels]:
    """Both splits: read from the cache file if it is valid, else drawn, and cached if the folder is writable."""
    if folder is None:
        return {split: build(split) for split in FACES}
    # The name holds everything that determines the pixels, so that a cached set equals a new one.
    versions = f"matplotlib-{matplotlib.__version__}-pillow-{PIL.__version__}-torch-{torch.__version__}"
    path = folder / f"glyphs-{VERSION}-{versions}.npz"
    splits = _read(path)
    if splits is None:
        splits = {split: build(split) for split in FACES}
        _write(path, splits)
    return splits


def _read(path: Path) -> dict[str, Pixels] | None:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            splits = {split: content[split] for split in FACES}
    except (OSError, ValueError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return None
    for split, pixels in splits.items():
        if pixels.dtype != np.uint8 or pixels.shape != (len(CHARACTERS), PER_CLASS[split], SIZE, SIZE, 3):
            return None
    return splits


def _write(path: Path, splits: dict[str, Pixels]) -> None:
    """Writes a temporary file and renames it, since several processes may do this at once. Failure is no error."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as file:
                np.savez(file, allow_pickle=False, **splits)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError:
        return


def load_glyphs(settings: DataSettings) -> Dataset:
    """300 training and 60 test images of each character."""
    splits = cached(cache_folder() if settings.cache else None)
    labels = {split: np.repeat(np.arange(len(CHARACTERS)), PER_CLASS[split]) for split in FACES}
    return from_arrays(
        as_values(splits["train"].reshape(-1, SIZE, SIZE, 3), "glyphs", settings.side),
        labels["train"],
        as_values(splits["test"].reshape(-1, SIZE, SIZE, 3), "glyphs", settings.side),
        labels["test"],
        class_names=tuple(CHARACTERS),
        name="glyphs",
        preprocessing=PREPROCESSING,
    )


ENTRY = DatasetEntry(
    summary="100 characters of many scripts, 16 x 16 in colour, drawn on this machine: the default",
    load=load_glyphs,
    check=never_damaged,
)
