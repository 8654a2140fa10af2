"""`webp-90` and `webp-75`: WebP files of Pillow, for images of at least 32 x 32 pixels. Codes differ in size."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from remem.codecs.codec import Shape, is_image
from remem.types import Values

LEAST = 32  # pixels; on smaller images the file's headers cost more than the format saves


@dataclass(frozen=True)
class WebP:
    """Lossy WebP at one quality. Grey images are stored as RGB with equal channels, since WebP has no grey."""

    summary: str
    quality: int
    from_file: bool = False

    def misfit(self, shape: Shape) -> str | None:
        fits = is_image(shape) and min(shape[:2]) >= LEAST
        return None if fits else f"images of at least {LEAST} x {LEAST} pixels"

    def size(self, shape: Shape) -> None:
        return None

    def encode(self, values: Values) -> list[bytes]:
        return [self._file(np.broadcast_to(image, (*image.shape[:2], 3))) for image in values]

    def decode(self, codes: Sequence[bytes], shape: Shape) -> Values:
        values = np.empty((len(codes), *shape), np.uint8)
        for place, code in enumerate(codes):
            with Image.open(io.BytesIO(code), formats=("WEBP",)) as image:
                values[place] = np.asarray(image.convert("RGB"))[..., : shape[2]]
        return values

    def _file(self, image: Values) -> bytes:
        file = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(image)).save(file, "WEBP", quality=self.quality, method=4)
        return file.getvalue()


WEBP_90 = WebP("WebP files of quality 90; from 32 px up", 90)
WEBP_75 = WebP("WebP files of quality 75; from 32 px up", 75)
