"""Flags that stand for settings: their types, texts and panels come from one table and from the settings."""

import inspect
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, StrictInt

from cli.conftest import Command
from remem.cli.flags import FLAGS, Flag, SettingSources, field_of, flag_parameter, parsed_type, takes_settings, typed
from remem.cli.main import COMMANDS, load_command, main
from remem.cli.options import COMMON, LEARNING, SCENARIO, TRAINING, Out
from remem.methods.settings import MethodSettings
from remem.methods.table import METHODS
from remem.nets.settings import HeadSettings
from remem.rl.settings import LearnSettings
from remem.runs.config import RunConfig
from remem.settings import is_section, plain_fields
from remem.studies.grid import StudySettings


def all_sections() -> dict[str, Any]:
    sections = {"run": RunConfig, "learn": LearnSettings, "study": StudySettings, "head": HeadSettings}
    inner = {name: field.annotation for name, field in RunConfig.model_fields.items() if is_section(field)}
    return {**sections, **inner, **{name: entry.settings for name, entry in METHODS.items()}}


@pytest.mark.parametrize(("name", "section"), all_sections().items())
def test_every_setting_has_a_description_of_one_line(name: str, section: type[BaseModel]) -> None:
    for key, field in plain_fields(section):
        if key == "name" and issubclass(section, MethodSettings) and section is not MethodSettings:
            continue  # it is the name of the method
        assert field.description, f"{name}: {key}"
        assert "\n" not in field.description
        assert field.description.endswith(".")
        assert len(field.description) <= 100


class Examples(BaseModel):
    count: int | None = Field(default=None, ge=1)
    size: StrictInt | str | None = None
    share: float = 0.5
    kind: Literal["a", "b"] = "a"
    levels: Literal[1, 2] = 2
    root: Path | None = None
    on: bool = False


def test_types_are_those_of_the_settings() -> None:
    types = {name: parsed_type(field) for name, field in Examples.model_fields.items()}
    wanted = {"count": int, "size": str, "share": float, "kind": str, "levels": int, "root": Path, "on": bool}
    assert types == wanted


def test_a_number_for_a_setting_that_also_takes_text() -> None:
    assert typed("memory.budget", "7000") == 7000
    assert typed("memory.budget", "growing:20") == "growing:20"
    assert typed("data.name", "7000") == "7000"


def test_values_of_a_literal_are_the_metavar() -> None:
    parameter = flag_parameter(Flag("--schedule", "train.schedule", TRAINING))
    info = parameter.annotation.__metadata__[0]
    assert info.metavar == "constant|step|cosine|one-cycle"
    assert info.help == field_of("train.schedule").description
    assert info.rich_help_panel == TRAINING


def test_a_command_gets_only_the_settings_that_were_given() -> None:
    seen: list[tuple[SettingSources, Path]] = []

    @takes_settings(SCENARIO, TRAINING)
    def command(out: Out, sources: SettingSources) -> None:
        """Does nothing."""
        seen.append((sources, out))

    parameters = inspect.signature(command).parameters
    expected = [flag.parameter for flag in FLAGS if flag.panel in (SCENARIO, TRAINING)]
    assert list(parameters) == ["config", *expected, "overrides", "out"]
    given: dict[str, Any] = dict.fromkeys(expected)
    command(config=None, overrides=["train.epochs=5"], out=Path("x"), **{**given, "phases": 3, "budget": "40"})
    [(sources, out)] = seen
    assert (sources.flags, out) == ({"scenario.phases": 3, "memory.budget": 40}, Path("x"))
    assert sources.layers() == (
        {},
        {"scenario": {"phases": 3}, "memory": {"budget": 40}},
        {"train": {"epochs": 5}},
    )


@pytest.mark.parametrize(
    ("command", "panels"),
    [
        ("run", (SCENARIO, TRAINING, COMMON)),
        ("plan", (SCENARIO, TRAINING, COMMON)),
        ("learn-policy", (LEARNING, SCENARIO, TRAINING, COMMON)),
    ],
)
def test_help_has_every_flag_with_its_description(
    command: str, panels: tuple[str, ...], remem: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = remem(command, "--help").out
    lines = [" ".join(line.strip("│ ").split()) for line in text.splitlines()]
    for flag in FLAGS:
        [shown] = [line for line in lines if line.startswith(f"{flag.name} ")] or [""]
        assert bool(shown) == (flag.panel in panels), flag.name
        description = (field_of(flag.key).description or "").replace("`", "")
        assert not shown or shown.endswith(description)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_has_the_first_line_of_each_help(name: str) -> None:
    path, line = COMMANDS[name]
    assert load_command(path).help.splitlines()[0] == line


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("remem re", {"resume", "report"}),
        ("remem run --pha", {"--phases"}),
        ("remem figure x --kind m", {"memory", "matrix"}),
    ],
)
def test_the_shell_completes_commands_flags_and_values(
    typed: str, offered: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_REMEM_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    with pytest.raises(SystemExit):
        main([])
    assert set(capsys.readouterr().out.split()) >= offered
