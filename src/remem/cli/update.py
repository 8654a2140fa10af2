"""`remem update`: makes a model from a user's own samples, or lets it learn from more of them."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console

from remem.cli.console import clock, percent, say, size
from remem.cli.displays.base import with_notices
from remem.cli.flags import SettingSources, takes_settings
from remem.cli.models import ModelPath, budget_in_words, held_in_words, interruptible, listed, versions_in_words
from remem.cli.options import COMMON, Quiet, Track, option, takes_group
from remem.codecs.table import RAW
from remem.errors import InputError
from remem.estimator.versions import ModelFolder
from remem.runs.trees import merged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remem.cli.options import TrackerName
    from remem.data.settings import DataSettings
    from remem.estimator.arrivals import Arrivals
    from remem.estimator.guard import Checked, Guard
    from remem.estimator.stream import Stream, UpdateReport
    from remem.events import Event
    from remem.runs.trees import Tree

FLAGS = ("--budget", "--method", "--policy", "--codec", "--backbone", "--preset", "--seed")
ROUNDING = 1e-9  # points
LEAST_SIDE = 16  # pixels
FEW = 20  # samples per class; a budget that holds fewer gets a note


@dataclass(frozen=True)
class GuardChoice:
    """What an update is measured on, and what it may cost: `--check` and `--max-drop`."""

    check: Annotated[
        str | None,
        option("--check", "Measure accuracy on these data, before and after; they are not learned.", COMMON, "DATA"),
    ] = None
    max_drop: Annotated[
        float | None,
        option("--max-drop", "Keep the old version if old classes lose more on --check.", COMMON, "POINTS", min=0.0),
    ] = None


@takes_settings(only=FLAGS)
@takes_group("guard", GuardChoice)
def update(
    model: ModelPath,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="Class folders of images, an .npz file with x and y, or a .csv file of paths and labels.",
            show_default=False,
        ),
    ],
    sources: SettingSources,
    guard: GuardChoice,
    keep: Annotated[int, option("--keep", "Versions to keep, this one included (3).", COMMON, "K", min=1)] = 3,
    track: Track = None,
    quiet: Quiet = False,
) -> None:
    """Make a model from your own samples, or let it learn from more of them.

    Samples may be of new and of known classes. What fits into the budget is kept inside the model; DATA is not needed
    again. Settings are given with the first update; only --budget may change later. Killed or stopped at any moment,
    the folder holds the old version or the new one.

    Example: remem update model photos/monday --budget 2MB --set data.image_size=32
    """
    folder, console = ModelFolder(model), Console(quiet=quiet)
    given = _given(folder, sources, data, guard)
    with interruptible(folder), folder.claim():
        from remem.estimator.arrivals import read_arrivals
        from remem.estimator.saved import save_stream
        from remem.estimator.settings import change_budget

        with console.status("reading the data"):
            stream, settings = _open(folder, given)
            arrivals = read_arrivals(data, settings, stream.shape if stream.updates else None)
            measured = None if guard.check is None else _guard(guard.check, settings, stream, arrivals)
        change_budget(stream, given)
        say(console, *_introduction(stream, arrivals))
        report, events = _train(stream, arrivals, model, track or (), quiet=quiet)
        checked = None if measured is None else measured.after(stream.model())
        say(console, *_outcome(stream, report, checked))
        if checked is not None and guard.max_drop is not None:
            _require_little_loss(checked, guard.max_drop, folder)
        version = folder.commit(lambda place: save_stream(place, stream), keep)
        _log(model, events, version, report, checked)
    say(console, f"version  {version} of {model}; {versions_in_words(folder)}")
    if quiet:
        print(folder.current)


def _given(folder: ModelFolder, sources: SettingSources, data: str, guard: GuardChoice) -> "Tree":
    """The settings of the command line. Typing mistakes are refused here, before torch is imported."""
    from remem.estimator.arrivals import find_data

    if guard.max_drop is not None and guard.check is None:
        raise InputError(f"--max-drop: {guard.max_drop:g} given without data to measure on; expected --check DATA, too")
    for place in (data, guard.check):
        if place is not None:
            find_data(place)
    _, flags, overrides = sources.layers() if folder.exists else sources.checked_layers()
    return merged(flags, overrides)


def _open(folder: ModelFolder, given: "Tree") -> "tuple[Stream, DataSettings]":
    """The stream of the current version, or a new one, and how data are read."""
    from remem.estimator.saved import load_stream
    from remem.estimator.settings import require_same_settings, stream_config
    from remem.estimator.stream import Stream

    if not folder.exists:
        config = stream_config(given)
        return Stream(config), config.data
    stream = load_stream(folder.current)
    return stream, require_same_settings(stream, given, str(folder.path)).data


def _guard(check: str, settings: "DataSettings", stream: "Stream", arrivals: "Arrivals") -> "Guard":
    from remem.estimator.arrivals import read_arrivals
    from remem.estimator.guard import Guard

    data = read_arrivals(check, settings, arrivals.values.shape[1:])
    return Guard(data, stream.model() if stream.updates else None)


def _train(
    stream: "Stream", arrivals: "Arrivals", model: Path, track: "Sequence[TrackerName]", *, quiet: bool
) -> "tuple[UpdateReport, list[Event]]":
    """The update, with a display of its progress; the events are for the log."""
    from remem.cli.displays.update import open_update_display, training_ahead
    from remem.events import fan_out
    from remem.tracking.table import track_run

    events: list[Event] = []
    with (
        open_update_display(str(model), Console(quiet=quiet), quiet=quiet) as display,
        track_run(track, model) as tracker,
    ):
        emit = fan_out(with_notices(display.subscriber(str(model))), tracker, events.append)
        emit(training_ahead(stream, len(arrivals)))
        return stream.update(arrivals.values, arrivals.labels, arrivals.ids, emit), events


def _introduction(stream: "Stream", arrivals: "Arrivals") -> list[str]:
    """What has come, and notes on it."""
    config, shape = stream.config, arrivals.values.shape[1:]
    known = set(stream.classes)
    labels = sorted(set(np.asarray(arrivals.labels).tolist()), key=lambda label: (isinstance(label, str), label))
    new = [str(label) for label in labels if label not in known]
    old = [str(label) for label in labels if label in known]
    kind = f"images of {shape[0]} x {shape[1]}" if len(shape) == 3 else f"vectors of {shape[0]}"
    parts = [f"{len(part)} {word} ({listed(part)})" for part, word in ((new, "new"), (old, "known")) if part]
    lines = [f"arrived  {len(arrivals)} {kind}; classes: {', '.join(parts)}"]
    if not stream.updates:
        budget = budget_in_words(stream.budget_setting)
        lines.append(f"model    {config.method.name}, policy {config.policy}, budget {budget}")
    return [*lines, *(f"note     {note}" for note in (*arrivals.notes, *_few(stream, shape, len(labels))))]


def _few(stream: "Stream", shape: tuple[int, ...], classes: int) -> list[str]:
    """Large images and a small budget: what would hold more can be chosen before the first update only."""
    from remem.memory.budget import parse_budget

    budget, ways = parse_budget(stream.budget_setting), []
    if budget is None or budget.kind != "bytes" or stream.updates or len(shape) != 3:
        return []
    if shape[0] > LEAST_SIDE:
        ways.append(f"--set data.image_size={max(LEAST_SIDE, shape[0] // 2)}")
    if shape[2] == 3 and stream.config.memory.codec == RAW:
        ways.append("--codec ycc420-5")
    count = budget.amount // math.prod(shape)
    held = f"{size(budget.amount)} hold about {count} images of {shape[0]} x {shape[1]}, {count // classes} per class"
    return (
        [f"{held}; {' or '.join(ways)} holds more, from the first update on"] if ways and count < FEW * classes else []
    )


def _outcome(stream: "Stream", report: "UpdateReport", checked: "Checked | None") -> list[str]:
    lines = [f"memory   {held_in_words(stream.memory())}; took {clock(report.seconds)}"]
    if checked is not None:
        parts = []
        if checked.before is not None:
            before, after = percent(checked.before.accuracy), percent(checked.after.accuracy)
            parts.append(f"old classes {before} before, {after} after ({checked.after.samples} samples)")
        if checked.new.samples:
            parts.append(f"new classes {percent(checked.new.accuracy)} ({checked.new.samples} samples)")
        lines.append(f"check    {'; '.join(parts) or 'no sample of a class of this model'}")
    return lines


def _require_little_loss(checked: "Checked", max_drop: float, folder: ModelFolder) -> None:
    """Ends the command if old classes have lost more than they may."""
    if checked.lost > max_drop + ROUNDING:
        kept = f"{folder.path} stays at version {folder.versions()[-1]}"
        typer.echo(f"rejected: old classes lost {checked.lost:.1f} points, more than {max_drop:g}; {kept}", err=True)
        raise typer.Exit(1)


def _log(
    model: Path, events: "Sequence[Event]", version: int, report: "UpdateReport", checked: "Checked | None"
) -> None:
    """Appends epochs and the update to the log, once there is a version of them."""
    from remem.estimator.events import ModelUpdated
    from remem.methods.events import EpochEnded
    from remem.storage.event_log import LOG, EventLog

    updated = ModelUpdated(
        version=version,
        update=report.update,
        samples=report.samples,
        new_classes=len(report.new_classes),
        known_classes=len(report.known_classes),
        held=report.held,
        held_bytes=report.held_bytes,
        budget=report.budget,
        accuracy_before=None if checked is None or checked.before is None else checked.before.accuracy,
        accuracy_after=None if checked is None else checked.after.accuracy,
        seconds=report.seconds,
    )
    log = EventLog(model / LOG, (EpochEnded, ModelUpdated))
    for event in (*events, updated):
        log(event)
