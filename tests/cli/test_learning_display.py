"""The display of policy learning, from made-up events and a made-up clock."""

import io
from dataclasses import replace

from rich.console import Console

from remem.cli.displays.learning import LearningBar, LearningDisplay, LearningLines, open_learning_display
from remem.rl.events import LearningStarted, NodesTrained, PolicyUpdated

STARTED = LearningStarted(
    name="rmm", oracle=False, source="phase0", data="digits", classes=5, tasks=(), epochs=4, done=1
)
NODES = NodesTrained(epoch=1, share=0.5, left=30.0, trained=7)
EPOCH = PolicyUpdated(
    epoch=2,
    epochs=4,
    fidelity="full",
    reward=0.712,
    best=0.75,
    path=((6, 5), (7, 3)),
    loss=0.1,
    entropy=2.0,
    grad_norm=0.3,
    trained=12,
    left=20,
)


def test_a_pipe_gets_one_line_per_epoch_and_one_a_minute() -> None:
    file, now = io.StringIO(), [0.0]
    announced = list[LearningStarted]()
    with LearningLines(Console(file=file, width=200), announced.append, now=lambda: now[0]) as display:
        display.emit(STARTED)
        for seconds in (10, 61, 70):
            now[0] = seconds
            display.emit(NODES)
        display.emit(EPOCH)
    assert announced == [STARTED]
    assert file.getvalue().splitlines() == [
        "38 % done, 7 phases trained, 1:01 so far, about 0:30 left",
        "epoch 2 of 4, reward 71.2 %, path .6 .7 | .5 .3, 12 phases trained, 1:10 so far, about 0:20 left",
    ]


def test_the_time_of_the_announcement_does_not_count() -> None:
    """In it the cost is estimated."""
    now = [0.0]

    def announce(started: LearningStarted) -> None:
        now[0] += 3

    display = LearningLines(Console(file=io.StringIO()), announce, now=lambda: now[0])
    display.emit(STARTED)
    now[0] += 2
    assert display.times == "0:02 so far"


def test_a_terminal_gets_a_bar() -> None:
    file = io.StringIO()
    console = Console(file=file, width=140, force_terminal=True, color_system=None)
    with LearningBar(console, lambda started: console.print("what will be learned")) as display:
        display.emit(STARTED)
        display.emit(EPOCH)
        display.emit(replace(NODES, epoch=2, trained=15))
    last = file.getvalue()
    assert "what will be learned" in last
    assert "62 %" in last
    assert "epoch 3/4  reward 71.2 %  path .6 .7 | .5 .3  15 phases trained" in last
    assert "about 0:30 left" in last


def test_the_display_fits_the_console() -> None:
    pipe = Console(file=io.StringIO())
    assert isinstance(open_learning_display(pipe, print, quiet=False), LearningLines)
    assert type(open_learning_display(pipe, print, quiet=True)) is LearningDisplay
    terminal = Console(file=io.StringIO(), force_terminal=True)
    assert isinstance(open_learning_display(terminal, print, quiet=False), LearningBar)
