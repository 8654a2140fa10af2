"""`remem figure`: a file of every kind, and mistakes in one line."""

from pathlib import Path

import pytest

from cli.conftest import Command

RESULTS = Path(__file__).parents[2] / "results"
POLICY = RESULTS / "studies" / "glyphs-policies" / "policies" / "seed-0"


@pytest.mark.parametrize(
    ("kind", "source"), [("accuracy", RESULTS / "demo"), ("policy", POLICY), ("policy", RESULTS / "demo")]
)
def test_a_figure_is_written(remem: Command, tmp_path: Path, kind: str, source: Path) -> None:
    out = tmp_path / "deep" / "figure.svg"
    said = remem("figure", source, "--kind", kind, "--out", out)
    assert (said.code, said.out, said.err) == (0, "", f"figure: {out}\n")
    assert out.read_bytes().startswith(b"<?xml")


def test_the_format_may_be_given(remem: Command, tmp_path: Path) -> None:
    assert remem("figure", RESULTS / "demo", "--format", "pdf", "--out", tmp_path / "figure").code == 0
    assert (tmp_path / "figure").read_bytes().startswith(b"%PDF")


def test_mistakes_are_one_line(remem: Command, tmp_path: Path) -> None:
    mistakes = {
        "expected a name that ends in .pdf, .png, .svg": (RESULTS / "demo", "--out", tmp_path / "figure.jpg"),
        "3 policies given; expected one of ": (POLICY.parent, "--kind", "policy", "--out", tmp_path / "a.svg"),
        "no learned policy; expected": (RESULTS / "two-devices", "--kind", "policy", "--out", tmp_path / "a.svg"),
        "no such file or folder": (tmp_path / "none", "--out", tmp_path / "a.svg"),
    }
    for words, arguments in mistakes.items():
        said = remem("figure", *arguments)
        assert said.code == 2
        assert words in said.err
        assert said.err.count("\n") == 1
