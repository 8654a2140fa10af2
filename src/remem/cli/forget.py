"""`remem forget`: deletes classes or single samples from a model, and hands out a receipt."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from remem.cli.displays.base import with_notices
from remem.cli.models import ModelPath, interruptible
from remem.cli.options import COMMON, option
from remem.errors import InputError
from remem.estimator.versions import RECEIPTS, ModelFolder


def forget(
    model: ModelPath,
    classes: Annotated[
        list[str] | None, option("--class", "A class to delete; may be repeated.", COMMON, "NAME")
    ] = None,
    ids: Annotated[
        list[str] | None,
        option("--id", "A sample to delete: its id, or the file that it came from; may be repeated.", COMMON, "ID"),
    ] = None,
    retrain: Annotated[bool, option("--retrain", "Train anew on what is left: weights may remember.", COMMON)] = False,
    as_json: Annotated[bool, option("--json", "Print the receipt as JSON.", COMMON)] = False,
) -> None:
    """Delete classes or single samples from a model, with a receipt.

    Exemplars, class means and rows of the head go, in this version and in all older ones, which are deleted. What is
    left of the network may still remember; the receipt says so, and --retrain trains a new one. Receipts are kept in
    receipts.jsonl.

    Example: remem forget model --class cat --id photos/dog/12.jpg
    """
    if not classes and not ids:
        raise InputError("forget: nothing given; expected --class NAME or --id ID")
    folder = ModelFolder(model)
    with interruptible(folder):
        from remem.cli.displays.update import open_update_display, training_ahead
        from remem.estimator.arrivals import file_id
        from remem.estimator.deletion import forget as delete
        from remem.estimator.saved import load_stream, save_stream

        _ = folder.current  # raises if there is no model
        wanted = [file_id(Path(one)) if Path(one).is_file() else one for one in ids or ()]
        console = Console(stderr=True, quiet=as_json)
        with folder.claim():
            stream = load_stream(folder.current)
            with open_update_display(str(model), console, quiet=as_json or not retrain) as display:
                emit = with_notices(display.subscriber(str(model)))
                if retrain:
                    emit(training_ahead(stream, 0, afresh=True))
                receipt = delete(stream, classes=classes or (), ids=wanted, retrain=retrain, emit=emit)
            line = json.dumps(receipt.to_json())
            version = folder.commit(lambda place: save_stream(place, stream), keep=1, receipt=line)
    if as_json:
        print(json.dumps(receipt.to_json(), indent=1))
        return
    print(receipt.text())
    typer.echo(f"{model}: version {version}, no older version kept; the receipt is in {model / RECEIPTS}", err=True)
