"""Kills `remem update` at every file event and at random moments: the folder always holds a whole version."""

import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from shutil import copytree, rmtree

import numpy as np

from remem.errors import InputError
from remem.estimator.versions import ModelFolder
from torture.kills import SPARED, Attempt, Kill

QUICK = ("--budget", "24", "--set", "train.epochs=2", "--set", "finetune.epochs=1", "--set", "net.hidden=[8]")
KILLED = -signal.SIGKILL


@dataclass
class Updates:
    kills: int = 0
    found: Counter[str] = field(default_factory=Counter)  # which version was there after a kill
    failures: list[str] = field(default_factory=list)


@dataclass
class _Stage:
    """An update to be killed: the folder before it, and what its version holds if it is let through."""

    start: Path  # a copy of the folder; does not exist for the first update
    words: list[str]
    version: int
    wanted: dict[str, bytes]
    seconds: float
    event: int = 0  # the last one that was tried; -1: there are no more


def torture(kills: int, rng: Random, folder: Path) -> Updates:
    """At least so many kills, in turn of a first and of a second update: at the next file event, and at a moment."""
    import remem.cli.update
    import remem.estimator.saved  # noqa: F401  (imports torch, once for all forks)

    tally, log = Updates(), folder / "output"
    stages = _stages(folder, log)
    while tally.kills < kills:
        for stage in stages:
            stage.event = stage.event + 1 if stage.event >= 0 else -1
            if stage.event > 0 and not _kill(stage, folder / "model", tally, log, event=stage.event):
                stage.event = -1
            _kill(stage, folder / "model", tally, log, seconds=rng.uniform(0, stage.seconds))
    return tally


def _stages(folder: Path, log: Path) -> list[_Stage]:
    """Two updates that are not killed, in two versions."""
    rng, whole, stages = np.random.default_rng(0), folder / "whole", []
    for number, classes in enumerate(([0, 1, 2], [2, 3]), start=1):
        y = np.repeat(classes, 10)
        np.savez(folder / f"{number}.npz", x=rng.normal(size=(len(y), 4)).astype(np.float32) + y[:, None], y=y)
        start = folder / f"before-{number}"
        if number > 1:
            copytree(whole, start)
        words, began = ["update", str(whole), str(folder / f"{number}.npz"), *QUICK], time.monotonic()
        assert Attempt(words, folder / "none", SPARED, log).run().code == 0, log.read_text()
        seconds = time.monotonic() - began
        stages.append(_Stage(start, words, number, _contents(whole, number), seconds))
    return stages


def _kill(
    stage: _Stage, model: Path, tally: Updates, log: Path, *, event: int | None = None, seconds: float | None = None
) -> bool:
    """Kills an update, looks at what is there, and goes on; whether it was killed."""
    rmtree(model, ignore_errors=True)
    if stage.start.exists():
        copytree(stage.start, model)
    words = [stage.words[0], str(model), *stage.words[2:]]
    code = Attempt(words, model, Kill(event, seconds), log).run().code
    where = f"update {stage.version}, killed at {f'event {event}' if seconds is None else f'{seconds:.3f} s'}"
    if code not in (0, KILLED):
        tally.failures.append(f"{where}: ended with {code}: {log.read_text()[-500:]}")
    tally.kills += code == KILLED
    try:
        kept = ModelFolder(model).versions()
        found = kept[-1] if kept else 0
        _require_whole(stage, model, found)
        tally.found["new" if found == stage.version else "old"] += 1
        if found < stage.version:
            if Attempt(words, model, SPARED, log).run().code != 0:
                raise ValueError(f"cannot be repeated: {log.read_text()[-500:]}")
            _require_whole(stage, model, stage.version)
    except (InputError, ValueError, OSError) as error:
        tally.failures.append(f"{where}: {error}")
    return code == KILLED


def _require_whole(stage: _Stage, model: Path, found: int) -> None:
    if found not in (stage.version - 1, stage.version):
        raise ValueError(f"version {found} is current")
    if found and (expected := stage.wanted if found == stage.version else _contents(stage.start, found)) != (
        _contents(model, found)
    ):
        raise ValueError(f"version {found} has other files than {', '.join(expected)}")


def _contents(model: Path, number: int) -> dict[str, bytes]:
    folder = model / "versions" / f"{number:04}"
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))}
