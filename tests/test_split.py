"""results/split.py: gains by hand, and the picture against the stored files."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from remem.report.plots import encode
from scripts import load_script

ROOT = Path(__file__).parents[1]
SPLIT: Any = load_script("results/split.py")
DRAWN_WITH = "3.11.2"  # matplotlib; others draw the same with other bytes


@pytest.mark.skipif(version("matplotlib") != DRAWN_WITH, reason=f"the picture was drawn with matplotlib {DRAWN_WITH}")
def test_the_picture_is_that_of_the_stored_results() -> None:
    assert encode(SPLIT.figure(), "svg") == SPLIT.PICTURE.read_bytes()


def test_differences_are_paired_by_class_order() -> None:
    assert SPLIT.differences({0: 41.0, 1: 53.0, 2: 99.0}, {1: 50.0, 0: 40.0}) == [1.0, 3.0]


def test_the_readme_has_the_table() -> None:
    assert SPLIT.table() in (ROOT / "README.md").read_text(encoding="utf-8")


def test_shares_are_in_order_and_static_is_one_of_them() -> None:
    runs = {
        ("lucir", "fixed-0.6"): {0: 3.0},
        ("lucir", "fixed-0.3"): {0: 2.0},
        ("lucir", "static"): {0: 1.0},
        ("lucir", "proportional"): {0: 5.0},
        ("podnet", "fixed-0.5"): {0: 4.0},
    }
    assert SPLIT.fixed_shares(runs, "lucir") == {2 / 7: {0: 1.0}, 0.3: {0: 2.0}, 0.6: {0: 3.0}}
