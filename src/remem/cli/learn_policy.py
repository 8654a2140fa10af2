"""`remem learn-policy`: a policy learned on pseudo tasks, into a folder that `--policy` takes."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from remem.cli import folders
from remem.cli.console import percent, say, span
from remem.cli.costs import WorkerCount, busy_lines, times, unknown
from remem.cli.flags import SettingSources, takes_settings
from remem.cli.options import COMMON, LEARNING, SCENARIO, TRAINING, Out, Quiet, Ray, Track, TrackerName, Workers

if TYPE_CHECKING:
    from remem.policies.learned import Learned
    from remem.rl.config import LearnConfig
    from remem.rl.events import LearningStarted, TaskSummary
    from remem.rl.settings import LearnSettings

ORACLE = " (oracle: it sees all classes of the target before they arrive)"


@takes_settings(LEARNING, SCENARIO, TRAINING, COMMON)
def learn_policy(
    out: Out,
    sources: SettingSources,
    workers: Workers = None,
    ray: Ray = None,
    track: Track = None,
    quiet: Quiet = False,
) -> None:
    """Learn how to share the memory, by REINFORCE or another search on pseudo tasks.

    Scenario and training flags are those of the target, the run that the policy is for; --policy and --validation have
    no effect. Tasks are cut from the target's phase 0, rewards are accuracies on a tenth of its training data, and no
    test set is ever read. The same command, or `remem resume`, continues what was interrupted.

    Example: remem learn-policy --dataset glyphs --phases 5 --budget 2000 --fidelity features --out my-policy
    """
    with folders.LEARNING.interruptible(out):
        from remem.rl.config import compose_learning

        layers = sources.checked_layers(policy=False)
        learn(compose_learning(*layers), out, workers=workers, ray=ray, quiet=quiet, track=track or ())


def resume_learning(
    folder: Path,
    data_root: Path | None,
    *,
    workers: int | None,
    ray: str | None,
    quiet: bool,
    track: Sequence[TrackerName] = (),
) -> None:
    """Resumes the learning of a folder."""
    with folders.LEARNING.interruptible(folder):
        from remem.rl.learn import read_learning

        learn(read_learning(folder, data_root)[0], folder, workers=workers, ray=ray, quiet=quiet, track=track)


def learn(
    config: "LearnConfig",
    out: Path,
    *,
    workers: int | None,
    ray: str | None,
    quiet: bool,
    track: Sequence[TrackerName] = (),
) -> None:
    """Learns all epochs that are left, with its display."""
    from remem.cli.displays.base import with_notices
    from remem.cli.displays.learning import open_learning_display
    from remem.events import fan_out
    from remem.parallel.pool import open_pool
    from remem.rl.learn import learn_in_folder
    from remem.tracking.table import check_trackers, track_run

    check_trackers(track)
    console = Console(quiet=quiet)
    alone = ray is None and (workers or os.cpu_count() or 1) == 1
    with open_pool(workers, ray) as pool:

        def announce(started: "LearningStarted") -> None:
            say(console, *describe(started, config, pool.about))
            with console.status("measuring a few batches"):
                lines = cost_lines(config, started.done, WorkerCount(workers, ray, pool.about))
            say(console, *lines)

        with open_learning_display(console, announce, quiet=quiet) as display, track_run(track, out) as tracker:
            policy = learn_in_folder(config, out, fan_out(with_notices(display.emit), tracker), None if alone else pool)
    if display.started is None and not quiet:
        say(console, f"{out}: this learning is complete; there is nothing left to do")
    say(console, "", *summary(policy, out))
    if quiet:
        print(out)


def describe(started: "LearningStarted", config: "LearnConfig", workers: str) -> list[str]:
    """What will be learned, in a few lines."""
    target, learned = config.target, config.learn
    where = {
        "phase0": f"phase 0 of {started.data}, order {target.scenario.order}",
        "target": f"the whole of {started.data}, order {target.scenario.order}",
        "dataset": f"another data set, {started.data}",
    }[started.source]
    lines = [
        f"data     {where}: {started.classes} classes; evaluated on a tenth of their training data, no test set",
        *(f"tasks    {_task(task)}" for task in started.tasks),
        f"learning {started.name}{ORACLE if started.oracle else ''}; {_plan(learned)}",
        f"runs     {target.method.name}, fidelity {_fidelity(learned)}; seed {target.seed}, {workers}",
    ]
    if started.done:
        lines.append(f"resumed  after epoch {started.done} of {started.epochs}")
    return lines


def cost_lines(config: "LearnConfig", done: int, workers: WorkerCount) -> list[str]:
    """The cost of what is left of a policy training, after `done` epochs."""
    from remem.rl.cost import STARTING, LearningSizes, learning_cost
    from remem.runs.cost import Range
    from remem.runs.estimate import short_trials

    threads = max(1, config.target.train.threads)  # 0 also means one here
    trials, machine = short_trials(), workers.machine(threads)
    try:
        cost = learning_cost(LearningSizes(config), trials, machine, done=done, workers=workers.count)
    except Exception as error:  # whatever it is, it must not stop the work itself
        return [unknown(error)]
    assert cost is not None, "two trials are fewer than the limit"
    seconds = cost.learning + (Range() if workers.alone else STARTING)
    line = f"cost     {span(seconds.low, seconds.high)} on {workers.about}"
    if cost.target is not None:
        line += f": {times(seconds, cost.target, 'target run')}"
    return [line, *busy_lines(machine, workers.count * threads, trials.stretch)]


def summary(policy: "Learned", out: Path) -> list[str]:
    """What was learned, and how to use it."""
    lines = _shares(policy) if "shares" in policy.facts else _epochs(out, searched=policy.facts["kind"] == "path")
    oracle = ORACLE if policy.oracle else ""
    return [*lines, f"policy   {policy.name}{oracle}; use it with `--policy {out}`"]


def _task(task: "TaskSummary") -> str:
    first, *later = task.sizes
    sizes = str(later[0]) if len(set(later)) == 1 else ", ".join(map(str, later))
    memory = f"M = {task.budget}, E = {task.exemplars}"
    if task.kind == "growing":
        memory = f"{task.budget} samples per old class and all new data"
    return f"{first} classes in phase 0, then {len(later)} phases of {sizes}; {memory}"


def _plan(learned: "LearnSettings") -> str:
    if learned.crossval_fixed:
        return f"compares every fixed share on {learned.pool} tasks and keeps the best"
    tasks = f"from a pool of {learned.pool}" if learned.pool else "new ones in every epoch"
    levels = {1: "one level", 2: "two levels", 3: "three levels"}[learned.levels]
    if learned.search == "exhaustive":
        return f"{levels}, all paths on each of {learned.pool} tasks"
    if learned.search != "reinforce":
        how = "random paths" if learned.search == "random" else "paths proposed by TPE"
        return f"{levels}, {learned.epochs} rounds of {learned.paths_per_round} {how} on {learned.pool} tasks"
    return (
        f"{levels}, {learned.all_epochs} epochs of {learned.tasks} tasks ({tasks}) x {learned.runs} runs, "
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


def _epochs(out: Path, *, searched: bool) -> list[str]:
    """The first and the last epoch of the log, which an older version may have written, or round of a search."""
    from remem.cli.displays.learning import path_text
    from remem.storage.event_log import LOG, read_log

    wanted = {"reward", "best", "path", "fidelity", "epochs"}
    epochs = [entry for entry in read_log(out / LOG) if wanted <= entry.keys()]
    if not epochs:
        return []
    first, last = epochs[0], epochs[-1]
    kinds = [f" ({epoch['fidelity']})" if first["fidelity"] != last["fidelity"] else "" for epoch in (first, last)]
    if searched:
        best = max(epoch["best"] for epoch in epochs)
        return [
            f"reward   average accuracy {percent(best)} on the tasks of the pool",
            f"path     old shares | harder halves, the best one: {path_text(last['path'])}",
        ]
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
