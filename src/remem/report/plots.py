"""Figures of runs as inline SVG. Text is drawn as paths, so pages need no fonts."""

import io
import re
from collections.abc import Callable, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from remem.evaluation.metrics import mean_interval
from remem.report.groups import group_runs
from remem.runs.results import PhaseRecord, RunResult

# The palette of Okabe and Ito, which colour-blind readers can tell apart; markers differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INK = "#010203"  # a placeholder that `inline_svg` replaces by the page's own text colour, light or dark
WIDTH, HEIGHT = 7.4, 3.5  # inches

Point = tuple[int, float]  # phase, value


def accuracy_figure(results: Sequence[RunResult]) -> str:
    """Accuracy on all seen classes after every phase."""
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = figure.subplots()
    _lines(axes, results, lambda run: [(phase.phase, 100 * phase.accuracy) for phase in run.phases])
    _style_axes(axes, "accuracy (%)")
    _legend(figure, axes)
    return inline_svg(figure, "accuracy", "Accuracy after every phase, one line per run")


def memory_figure(results: Sequence[RunResult]) -> str:
    """Samples held per old class and per new class in every phase that has both."""
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    old, new = figure.subplots(1, 2)
    _lines(old, results, lambda run: [(now.phase, samples_per_class(prior, now)[0]) for prior, now in _steps(run)])
    _lines(new, results, lambda run: [(now.phase, samples_per_class(prior, now)[1]) for prior, now in _steps(run)])
    for axes, age in ((old, "old"), (new, "new")):
        _style_axes(axes, f"samples held per {age} class")
        axes.set_ylim(bottom=0)
    _legend(figure, old)
    return inline_svg(figure, "memory", "Samples held per old class and per new class in every phase")


def samples_per_class(prior: PhaseRecord, now: PhaseRecord) -> tuple[float, float]:
    """Samples held per old class and per new class in a phase, given the phase before it."""
    old_classes = prior.classes_seen
    return now.held_old / old_classes, now.held_new / (now.classes_seen - old_classes)


def inline_svg(figure: Figure, name: str, label: str) -> str:
    """The figure as an <svg> element: ids with a prefix of their own, the page's text colour, no URLs."""
    buffer = io.StringIO()
    no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=no_metadata)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = re.sub(
        r'(<svg[^>]*?) width="[^"]*"', r"\1", re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1), count=1
    )
    return svg.replace(INK, "currentColor").replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def _lines(axes: Axes, results: Sequence[RunResult], points: Callable[[RunResult], list[Point]]) -> None:
    """One line per setting; for several seeds their mean, with its 95 % interval as a band."""
    for index, group in enumerate(group_runs(results)):
        values: dict[int, list[float]] = {}
        for run in group.runs:
            for phase, value in points(run):
                values.setdefault(phase, []).append(value)
        phases = sorted(values)
        means = [mean_interval(values[phase]) for phase in phases]
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        middle = [mean for mean, _ in means]
        axes.plot(phases, middle, color=colour, marker=marker, markersize=5, linewidth=1.8, label=group.name)
        if any(half is not None for _, half in means):
            low, high = ([mean + sign * (half or 0.0) for mean, half in means] for sign in (-1, 1))
            axes.fill_between(phases, low, high, color=colour, alpha=0.18, linewidth=0)


def _steps(run: RunResult) -> list[tuple[PhaseRecord, PhaseRecord]]:
    return list(zip(run.phases, run.phases[1:], strict=False))


def _style_axes(axes: Axes, label: str) -> None:
    axes.set_xlabel("phase", color=INK)
    axes.set_ylabel(label, color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(colors=INK, width=0.6)
    axes.grid(color=INK, alpha=0.15, linewidth=0.6)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set(color=INK, linewidth=0.6)


def _legend(figure: Figure, axes: Axes) -> None:
    handles, names = axes.get_legend_handles_labels()
    if names:
        figure.legend(handles, names, loc="outside upper left", ncols=2, frameon=False, labelcolor=INK)
