"""README.md and docs/README.md: what comes first, links, and a picture that the command makes of stored results."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest

from remem.report.inputs import read_runs
from remem.report.plots import accuracy_figure, encode

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RUNS = [run.result for run in read_runs([ROOT / "results" / "studies" / "glyphs-policies"])]
DRAWN_WITH = "3.11.2"  # matplotlib; others draw the same with other bytes


@pytest.mark.skipif(version("matplotlib") != DRAWN_WITH, reason=f"the picture was drawn with matplotlib {DRAWN_WITH}")
def test_the_picture_is_that_of_the_stored_results() -> None:
    kept = (ROOT / "docs" / "images" / "glyphs-policies.svg").read_bytes()
    assert encode(accuracy_figure(RUNS), "svg") == kept


def test_what_is_first() -> None:
    """Purpose, both commands, the picture and the table come before the first heading."""
    top = README.split("\n## ")[0]
    places = [top.index(words) for words in ("one memory of fixed size", "make demo", "make test", "![", "| method |")]
    assert places == sorted(places)
    for page in re.findall(r"\]\((docs/[^)#]+)", README):
        assert (ROOT / page).exists(), page
