"""The display of a study: lines with counts and times from made-up events and a made-up clock, and bars."""

import io
from dataclasses import replace

from rich.console import Console

from remem.cli.displays.study import StudyBars, StudyDisplay, StudyLines, open_study_display
from remem.methods.events import EpochEnded
from remem.rl.events import LearningStarted, NodesTrained
from remem.runs.events import PhaseSize, RunStarted
from remem.studies.events import JobEnded, JobProgress, LearningProgress, PolicyLearned, StudyStarted

FIRST, SECOND = "seed-0/rmm-learned", "seed-1/rmm-learned"


def run(phases: int, done: int = 0) -> RunStarted:
    """100 samples in every phase, 10 epochs of each, no teacher: 1000 units a phase."""
    sizes = (PhaseSize(100, None),) * phases
    return RunStarted(done, sizes, epochs=10, epochs_later=10, balanced_epochs=0, teacher=False)


def trained(phase: int, epoch: int) -> EpochEnded:
    return EpochEnded(phase, "main", epoch, epochs=10, samples=100, loss={"class": 1.0}, seconds=0.1)


STARTED = StudyStarted(
    runs=3,
    done=1,
    learnings=(FIRST, SECOND),
    jobs={"phase 0 of a": run(1), "a": run(3, done=1), "b": run(3, done=1)},  # 1000 + 2000 + 2000 units
)
RUNS_ONLY = replace(STARTED, learnings=())


class Clock:
    """Seconds that only a test moves on."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def learning(name: str, share: float, left: float) -> list[LearningProgress]:
    started = LearningStarted(name, False, "phase0", "digits", classes=5, tasks=(), epochs=1, done=0)
    nodes = NodesTrained(epoch=0, share=share, left=left, trained=1)
    return [LearningProgress(name, event) for event in (started, nodes)]


def test_the_time_of_the_announcement_does_not_count() -> None:
    """In it the cost is estimated."""
    clock = Clock()

    def announce(started: StudyStarted) -> None:
        clock.seconds += 3

    display = StudyLines(Console(file=io.StringIO()), announce, now=clock)
    display.emit(RUNS_ONLY)
    clock.seconds += 2
    assert display.times == "0:02 so far"


def test_the_time_that_is_left_counts_the_whole_study() -> None:
    clock = Clock()
    display = StudyDisplay(clock)
    display.emit(RUNS_ONLY)
    assert (display.share, display.times) == (0.0, "0:00 so far")
    clock.seconds = 5
    display.emit(JobProgress("phase 0 of a", run(1)))
    clock.seconds = 15
    display.emit(JobProgress("phase 0 of a", trained(0, 5)))
    assert display.share == 0.1  # 500 of 5000 units
    assert display.times == "0:15 so far, about 1:30 left"  # ten seconds for a tenth of them
    display.emit(JobEnded("phase 0 of a"))
    assert (display.done, display.running) == (1, {})
    clock.seconds = 25
    display.emit(JobProgress("a", run(3, done=1)))
    display.emit(JobProgress("a", trained(1, 10)))
    assert display.share == 0.4  # 2000 of 5000
    assert display.times == "0:25 so far, about 0:30 left"
    for name in ("a", "b"):
        display.emit(JobEnded(name, average_accuracy=0.5, last_accuracy=0.4))
    assert (display.done, display.share, display.times) == (3, 1.0, "0:25 so far")


def test_a_run_that_starts_again_counts_once() -> None:
    display = StudyDisplay(Clock())
    display.emit(RUNS_ONLY)
    for _ in range(2):
        display.emit(JobProgress("a", run(3, done=1)))
        display.emit(JobProgress("a", trained(1, 5)))
    assert display.share == 0.1


def test_learning_comes_first_and_has_a_time_of_its_own() -> None:
    clock = Clock()
    display = StudyDisplay(clock)
    display.emit(STARTED)
    started, nodes = learning(FIRST, 0.25, left=30)
    display.emit(started)
    assert display.times == "0:00 so far"
    clock.seconds = 10
    display.emit(nodes)
    assert display.learning_at == "policy 1 of 2"
    assert display.times == "0:10 so far, about 1:10 left to learn"  # 30 seconds of this one, 40 of the next
    clock.seconds = 40
    display.emit(PolicyLearned(FIRST))
    assert display.times == "0:40 so far, about 0:40 left to learn"
    display.emit(PolicyLearned(SECOND))
    assert (len(display.learned), display.times) == (2, "0:40 so far")


def test_a_pipe_gets_one_line_per_run_and_one_a_minute() -> None:
    file, clock, announced = io.StringIO(), Clock(), list[StudyStarted]()
    with StudyLines(Console(file=file, width=200), announced.append, now=clock) as display:
        display.emit(STARTED)
        for event in learning(FIRST, 0.5, left=31):
            clock.seconds += 31
            display.emit(event)
        display.emit(PolicyLearned(FIRST))
        display.emit(PolicyLearned(SECOND))
        display.emit(JobProgress("phase 0 of a", run(1)))
        clock.seconds += 61
        display.emit(JobProgress("phase 0 of a", trained(0, 10)))
        display.emit(JobEnded("phase 0 of a"))
        display.emit(JobProgress("a", run(3, done=1)))
        display.emit(JobEnded("a", average_accuracy=0.5, last_accuracy=0.4))
    assert announced == [STARTED]
    assert file.getvalue().splitlines() == [
        "learning policy 1 of 2: seed-0/rmm-learned, 50 %, 1:02 so far, about 1:33 left to learn",
        "1 of 2 policies learned: seed-0/rmm-learned, 1:02 so far, about 0:31 left to learn",
        "2 of 2 policies learned: seed-1/rmm-learned, 1:02 so far",
        "1 of 3 runs done, 20 % of the training, 2:03 so far, about 4:04 left",
        "2 of 3 runs done: a, average 50.0 %, last 40.0 %, 2:03 so far, about 0:41 left",
    ]


def test_a_terminal_gets_a_bar_for_the_study_and_one_for_everything_that_runs() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=160)
    display = open_study_display(console, lambda started: console.print("announced"), quiet=False)
    assert isinstance(display, StudyBars)
    with display:
        display.emit(STARTED)
        for event in learning(FIRST, 0.5, left=31):
            display.emit(event)
        display.emit(PolicyLearned(FIRST))
        display.emit(PolicyLearned(SECOND))
        display.emit(JobProgress("a", run(3, done=1)))
        display.emit(JobProgress("a", trained(1, 5)))
    said = file.getvalue()
    assert said.index("announced") < said.index("1 of 3 runs")
    assert "phase 1/2 main 5/10" in said
    assert FIRST not in said.splitlines()[-1]


def test_quiet_shows_nothing() -> None:
    file = io.StringIO()
    display = open_study_display(Console(file=file), lambda started: None, quiet=True)
    with display:
        display.emit(STARTED)
    assert (type(display), file.getvalue()) == (StudyDisplay, "")
