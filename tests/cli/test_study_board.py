"""What a study shows: lines with counts and times from made-up events and a made-up clock, and bars on a terminal."""

import io
from typing import Any

from remem.cli.study_board import StudyBars, StudyBoard, StudyLines, open_study_board
from rich.console import Console


def outline(phases: int, done: int = 0) -> dict[str, Any]:
    """100 samples in every phase, 10 epochs of each, no teacher: 1000 units a phase."""
    samples = [{"samples": 100, "budget": None}] * phases
    epochs = {"epochs": 10, "epochs_later": 10, "balanced_epochs": 0, "teacher": False}
    return {"event": "begin", "done": done, "phases": samples, **epochs}


def job(name: str, **what: Any) -> dict[str, Any]:
    return {"event": "job", "name": name, "what": what}


def trained(phase: int, epoch: int) -> dict[str, Any]:
    facts = {"phase": phase, "stage": "main", "epoch": epoch, "epochs": 10, "samples": 100}
    return {"event": "epoch", "loss": {"class": 1.0}, **facts}


BEGIN = {
    "event": "begin",
    "runs": 3,
    "done": 1,
    "learnings": ["seed-0/rmm-learned", "seed-1/rmm-learned"],
    "jobs": {"phase 0 of a": outline(1), "a": outline(3, done=1), "b": outline(3, done=1)},  # 1000 + 2000 + 2000
}


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def learning(name: str, share: float) -> list[dict[str, Any]]:
    node = {"event": "node", "epoch": 0, "share": share, "left": None, "trained": 1}
    begin = {"event": "begin", "epochs": 1, "done": 0}
    return [{"event": "learning", "name": name, "what": what} for what in (begin, node)]


def test_the_time_that_is_left_counts_the_whole_study() -> None:
    clock = Clock()
    board = StudyBoard(clock)
    board.tell({**BEGIN, "learnings": []})
    assert (board.share, board.times) == (0.0, "0:00 so far")
    clock.seconds = 5
    board.tell(job("phase 0 of a", **outline(1)))
    clock.seconds = 15
    board.tell(job("phase 0 of a", **trained(0, 5)))
    assert board.share == 0.1  # 500 of 5000 units
    assert board.times == "0:15 so far, about 1:30 left"  # ten seconds for a tenth of them
    board.tell({"event": "ended", "name": "phase 0 of a"})
    assert (board.done, board.running) == (1, {})
    clock.seconds = 25
    board.tell(job("a", **outline(3, done=1)))
    board.tell(job("a", **trained(1, 10)))
    assert board.share == 0.4  # 2000 of 5000
    assert board.times == "0:25 so far, about 0:30 left"
    for name in ("a", "b"):
        board.tell({"event": "ended", "name": name, "average_accuracy": 0.5, "last_accuracy": 0.4})
    assert (board.done, board.share, board.times) == (3, 1.0, "0:25 so far")


def test_a_run_that_is_given_again_counts_once() -> None:
    board = StudyBoard(Clock())
    board.tell({**BEGIN, "learnings": []})
    for _ in range(2):
        board.tell(job("a", **outline(3, done=1)))
        board.tell(job("a", **trained(1, 5)))
    assert board.share == 0.1


def test_learning_comes_first_and_has_a_time_of_its_own() -> None:
    clock = Clock()
    board = StudyBoard(clock)
    board.tell(BEGIN)
    begin, node = learning("seed-0/rmm-learned", 0.25)
    board.tell(begin)
    assert board.times == "0:00 so far"
    clock.seconds = 10
    board.tell(node)
    assert board.learning_at == "policy 1 of 2"
    assert board.times == "0:10 so far, about 1:10 left to learn"  # 30 seconds of this one, 40 of the next
    clock.seconds = 40
    board.tell({"event": "learned", "name": "seed-0/rmm-learned"})
    assert board.times == "0:40 so far, about 0:40 left to learn"
    board.tell({"event": "learned", "name": "seed-1/rmm-learned"})
    assert (len(board.learned), board.times) == (2, "0:40 so far")


def test_a_pipe_gets_one_line_per_run_and_one_a_minute() -> None:
    file, clock, begun = io.StringIO(), Clock(), list[object]()
    with StudyLines(Console(file=file, width=200), begun.append, now=clock) as board:
        board.tell(BEGIN)
        for event in learning("seed-0/rmm-learned", 0.5):
            clock.seconds += 31
            board.tell(event)
        board.tell({"event": "learned", "name": "seed-0/rmm-learned"})
        board.tell({"event": "learned", "name": "seed-1/rmm-learned"})
        board.tell(job("phase 0 of a", **outline(1)))
        clock.seconds += 61
        board.tell(job("phase 0 of a", **trained(0, 10)))
        board.tell({"event": "ended", "name": "phase 0 of a"})
        board.tell(job("a", **outline(3, done=1)))
        board.tell({"event": "ended", "name": "a", "average_accuracy": 0.5, "last_accuracy": 0.4})
    assert begun == [BEGIN]
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
    board = open_study_board(console, lambda begin: console.print("announced"), quiet=False)
    assert isinstance(board, StudyBars)
    with board:
        board.tell(BEGIN)
        for event in learning("seed-0/rmm-learned", 0.5):
            board.tell(event)
        board.tell({"event": "learned", "name": "seed-0/rmm-learned"})
        board.tell({"event": "learned", "name": "seed-1/rmm-learned"})
        board.tell(job("a", **outline(3, done=1)))
        board.tell(job("a", **trained(1, 5)))
    said = file.getvalue()
    assert said.index("announced") < said.index("1 of 3 runs")
    assert "phase 1/2 main 5/10" in said
    assert "seed-0/rmm-learned" not in said.splitlines()[-1]


def test_quiet_shows_nothing() -> None:
    file = io.StringIO()
    board = open_study_board(Console(file=file), lambda begin: None, quiet=True)
    with board:
        board.tell(BEGIN)
    assert (type(board), file.getvalue()) == (StudyBoard, "")
