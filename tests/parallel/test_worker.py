"""The worker side, in this process: one job in, events and one answer out."""

import json
from pathlib import Path

import pytest

from parallel.toy_jobs import ToyStarted, toy_job, toy_starts
from remem.parallel.backend import Message, encode_job
from remem.parallel.jobs import Job
from remem.parallel.worker import serve


def messages(text: str) -> list[Message]:
    """All that a worker sends, as it arrives in the parent."""
    sent: list[Message] = []
    serve(text, lambda message: sent.append(json.loads(json.dumps(message))))
    return sent


def test_a_job_sends_its_events_and_then_its_answer(tmp_path: Path) -> None:
    event, answer = messages(encode_job(toy_job(tmp_path, "a")))
    assert event == {"event": ToyStarted("a", 1).to_json()}
    assert answer["done"]["name"] == "a"


def test_a_marker_that_is_there_changes_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    marker.touch()
    assert "done" in messages(encode_job(toy_job(tmp_path, "a"), marker))[-1]


def test_a_job_whose_folder_is_not_visible_does_not_begin(tmp_path: Path) -> None:
    [message] = messages(encode_job(toy_job(tmp_path, "a"), tmp_path / "elsewhere" / "marker"))
    assert message["error"] == "InputError"
    assert message["message"].startswith(f"--out: {tmp_path / 'elsewhere'} is not seen by the worker on ")
    assert message["message"].endswith("; expected a shared folder")
    assert toy_starts(tmp_path) == []


@pytest.mark.parametrize(
    ("ends", "error", "message"),
    [
        ("input error", "InputError", "budget: 3 given"),
        ("strange error", "StrangeError", "torn"),
        ("no JSON", "TypeError", "Object of type object is not JSON serializable"),
    ],
)
def test_a_failure_is_sent_with_its_traceback(ends: str, error: str, message: str, tmp_path: Path) -> None:
    event, failure = messages(encode_job(toy_job(tmp_path, "a", ends)))
    assert "event" in event
    assert (failure["error"], failure["message"]) == (error, message)
    assert "Traceback" in failure["traceback"]


def test_what_is_no_job_is_an_error() -> None:
    assert [message["error"] for message in messages("no JSON")] == ["JSONDecodeError"]
    assert [message["error"] for message in messages(encode_job(Job("a", "toy", {})))] == ["InputError"]
