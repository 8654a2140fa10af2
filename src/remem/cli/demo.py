"""`remem demo`: conventional memory against a fixed old share and the learned policy, on the embedded data set."""

import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from remem.cli.boundary import Stopped
from remem.cli.console import say
from remem.cli.options import Overrides, Quiet, folder
from remem.interrupts import exit_code

if TYPE_CHECKING:
    from remem.runs.config import RunConfig
    from remem.runs.results import RunResult

POLICIES = ("static", "fixed-0.6", "rmm-glyphs")
PHASE0 = "phase 0"  # shared by all runs, which differ only in what comes after it
TITLE = "Conventional memory, a fixed share for old classes, and the learned policy"


def demo(
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", parser=folder, help="Folder for the runs and the report."),
    ] = Path("demo-out"),
    overrides: Overrides = None,
    quiet: Quiet = False,
) -> None:
    """Compare three ways of sharing memory, on data that come with remem.

    `static` keeps a small part for old classes and fills the rest with new data, as is usual; `fixed-0.6` gives 60 % to
    old classes; `rmm-glyphs` decides in every phase, as it has learned from the classes of phase 0. Takes a few
    minutes; runs that are complete are reused.
    """
    try:
        compare(_configs(overrides or []), out, Console(quiet=quiet))
    except KeyboardInterrupt as stopped:
        typer.echo("stopped; the same command goes on from here", err=True)
        raise Stopped(exit_code(stopped)) from None
    if quiet:
        print(out / "report.html")


def compare(configs: "Mapping[str, RunConfig]", out: Path, console: Console) -> None:
    """Trains all runs that are not complete, side by side, and shows the comparison."""
    from remem.cli.displays.base import with_notices
    from remem.cli.displays.run import open_run_display
    from remem.parallel.pool import open_pool
    from remem.runs.jobs import phase0_job, run_job

    say(console, f"{TITLE}: {', '.join(configs)}; {_about(configs[POLICIES[0]])}")
    reused = [policy for policy in configs if _complete(out / policy)]
    if reused:
        say(console, f"complete already and reused: {', '.join(reused)}; for new runs choose another --out")
    cache = out / "phase0"
    first = [phase0_job(PHASE0, configs[POLICIES[0]], cache)] if not reused else []
    after = tuple(job.name for job in first)
    jobs = [*first, *(run_job(name, config, out / name, phase0=cache, after=after) for name, config in configs.items())]
    with (
        open_run_display([job.name for job in jobs], console, quiet=console.quiet) as display,
        open_pool(None, None) as pool,
    ):
        for _ in pool.run(jobs, lambda job, event: with_notices(display.subscriber(job.name))(event)):
            pass
    rmtree(cache, ignore_errors=True)
    show(console, [out / policy for policy in configs], out / "report.html")


def show(console: Console, folders: Sequence[Path], report: Path) -> None:
    """Table, differences and page."""
    from remem.report.inputs import read_runs
    from remem.report.page import Origin, write_page
    from remem.report.policy_files import find_policies
    from remem.report.tables import comparison_table

    runs = read_runs(folders)
    results = [run.result for run in runs]
    write_page(runs, report, Origin(TITLE, f"remem demo --out {report.parent}", find_policies(folders)))
    memory = dict.fromkeys(run.memory for run in results if run.memory)
    say(console, "", comparison_table(results).text(), "", *memory, verdict(results), f"report: {report}")


def verdict(results: "list[RunResult]") -> str:
    """The differences to the first run, in words. No winner is named: one seed has no interval."""
    base, *others = results
    gains = ", ".join(
        f"{run.policy_name} {100 * (run.average_accuracy - base.average_accuracy):+.2f}" for run in others
    )
    forgetting = ", ".join(f"{run.policy_name} {100 * run.forgetting:.2f}" for run in results)
    return (
        f"Average accuracy minus {base.policy_name}, in points: {gains}. Points forgotten: {forgetting}. "
        "One seed names no winner: `remem study glyphs-policies` compares several seeds."
    )


def _configs(overrides: list[str]) -> "dict[str, RunConfig]":
    from remem.runs.config import compose, draft
    from remem.runs.trees import read_overrides

    text = resources.files("remem.conf").joinpath("demo.toml").read_text(encoding="utf-8")
    layers = (tomllib.loads(text), read_overrides(overrides))
    draft(*layers)  # a misspelt setting is refused before torch is imported
    return {policy: compose(*layers, {"policy": policy}) for policy in POLICIES}


def _about(config: "RunConfig") -> str:
    return f"{config.method.name} on {config.data.name}, {config.scenario.phases} phases after the first"


def _complete(out: Path) -> bool:
    from remem.runs.results import load_result

    return (out / "result.json").is_file() and load_result(out).complete
