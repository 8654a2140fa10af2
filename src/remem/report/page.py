"""The report of runs: one self-contained HTML page without scripts or external resources."""

import json
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from remem.report.groups import group_runs, run_names, varying_settings
from remem.report.plots import accuracy_figure, inline_svg, memory_figure
from remem.report.style import STYLE
from remem.report.summary import AVERAGE, summary_table
from remem.report.tables import Table, hundredths, phase_table, validation
from remem.runs.results import RunResult
from remem.storage.atomic import write_atomically


def write_page(results: Sequence[RunResult], path: Path, title: str) -> None:
    """Writes the page; missing folders are created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page(results, title).encode())


def page(results: Sequence[RunResult], title: str) -> str:
    """The page as HTML; everything that comes from a run is escaped."""
    parts = [
        f"<h1>{escape(title)}</h1>",
        *(f'<p class="soft">{escape(line)}</p>' for line in introduction(results)),
        f'<p class="answer">{escape(answer(results))}</p>',
        "<h2>Summary</h2>",
        html_table(summary_table(results)),
        f'<p class="soft">{escape(reading(results))}</p>',
        "<h2>Accuracy</h2>",
        _figure(
            inline_svg(accuracy_figure(results), "accuracy", "Accuracy after every phase"),
            "After every phase: accuracy on all classes seen so far.",
        ),
        "<h2>Memory</h2>",
        _figure(
            inline_svg(memory_figure(results), "memory", "Samples held per old class and per new class"),
            "How many samples of each class are held while a phase trains: "
            "of every class that was there before (left), and of every class that just arrived (right).",
        ),
        "<h2>Phase by phase</h2>",
        *_per_run(results, lambda run: html_table(phase_table(run)), opened=len(results) <= 4),
        "<h2>Settings</h2>",
        *_per_run(results, lambda run: f"<pre>{escape(json.dumps(run.config, indent=1))}</pre>", opened=False),
        f"<footer>Made by remem {escape(results[0].remem)}.</footer>",
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def introduction(results: Sequence[RunResult]) -> list[str]:
    """Lines on what is compared, and on which data."""
    groups = group_runs(results)
    lines = [f"Compared: {'; '.join(group.name for group in groups)}.", *_evaluated_on(results)]
    extra = varying_settings(groups)
    if extra:
        lines.append(f"These runs differ in {', '.join(extra)} too.")
        return lines
    first = results[0]
    config = first.config
    scenario = (
        f"{config['data']['name']}, {len(first.class_names)} classes: {first.phases[0].classes_seen} in phase 0, "
        f"the others in {config['scenario']['phases']} phases after it"
    )
    memory = dict.fromkeys(run.memory for run in results if run.memory)
    return [*lines, f"Data: {scenario}.", *(f"Memory from phase 1 on: {words}." for words in memory)]


def _evaluated_on(results: Sequence[RunResult]) -> list[str]:
    """A line for runs that are not evaluated on test data; their numbers are for tuning, not for reporting."""
    groups = group_runs(results)
    names = [group.name for group in groups if validation(group.runs[0])]
    if not names:
        return []
    if len(names) == len(groups):
        return ["All runs are evaluated on a share of the training data, not on test data."]
    return [f"Not on test data, but evaluated on a share of the training data: {'; '.join(names)}."]


def answer(results: Sequence[RunResult]) -> str:
    """One sentence on the best setting; oracles and unfinished runs do not compete."""
    ranked: list[tuple[float, str]] = []
    for group in group_runs(results):
        if not group.oracle and group.complete:
            ranked.append((group.spread(AVERAGE).mean, group.name))
    ranked.sort(reverse=True)
    if not ranked:
        return "No run here is both complete and free of oracles."
    best, name = ranked[0]
    words = f"Highest average accuracy: {name} with {hundredths(best)} %"
    if len(ranked) > 1:
        words += f", {hundredths(best - ranked[1][0])} points above {ranked[1][1]}"
    return words + "."


def reading(results: Sequence[RunResult]) -> str:
    """Notes on how to read the summary."""
    words = (
        "Average: mean accuracy over all phases, phase 0 included. Last: after the last phase. Forgetting: points that "
        "earlier classes lost from their best to their last accuracy. Peak: most samples held at once from phase 1 on."
    )
    if any(run.oracle for run in results):
        words += " Runs marked (oracle) saw what no honest run may see or keep; they are lines to measure against."
    if not all(run.complete for run in results):
        words += " Some runs are not complete; their numbers are those so far."
    return words


def html_table(table: Table) -> str:
    """An HTML table that scrolls sideways on narrow screens."""

    def row(cells: Sequence[str], tag: str) -> str:
        words = ' class="word"'
        marked = ((cell, words if column < table.labels else "") for column, cell in enumerate(cells))
        return "<tr>" + "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for cell, kind in marked) + "</tr>"

    head, body = row(table.header, "th"), "\n".join(row(cells, "td") for cells in table.rows)
    return f'<div class="wide"><table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _figure(svg: str, caption: str) -> str:
    return f"<figure>\n{svg}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"


def _per_run(results: Sequence[RunResult], content: Callable[[RunResult], str], *, opened: bool) -> list[str]:
    """A foldable block for every run."""
    begin = "<details open>" if opened else "<details>"
    return [
        f"{begin}<summary>{escape(name)}</summary>{content(run)}</details>"
        for name, run in zip(run_names(results), results, strict=True)
    ]
