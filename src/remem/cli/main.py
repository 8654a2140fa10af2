"""The `remem` command itself: its sub-commands, and how errors leave it. Heavy imports wait inside the commands."""

import signal
import sys
from collections.abc import Sequence
from typing import Annotated, Any, cast

import typer

from remem import __version__
from remem.cli import data, policy
from remem.cli.demo import demo
from remem.cli.learn_policy import learn_policy
from remem.cli.list import list_names
from remem.cli.plan import plan
from remem.cli.predict import predict
from remem.cli.resume import resume
from remem.cli.run import run
from remem.cli.study import study
from remem.cli.training import is_follower
from remem.errors import InputError

ABOUT = """Class-incremental learning under a strict memory budget.

Classes arrive in phases; samples of old and new classes share one memory, and a policy decides how it is split.

Start with `remem demo`, then try `remem run --dataset digits --out first-run`.
"""

UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])  # a wrong flag; typer has it under no name of its own

app = typer.Typer(
    name="remem",
    help=ABOUT,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("demo")(demo)
app.command("plan")(plan)
app.command("run")(run)
app.command("learn-policy")(learn_policy)
app.command("study")(study)
app.command("resume")(resume)
app.command("predict")(predict)
app.command("list")(list_names)
app.add_typer(data.app, name="data")
app.add_typer(policy.app, name="policy")


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
    if is_follower():  # it has nothing to save and nothing to say: Ctrl-C ends it at once
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        raise SystemExit(app(args=arguments, prog_name="remem", standalone_mode=False) or 0)
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
