"""`remem run`: one class-incremental run into a folder."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from remem.cli import folders
from remem.cli.console import is_follower, say
from remem.cli.flags import SettingSources, takes_settings
from remem.cli.options import COMMON, SCENARIO, TRAINING, Out, Quiet, Track
from remem.data.settings import AUTO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remem.cli.options import TrackerName
    from remem.report.tables import Table
    from remem.rl.image_size import SizeTrial
    from remem.runs.config import RunConfig
    from remem.runs.prepared import Prepared
    from remem.runs.results import RunResult


@takes_settings(SCENARIO, TRAINING, COMMON)
def run(out: Out, sources: SettingSources, track: Track = None, quiet: Quiet = False) -> None:
    """Run one class-incremental experiment.

    Settings come from the preset, then CONFIG.toml, then flags, then --set; later ones win. The folder holds
    everything: `result.json`, the model, the predictions, the log, and a checkpoint after every phase.

    Example: remem run --dataset digits --phases 3 --budget 300 --policy fixed-0.6 --out first-run
    """
    with folders.RUN.interruptible(out):
        from remem.runs.config import compose

        train(compose(*sources.checked_layers()), out, resume=False, quiet=quiet, track=track or ())


def resume_run(folder: Path, data_root: Path | None, *, quiet: bool, track: "Sequence[TrackerName]" = ()) -> None:
    """Resumes the run of a folder, or shows its result if it is complete."""
    with folders.RUN.interruptible(folder):
        from remem.runs.results import load_result
        from remem.runs.run import read_config

        config, _ = read_config(folder, data_root)
        if (folder / "result.json").is_file() and (result := load_result(folder)).complete:
            from remem.tracking.table import track_run

            console = Console(quiet=quiet)
            with track_run(track, folder):
                pass  # its log may have what a tracker lacks
            say(console, f"{folder}: this run is complete; there is nothing left to do")
            show_result(console, result, folder)
            if quiet:
                print(folder / "result.json")
            return
        train(config, folder, resume=True, quiet=quiet, track=track)


def train(config: "RunConfig", out: Path, *, resume: bool, quiet: bool, track: "Sequence[TrackerName]" = ()) -> None:
    """Trains all phases that are left; a new run refuses a folder that holds one."""
    from remem.cli.displays.base import with_notices
    from remem.cli.displays.run import open_run_display
    from remem.events import fan_out
    from remem.runs.build import prepare
    from remem.runs.events import RunStarted
    from remem.runs.results import phases_done
    from remem.runs.run import run_in_folder, run_or_resume
    from remem.tracking.table import check_trackers, track_run

    check_trackers(track)
    quiet = quiet or is_follower()
    console = Console(quiet=quiet)
    config = with_image_size(config, out, console)
    with console.status("reading the data"):
        prepared = prepare(config)
    say(console, *describe(prepared))
    with (
        open_run_display([str(out)], console, quiet=quiet) as display,
        track_run(() if is_follower() else track, out) as tracker,
    ):
        emit = fan_out(with_notices(display.subscriber(str(out))), tracker)
        emit(RunStarted.of(prepared, done=phases_done(out) if resume else 0))
        result = (run_or_resume if resume else run_in_folder)(prepared, out, emit)
    show_result(console, result, out)
    if quiet and not is_follower():
        print(out / "result.json")


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


def show_result(console: Console, result: "RunResult", out: Path) -> None:
    """The closing table of a run."""
    from remem.report.tables import phase_table, totals_line

    oracle = " (oracle: it saw what no honest run may keep or see)" if result.oracle else ""
    say(console, "", phase_table(result).text(), "", totals_line(result) + oracle, result.memory)
    say(console, f"in {out}: result.json, model.safetensors, predictions.npz, log.jsonl")


def describe(prepared: "Prepared") -> list[str]:
    """What will run, in three lines, and notes on the data."""
    config, scenario = prepared.config, prepared.scenario
    first, *later = [len(phase.classes) for phase in scenario.phases]
    sizes = str(later[0]) if len(set(later)) == 1 else ", ".join(map(str, later))
    evaluated = f"{config.scenario.validation:g} of the training data" if config.scenario.validation else "test data"
    train, tuned = config.train, config.finetune.epochs and prepared.method.replay == "budget"
    epochs = f"{train.epochs} + {config.finetune.epochs} balanced" if tuned else f"{train.epochs}"
    classes = f"{first + sum(later)} classes: {first} in phase 0, then {len(later)} phases of {sizes}"
    return [
        f"data     {scenario.name}, {classes}; order {config.scenario.order}, evaluated on {evaluated}",
        f"memory   {_memory(prepared)}",
        f"training {config.method.name}, network {config.net.name}, epochs {epochs}, "
        f"{train.precision} on {train.device}, seed {config.seed}",
        *(f"note     {note}" for note in (*scenario.notes, *prepared.notes)),
    ]


def _memory(prepared: "Prepared") -> str:
    method, policy = prepared.method, prepared.policy
    if method.replay == "all":
        return f"all data of all seen classes (oracle: {prepared.config.method.name} is an upper bound, no competitor)"
    size = prepared.memory_in_words
    if method.replay == "none":
        return f"{size}; nothing of old classes is kept"
    oracle = " (oracle)" if policy.oracle else ""
    return f"{size}; policy {policy.name}{oracle}, selection {prepared.config.memory.selection}"
