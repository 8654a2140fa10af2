"""event_log.py: events are appended as JSON lines; damaged and repeated lines are dropped."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from remem.events import Event
from remem.storage.event_log import EventLog, LineFile, read_log


@dataclass(frozen=True)
class Logged(Event, kind="test-logged"):
    phase: int


@dataclass(frozen=True)
class Other(Event, kind="test-other"):
    phase: int


def test_only_events_of_the_given_kinds_are_logged(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "log.jsonl", (Logged,))
    for event in (Logged(0), Other(0), Logged(1)):
        log(event)
    expected = [{"event": "test-logged", "phase": phase} for phase in (0, 1)]
    assert read_log(tmp_path / "log.jsonl") == expected


def test_trimming_keeps_only_complete_entries(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "log.jsonl", (Logged,))
    for phase in range(3):
        log(Logged(phase))
    with open(tmp_path / "log.jsonl", "a") as file:
        file.write('[1]\n{"event": "test-log')
    log.trim(lambda entry: entry["phase"] < 2)
    text = (tmp_path / "log.jsonl").read_text()
    assert text == '{"event": "test-logged", "phase": 0}\n{"event": "test-logged", "phase": 1}\n'


def test_a_missing_log_is_empty(tmp_path: Path) -> None:
    assert read_log(tmp_path / "log.jsonl") == []


def test_lines_are_synced_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, sizes = [100.0], list[int]()
    monkeypatch.setattr("remem.storage.event_log.time.monotonic", lambda: now[0])
    monkeypatch.setattr("remem.storage.event_log.sync", lambda number: sizes.append(os.fstat(number).st_size))
    lines = LineFile(tmp_path / "log")
    for seconds in (0.0, 0.5, 0.4, 0.2, 5.0):
        now[0] += seconds
        lines.append("abc")
    assert sizes == [4, 16, 20]  # at once, after 1.1 seconds, and after 5 more
