"""events.py: every event survives JSON, and whatever is not an event of remem is refused."""

import json
import re
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

import remem
from remem.estimator.events import ModelUpdated
from remem.events import Event, Notice, fan_out, ignore
from remem.methods.events import EpochEnded
from remem.rl.events import LearningStarted, NodesTrained, PolicyUpdated, TaskSummary
from remem.runs.events import PhaseEvaluated, PhaseSize, PhaseStarted, RunStarted
from remem.studies.events import JobEnded, JobProgress, LearningProgress, PolicyLearned, StudyStarted

RUN = RunStarted(1, (PhaseSize(500, None), PhaseSize(250, 250)), 10, 5, 2, teacher=True)
EVENTS: list[Event] = [
    EpochEnded(2, "train", 3, 10, 640, {"classify": 0.5, "distill": 0.25}, 1.5),
    RUN,
    PhaseStarted(1, 10),
    PhaseEvaluated(1, 0.625),
    LearningStarted(
        "rmm",
        False,
        "phase0",
        "digits",
        6,
        (TaskSummary((3, 2, 1), "fixed", 28, 14), TaskSummary((6,), "x", 1, 1)),
        2,
        0,
    ),
    NodesTrained(0, 0.5, None, 7),
    NodesTrained(1, 1.0, 12.5, 9),
    PolicyUpdated(1, 2, "full", 0.5, 0.75, ((6, 5), (7, 2)), -0.125, 2.5, 0.25, 20, None),
    StudyStarted(2, 1, ("seed-0/rmm-learned",), {"static_seed-0": RUN, "phase 0 of static_seed-0": RUN}),
    PolicyLearned("seed-0/rmm-learned"),
    JobEnded("static_seed-0", 0.5, 0.25),
    JobEnded("phase 0 of static_seed-0"),
    LearningProgress("seed-0/rmm-learned", NodesTrained(0, 0.5, None, 7)),
    JobProgress("static_seed-0", RUN),
    ModelUpdated(2, 2, 36, 2, 1, 40, 1280, "40", None, 0.75, 1.5),
    Notice("a checkpoint is damaged; going on from the one before it"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_survive_json(event: Event) -> None:
    text = json.dumps(event.to_json(), allow_nan=False)
    back = Event.from_json(json.loads(text))
    assert type(back) is type(event)
    assert back == event
    assert json.dumps(back.to_json()) == text
    assert json.loads(text)["event"] == event.kind


def test_every_event_class_of_the_package_is_tried_here() -> None:
    source = Path(remem.__file__).parent
    found = [
        kind
        for file in source.rglob("*.py")
        for kind in re.findall(r"\(Event, kind=\"([^\"]+)\"\)", file.read_text(encoding="utf-8"))
    ]
    assert len(found) == len(set(found))
    assert set(found) == {event.kind for event in EVENTS}


def test_nested_values_come_back_as_their_own_types() -> None:
    """As they cross from a worker to the pool."""
    back = Event.from_json(json.loads(json.dumps(EVENTS[8].to_json())))
    assert isinstance(back, StudyStarted)
    assert back.learnings == ("seed-0/rmm-learned",)
    assert isinstance(back.jobs["static_seed-0"], RunStarted)
    assert back.jobs["static_seed-0"].phases[1] == PhaseSize(250, 250)


def test_an_event_inside_an_event_keeps_its_kind() -> None:
    tree = JobProgress("x", PhaseEvaluated(1, 0.625)).to_json()
    inner = {"event": "evaluated", "phase": 1, "accuracy": 0.625}
    assert tree == {"event": "study-job", "name": "x", "progress": inner}


def test_the_documented_form_of_a_line() -> None:
    assert PhaseEvaluated(1, 0.625).to_json() == {"event": "evaluated", "phase": 1, "accuracy": 0.625}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({}, "no event of kind None"),
        ({"event": "nothing"}, "no event of kind 'nothing'"),
        ({"event": ["epoch"]}, "no event of kind"),
        ({"event": "study-job", "name": "x", "progress": {"event": "nothing"}}, "no event of kind 'nothing'"),
        ({"event": "study-job", "name": "x", "progress": 3}, "progress"),
        ({"phase": 1, "accuracy": 0.5}, "no event of kind None"),
        ({"event": "evaluated", "phase": 1}, "accuracy"),
        ({"event": "evaluated", "phase": "first", "accuracy": 0.5}, "phase"),
        ({"event": "run", **RUN.to_json(), "phases": [{"samples": 3}]}, "phases"),
    ],
)
def test_anything_else_is_a_value_error(tree: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Event.from_json(tree)


def test_a_kind_belongs_to_one_class() -> None:
    with pytest.raises(ValueError, match="an event of kind 'epoch' exists already"):
        type("Again", (Event,), {}, kind="epoch")
    assert Event.from_json(EVENTS[0].to_json()) == EVENTS[0]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_cannot_be_changed(event: Event) -> None:
    with pytest.raises(FrozenInstanceError):
        event.phase = 3  # type: ignore[attr-defined]


def test_subscribers_are_called_in_order() -> None:
    heard: list[tuple[str, Event]] = []
    emit = fan_out(lambda event: heard.append(("first", event)), ignore, lambda event: heard.append(("second", event)))
    emit(EVENTS[2])
    emit(EVENTS[3])
    assert heard == [(name, event) for event in EVENTS[2:4] for name in ("first", "second")]
    fan_out()(EVENTS[2])  # nobody listens
