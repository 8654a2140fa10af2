"""Signals that ask a process to stop: Ctrl-C, SIGTERM and SIGHUP. Work that can be saved stops where it chooses to.

Signals belong to the process as a whole, so this is the one module with state of its own. Without `handled()`, as in
a program that uses remem as a library, nothing changes: Ctrl-C raises KeyboardInterrupt at once.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread

STOPPING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupted(KeyboardInterrupt):
    """The process was asked to stop; `number` is the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number

    @property
    def code(self) -> int:
        """The exit code, as shells count it: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
        return 128 + self.number


class _State:
    requested: int | None = None  # the first signal that has not been obeyed yet
    deferring = 0  # blocks that choose their own moment to stop


def exit_code(error: KeyboardInterrupt) -> int:
    return error.code if isinstance(error, Interrupted) else 128 + signal.SIGINT


def request(number: int) -> None:
    """Asks the work in this process to stop at its next chance, as a signal does."""
    if _State.requested is None:
        _State.requested = number


def requested() -> int | None:
    """The signal that asks to stop, if any."""
    return _State.requested


def stop_if_requested() -> None:
    """Raises Interrupted if a signal has come."""
    if _State.requested is not None:
        number, _State.requested = _State.requested, None
        raise Interrupted(number)


def is_deferring() -> bool:
    """Whether the work that is going on stops by itself soon after a signal."""
    return _State.deferring > 0


@contextmanager
def deferred() -> Iterator[None]:
    """Inside, the first signal is only noted, and `stop_if_requested` raises it; a second one stops at once."""
    _State.deferring += 1
    try:
        yield
    finally:
        _State.deferring -= 1
        if not _State.deferring:
            _State.requested = None  # the work is done, or has stopped


@contextmanager
def handled(*numbers: int, on_signal: Callable[[int], None] | None = None) -> Iterator[None]:
    """Handles signals while the block runs, except those that the process was started to ignore, as by `nohup`."""

    def receive(number: int, frame: object) -> None:
        if on_signal is not None:
            on_signal(number)
        if _State.deferring and _State.requested is None:
            request(number)
        else:
            raise Interrupted(_State.requested or number)

    with _handlers(numbers or STOPPING, receive):
        yield


@contextmanager
def held() -> Iterator[None]:
    """Delays all signals to the end of a short block that must happen as a whole."""
    received: list[int] = []
    with _handlers(STOPPING, lambda number, frame: received.append(number)):
        yield
    for number in received[:1]:
        signal.raise_signal(number)


@contextmanager
def unchanged() -> Iterator[None]:
    """Undoes what a library does to the handlers while the block runs."""
    if current_thread() is not main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: it was not set from Python
                signal.signal(number, handler)


@contextmanager
def _handlers(numbers: tuple[int, ...], handler: Callable[[int, object], None]) -> Iterator[None]:
    if current_thread() is not main_thread():  # only the main thread receives signals
        yield
        return
    before = {number: signal.getsignal(number) for number in numbers}
    ours = [number for number, old in before.items() if old not in (signal.SIG_IGN, None)]
    for number in ours:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
