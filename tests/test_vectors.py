"""results/vectors.py: budgets of equal samples and equal bytes, and its table."""

from scripts import load_script

VECTORS = load_script("results/vectors.py")


def test_budgets_follow_from_the_sizes_of_codes() -> None:
    """64 numbers: 256 bytes exactly, 128 in half precision, 64 and a scale of 4 as int8; 3000 samples of each."""
    assert [(s.codec, s.equal, s.budget) for s in VECTORS.settings(64)] == [
        ("float32", "samples", "768000B"),
        ("float16", "samples", "384000B"),
        ("float16", "bytes", "768000B"),
        ("int8", "samples", "204000B"),
        ("int8", "bytes", "768000B"),
    ]


def test_differences_are_paired_by_class_order() -> None:
    """Two orders: t is 12.7062, so that half widths are 6.3531 times the difference of both values."""

    def one(average: float, last: float) -> dict[str, float | int | str]:
        return {"average": average, "last": last, "held": 3000, "budget": "768000B"}

    found = {
        "0": {"float32, samples": one(0.40, 0.30), "int8, samples": one(0.41, 0.30)},
        "1": {"float32, samples": one(0.44, 0.30), "int8, samples": one(0.46, 0.31)},
    }
    assert VECTORS.summary(found).splitlines()[2:] == [
        "| float32 | samples | 768000B | 3000 | 42.00 ± 25.41 | 30.00 ± 0.00 | - | - |",
        "| int8 | samples | 768000B | 3000 | 43.50 ± 31.77 | 30.50 ± 6.35 | +1.50 ± 6.35 | +0.50 ± 6.35 |",
    ]
