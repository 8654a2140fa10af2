"""The data set `glyphs`: 100 characters of many scripts, drawn on this machine with the fonts that ship inside matplotlib.

Nothing is downloaded. Training sees the Sans and Serif faces of DejaVu, tests the Mono faces. No two characters have the
same shape at any size (house.md); a test measures that.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

Pixels = NDArray[np.uint8]

VERSION = 1  # raise it whenever the pictures change: caches of older versions are then not read
CHARACTERS = "ABEGIKMNPQSUVWXYZ3479bdekmnrÆŒØƢƩɔəɤɸΞΨαβζλμωЖИЧЮЪЂЉбйԳԶԷԸԹՀՂՃՇՊՎՔՖխկչպջადეკლორფჭჯ&@#%$€§¶©÷*√∞⌘♪♫♭♮"
CLUTTER = "/\\(){}~-<>|_^"  # plain strokes that no class consists of
FACES = {  # of each family tests have one face, training the others
    "train": (
        *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-BoldOblique"),
        *("DejaVuSerif", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
        *("DejaVuSansMono-Bold", "DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique"),
    ),
    "test": ("DejaVuSans-Oblique", "DejaVuSerif-Bold", "DejaVuSansMono"),
}
PER_CLASS = {"train": 300, "test": 60}
SIZE = 16  # of a picture
FINE = 2 * SIZE  # of the grid on which shapes are bent, before they are averaged down
STENCIL = 64  # of a clean mask
INK = 44  # longer side of the character in its mask

# How hard the pictures are: tuned so that a small network that sees everything at once is good but not perfect,
# and that 20 samples of a class are worth much less than 300.
ROTATION = math.radians(18)
SHEAR = 0.3
SCALE = (0.7, 1.25)  # of the character's longer side, 11 pixels at 1
STRETCH = 0.2  # width against height, as a logarithm
SHIFT = 0.22  # in half pictures
BEND = 0.12  # of smooth random displacement, in half pictures
STROKE = (0.25, 0.6)  # threshold after blurring: low is bold
CONTRAST = 0.3  # least difference of brightness between character and ground
NOISE = 0.12  # largest standard deviation
CLUTTERED = 2  # strokes of clutter in a picture


def stencil(character: str, face: str) -> Pixels:
    """A clean mask (STENCIL, STENCIL): centred by its bounding box, the longer side scaled to INK."""
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{face}.ttf"
    font = ImageFont.truetype(str(path), 2 * STENCIL, layout_engine=ImageFont.Layout.BASIC)
    canvas = Image.new("L", (6 * STENCIL, 6 * STENCIL))
    ImageDraw.Draw(canvas).text((3 * STENCIL, 3 * STENCIL), character, font=font, fill=255, anchor="mm")
    ink = canvas.crop(canvas.getbbox())
    scale = INK / max(ink.size)
    ink = ink.resize((max(1, round(ink.width * scale)), max(1, round(ink.height * scale))), Image.Resampling.BOX)
    mask = Image.new("L", (STENCIL, STENCIL))
    mask.paste(ink, ((STENCIL - ink.width) // 2, (STENCIL - ink.height) // 2))
    return np.asarray(mask)


def stencils(characters: str, faces: Sequence[str]) -> Pixels:
    """(faces, characters, STENCIL, STENCIL)"""
    return np.stack([np.stack([stencil(character, face) for character in characters]) for face in faces])


def _uniform(rng: np.random.Generator, low: float, high: float, *shape: int) -> Tensor:
    return torch.from_numpy(rng.uniform(low, high, shape).astype(np.float32))


def _bent(masks: Tensor, rng: np.random.Generator, shift: float) -> Tensor:
    """Masks (n, STENCIL, STENCIL) turned, sheared, scaled, moved and bent: (n, FINE, FINE)."""
    count = len(masks)
    angle = _uniform(rng, -ROTATION, ROTATION, count)
    shear = _uniform(rng, -SHEAR, SHEAR, count)
    # grid_sample asks where a pixel of the picture lies in the mask, so sizes enter as reciprocals
    zoom = 1 / _uniform(rng, *SCALE, count)
    stretch = torch.exp(_uniform(rng, -STRETCH, STRETCH, count))
    cos, sin = torch.cos(angle) * zoom, torch.sin(angle) * zoom
    across = torch.stack([cos * stretch, (shear * cos - sin) * stretch], dim=1)
    down = torch.stack([sin / stretch, (shear * sin + cos) / stretch], dim=1)
    turn = torch.stack([across, down], dim=1)  # (n, 2, 2)
    move = _uniform(rng, -shift, shift, count, 2, 1)
    grid = F.affine_grid(torch.cat([turn, -turn @ move], dim=2), [count, 1, FINE, FINE], align_corners=False)
    bend = torch.from_numpy(rng.normal(0, BEND, (count, 2, 4, 4)).astype(np.float32))
    grid = grid + F.interpolate(bend, (FINE, FINE), mode="bicubic", align_corners=True).permute(0, 2, 3, 1)
    return F.grid_sample(masks[:, None], grid, align_corners=False)[:, 0]


def _thickened(shapes: Tensor, rng: np.random.Generator) -> Tensor:
    """Strokes of another width, then averaged down to (n, SIZE, SIZE) coverage in 0..1."""
    soft = F.avg_pool2d(shapes[:, None], 3, stride=1, padding=1)
    threshold = _uniform(rng, *STROKE, len(shapes))[:, None, None, None]
    return F.avg_pool2d(((soft - threshold) * 4 + 0.5).clamp(0, 1), FINE // SIZE)[:, 0]


def _colours(count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Ground, character and clutter, each (n, 3); the means of the first two differ by CONTRAST at least."""
    ground, ink, clutter = _uniform(rng, 0, 1, 3, count, 3)
    gap = ink.mean(1, keepdim=True) - ground.mean(1, keepdim=True)
    wanted = _uniform(rng, CONTRAST, 2 * CONTRAST, count, 1)
    push = torch.where(gap < 0, -1.0, 1.0) * (wanted - gap.abs()).clamp(min=0) / 2
    return ground - push, ink + push, clutter


