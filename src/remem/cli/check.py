"""`remem check`: verifies every file of a folder of any kind and says what to do. Nothing is changed."""

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from remem.cli.folders import LEARNING, RUN, STUDY
from remem.errors import InputError
from remem.storage.pointer import POINTER

KINDS = {  # in this order: a learning holds its policy as well
    "study": STUDY.settings_file,
    "learning": LEARNING.settings_file,
    "run": RUN.settings_file,
    "policy": "policy.json",
    "model": POINTER,
}


def check(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A run, a learning, a study, a policy or a model.", show_default=False)
    ],
) -> None:
    """Verify every file of a folder and say what to do.

    Checksums are compared, and files of other runs are found. Nothing is changed. The exit code is 0 if everything is
    whole, 2 if not.
    """
    kind = next((kind for kind, file in KINDS.items() if (folder / file).exists()), None)
    if kind is None:
        found = "nothing of remem's" if folder.is_dir() else "a file" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {found}; expected a folder with one of {', '.join(KINDS.values())}")
    problems: list[str] = import_module("remem.cli.verify").problems(kind, folder)  # imports torch
    for problem in problems:
        typer.echo(problem, err=True)
    if problems:
        raise typer.Exit(2)
    print(f"{folder}: {kind}, whole")
