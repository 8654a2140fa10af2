"""`remem predict`: labels and probabilities from a finished run's model."""

import csv
import io
import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from remem.cli.console import say
from remem.errors import DamagedFileError, InputError

if TYPE_CHECKING:
    from remem.runs.model import Model
    from remem.runs.predict_inputs import Inputs

PATIENCE = 2.0  # seconds before a bar is shown
READOUTS = {"cnn": "the network's head", "nme": "nearest class means"}

Entry = dict[str, Any]
"""One sample as JSON has it: its name, label, probability and class, and the same of the best classes in `top`."""


class Head(StrEnum):
    """Who reads the features."""

    OWN = "own"
    CNN = "cnn"
    NME = "nme"


class Format(StrEnum):
    """How predictions are written."""

    TEXT = "text"
    CSV = "csv"
    JSON = "json"


def predict(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a finished run, or of a model.", show_default=False)
    ],
    samples: Annotated[
        Path,
        typer.Argument(
            metavar="IMAGES_OR_NPZ",
            help="An image, a folder of images (and folders in it), or an .npz file with x or x_test.",
            show_default=False,
        ),
    ],
    head: Annotated[
        Head, typer.Option("--head", help="The method's own readout, the network's head, or nearest class means.")
    ] = Head.OWN,
    top: Annotated[int, typer.Option("--top", metavar="K", min=1, help="Classes to name for every sample.")] = 3,
    form: Annotated[
        Format | None, typer.Option("--format", help="By default text, or what --out ends with.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write to a .csv, .json or .txt file instead.", show_default=False),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the predictions, and nothing else.")] = False,
) -> None:
    """Name the classes of new images or vectors, with the model of a finished run.

    The data set is not needed: images are cut to their centre square and resized to what the model was trained on.

    Example: remem predict runs/first photos/ --top 5
    """
    form = _format(form, out)
    _require_there(folder, samples)
    note = Console(stderr=True, quiet=quiet)
    with note.status("loading the model"):
        from remem.runs.model import load_model
        from remem.runs.predict_inputs import open_inputs

        model = load_model(folder)
        readout = model.readout_of(head.value)
        inputs = open_inputs(samples, model)
    facts = {"method": model.config.method.name, "head": readout, "classes": len(model.class_names)}
    say(note, f"{facts['method']}, {facts['classes']} classes, read out by {READOUTS[readout]}")
    entries = _predict(model, inputs, head, top, note)
    text = WRITERS[form](entries, facts)
    if out is None:
        print(text, end="")
        return
    _write(out, text)
    if quiet:
        print(out)
    else:
        say(Console(), f"{out}: {len(entries)} samples")


def _require_there(folder: Path, samples: Path) -> None:
    """A misspelt path is refused before torch is imported."""
    if not folder.exists():
        raise DamagedFileError(f"{folder}: no such folder; expected the folder of a finished run")
    if not samples.exists():
        raise DamagedFileError(f"{samples}: no such file or folder; expected images or an .npz file")


def _format(form: Format | None, out: Path | None) -> Format:
    """What to write; a file that cannot be written is said to be so before any work."""
    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        raise InputError(f"--out: {out} cannot be written; expected a file in a folder that exists")
    if form is not None or out is None:
        return form or Format.TEXT
    by_suffix = {".txt": Format.TEXT, ".csv": Format.CSV, ".json": Format.JSON}
    if out.suffix.lower() not in by_suffix:
        raise InputError(f"--out: {out} given; expected a name that ends with {', '.join(by_suffix)}, or --format")
    return by_suffix[out.suffix.lower()]


def _predict(model: "Model", inputs: "Inputs", head: Head, top: int, note: Console) -> list[Entry]:
    columns = (TextColumn("predicting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    count, names, entries = len(inputs.names), iter(inputs.names), list[Entry]()
    with Progress(*columns, console=note, transient=True, disable=not note.is_terminal) as bar:
        task = bar.add_task("", total=count, visible=False)
        for block in model.blocks(inputs.reader, count, head.value):
            for best, chances, name in zip(block.best(top), block.probabilities, names, strict=False):
                classes = [
                    {"label": legible(block.class_names[k]), "probability": float(chances[k]), "class": k}
                    for k in best.tolist()
                ]
                entries.append({"sample": legible(name), **classes[0], "top": classes})
            bar.update(task, completed=len(entries), visible=(bar.tasks[0].elapsed or 0) > PATIENCE)
    return entries


def legible(text: str) -> str:
    """Names of files may hold bytes that are no text; those become question marks."""
    return text.encode("utf-8", "replace").decode()


def _as_text(entries: Sequence[Entry], facts: dict[str, Any]) -> str:
    from remem.report.tables import Table

    places = len(entries[0]["top"])
    header = ("sample", "label", *(f"#{place}" for place in range(2, places + 1)))
    rows = [
        (entry["sample"], *(f"{best['label']}  {100 * best['probability']:.1f} %" for best in entry["top"]))
        for entry in entries
    ]
    # A line break or a control character in a name would break the table, or more.
    shown = tuple(tuple("".join(c if c.isprintable() else "?" for c in cell) for cell in row) for row in rows)
    return Table(header, shown, labels=len(header)).text() + "\n"


def _as_csv(entries: Sequence[Entry], facts: dict[str, Any]) -> str:
    """One line per sample; the second best class and those after it have numbered columns."""
    fields = ("label", "probability", "class")
    places = range(2, len(entries[0]["top"]) + 1)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["sample", *fields, *(f"{field}_{place}" for place in places for field in fields)])
    for entry in entries:
        writer.writerow([entry["sample"], *(best[field] for best in entry["top"] for field in fields)])
    return buffer.getvalue()


def _as_json(entries: Sequence[Entry], facts: dict[str, Any]) -> str:
    return json.dumps({**facts, "predictions": list(entries)}, indent=1) + "\n"


WRITERS = {Format.TEXT: _as_text, Format.CSV: _as_csv, Format.JSON: _as_json}


def _write(out: Path, text: str) -> None:
    from remem.storage.atomic import write_atomically

    try:
        write_atomically(out, text.encode())
    except OSError as error:
        raise InputError(f"--out: {out} cannot be written ({error.strerror})") from error
