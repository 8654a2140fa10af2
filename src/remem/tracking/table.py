"""Trackers by name, imported when they are asked for."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from remem.errors import InputError
from remem.events import Emit, fan_out
from remem.tracking.tracker import RunSubscriber, StudySubscriber, Tracker

TRACKERS = {  # name: the package that it needs, and the import path of its class
    "tensorboard": ("tensorboard", "remem.tracking.tensorboard:TensorBoard"),
    "mlflow": ("mlflow", "remem.tracking.mlflow:MLflow"),
    "wandb": ("wandb", "remem.tracking.wandb:WeightsAndBiases"),
}


def check_trackers(kinds: Sequence[str]) -> None:
    """Raises if the package of any is not installed."""
    for kind in kinds:
        if find_spec(TRACKERS[kind][0]) is None:
            raise InputError(f"--track: {kind} given, but it is not installed; pip install 'remem[{kind}]'")


def open_tracker(kind: str, name: str, out: Path) -> Tracker:
    module, _, attribute = TRACKERS[kind][1].partition(":")
    tracker: Tracker = getattr(import_module(module), attribute)(name, out)
    return tracker


@contextmanager
def track_run(kinds: Sequence[str], out: Path) -> Iterator[Emit]:
    """A subscriber for one run or one policy's learning in `out`; resumed work goes on with its trackers."""
    check_trackers(kinds)
    subscribers = [RunSubscriber(open_tracker(kind, out.name, out), out) for kind in kinds]
    try:
        yield fan_out(*subscribers)
    except BaseException:  # whatever was missed is added by work that is resumed
        for subscriber in subscribers:
            subscriber.tracker.close()
        raise
    for subscriber in subscribers:
        subscriber.finish()


@contextmanager
def track_study(kinds: Sequence[str], out: Path) -> Iterator[Emit]:
    """A subscriber for a study in `out`, with a tracker for each of its runs and policies."""
    check_trackers(kinds)

    def opening(kind: str) -> StudySubscriber:
        return StudySubscriber(lambda name, _folder: open_tracker(kind, name, out), out)

    subscribers = [opening(kind) for kind in kinds]
    try:
        yield fan_out(*subscribers)
    finally:
        for subscriber in subscribers:
            subscriber.close()
