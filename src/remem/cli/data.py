"""`remem data`: where data sets are, downloads, and what is wrong with them."""

from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from remem.cli.console import PLAIN
from remem.cli.options import DataRoot, Quiet

app = typer.Typer(help="Show, download and check data sets.", no_args_is_help=True, **PLAIN)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A data set.", show_default=False)]


@app.command("list")
def list_datasets(data_root: DataRoot = None) -> None:
    """List data sets and whether they are there."""
    from remem.data.datasets import BY_PATH, DATASETS
    from remem.data.settings import DataSettings
    from remem.data.source import data_root as find_root

    root = find_root(DataSettings(root=data_root))
    print(f"data root: {root}")
    for name in DATASETS:
        entry = DATASETS[name]
        state = "built in" if not entry.files else "there" if entry.lies_below(root) else "missing"
        print(f"{name:24}{state:10}{entry.summary}")
    for kind, entry in BY_PATH.items():
        print(f"{f'{kind}:PATH':24}{'yours':10}{entry.summary}")


@app.command("get")
def fetch_dataset(name: Name, data_root: DataRoot = None, quiet: Quiet = False) -> None:
    """Download a data set, with its checksum; a broken download continues where it stopped."""
    from remem.data.datasets import DATASETS
    from remem.data.fetch import fetch
    from remem.data.settings import DataSettings
    from remem.data.source import data_root as find_root

    DATASETS[name]  # a typo gets a suggestion
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(TextColumn(name, markup=False), *columns, console=Console(stderr=True, quiet=quiet)) as bar:
        task = bar.add_task(name, total=None, visible=False)
        path = fetch(
            name,
            find_root(DataSettings(root=data_root)),
            progress=lambda done, total: bar.update(task, completed=done, total=total, visible=True),
        )
    print(path)


@app.command("check")
def check(name: Name, data_root: DataRoot = None) -> None:
    """Read every file of a data set and say what is missing or damaged."""
    from remem.data.datasets import check_dataset
    from remem.data.settings import DataSettings

    problems = check_dataset(DataSettings(name=name, root=data_root))
    for problem in problems:
        typer.echo(problem, err=True)
    if problems:
        raise typer.Exit(2)
    print(f"{name}: whole")
