"""Parameters that several commands declare themselves. Flags that stand for settings are in flags.py."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from remem.data.settings import DataSettings
from remem.errors import InputError
from remem.storage.atomic import write_atomically

LEARNING, SCENARIO, TRAINING, COMMON = "Learning", "Scenario", "Training", "Common"
PANELS = (None, LEARNING, SCENARIO, TRAINING, COMMON)  # in the order of `--help`


def option(flag: str, help_text: str, panel: str, metavar: str | None = None, **more: Any) -> Any:
    """An option in a panel of `--help`, without its default: that of a setting depends on preset and config file."""
    return typer.Option(flag, help=help_text, rich_help_panel=panel, metavar=metavar, show_default=False, **more)


def folder(text: str) -> Path:
    """Refuses an empty name, which would be the working directory; it usually comes from an unset variable."""
    if not text:
        raise typer.BadParameter("'' given; expected a folder")
    return Path(text)


def written(out: Path, content: bytes, what: str) -> None:
    """Writes the file of `--out` and says so; whatever stands in the way is the user's mistake."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, content)
    except OSError as error:
        raise InputError(f"--out: {out} cannot be written ({error.strerror})") from error
    typer.echo(f"{what}: {out}", err=True)


ConfigFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="CONFIG.toml", show_default=False, help="A file, or a name from `remem list configs`; flags win."
    ),
]
Overrides = Annotated[
    list[str] | None,
    option("--set", "Any setting, such as train.epochs=5; may be repeated; wins over all.", TRAINING, "KEY=VALUE"),
]
Out = Annotated[Path, option("--out", "Folder for the result, the model and the log.", COMMON, "DIR", parser=folder)]
DataRoot = Annotated[
    Path | None, option("--data-root", DataSettings.model_fields["root"].description or "", COMMON, "DIR")
]
Workers = Annotated[int | None, option("--workers", "Worker processes; by default one per core.", COMMON, "K", min=1)]
Ray = Annotated[
    str | None, option("--ray", "Train in Ray workers: local, or the address of a cluster.", COMMON, "local|ADDRESS")
]
Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN_OR_STUDY...", show_default=False, help="Folders of runs or studies, result files, folders of them."
    ),
]


@dataclass(frozen=True)
class PoolChoice:
    """Where jobs are trained: `--workers` and `--ray`."""

    workers: Workers = None
    ray: Ray = None


def takes_group(name: str, group: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replaces a parameter of a command by the fields of a dataclass, each a flag."""
    members = fields(group)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_group(**given: Any) -> None:
            command(**{name: group(**{member.name: given.pop(member.name) for member in members})}, **given)

        flags = [
            inspect.Parameter(
                member.name, inspect.Parameter.KEYWORD_ONLY, default=member.default, annotation=member.type
            )
            for member in members
        ]
        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for own in inspect.signature(command).parameters.values()
            for parameter in (flags if own.name == name else [own])
        ]
        with_group.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return with_group

    return decorate


class TrackerName(StrEnum):
    """Trackers, each an extra of the package."""

    TENSORBOARD = "tensorboard"
    MLFLOW = "mlflow"
    WANDB = "wandb"


Track = Annotated[
    list[TrackerName] | None,
    option("--track", "Hand all numbers to a tracker, too; may be repeated.", COMMON, "tensorboard|mlflow|wandb"),
]
Quiet = Annotated[bool, option("--quiet", "Print nothing but where the result is, and errors.", COMMON)]
