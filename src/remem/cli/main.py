"""The `remem` command: a table of its commands, and how errors leave it."""

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from threading import Thread
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from remem import __version__
from remem.cli.console import PLAIN, is_follower
from remem.errors import InputError
from remem.threads import limit_spinning

ABOUT = """Class-incremental learning under a strict memory budget.

Classes arrive in phases; samples of old and new classes share one memory, and a policy decides how it is split.

Start with `remem demo`, then try `remem run --dataset digits --out first-run`.
"""

COMMANDS = {  # name: import path, and the first line of its help; a command is imported when it is called
    "demo": ("remem.cli.demo:demo", "Compare three ways of sharing memory, on data that come with remem."),
    "plan": ("remem.cli.plan:plan", "Show what a run would hold in every phase, and about how long it would take."),
    "run": ("remem.cli.run:run", "Run one class-incremental experiment."),
    "learn-policy": (
        "remem.cli.learn_policy:learn_policy",
        "Learn how to share the memory, by REINFORCE or another search on pseudo tasks.",
    ),
    "study": ("remem.cli.study:study", "Run a grid: methods x policies x phases x seeds, and any other setting."),
    "resume": ("remem.cli.resume:resume", "Continue an interrupted run, policy learning or study."),
    "predict": (
        "remem.cli.predict:predict",
        "Name the classes of new images or vectors, with the model of a finished run.",
    ),
    "report": ("remem.cli.report:report", "Write runs and studies as one self-contained page."),
    "table": ("remem.cli.table:table", "Print runs and studies as a table."),
    "figure": ("remem.cli.figure:figure", "Draw runs, studies and policies for print."),
    "list": ("remem.cli.list:list_names", "List what there is to choose from."),
    "data": ("remem.cli.data:app", "Show, download and check data sets."),
    "policy": ("remem.cli.policy:app", "Show policies."),
}

UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])  # a wrong flag; typer does not export it


class LazyGroup(TyperGroup):
    """Imports commands when they are called; `remem --help` needs only their first lines."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, load_command(COMMANDS[str(name)][0]), rest


def load_command(path: str) -> Any:
    """The click command of a function, or of a group of commands, at an import path `module:name`."""
    module, _, name = path.partition(":")
    target = getattr(import_module(module), name)
    if not isinstance(target, typer.Typer):
        function, target = target, typer.Typer(**PLAIN)
        target.command()(function)
    return typer.main.get_command(target)


app = typer.Typer(name="remem", cls=LazyGroup, help=ABOUT, **PLAIN)
for _name, (_path, _line) in COMMANDS.items():
    app.command(_name, help=_line)(lambda: None)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"remem {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Options before the name of a command; alone, `remem` says what it can do."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Exit codes: 0 done, 2 the input is wrong (one line says what), 1 anything else."""
    limit_spinning()  # for this process and its workers; commands import torch later
    if is_follower():
        exit_on_interrupt()
    try:
        code = app(args=arguments, prog_name="remem", standalone_mode=False) or 0
        raise SystemExit(1 if code == 128 + signal.SIGINT else code)
    except (InputError, UsageError) as error:
        if message := _message(error):  # a command without its sub-command has printed its help
            print(f"error: {' '.join(message.split())}", file=sys.stderr)
        raise SystemExit(2) from None


def _message(error: Exception) -> str:
    if isinstance(error, InputError):
        return str(error)
    usage: Any = error
    message, command = usage.format_message().rstrip("."), usage.ctx.command_path if usage.ctx else "remem"
    return message and f"{message}; see {command} --help"


def exit_on_interrupt() -> None:
    """Ends a follower on Ctrl-C without a word, even while torch waits for other processes.

    A thread does it, because Python handles signals only between bytecodes. The exit code is 0, because Fabric kills
    the first process a few seconds after any other one has failed, and it may still be saying how to resume.
    """
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    signal.signal(signal.SIGINT, lambda number, frame: None)

    def wait() -> None:
        while os.read(readable, 1) != bytes([signal.SIGINT]):
            pass
        os._exit(0)

    Thread(target=wait, daemon=True).start()