def draw(masks: Tensor, strokes: Tensor, rng: np.random.Generator) -> Pixels:
    """Pictures (n, SIZE, SIZE, 3) of masks (n, s, s), over clutter drawn from `strokes` (m, s, s)."""
    count = len(masks)
    ground, ink, clutter = (colour[:, None, None, :] for colour in _colours(count, rng))
    slope = torch.linspace(-1, 1, SIZE)
    light = _uniform(rng, -0.15, 0.15, 2, count, 1, 1)
    picture = ground + (light[0] * slope[:, None] + light[1] * slope)[..., None]
    for _ in range(CLUTTERED):
        chosen = torch.from_numpy(rng.integers(0, len(strokes), count))
        cover = _thickened(_bent(strokes[chosen], rng, shift=1.0), rng)[..., None]
        picture = picture + cover * (clutter - picture)
    cover = _thickened(_bent(masks, rng, SHIFT), rng)[..., None]
    picture = picture + cover * (ink - picture)
    grain = rng.standard_normal((count, SIZE, SIZE, 3), dtype=np.float32)
    picture = picture + torch.from_numpy(grain) * _uniform(rng, 0, NOISE, count, 1, 1, 1)
    return (picture.clamp(0, 1) * 255).round().to(torch.uint8).numpy()


def build(split: str) -> Pixels:
    """All pictures of a split (classes, samples, SIZE, SIZE, 3)."""
    faces, count = FACES[split], PER_CLASS[split]
    shapes = torch.from_numpy(stencils(CHARACTERS, faces)).float() / 255  # (faces, classes, s, s)
    strokes = torch.from_numpy(stencils(CLUTTER, faces[:1])[0]).float() / 255
    rng = np.random.default_rng([VERSION, len(split)])
    chosen = torch.from_numpy(np.resize(np.arange(len(faces)), count))
    return np.stack([draw(shapes[chosen, label], strokes, rng) for label in range(len(CHARACTERS))])
