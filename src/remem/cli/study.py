"""`remem study`: a grid of runs into one folder, with a table at the end."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from remem.cli import folders
from remem.cli.console import say, span
from remem.cli.costs import WorkerCount, busy_lines, times, unknown
from remem.cli.options import (
    COMMON,
    DataRoot,
    Overrides,
    PoolChoice,
    Quiet,
    Track,
    TrackerName,
    folder,
    option,
    takes_group,
)
from remem.errors import listed

if TYPE_CHECKING:
    from remem.runs.results import RunResult
    from remem.studies.events import StudyStarted
    from remem.studies.grid import Study

AXES = {"methods": ("method", "methods"), "phases": ("number of phases", "numbers of phases")}
AXES |= {"policies": ("policy", "policies"), "seeds": ("seed", "seeds")}


@takes_group("pool", PoolChoice)
def study(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY.toml", show_default=False, help="A file with a section [study], or a name of a shipped one."
        ),
    ],
    *,
    overrides: Overrides = None,
    out: Annotated[
        Path,
        option("--out", "Folder for all runs, learned policies and the summary.", COMMON, "DIR", parser=folder),
    ],
    data_root: DataRoot = None,
    pool: PoolChoice,
    track: Track = None,
    quiet: Quiet = False,
) -> None:
    """Run a grid: methods x policies x phases x seeds, and any other setting.

    The file holds the settings of a run and a section [study] with the values of every axis; [learn] is for policies
    that the study learns first. Everything is checked before anything starts. The same command, or `remem resume`,
    continues an interrupted study; complete runs are reused. Results equal those of `remem run`, one after another.

    Example: remem study digits-policies --workers 2 --out my-study
    """
    with folders.STUDY.interruptible(out):
        from remem.runs.trees import read_overrides
        from remem.studies.grid import check_study_names, plan_study, read_study_file

        root = {} if data_root is None else {"data": {"root": str(data_root)}}
        layers = (read_study_file(file), root, read_overrides(overrides or ()))
        check_study_names(*layers)
        planned = plan_study(*layers)
        carry_out(planned, out, workers=pool.workers, ray=pool.ray, quiet=quiet, track=track or ())


def resume_study(
    folder: Path,
    data_root: Path | None,
    *,
    workers: int | None,
    ray: str | None,
    quiet: bool,
    track: Sequence[TrackerName] = (),
) -> None:
    """Resumes the study of a folder."""
    with folders.STUDY.interruptible(folder):
        from remem.studies.run import read_study

        carry_out(read_study(folder, data_root), folder, workers=workers, ray=ray, quiet=quiet, track=track)


def carry_out(
    planned: "Study",
    out: Path,
    *,
    workers: int | None,
    ray: str | None,
    quiet: bool,
    track: Sequence[TrackerName] = (),
) -> None:
    """Runs all that is left of a study, with its display and its summary."""
    from remem.cli.displays.base import with_notices
    from remem.cli.displays.study import open_study_display
    from remem.events import fan_out
    from remem.parallel.pool import open_pool
    from remem.studies.run import study_in_folder
    from remem.tracking.table import check_trackers, track_study

    check_trackers(track)
    console = Console(quiet=quiet)
    with open_pool(workers, ray) as pool:

        def announce(started: "StudyStarted") -> None:
            say(console, *describe(planned, started, pool.about))
            with console.status("measuring a few batches"):
                lines = cost_lines(planned, started, WorkerCount(workers, ray, pool.about))
            say(console, *lines)

        with (
            open_study_display(console, announce, quiet=quiet) as display,
            track_study(track, out) as tracker,
        ):
            results = study_in_folder(planned, out, pool, fan_out(with_notices(display.emit), tracker))
    show_summary(console, planned, results, out)
    if quiet:
        print(out / "summary.json")


def describe(planned: "Study", started: "StudyStarted", workers: str) -> list[str]:
    """What will run, in a few lines."""
    config = planned.runs[0].config
    axes = [_axis(name, getattr(planned.settings, name)) for name in AXES]
    axes += [f"{len(values)} x {key}" for key, values in planned.settings.vary.items()]
    grid = " x ".join(axis for axis in axes if axis) or "one"
    grid = f"parts of {grid}" if planned.settings.parts else grid
    order = "class order by seed" if planned.settings.order_by_seed else f"class order {config.scenario.order}"
    lines = [
        f"study    {len(planned.runs)} runs: {grid}",
        f"first    {config.method.name} on {config.public()['data']['name']}, {config.scenario.phases} phases after "
        f"the first, {order}",
    ]
    if started.learnings:
        lines.append(f"learning {len(started.learnings)} policies before the runs: {listed(started.learnings, 4)}")
    shared = sum(1 for run in started.jobs.values() if len(run.phases) == 1)
    if shared:
        lines.append(f"phase 0  trained once for all runs that begin alike: {shared} in all")
    if started.done:
        lines.append(f"reused   {started.done} runs that are complete")
    return [*lines, f"workers  {workers}"] if started.jobs else lines


def cost_lines(study: "Study", started: "StudyStarted", workers: WorkerCount) -> list[str]:
    """The cost of all that is left of a study."""
    from remem.runs.estimate import short_trials
    from remem.runs.trials import MOST
    from remem.studies.cost import study_cost

    threads = max(run.config.train.threads for run in study.runs)
    trials, machine = short_trials(), workers.machine(threads)
    try:
        cost = study_cost(study, started, trials, machine, workers=workers.count)
    except Exception as error:  # whatever it is, it must not stop the work itself
        return [unknown(error)]
    if cost is None:
        return []
    line = f"cost     {span(cost.study.low, cost.study.high)} on {workers.about}: {times(cost.study, cost.run, 'run')}"
    lines = [line]
    if cost.not_tried:
        lines.append(
            f"note     {cost.not_tried} of {len(started.jobs) + len(started.learnings)} runs and policies have other "
            f"settings than the {MOST} that were tried out; they are counted like these"
        )
    return [*lines, *busy_lines(machine, workers.count * threads, trials.stretch)]


def show_summary(console: Console, planned: "Study", results: "Mapping[str, RunResult]", out: Path) -> None:
    """Writes the summary beside the runs and prints its table."""
    from remem.report.study_table import notes, study_table
    from remem.storage.atomic import write_atomically
    from remem.storage.jsonfile import write_json
    from remem.studies.summary import summarise_study

    summary = summarise_study(planned, results)
    table, words = study_table(summary), notes(summary)
    write_json(out / "summary.json", summary.model_dump(mode="json"))
    write_atomically(
        out / "summary.md", "\n".join([table.markdown(), "", *(f"- {line}" for line in words), ""]).encode()
    )
    say(console, "", table.text(), "", *words, f"in {out}: summary.json, summary.md, runs/")


def _axis(name: str, values: tuple[Any, ...] | None) -> str:
    count = len(values or ())
    return f"{count} {AXES[name][count > 1]}" if count else ""
