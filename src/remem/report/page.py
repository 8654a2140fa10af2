"""The report of runs and studies: one self-contained, interactive HTML page. No request leaves it."""

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib import resources
from os import cpu_count
from pathlib import Path

from remem.policies.policy import Policy
from remem.report.gallery import galleries, gallery_section
from remem.report.groups import Group, group_runs, run_names, varying_settings
from remem.report.headline import comparable, headline
from remem.report.inputs import StoredRun
from remem.report.page_data import page_data
from remem.report.sections import figure_sections, html_table
from remem.report.style import STYLE
from remem.report.summary import summary_sheet
from remem.report.tables import phase_table
from remem.runs.results import RunResult
from remem.storage.atomic import write_atomically
from remem.types import Json

# Nothing may be fetched: scripts and styles are those of the page, pictures are data in it.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "form-action 'none'; base-uri 'none'"
)


@dataclass(frozen=True)
class Origin:
    """Where a page comes from."""

    title: str
    command: str  # that makes it again
    policies: Mapping[str, Policy] | None = None
    data_root: Path | None = None


def write_page(runs: Sequence[StoredRun], path: Path, origin: Origin) -> None:
    """Writes the page; missing folders are created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page(runs, origin).encode())


def page(runs: Sequence[StoredRun], origin: Origin) -> str:
    """The page as HTML; everything that comes from a run is escaped."""
    from plotly.offline import get_plotlyjs

    results = [run.result for run in runs]
    groups = group_runs(results)
    data = page_data(runs, origin.policies)
    sheet = summary_sheet(results)
    parts = [
        f'<h1>{escape(origin.title)}</h1>\n<button class="small" id="scheme" type="button">light / dark</button>',
        *(f'<p class="soft">{escape(line)}</p>' for line in introduction(results, groups)),
        '<div class="answer">' + "".join(f"<p>{escape(line)}</p>" for line in headline(results)) + "</div>",
        *([f'<p class="soft">{MANY}</p>'] if _compares_many(groups) else []),
        _filter(data),
        '<h2 id="summary-title">Summary</h2>',
        html_table(sheet.table(), "summary", marks=range(len(groups))),
        *(f'<p class="soft">{escape(line)}</p>' for line in (READING, *sheet.notes)),
        *figure_sections(data),
        *gallery_section(galleries(runs, origin.data_root)),
        "<h2>Phase by phase</h2>",
        *_per_run(
            results, lambda run, place: html_table(phase_table(run), f"phases-{place}"), opened=len(results) <= 2
        ),
        "<h2>Settings</h2>",
        *_per_run(results, lambda run, _: f"<pre>{escape(json.dumps(run.config, indent=1))}</pre>", opened=False),
        _footer(results, origin.command),
    ]
    script = resources.files("remem.report").joinpath("assets/page.js").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{escape(origin.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + f'\n</main>\n<script type="application/json" id="data">{_json(data)}</script>\n'
        + f"<script>{get_plotlyjs()}</script>\n<script>{script}</script>\n</body>\n</html>\n"
    )


READING = (
    "Average: mean accuracy over all phases, phase 0 included. Last: after the last phase. Forgetting: points that "
    "earlier classes lost from their best to their last accuracy. Peak: most samples held at once from phase 1 on."
)

MANY = "Intervals hold for one comparison each; they are not widened for the number of settings compared."


def introduction(results: Sequence[RunResult], groups: Sequence[Group]) -> list[str]:
    """Lines on what is compared, and on which data."""
    extra = varying_settings(groups)
    runs = f"{len(results)} runs of {len(groups)} settings" if len(groups) > 1 else f"{len(results)} runs"
    lines = [f"{runs if len(results) > 1 else 'One run'}: {'; '.join(group.name for group in groups)}."]
    if extra:
        return [*lines, f"These runs differ in {', '.join(extra)}, too."]
    first = results[0]
    return [
        *lines,
        f"Data: {first.config['data']['name']}, {len(first.class_names)} classes: {first.phases[0].classes_seen} in "
        f"phase 0, the others in {first.config['scenario']['phases']} phases after it.",
    ]


def _compares_many(groups: Sequence[Group]) -> bool:
    """Whether more than two comparable settings have several seeds, and so intervals."""
    return any(sum(len(group.runs) > 1 for group in block) > 2 for block in comparable(groups))


def _json(data: Json) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _filter(data: Json) -> str:
    """Boxes that show and hide settings everywhere."""
    boxes = "".join(
        f'<label><input type="checkbox" checked data-group="{place}">'
        f'<span class="chip" style="background:{group["colour"]}"></span>{escape(group["name"])}</label>'
        for place, group in enumerate(data["groups"])
    )
    opened = " open" if len(data["groups"]) <= 6 else ""
    fold = f'<details{opened}><summary>Settings shown</summary><div class="tools">{boxes}</div></details>'
    return f'<div class="filter">{fold}</div>'


def _per_run(results: Sequence[RunResult], content: Callable[[RunResult, int], str], *, opened: bool) -> list[str]:
    """A foldable block for every run."""
    begin = "<details open>" if opened else "<details>"
    return [
        f"{begin}<summary>{escape(name)}</summary>{content(run, place)}</details>"
        for place, (name, run) in enumerate(zip(run_names(results), results, strict=True))
    ]


def _footer(results: Sequence[RunResult], command: str) -> str:
    """The command that makes the page again, when and where it was made, and how long its runs took."""
    seconds = sum(sum(phase.seconds.values()) for run in results for phase in run.phases)
    train = [run.config.get("train", {}) for run in results]
    devices = sorted({_device(own) for own in train})
    lines = [
        f"Made by <code>{escape(command)}</code>",
        f"on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {escape(hardware())}; remem {escape(results[0].remem)}.",
        f"The runs took {seconds / 60:.1f} minutes in all, on {escape('; '.join(devices))}.",
    ]
    return f"<footer><p>{' '.join(lines)}</p></footer>"


def _device(train: Json) -> str:
    """`CPU in bf16, 1 thread`."""
    threads = train.get("threads")
    return (
        f"{str(train.get('device')).upper()} in {train.get('precision')}, {threads} thread{'' if threads == 1 else 's'}"
    )


def hardware() -> str:
    """The processor, as far as the system says."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor() or platform.machine()}, {cpu_count()} cores"
