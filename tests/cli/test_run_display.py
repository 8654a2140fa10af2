"""The display of runs: the amount of work, how events correct it, the time left, and what is shown where."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from remem.cli.console import clock
from remem.cli.displays.progress import TEACHER_COST, RunProgress, Workload
from remem.cli.displays.run import RunBars, RunLines, open_run_display
from remem.events import Event
from remem.methods.events import EpochEnded
from remem.runs.events import PhaseEvaluated, PhaseSize, PhaseStarted, RunStarted

STARTED = RunStarted(
    done=0,
    phases=(PhaseSize(100, None), PhaseSize(50, 50), PhaseSize(50, 50)),
    epochs=4,
    epochs_later=4,
    balanced_epochs=2,
    teacher=True,
)
PLAIN = replace(STARTED, teacher=False, balanced_epochs=0)  # 400 + 200 + 200 units


def epoch(phase: int, stage: str, number: int, epochs: int, samples: int) -> EpochEnded:
    return EpochEnded(phase, stage, number, epochs, samples, {"classify": 1.0, "distil": 0.5}, seconds=0.1)


def evaluated(phase: int) -> PhaseEvaluated:
    return PhaseEvaluated(phase, accuracy=0.5)


def test_the_first_estimate() -> None:
    later = TEACHER_COST * 50 * (4 + 2)
    assert Workload.of(STARTED).total_units == pytest.approx(100 * 4 + 2 * later)
    assert Workload.of(PLAIN).total_units == 100 * 4 + 2 * 50 * 4
    assert Workload.of(replace(STARTED, done=1)).done_units == 400


def test_events_correct_the_phases_to_come() -> None:
    work = Workload.of(STARTED)
    for event in (epoch(0, "main", 4, 4, 100), evaluated(0), epoch(1, "main", 4, 4, 50)):
        work.update(event)
    work.update(epoch(1, "balanced", 1, 2, 20))  # 20 samples, not 50: so it will be in phase 2
    phase_1 = TEACHER_COST * (50 * 4 + 20 * 2)
    assert work.total_units == pytest.approx(400 + 2 * phase_1)
    assert work.done_units == pytest.approx(400 + TEACHER_COST * (50 * 4 + 20 * 1))


def test_an_unexpected_stage_is_added_to_later_phases() -> None:
    work = Workload.of(PLAIN)
    work.update(epoch(1, "aggregate", 1, 1, 30))
    assert work.total_units == 400 + 2 * (200 + 30)


def test_an_evaluated_phase_is_done_whatever_was_expected() -> None:
    work = Workload.of(STARTED)
    for phase in range(3):
        work.update(epoch(phase, "main", 4, 4, 40))
        work.update(evaluated(phase))
    assert work.done_units == work.total_units


def test_time_left_is_in_proportion_and_counts_down() -> None:
    now = [1000.0]
    run = RunProgress("run", clock=lambda: now[0])
    run.update(PLAIN)
    assert run.left is None
    now[0] += 10
    run.update(epoch(0, "main", 2, 4, 100))  # 200 of 800 in 10 s
    assert run.share == 0.25
    assert run.left == pytest.approx(30)
    now[0] += 5
    assert run.left == pytest.approx(25)
    assert run.elapsed == 15


def test_the_speed_of_a_resumed_run_is_that_of_this_session() -> None:
    now = [0.0]
    run = RunProgress("run", clock=lambda: now[0])
    run.update(replace(PLAIN, done=1))
    now[0] += 10
    run.update(epoch(1, "main", 2, 4, 50))  # 100 units in 10 s; 300 are left
    assert run.left == pytest.approx(30)
    assert run.share == pytest.approx(500 / 800)


def whole_run() -> list[Event]:
    events: list[Event] = [STARTED]
    for phase, samples in enumerate((100, 50, 50)):
        events.append(PhaseStarted(phase, classes=2))
        events += [epoch(phase, "main", number, 4, samples) for number in range(1, 5)]
        events.append(evaluated(phase))
    return events


def test_a_pipe_gets_one_line_per_phase_and_no_flood() -> None:
    file, now = io.StringIO(), [0.0]
    with RunLines(["one", "two"], Console(file=file, width=200), now=lambda: now[0]) as display:
        for event in whole_run():
            now[0] += 1
            display.emit("one", event)
    lines = file.getvalue().splitlines()
    assert len(lines) == 1 + 3
    assert lines[0].startswith("one: began phase 0 of 2, 0:02 so far, about 0:")
    assert lines[1].startswith("one: phase 0 of 2 done, accuracy 50.0 %, 0:06 so far, about 0:")
    assert lines[-1] == "one: phase 2 of 2 done, accuracy 50.0 %, 0:18 so far"


def test_a_terminal_gets_bars() -> None:
    file = io.StringIO()
    console = Console(file=file, width=120, force_terminal=True, color_system=None)
    with RunBars(["one", "[two]"], console) as display:
        emit = display.subscriber("[two]")
        for event in whole_run()[:9]:
            emit(event)
    last = file.getvalue()
    assert "[two]" in last
    assert "phase 1/2 main 1/4  loss 1.500  50.0 %" in last
    assert "reading the data" in last  # the other one has not begun


def test_the_display_fits_the_console() -> None:
    pipe = Console(file=io.StringIO())
    assert isinstance(open_run_display(["a"], pipe, quiet=False), RunLines)
    assert isinstance(open_run_display(["a"], Console(file=io.StringIO(), force_terminal=True), quiet=False), RunBars)
    with open_run_display(["a"], pipe, quiet=True) as display:
        display.emit("a", STARTED)
    assert isinstance(pipe.file, io.StringIO)
    assert pipe.file.getvalue() == ""


def test_clock() -> None:
    assert [clock(seconds) for seconds in (0, 59.6, 75, 3700)] == ["0:00", "1:00", "1:15", "1:01:40"]
