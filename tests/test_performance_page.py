"""docs/reports/performance.md shows the figures that are kept in results/benchmarks.json, and no others."""

import json
from pathlib import Path
from types import ModuleType

import pytest

from scripts import load_script

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def table() -> ModuleType:
    module: ModuleType = load_script("benchmarks/table.py")
    return module


def test_the_page_shows_what_is_kept(table: ModuleType) -> None:
    shown = table.block(table.PAGE.read_text())
    assert shown == table.markdown(table.load(table.KEPT))
    assert "at least 20x" in shown


def test_figures_are_rounded_by_size(table: ModuleType) -> None:
    shown = [table.Row("", value, unit, "", "").figure for value, unit in ((1.234, "x"), (0.00123, "%"), (12.34, "GB"))]
    assert shown == ["1.23x", "0.0012%", "12.3 GB"]


def test_write_docs_replaces_the_block_alone(
    table: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, file in (("LATEST", "latest.json"), ("KEPT", "kept.json"), ("PAGE", "page.md")):
        monkeypatch.setattr(table, name, tmp_path / file)
    (tmp_path / "page.md").write_text(f"before\n{table.BEGIN}old\n{table.END}after\n")
    table.save(table.LATEST, {"part": [table.Row("a", 2.0, "x", "at least 1x", "b")]})
    table.write_docs()
    page = (tmp_path / "page.md").read_text()
    assert page.startswith(f"before\n{table.BEGIN}### part\n")
    assert page.endswith(f"{table.END}after\n")
    assert "| a | 2.00x | at least 1x | b |" in page
    assert json.loads((tmp_path / "kept.json").read_text())["parts"]["part"][0]["value"] == 2.0
