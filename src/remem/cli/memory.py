"""`remem memory`: what a model remembers, as a table, as JSON, or as a page with pictures."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remem.cli.console import size
from remem.cli.models import ModelPath, held_in_words, printable, versions_in_words
from remem.cli.options import written
from remem.estimator.versions import ModelFolder

if TYPE_CHECKING:
    from remem.estimator.account import MemoryRow, MemoryTable
    from remem.estimator.stream import Stream
    from remem.report.store_page import Remembered
    from remem.report.tables import Table


def memory(
    model: ModelPath,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE.html", help="Write a page with pictures instead.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the ids of all samples.")] = False,
) -> None:
    """Show what a model remembers, as a table or as a page with pictures.

    For every class: samples, bytes as stored, codec, the updates that brought them, and whether it is in the harder or
    the easier half of the classes it came with. Beside the budget: the network and the class means.

    Example: remem memory model --out memory.html
    """
    from remem.estimator.saved import load_stream

    folder = ModelFolder(model)
    stream = load_stream(folder.current)
    account = stream.memory()
    if as_json:
        print(json.dumps(_tree(folder, stream, account), indent=1))
    elif out is None:
        lines = (f"{word:<8} {text}" for word, text in _totals(folder, stream, account).items())
        print("\n".join([_table(account).text(), "", *lines]))
    if out is not None:
        written(out, _page(folder, stream, account, out).encode(), "memory")


def _table(account: "MemoryTable") -> "Table":
    from remem.report.tables import Table

    rows = [
        (printable(str(row.label)), row.codec, row.half or "latest", str(row.samples), size(row.bytes), _since(row))
        for row in account.rows
    ]
    return Table(("class", "codec", "half", "samples", "bytes", "since update"), tuple(rows), labels=3)


def _since(row: "MemoryRow") -> str:
    first, last = row.since
    return str(first) if first == last else f"{first} to {last}"


def _totals(folder: ModelFolder, stream: "Stream", account: "MemoryTable") -> dict[str, str]:
    network, means = _beside(stream)
    return {
        "held": f"{held_in_words(account)}; {stream.updates} updates",
        "besides": f"network {size(network)}, class means {size(means)}; they do not count towards the budget",
        "version": f"{folder.versions()[-1]} of {folder.path}; {versions_in_words(folder)}",
    }


def _beside(stream: "Stream") -> tuple[int, int]:
    """Bytes of the network and of the class means."""
    model = stream.model()
    tensors = model.network.state_dict().values()
    return sum(value.nbytes for value in tensors), 0 if model.class_means is None else model.class_means.nbytes


def _tree(folder: ModelFolder, stream: "Stream", account: "MemoryTable") -> dict[str, Any]:
    network, means = _beside(stream)
    tree = account.to_json()
    for row, entry in zip(account.rows, tree["classes"], strict=True):
        entry["ids"] = stream.held(row.label)[1]
    versions = folder.versions()
    return {
        "version": versions[-1],
        "versions": list(versions),
        "bytes_on_disk": folder.size(),
        "updates": stream.updates,
        "network_bytes": network,
        "class_means_bytes": means,
        **tree,
    }


def _page(folder: ModelFolder, stream: "Stream", account: "MemoryTable", out: Path) -> str:
    from remem.report.store_page import StorePage

    shows = len(stream.shape) == 3 and stream.shape[2] in (1, 3)
    command = ["remem", "memory", str(folder.path), "--out", str(out)]
    page = StorePage(
        title=f"What {folder.path.resolve().name} remembers",
        lines=[f"{word.capitalize()}: {text}." for word, text in _totals(folder, stream, account).items()],
        table=_table(account),
        classes=[_remembered(stream, row) for row in account.rows] if shows else [],
        hint=f"Best first. Hover over a picture for its id; remem forget {folder.path} --id ID deletes it.",
        command=shlex.join(command),
    )
    return page.html()


def _remembered(stream: "Stream", row: "MemoryRow") -> "Remembered":
    from remem.report.store_page import Remembered

    values, ids = stream.held(row.label)
    half = "" if row.half is None else f", {row.half} half"
    facts = f"{row.samples} samples, {size(row.bytes)} as {row.codec}, since update {_since(row)}{half}"
    return Remembered(str(row.label), facts, values, ids)
