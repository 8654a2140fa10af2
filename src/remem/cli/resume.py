"""`remem resume`: continues an interrupted run, policy learning or study."""

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from remem.cli import folders
from remem.cli.options import DataRoot, Quiet, Ray, Track, Workers
from remem.errors import InputError


def resume(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of the run, learning or study.", show_default=False)
    ],
    data_root: DataRoot = None,
    workers: Workers = None,
    ray: Ray = None,
    track: Track = None,
    quiet: Quiet = False,
) -> None:
    """Continue an interrupted run, policy learning or study.

    The result equals that of one that was never stopped. A run continues after its last complete phase. Settings cannot
    change; --workers and --ray are for learnings and studies. If the data root has moved, give the new one with
    --data-root. The paths of folder:PATH and npz:PATH are settings, and must be as they were. --track goes on with what
    a tracker has, and adds what it lacks.
    """
    work = folders.work_in(folder)
    pool = {"workers": workers, "ray": ray}
    if work is folders.RUN:
        for name, value in pool.items():
            if value is not None:
                raise InputError(f"--{name}: {value} given, but {folder} holds a run; expected a learning or a study")
        pool = {}
    module, _, function = work.resume.partition(":")
    getattr(import_module(module), function)(folder, data_root, **pool, quiet=quiet, track=track or ())
