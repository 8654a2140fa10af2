"""`remem demo`: conventional memory against a fixed old share, side by side on the embedded data set."""

import tomllib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from remem.cli import options
from remem.cli.progress import open_board
from remem.cli.training import say

if TYPE_CHECKING:
    from remem.runs.local import Job
    from remem.runs.results import RunResult

POLICIES = ("static", "fixed-0.6")
TITLE = "Conventional memory against a fixed share for old classes"


def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for both runs and the report.")] = Path(
        "demo-out"
    ),
    settings: options.Set = None,
    quiet: options.Quiet = False,
) -> None:
    """Compare two ways of sharing memory, on data that come with remem.

    Two runs side by side: `static` keeps a small part for old classes and fills the rest with new data, as is
    usual; `fixed-0.6` gives 60 % to old classes. Takes a few minutes; what is complete is reused.
    """
    from remem.runs.local import run_side_by_side

    console = Console(quiet=quiet)
    jobs = _jobs(out, settings or [])
    say(console, f"{TITLE}: {' and '.join(POLICIES)}, {jobs[0].config['method']['name']} on {_data(jobs[0])}")
    reused = [job.name for job in jobs if _complete(job)]
    if reused:
        say(console, f"complete already and reused: {', '.join(reused)}; for new runs choose another --out")
    try:
        with open_board(POLICIES, console, quiet=quiet) as board:
            results = run_side_by_side(jobs, len(jobs), board.tell)
    except KeyboardInterrupt:
        typer.echo("stopped; the same command goes on from here", err=True)
        raise typer.Exit(1) from None
    show(console, results, out / "report.html")
    if quiet:
        print(out / "report.html")


def show(console: Console, results: "list[RunResult]", report: Path) -> None:
    """Table, winner and page."""
    from remem.report.page import write_page
    from remem.report.tables import comparison_table

    write_page(results, report, TITLE)
    say(console, "", comparison_table(results).text(), "", verdict(results), f"report: {report}")


def verdict(results: "list[RunResult]") -> str:
    """Who is ahead, in plain words."""
    best, other = sorted(results, key=lambda run: run.average_accuracy, reverse=True)
    ahead = 100 * (best.average_accuracy - other.average_accuracy)
    if ahead < 0.005:
        return f"No winner: {best.label} and {other.label} have the same average accuracy."
    winner, loser = (run.data["config"]["policy"] for run in (best, other))
    return (
        f"Winner: {winner}. With the same memory its average accuracy is {ahead:.2f} points higher than that of "
        f"{loser}; its forgetting is {100 * best.forgetting:.2f} points against {100 * other.forgetting:.2f}."
    )


def _jobs(out: Path, overrides: list[str]) -> "list[Job]":
    from remem.runs.config import compose, read_overrides
    from remem.runs.local import Job

    text = resources.files("remem.conf").joinpath("demo.toml").read_text(encoding="utf-8")
    layers = (tomllib.loads(text), read_overrides(overrides))
    configs = {policy: compose(*layers, {"policy": policy}) for policy in POLICIES}
    return [Job(policy, config.model_dump(mode="json"), out / policy) for policy, config in configs.items()]


def _data(job: "Job") -> str:
    return f"{job.config['data']['name']}, {job.config['scenario']['phases']} phases after the first"


def _complete(job: "Job") -> bool:
    from remem.runs.results import load_result

    return (job.out / "result.json").is_file() and load_result(job.out).complete
