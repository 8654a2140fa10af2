"""The `remem` command: a table of its commands, and how errors leave it."""

import logging
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from threading import Thread
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from remem import __version__
from remem.cli.boundary import Stopped, report, without_debug
from remem.cli.console import PLAIN, is_follower
from remem.interrupts import STOPPING, Interrupted, exit_code, handled, is_deferring, request
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
    "check": ("remem.cli.check:check", "Verify every file of a folder and say what to do."),
    "predict": (
        "remem.cli.predict:predict",
        "Name the classes of new images or vectors, with the model of a finished run.",
    ),
    "update": ("remem.cli.update:update", "Make a model from your own samples, or let it learn from more of them."),
    "memory": ("remem.cli.memory:memory", "Show what a model remembers, as a table or as a page with pictures."),
    "forget": ("remem.cli.forget:forget", "Delete classes or single samples from a model, with a receipt."),
    "rollback": ("remem.cli.rollback:rollback", "Go back to the version of a model before its latest update."),
    "export": ("remem.cli.export:export", "Write network and readout of a model as one ONNX graph."),
    "report": ("remem.cli.report:report", "Write runs and studies as one self-contained page."),
    "table": ("remem.cli.table:table", "Print runs and studies as a table."),
    "figure": ("remem.cli.figure:figure", "Draw runs, studies and policies for print."),
    "list": ("remem.cli.list:list_names", "List what there is to choose from."),
    "data": ("remem.cli.data:app", "Show, download and check data sets."),
    "policy": ("remem.cli.policy:app", "Show policies."),
}


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


app = typer.Typer(name="remem", cls=LazyGroup, help=ABOUT, **{**PLAIN, "add_completion": True})
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
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; may stand anywhere in the command.")
    ] = False,
) -> None:
    """Options before the name of a command; alone, `remem` says what it can do."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Exit codes: 0 done, 2 the input is wrong, 130, 143 or 129 stopped by a signal, 1 anything else."""
    limit_spinning()  # for this process and its workers; commands import torch later
    logging.getLogger("PIL").addHandler(logging.NullHandler())  # a damaged image gets one line: ours
    words, debug = without_debug(list(sys.argv[1:] if arguments is None else arguments))
    if is_follower():
        follow_leader()
        if run_command(words, debug=debug) > 128:
            os._exit(0)  # at once: torch's threads still wait for the other processes
        raise SystemExit(0)
    last: list[int] = []
    with handled(on_signal=last.append):
        raise SystemExit(run_command(words, debug=debug, signals=last))


def run_command(words: Sequence[str], *, debug: bool, signals: Sequence[int] = ()) -> int:
    """Runs a command and returns its exit code, whatever happens."""
    try:
        code = app(args=words, prog_name="remem", standalone_mode=False) or 0
        if code == 128 + signal.SIGINT:  # typer's own answer to any signal that no work has taken
            raise Interrupted(signals[-1] if signals else signal.SIGINT)
        return int(code)
    except Stopped as stopped:
        return stopped.code
    except KeyboardInterrupt as stopped:
        if not is_follower():
            print("stopped", file=sys.stderr)
        return exit_code(stopped)
    except Exception as error:
        return report(error, debug=debug)


def follow_leader() -> None:
    """For a process beside the one that talks to the user: a signal ends it without a word, even while torch waits.

    While it trains, the first signal leaves the moment to the training, which all processes stop together. A thread
    does the rest, because Python handles signals only between bytecodes. The exit code is 0, because Fabric kills the
    first process a few seconds after any other one has failed, and it may still be saying how to resume.
    """
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    for number in STOPPING:
        signal.signal(number, lambda number, frame: request(number))

    def wait() -> None:
        signals = 0
        while True:
            signals += os.read(readable, 1)[0] in STOPPING
            if signals and not (is_deferring() and signals == 1):
                os._exit(0)

    Thread(target=wait, daemon=True).start()
