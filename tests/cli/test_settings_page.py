"""docs/reference/settings.md is what its generator writes."""

from pathlib import Path

import pytest

from remem.cli.settings_page import MARKER, updated, values
from remem.methods.settings import TrainSettings
from remem.nets.settings import NetSettings

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == updated(page), "run: python -m remem.cli.settings_page"


def test_the_part_above_the_marker_is_kept() -> None:
    page = updated(f"# By hand\n\n{MARKER}\nold")
    assert page.startswith(f"# By hand\n\n{MARKER}\n\n## The run\n")
    assert "old" not in page.splitlines()
    assert "| `train.epochs` |  | `15` | whole number ≥ 1 | Epochs per phase. |" in page.splitlines()
    with pytest.raises(SystemExit, match="no line"):
        updated("no marker")


def test_values() -> None:
    def of(section: type[NetSettings | TrainSettings], name: str) -> str:
        field = section.model_fields[name]
        return values(field.annotation, field.metadata)

    assert of(TrainSettings, "momentum") == "number ≥ 0, < 1"
    assert of(TrainSettings, "precision") == "`auto`, `fp32`, `bf16`, `fp16`"
    assert of(TrainSettings, "options") == "table"
    assert of(NetSettings, "batch_norm") == "true, false"
    assert of(NetSettings, "blocks") == "list of: whole number ≥ 1, ≤ 65536"
