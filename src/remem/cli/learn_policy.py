"""`remem learn-policy`: a policy learned on pseudo tasks, into a folder that `--policy` takes."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from remem.cli import options
from remem.cli.learn_board import open_learn_board, path_text
from remem.cli.progress import percent
from remem.cli.training import say

if TYPE_CHECKING:
    from remem.policies.learned import Learned
    from remem.rl.config import LearnConfig, LearnSettings

ORACLE = " (oracle: it sees all classes of the target before they arrive)"


def learn_policy(
    context: typer.Context,
    config: options.ConfigFile = None,
    *,
    levels: options.Levels = None,
    source: options.Source = None,
    fidelity: options.Fidelity = None,
    epochs: options.Epochs = None,
    tasks: options.Tasks = None,
    runs: options.Runs = None,
    pool: options.Pool = None,
    baseline: options.Baseline = None,
    crossval_fixed: options.CrossvalFixed = None,
    dataset: options.Dataset = None,
    order: options.Order = None,
    phases: options.Phases = None,
    base_classes: options.BaseClasses = None,
    budget: options.Budget = None,
    exemplars: options.Exemplars = None,
    policy: options.Policy = None,
    selection: options.Selection = None,
    validation: options.Validation = None,
    method: options.Method = None,
    backbone: options.Backbone = None,
    preset: options.Preset = None,
    device: options.Device = None,
    devices: options.Devices = None,
    strategy: options.Strategy = None,
    settings: options.Set = None,
    out: options.Out,
    seed: options.Seed = None,
    data_root: options.DataRoot = None,
    workers: options.Workers = None,
    ray: options.Ray = None,
    quiet: options.Quiet = False,
) -> None:
    """Learn how to share the memory, by REINFORCE on pseudo tasks.

    Scenario and training flags are those of the target, the run that the policy is for; --policy and --validation mean
    nothing here. Tasks are cut from the target's phase 0, rewards are accuracies on a tenth of its training data, and
    no test set is ever read. The same command, or `remem resume`, goes on with what was interrupted.

    Example: remem learn-policy --dataset glyphs --phases 5 --budget 2000 --fidelity features --out my-policy
    """
    try:
        learn(options.read_learn_settings(context.params), out, workers=workers, ray=ray, quiet=quiet)
    except KeyboardInterrupt:
        raise stopped(out) from None


def resume_learning(folder: Path, data_root: Path | None, *, workers: int | None, ray: str | None, quiet: bool) -> None:
    """Goes on with a folder's learning."""
    from remem.rl.learn import read_learning

    try:
        learn(read_learning(folder, data_root)[0], folder, workers=workers, ray=ray, quiet=quiet)
    except KeyboardInterrupt:
        raise stopped(folder) from None


def learn(config: "LearnConfig", out: Path, *, workers: int | None, ray: str | None, quiet: bool) -> None:
    """All that is left of a learning, with its display."""
    from remem.parallel.pool import open_pool
    from remem.rl.learn import learn_in_folder

    console = Console(quiet=quiet)
    alone = ray is None and (workers or os.cpu_count() or 1) == 1

    def announce(begin: Mapping[str, Any]) -> None:
        say(console, *describe(begin, config, crew.about))

    with open_pool(workers, ray) as crew, open_learn_board(console, announce, quiet=quiet) as board:
        policy = learn_in_folder(config, out, board.tell, None if alone else crew)
    if board.begun is None and not quiet:
        say(console, f"{out}: this learning is complete; there is nothing to go on with")
    say(console, "", *summary(policy, out))
    if quiet:
        print(out)


