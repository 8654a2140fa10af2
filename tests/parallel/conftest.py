"""Fixtures for tests with workers: no test waits for ever, and worker processes find the job kinds of the tests."""

import signal
from collections.abc import Iterator
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType

import pytest

TESTS = Path(__file__).parents[1]
LIMIT = 300  # seconds; far more than any test takes on busy cores, far less than for ever


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    """Turns a deadlock into a failure with a traceback."""
    if not hasattr(signal, "SIGALRM") or current_thread() is not main_thread():
        yield
        return

    def fail(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"still waiting after {LIMIT} seconds")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets worker processes import `parallel.toy_jobs`."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
