"""`remem export`: network and readout of a model as one ONNX graph."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from remem.cli.console import say
from remem.cli.predict import READOUTS, Head
from remem.errors import InputError


def export(
    folder: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="The folder of a finished run, or a model folder.", show_default=False),
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE.onnx", help="The file to write.", show_default=False)],
    head: Annotated[
        Head, typer.Option("--head", help="The method's own readout, the network's head, or nearest class means.")
    ] = Head.OWN,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only where the file is.")] = False,
) -> None:
    """Write network and readout of a model as one ONNX graph.

    It takes raw samples, images (n, h, w, c) in uint8 or vectors (n, d) in float32, and returns `probabilities` (n, C)
    and `class` (n,). The names of the classes are in its metadata. Before the file is written, the graph is compared
    with the model's own predictions. Needs `pip install 'remem[onnx]'`.

    Example: remem export runs/first first.onnx
    """
    if file.suffix.lower() != ".onnx" or file.is_dir() or not file.absolute().parent.is_dir():
        raise InputError(f"FILE.onnx: {file} given; expected a name that ends with .onnx, in a folder that exists")
    with Console(stderr=True, quiet=quiet).status("exporting"):
        from remem.runs.export import export_onnx, require_onnx
        from remem.runs.model import load_model

        require_onnx()
        model = load_model(folder)
        written = export_onnx(model, file, head=head.value)
    if quiet:
        print(file)
        return
    compared = "not compared with the model, since onnxruntime is not installed"
    if written.difference is not None:
        compared = f"probabilities differ from the model's by at most {written.difference:.0e}"
    facts = f"{model.config.method.name}, {len(model.class_names)} classes, read out by {READOUTS[written.readout]}"
    say(Console(), f"{file}: {facts}, {written.size / 1e6:.1f} MB; {compared}")
