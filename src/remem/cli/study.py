"""`remem study`: a grid of runs into one folder, with a table at the end."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from remem.cli import options
from remem.cli.study_board import open_study_board
from remem.cli.training import say

if TYPE_CHECKING:
    from remem.runs.results import RunResult
    from remem.studies.grid import Study

NAMES = {"methods": ("method", "methods"), "phases": ("number of phases", "numbers of phases")}
NAMES |= {"policies": ("policy", "policies"), "seeds": ("seed", "seeds")}


def study(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY.toml", show_default=False, help="A file with a section [study], or a name of a shipped one."
        ),
    ],
    *,
    settings: options.Set = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="DIR",
            parser=options.folder,
            show_default=False,
            rich_help_panel=options.COMMON,
            help="Folder for all runs, learned policies and the summary.",
        ),
    ],
    data_root: options.DataRoot = None,
    workers: options.Workers = None,
    ray: options.Ray = None,
    quiet: options.Quiet = False,
) -> None:
    """Run a grid: methods x policies x phases x seeds, and any other setting.

    The file holds the settings of a run and a section [study] with the values of every axis; [learn] is for policies
    that the study learns first. All is checked before anything starts. The same command, or `remem resume`, goes on
    with what was interrupted; complete runs are reused. Results equal those of `remem run`, one after another.

    Example: remem study digits-policies --workers 2 --out my-study
    """
    from remem.runs.trees import read_overrides
    from remem.studies.grid import plan_study, read_study_file

    root = {} if data_root is None else {"data": {"root": str(data_root)}}
    planned = plan_study(read_study_file(file), root, read_overrides(settings or ()))
    carry_out(planned, out, workers=workers, ray=ray, quiet=quiet)


def resume_study(folder: Path, data_root: Path | None, *, workers: int | None, ray: str | None, quiet: bool) -> None:
    """Goes on with a folder's study."""
    from remem.studies.run import read_study

    carry_out(read_study(folder, data_root), folder, workers=workers, ray=ray, quiet=quiet)


def carry_out(planned: "Study", out: Path, *, workers: int | None, ray: str | None, quiet: bool) -> None:
    """All that is left of a study, with its display and its summary."""
    from remem.parallel.pool import open_pool
    from remem.studies.run import study_in_folder

    console = Console(quiet=quiet)
    try:
        with open_pool(workers, ray) as crew:

            def announce(begin: Mapping[str, Any]) -> None:
                say(console, *describe(planned, begin, crew.about))

            with open_study_board(console, announce, quiet=quiet) as board:
                results = study_in_folder(planned, out, crew, board.tell)
    except KeyboardInterrupt:
        raise stopped(out) from None
    show_summary(console, planned, results, out)
    if quiet:
        print(out / "summary.json")


def describe(planned: "Study", begin: Mapping[str, Any], about: str) -> list[str]:
    """What will run, in a few lines."""
    config = planned.runs[0].config
    axes = [_axis(name, getattr(planned.settings, name)) for name in NAMES]
    axes += [f"{len(values)} x {key}" for key, values in planned.settings.vary.items()]
    grid = " x ".join(axis for axis in axes if axis) or "one"
    order = "class order by seed" if planned.settings.order_by_seed else f"class order {config.scenario.order}"
    lines = [
        f"study    {len(planned.runs)} runs: {grid}",
        f"first    {config.method.name} on {config.public()['data']['name']}, {config.scenario.phases} phases after "
        f"the first, {order}",
    ]
    if begin["learnings"]:
        lines.append(f"learning {len(begin['learnings'])} policies before the runs: {_some(begin['learnings'])}")
    shared = sum(1 for outline in begin["jobs"].values() if len(outline["phases"]) == 1)
    if shared:
        lines.append(f"phase 0  trained once for all runs that begin alike: {shared} in all")
    if begin["done"]:
        lines.append(f"reused   {begin['done']} runs that are complete")
    return [*lines, f"workers  {about}"] if begin["jobs"] else lines


def show_summary(console: Console, planned: "Study", results: "Mapping[str, RunResult]", out: Path) -> None:
    """Writes the summary beside the runs and prints its table."""
    from remem.studies.summary import notes, study_table, summarise_study
    from remem.storage.atomic import write_atomically

    summary = summarise_study(planned, results)
    table, words = study_table(summary), notes(summary)
    write_atomically(out / "summary.json", (json.dumps(summary, indent=1) + "\n").encode())
    write_atomically(
        out / "summary.md", "\n".join([table.markdown(), "", *(f"- {line}" for line in words), ""]).encode()
    )
    say(console, "", table.text(), "", *words, f"in {out}: summary.json, summary.md, runs/")


def stopped(out: Path) -> typer.Exit:
    """After Ctrl-C: one line that says what is kept and how to go on."""
    if not (out / "study.json").exists():
        typer.echo("stopped before the study began; nothing was written", err=True)
        return typer.Exit(1)
    results = [json.loads(path.read_text(encoding="utf-8")) for path in (out / "runs").glob("*/result.json")]
    done = sum(result["status"] == "complete" for result in results)
    typer.echo(f"stopped with {done} runs complete; go on with `remem resume {out}`", err=True)
    return typer.Exit(1)


def _axis(name: str, values: tuple[Any, ...] | None) -> str:
    count = len(values or ())
    return f"{count} {NAMES[name][count > 1]}" if count else ""


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"
