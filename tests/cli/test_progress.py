"""Progress: the amount of work, how facts correct it, the time left, and what is shown where."""

import io
from typing import Any

import pytest
from remem.cli.progress import LineBoard, LiveBoard, clock, open_board
from remem.cli.work import TEACHER_COST, Track, Work
from rich.console import Console

BEGIN: dict[str, Any] = {
    "event": "begin",
    "done": 0,
    "phases": [{"samples": 100, "budget": None}, {"samples": 50, "budget": 50}, {"samples": 50, "budget": 50}],
    "epochs": 4,
    "epochs_later": 4,
    "balanced_epochs": 2,
    "teacher": True,
}


def epoch(phase: int, stage: str, number: int, epochs: int, samples: int) -> dict[str, Any]:
    event = {"event": "epoch", "phase": phase, "stage": stage, "epoch": number, "epochs": epochs, "samples": samples}
    return event | {"loss": {"classify": 1.0, "distil": 0.5}, "seconds": 0.1}


def judged(phase: int) -> dict[str, Any]:
    return {"event": "evaluated", "phase": phase, "accuracy": 0.5}


def test_the_first_estimate() -> None:
    later = TEACHER_COST * 50 * (4 + 2)
    assert Work.of(BEGIN).total_units == pytest.approx(100 * 4 + 2 * later)
    without = Work.of({**BEGIN, "teacher": False, "balanced_epochs": 0})
    assert without.total_units == 100 * 4 + 2 * 50 * 4
    assert Work.of({**BEGIN, "done": 1}).done_units == 400


def test_facts_correct_the_phases_to_come() -> None:
    work = Work.of(BEGIN)
    for event in (epoch(0, "main", 4, 4, 100), judged(0), epoch(1, "main", 4, 4, 50)):
        work.take(event)
    work.take(epoch(1, "balanced", 1, 2, 20))  # 20 samples, not 50: so it will be in phase 2
    phase_1 = TEACHER_COST * (50 * 4 + 20 * 2)
    assert work.total_units == pytest.approx(400 + 2 * phase_1)
    assert work.done_units == pytest.approx(400 + TEACHER_COST * (50 * 4 + 20 * 1))


def test_a_stage_that_nobody_expected_is_added_to_later_phases() -> None:
    work = Work.of({**BEGIN, "balanced_epochs": 0, "teacher": False})
    work.take(epoch(1, "aggregate", 1, 1, 30))
    assert work.total_units == 400 + 2 * (200 + 30)


def test_a_phase_that_is_judged_is_done_whatever_was_expected() -> None:
    work = Work.of(BEGIN)
    for phase in range(3):
        work.take(epoch(phase, "main", 4, 4, 40))
        work.take(judged(phase))
    assert work.done_units == work.total_units


def test_time_left_is_in_proportion_and_counts_down() -> None:
    now = [1000.0]
    track = Track("run", clock=lambda: now[0])
    begin = {**BEGIN, "teacher": False, "balanced_epochs": 0}  # 400 + 200 + 200 units
    track.take(begin)
    assert track.left is None
    now[0] += 10
    track.take(epoch(0, "main", 2, 4, 100))  # 200 of 800 in 10 s
    assert track.share == 0.25
    assert track.left == pytest.approx(30)
    now[0] += 5
    assert track.left == pytest.approx(25)
    assert track.elapsed == 15


def test_a_resumed_run_judges_its_speed_by_this_session_only() -> None:
    now = [0.0]
    track = Track("run", clock=lambda: now[0])
    track.take({**BEGIN, "teacher": False, "balanced_epochs": 0, "done": 1})
    now[0] += 10
    track.take(epoch(1, "main", 2, 4, 50))  # 100 units in 10 s; 300 are left
    assert track.left == pytest.approx(30)
    assert track.share == pytest.approx(500 / 800)


def whole_run() -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [BEGIN]
    for phase, samples in enumerate((100, 50, 50)):
        events.append({"event": "phase", "phase": phase, "classes": 2})
        events += [epoch(phase, "main", number, 4, samples) for number in range(1, 5)]
        events.append(judged(phase))
    return events


def test_a_pipe_gets_one_line_per_phase_and_no_flood() -> None:
    file = io.StringIO()
    with LineBoard(["one", "two"], Console(file=file, width=200)) as board:
        for event in whole_run():
            board.tell("one", event)
    lines = file.getvalue().splitlines()
    assert len(lines) == 1 + 3
    assert lines[1].startswith("one: phase 0 of 2 done, accuracy 50.0 %, 0:00 so far")
    assert lines[-1] == "one: phase 2 of 2 done, accuracy 50.0 %, 0:00 so far"


def test_a_terminal_gets_bars() -> None:
    file = io.StringIO()
    console = Console(file=file, width=120, force_terminal=True, color_system=None)
    with LiveBoard(["one", "[two]"], console) as board:
        for event in whole_run()[:9]:
            board.tell("[two]", event)
    last = file.getvalue()
    assert "[two]" in last
    assert "phase 1/2 main 1/4  loss 1.500  50.0 %" in last
    assert "reading the data" in last  # the other one has not begun


def test_the_display_fits_the_console() -> None:
    pipe = Console(file=io.StringIO())
    assert isinstance(open_board(["a"], pipe, quiet=False), LineBoard)
    assert isinstance(open_board(["a"], Console(file=io.StringIO(), force_terminal=True), quiet=False), LiveBoard)
    with open_board(["a"], pipe, quiet=True) as board:
        board.tell("a", BEGIN)
    assert isinstance(pipe.file, io.StringIO)
    assert pipe.file.getvalue() == ""


def test_clock() -> None:
    assert [clock(seconds) for seconds in (0, 59.6, 75, 3700)] == ["0:00", "1:00", "1:15", "1:01:40"]
