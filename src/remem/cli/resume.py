"""`remem resume`: goes on with a run, the learning of a policy or a study that was interrupted."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from remem.cli import options
from remem.cli.learn_policy import resume_learning
from remem.cli.study import resume_study
from remem.cli.training import say, show_result, stopped, train
from remem.errors import InputError


def resume(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of the run, learning or study.", show_default=False)
    ],
    data_root: options.DataRoot = None,
    workers: options.Workers = None,
    ray: options.Ray = None,
    quiet: options.Quiet = False,
) -> None:
    """Go on with an interrupted run after its last complete phase, with the learning of a policy, or with a study.

    The result equals that of one that was never stopped. Settings cannot change; --workers and --ray are for learnings
    and studies. The data root may have moved: say where with --data-root. The paths of folder:PATH and npz:PATH are
    settings, and must be as they were.
    """
    if (folder / "study.json").is_file():
        resume_study(folder, data_root, workers=workers, ray=ray, quiet=quiet)
        return
    if (folder / "learning.json").is_file():
        resume_learning(folder, data_root, workers=workers, ray=ray, quiet=quiet)
        return
    for flag, given in (("--workers", workers), ("--ray", ray)):
        if given is not None:
            raise InputError(
                f"{flag}: {given} given, but {folder} holds no learning of a policy and no study; expected none"
            )
    try:
        _resume(folder, data_root, quiet=quiet)
    except KeyboardInterrupt:
        raise stopped(folder) from None


def _resume(folder: Path, data_root: Path | None, *, quiet: bool) -> None:
    from remem.runs.run import read_config
    from remem.runs.results import load_result

    config, _ = read_config(folder, data_root)
    if (folder / "result.json").is_file() and (result := load_result(folder)).complete:
        console = Console(quiet=quiet)
        say(console, f"{folder}: this run is complete; there is nothing to go on with")
        show_result(console, result, folder)
        if quiet:
            print(folder / "result.json")
        return
    train(config, folder, fresh=False, quiet=quiet)
