"""Codecs against plain versions, packing, vectors, and ladders."""

import numpy as np
import pytest

from remem.codecs.packing import pack_bits, packed_size, unpack_bits
from remem.codecs.reduced import enlarged, shrunk
from remem.codecs.table import CODECS, parse_codecs, resolve_ladder
from remem.errors import InputError


@pytest.mark.parametrize("bits", [4, 5, 8])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 384])
def test_packing_is_the_numbers_in_binary(bits: int, count: int) -> None:
    numbers = np.random.default_rng(count).integers(0, 2**bits, (3, count), dtype=np.uint8)
    packed = pack_bits(numbers, bits)
    for row, code in zip(numbers.tolist(), packed, strict=True):
        text = "".join(f"{number:0{bits}b}" for number in row)
        text += "0" * (-len(text) % 8)
        assert code.tobytes() == int(text, 2).to_bytes(len(text) // 8, "big")
    assert packed.shape[1] == packed_size(count, bits)
    assert np.array_equal(unpack_bits(packed, bits, count), numbers)


def test_sizes_are_those_of_the_protocol() -> None:
    sizes = {name: CODECS[name].size((16, 16, 3)) for name in ("raw", "ycc420", "ycc420-5", "ycc420-4", "half")}
    assert sizes == {"raw": 768, "ycc420": 384, "ycc420-5": 240, "ycc420-4": 192, "half": 192}
    assert [CODECS[name].size((16, 16, 1)) for name in ("raw", "ycc420", "ycc420-5", "ycc420-4")] == [
        256,
        256,
        160,
        128,
    ]
    assert CODECS["ycc420"].size((5, 7, 3)) == 35 + 2 * 3 * 4
    assert [CODECS[name].size((64,)) for name in ("raw", "float32", "float16", "int8")] == [256, 256, 128, 68]


@pytest.mark.parametrize("bits", [8, 5, 4])
def test_ycc_is_near_the_definition_in_floating_point(bits: int) -> None:
    """One colour per square of two by two, so that halving the colour planes loses nothing."""
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (1, 4, 4, 3), dtype=np.uint8).repeat(2, axis=1).repeat(2, axis=2)
    codec = CODECS["ycc420" if bits == 8 else f"ycc420-{bits}"]
    red, green, blue = np.moveaxis(image.astype(np.float64), 3, 0)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    cb, cr = 128 + 0.564334 * (blue - luma), 128 + 0.713267 * (red - luma)
    step, colour = 255 / (2**bits - 1), 256 / 2**bits  # grey, 128, is a level of the colour planes
    luma = np.rint(luma / step) * step
    cb, cr = (np.minimum(np.rint(plane / colour), 2**bits - 1) * colour for plane in (cb, cr))
    pixels = [
        luma + 1.402 * (cr - 128),
        luma - 0.344136 * (cb - 128) - 0.714136 * (cr - 128),
        luma + 1.772 * (cb - 128),
    ]
    expected = np.clip(np.stack(pixels, axis=3), 0, 255)
    error = np.abs(codec.decode(codec.encode(image), image.shape[1:]) - expected).max(axis=(0, 3))
    # Three roundings of half a step of 8 bits, amplified by up to 1.772; near a limit, one of the planes may be on the
    # other side of it.
    assert np.mean(error > 2.5) < 0.2
    assert error.max() <= 2.5 + 1.772 * colour


def test_shrinking_takes_means_and_enlarging_interpolates() -> None:
    image = np.array([[0, 2, 10], [2, 4, 10], [20, 20, 31]], np.uint8)[None, :, :, None]
    small = shrunk(image, 2)
    assert small[0, :, :, 0].tolist() == [[2, 10], [20, 31]]  # edges count twice
    large = enlarged(np.array([[0, 100]], np.uint8)[None, :, :, None], 2, (2, 4, 1))
    assert large[0, :, :, 0].tolist() == [[0, 25, 75, 100]] * 2
    large = enlarged(np.array([[0, 80]], np.uint8)[None, :, :, None], 4, (1, 8, 1))
    assert large[0, 0, :, 0].tolist() == [0, 0, 10, 30, 50, 70, 80, 80]


def test_vectors_keep_as_much_as_their_bits() -> None:
    vectors = np.array([[1.0, -127.0, 63.6], [0, 0, 0], [1e-3, 2e-3, -4e-3]], np.float32)
    codec = CODECS["int8"]
    back = codec.decode(codec.encode(vectors), (3,))
    assert back[0].tolist() == [1.0, -127.0, 64.0]
    assert back[1].tolist() == [0, 0, 0]
    assert np.abs(back[2] - vectors[2]).max() <= 4e-3 / 127 / 2 * 1.001
    huge = np.array([[1e6, -1e6, 0.1]], np.float32)
    half = CODECS["float16"]
    assert half.decode(half.encode(huge), (3,))[0, :2].tolist() == [65504.0, -65504.0]


@pytest.mark.parametrize(
    ("shape", "rungs"),
    [
        ((8, 8, 1), ["raw", "ycc420-5", "ycc420-4"]),
        ((16, 16, 3), ["raw", "ycc420", "ycc420-5", "ycc420-4", "half-ycc420"]),
        ((32, 32, 3), ["raw", "ycc420", "ycc420-5", "ycc420-4", "webp-90", "webp-75"]),
        ((64, 64, 3), ["raw", "ycc420", "ycc420-5", "ycc420-4", "webp-90", "webp-75", "quarter-ycc420"]),
        ((64, 64, 4), ["raw"]),
        ((12,), ["raw", "float16", "int8"]),
    ],
)
def test_the_ladder_goes_from_exact_to_coarse(shape: tuple[int, ...], rungs: list[str]) -> None:
    assert list(resolve_ladder(("ladder",), shape, files=False)) == rungs


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ("ycc421", (8, 8, 3), "no codec named 'ycc421'; did you mean 'ycc420'"),
        ("raw,ladder", (8, 8, 3), "no codec named 'ladder'"),
        ("int8", (8, 8, 3), "it takes vectors"),
        ("webp-90", (16, 16, 3), "at least 32 x 32 pixels"),
        ("ycc420,raw", (8, 8, 3), "smaller than the one before"),
        ("ycc420-4,half", (8, 8, 3), "smaller than the one before"),
        ("raw,raw", (8, 8, 3), "smaller than the one before"),
        ("file", (8, 8, 3), r"image files as data \(folder:PATH\)"),
        ("raw,file", (8, 8, 3), "expected it first"),
    ],
)
def test_bad_ladders_are_refused(text: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolve_ladder(parse_codecs(text), shape, files=False)
