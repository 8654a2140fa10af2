"""`remem resume`: goes on with a run that was interrupted."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from remem.cli import options
from remem.cli.training import say, show_result, stopped, train


def resume(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the run.", show_default=False)],
    data_root: options.DataRoot = None,
    quiet: options.Quiet = False,
) -> None:
    """Go on with an interrupted run, after its last complete phase.

    The result equals that of a run that was never stopped. Settings cannot change. The data root may have moved: say
    where with --data-root. The paths of folder:PATH and npz:PATH are settings, and must be as they were.
    """
    try:
        _resume(folder, data_root, quiet=quiet)
    except KeyboardInterrupt:
        raise stopped(folder) from None


def _resume(folder: Path, data_root: Path | None, *, quiet: bool) -> None:
    from remem.runs.folder import read_config
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
