"""The display of an update: a bar on a terminal, a line now and then elsewhere, nothing when quiet."""

import math
from typing import TYPE_CHECKING

from rich.console import Console

from remem.cli.displays.base import SILENT_SECONDS
from remem.cli.displays.progress import RunProgress
from remem.cli.displays.run import RunBars, RunDisplay, RunLines
from remem.events import Event
from remem.methods.events import EpochEnded
from remem.runs.events import PhaseSize, RunStarted

if TYPE_CHECKING:
    from remem.estimator.stream import Stream


class UpdateLines(RunLines):
    """For pipes and logs: after the first epoch, and after every minute without a line."""

    _last: float | None = None

    def show(self, run: RunProgress, event: Event) -> None:
        if isinstance(event, EpochEnded) and (self._last is None or run.elapsed - self._last > SILENT_SECONDS):
            self._last = run.elapsed
            self._line(run, f"training, {run.doing}")


def open_update_display(name: str, console: Console, *, quiet: bool) -> RunDisplay:
    """The display that fits the console."""
    if quiet:
        return RunDisplay([name])
    return RunBars([name], console) if console.is_terminal else UpdateLines([name], console)


def training_ahead(stream: "Stream", arriving: int, *, afresh: bool = False) -> RunStarted:
    """The work of an update, as the last phase of a run; `afresh`: of training a new network on what is held."""
    from remem.estimator.build import stream_method

    config, method = stream.config, stream_method(stream.config)
    done = 0 if afresh or not stream.updates else stream.episode.next_phase
    samples = int(min(arriving + stream.memory().total_samples, _capacity(stream))) if stream.updates else arriving
    return RunStarted(
        done=done,
        phases=(*(PhaseSize(0, None) for _ in range(done)), PhaseSize(samples, None)),
        epochs=config.train.epochs,
        epochs_later=config.train.epochs_of(0 if method.restarts else 1),
        balanced_epochs=config.finetune.epochs,
        teacher=method.asks_teacher and not method.restarts,
    )


def _capacity(stream: "Stream") -> float:
    """Samples that the budget holds, at the mean size of those that are held; infinite if it grows."""
    table = stream.memory()
    if table.budget.isdigit():
        return int(table.budget)
    if table.budget_bytes is None or not table.total_bytes:
        return math.inf
    return table.budget_bytes * table.total_samples // table.total_bytes
