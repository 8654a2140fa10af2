"""What `run` and `resume` share: a run in this process with its display, what Ctrl-C says, and the closing table."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from remem.cli.progress import open_board

if TYPE_CHECKING:
    from remem.runs.build import Prepared
    from remem.runs.config import RunConfig
    from remem.runs.results import RunResult


def train(config: "RunConfig", out: Path, *, fresh: bool, quiet: bool) -> None:
    """All phases that are left; a `fresh` run refuses a folder that holds one."""
    from remem.runs.build import prepare
    from remem.runs.run import run_or_resume, run_in_folder
    from remem.runs.events import outline, phases_done

    quiet = quiet or is_follower()
    console, name = Console(quiet=quiet), str(out)
    with console.status("reading the data"):
        prepared = prepare(config)
    say(console, *describe(prepared))
    with open_board([name], console, quiet=quiet) as board:
        board.tell(name, outline(prepared, done=0 if fresh else phases_done(out)))
        work = run_in_folder if fresh else run_or_resume
        result = work(prepared, out, lambda event: board.tell(name, event))
    show_result(console, result, out)
    if quiet and not is_follower():
        print(out / "result.json")


def is_follower() -> bool:
    """Whether another process of the same run speaks to the user (Fabric starts one per device)."""
    return any(os.environ.get(name, "0") != "0" for name in ("LOCAL_RANK", "NODE_RANK"))


def show_result(console: Console, result: "RunResult", out: Path) -> None:
    """The closing table of a run."""
    from remem.report.tables import phase_table, totals_line

    oracle = " (oracle: it saw what no honest run may keep or see)" if result.data["oracle"] else ""
    say(console, "", phase_table(result).text(), "", totals_line(result) + oracle)
    say(console, f"in {out}: result.json, model.safetensors, predictions.npz, log.jsonl")


def stopped(out: Path) -> typer.Exit:
    """After Ctrl-C: one line that says what is kept and how to go on."""
    if is_follower():
        return typer.Exit(1)
    if not (out / "config.json").exists():
        typer.echo("stopped before the run began; nothing was written", err=True)
    else:
        result = out / "result.json"  # read plainly: Ctrl-C may have come while torch was being imported
        done = len(json.loads(result.read_text(encoding="utf-8"))["phases"]) if result.exists() else 0
        where = f"after phase {done - 1}" if done else "in phase 0"
        typer.echo(f"stopped {where}; go on with `remem resume {out}`", err=True)
    return typer.Exit(1)


def describe(prepared: "Prepared") -> list[str]:
    """What will run, in three lines, and what the user should know about the data."""
    config, scenario = prepared.config, prepared.scenario
    first, *later = [len(phase.classes) for phase in scenario.phases]
    sizes = str(later[0]) if len(set(later)) == 1 else ", ".join(map(str, later))
    judged = f"{config.scenario.validation:g} of the training data" if config.scenario.validation else "test data"
    train, tuned = config.train, config.finetune.epochs and prepared.method.replay == "budget"
    epochs = f"{train.epochs} + {config.finetune.epochs} balanced" if tuned else f"{train.epochs}"
    classes = f"{first + sum(later)} classes: {first} in phase 0, then {len(later)} phases of {sizes}"
    return [
        f"data     {scenario.name}, {classes}; order {config.scenario.order}, judged on {judged}",
        f"memory   {_memory(prepared)}",
        f"training {config.method.name}, network {config.net.name}, epochs {epochs}, "
        f"{train.precision} on {train.device}, seed {config.seed}",
        *(f"note     {note}" for note in scenario.notes),
    ]


def say(console: Console, *lines: str) -> None:
    """Lines as they are: no markup, no colours, no wrapping."""
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _memory(prepared: "Prepared") -> str:
    budget, method, policy = prepared.budget, prepared.method, prepared.policy
    if method.replay == "all":
        return (
            f"all data of all seen classes (oracle: {prepared.config.method.name} is no competitor, but the upper line)"
        )
    if budget.kind == "growing":
        size = f"{budget.amount} samples per old class and all new data"
    else:
        size = f"at most {budget.amount} samples at once from phase 1 on, E = {budget.exemplars}"
    if method.replay == "none":
        return f"{size}; nothing of old classes is kept"
    oracle = " (oracle)" if policy.oracle else ""
    return f"{size}; policy {policy.name}{oracle}, selection {prepared.config.memory.selection}"