def describe(begin: Mapping[str, Any], config: "LearnConfig", workers: str) -> list[str]:
    """What will be learned, in a few lines."""
    target, learned = config.target, config.learn
    where = {
        "phase0": f"phase 0 of {begin['data']}, order {target.scenario.order}",
        "target": f"the whole of {begin['data']}, order {target.scenario.order}",
        "dataset": f"another data set, {begin['data']}",
    }[begin["source"]]
    lines = [
        f"data     {where}: {begin['classes']} classes; judged on a tenth of their training data, no test set",
        *(f"tasks    {_task(task)}" for task in begin["tasks"]),
        f"learning {begin['name']}{ORACLE if begin['oracle'] else ''}; {_plan(learned)}",
        f"runs     {target.method.name}, fidelity {_fidelity(learned)}; seed {target.seed}, {workers}",
    ]
    if begin["done"]:
        lines.append(f"resumed  after epoch {begin['done']} of {begin['epochs']}")
    return lines


def summary(policy: "Learned", out: Path) -> list[str]:
    """What came of it, and how to use it."""
    lines = _shares(policy) if "shares" in policy.facts else _epochs(out)
    oracle = ORACLE if policy.oracle else ""
    return [*lines, f"policy   {policy.name}{oracle}; use it with `--policy {out}`"]


def stopped(out: Path) -> typer.Exit:
    """After Ctrl-C: one line that says what is kept and how to go on."""
    if not (out / "learning.json").exists():
        typer.echo("stopped before the learning began; nothing was written", err=True)
        return typer.Exit(1)
    log = out / "log.jsonl"  # read plainly: Ctrl-C may have come while torch was being imported
    done = len(log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0
    where = f"after epoch {done}" if done else "in the first epoch"
    typer.echo(f"stopped {where}; every reward so far is kept, go on with `remem resume {out}`", err=True)
    return typer.Exit(1)


def _task(task: Mapping[str, Any]) -> str:
    first, *later = task["sizes"]
    sizes = str(later[0]) if len(set(later)) == 1 else ", ".join(map(str, later))
    memory = f"M = {task['budget']}, E = {task['exemplars']}"
    if task["kind"] == "growing":
        memory = f"{task['budget']} samples per old class and all new data"
    return f"{first} classes in phase 0, then {len(later)} phases of {sizes}; {memory}"


def _plan(learned: "LearnSettings") -> str:
    if learned.crossval_fixed:
        return f"every fixed share on {learned.pool} tasks, the best one stays"
    tasks = f"a pool of {learned.pool}" if learned.pool else "ever new ones"
    levels = "two levels" if learned.levels == 2 else "one level"
    return (
        f"{levels}, {learned.all_epochs} epochs of {learned.tasks} tasks (of {tasks}) x {learned.runs} runs, "
        f"baseline {learned.baseline}"
    )


def _fidelity(learned: "LearnSettings") -> str:
    words = {
        "full": "full",
        "short": f"short ({learned.short_share:g} of the epochs after phase 0)",
        "features": "features (frozen after phase 0, only the head learns)",
    }
    if learned.finish_epochs and not learned.crossval_fixed:
        last = f", the last {learned.finish_epochs} epochs {learned.finish_fidelity}"
        return words[learned.fidelity] + last
    return words[learned.fidelity]


def _epochs(out: Path) -> list[str]:
    from remem.rl.trainer import read_log

    events = read_log(out)
    if not events:
        return []
    first, last = events[0], events[-1]
    kinds = [f" ({event['fidelity']})" if first["fidelity"] != last["fidelity"] else "" for event in (first, last)]
    return [
        f"reward   average accuracy {percent(first['reward'])}{kinds[0]} in the first epoch, "
        f"{percent(last['reward'])}{kinds[1]} in the last of {last['epochs']}",
        f"path     old shares | harder halves, most probable: {path_text(last['path'])}",
    ]


def _shares(policy: "Learned") -> list[str]:
    from remem.report.tables import Table, hundredths

    rows = [
        (f"{share['old_share']}", hundredths(share["accuracy"]), f"{share['reward']:.4f}")
        for share in policy.facts["shares"]
    ]
    best = policy.facts["old_tenths"] / 10
    table = Table(("old share", "average accuracy %", "total reward"), tuple(rows)).text()
    return [table, "", f"best     {best} of the memory for old classes in every phase"]
