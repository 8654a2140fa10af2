"""`remem rollback`: the version of a model before its latest update."""

import typer

from remem.cli.models import ModelPath, versions_in_words
from remem.estimator.versions import ModelFolder


def rollback(model: ModelPath) -> None:
    """Go back to the version of a model before its latest update.

    The version that it goes back from is deleted, and the next update continues from the older one. `remem update
    --keep K` says how many versions there are to go back to; `remem forget` keeps none.
    """
    folder = ModelFolder(model)
    left = folder.versions()[-1:]
    number = folder.rollback()
    typer.echo(f"{model}: version {number} again, version {left[0]} is deleted; {versions_in_words(folder)}")
