"""`data.image_size=auto` of `remem run`: chooses the side of the images, and shows what the choice is based on."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from remem.cli.console import say
from remem.data.settings import AUTO

if TYPE_CHECKING:
    from remem.report.tables import Table
    from remem.rl.image_size import SizeTrial
    from remem.runs.config import RunConfig


def with_image_size(config: "RunConfig", out: Path, console: Console) -> "RunConfig":
    """Replaces `auto` by the side of the run that the folder holds, else by the best one on pseudo tasks."""
    if config.data.image_size != AUTO:
        return config
    from remem.rl.image_size import choose_image_size, with_side
    from remem.runs.run import RUN, read_config
    from remem.storage.workdir import WorkDir

    if WorkDir(out, RUN).exists:
        return with_side(config, read_config(out)[0].data.side)
    with console.status("trying image sizes on pseudo tasks"):
        chosen, trials = choose_image_size(config)
    side = f"image size {chosen.data.side}: the best on pseudo tasks of phase 0, without test data"
    say(console, trials_table(trials).text(), side, "")
    return chosen


def trials_table(trials: "Sequence[SizeTrial]") -> "Table":
    """One row per side, with the accuracy on every task."""
    from remem.report.tables import Table, hundredths

    tasks = range(len(trials[0].accuracies))
    header = ("image size", "samples", *(f"task {number} %" for number in tasks), "average %")
    rows = [
        (str(trial.side), str(trial.held), *map(hundredths, trial.accuracies), hundredths(trial.accuracy))
        for trial in trials
    ]
    return Table(header, tuple(rows))
