"""`remem table`: what it prints and writes, and mistakes in one line."""

import json
from pathlib import Path

from cli.conftest import Command

STORED = Path(__file__).parents[2] / "results" / "studies" / "glyphs-policies"


def test_a_table_is_printed_or_written(remem: Command, tmp_path: Path) -> None:
    said = remem("table", STORED / "runs", "--format", "json")
    assert (said.code, said.err) == (0, "")
    rows = json.loads(said.out)["rows"]
    assert [row["policy"] for row in rows] == ["static", "fixed-0.6", "fixed-0.7", "rmm-learned"]
    path = tmp_path / "deep" / "table.tex"
    said = remem("table", STORED, "--style", "paper-2", "--format", "latex", "--out", path)
    assert (said.code, said.out, said.err) == (0, "", f"table: {path}\n")
    assert path.read_text(encoding="utf-8").splitlines()[1] == r"\begin{tabular}{lllrr}"


def test_mistakes_are_one_line(remem: Command, tmp_path: Path) -> None:
    for words in ((tmp_path / "none",), (STORED, "--style", "paper-3"), (), (STORED, "--out", STORED)):
        said = remem("table", *words)
        assert said.code == 2
        assert said.err.startswith("error: ")
        assert said.err.count("\n") == 1
