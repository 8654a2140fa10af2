"""Figures of runs for print and for pages: accuracy, memory, and the phase x phase matrix."""

import io
import re
from collections.abc import Callable, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.gridspec import SubplotSpec
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from remem.report.groups import Group, group_runs
from remem.report.series import (
    PerClass,
    Series,
    accuracy_series,
    codecs_by_phase,
    codecs_in_order,
    counts_bytes,
    held_series,
    kilobytes_per_class,
    matrix,
    samples_per_class,
    scenarios,
)
from remem.runs.results import RunResult

# The palette of Okabe and Ito, which colour-blind readers can tell apart, and five more; markers differ as well.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C"),
    *("#7E57C2", "#A1662F", "#8DB600", "#C2185B", "#00A6A6"),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INK = "#010203"  # black; `inline_svg` replaces it by the page's own text colour, light or dark
WIDTH, HEIGHT = 7.4, 3.5  # inches
HEAT = "YlGnBu"
MOST_NUMBERS = 12  # phases of a matrix with a number in every cell
DARK = 0.66  # of the heat map: white numbers can be read above it, black ones below
ENLARGED = 1.25  # the enlarged view ends this much above the highest number of samples of an old class


def colour_of(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def marker_of(place: int) -> str:
    """No two of the first 84 groups have both colour and marker in common."""
    return MARKERS[(place + place // len(COLOURS)) % len(MARKERS)]


def accuracy_figure(results: Sequence[RunResult]) -> Figure:
    """Accuracy on all seen classes after every phase; one plot per data set and number of phases."""

    def draw(part: SubFigure, groups: Sequence[Group]) -> None:
        axes = part.subplots()
        for place, group in enumerate(groups):
            _line(axes, accuracy_series(group), place, scale=100, highest=100)
        _style_axes(axes, "accuracy (%)")
        _legend(part, groups)

    return _rows(results, draw)


def memory_figure(results: Sequence[RunResult]) -> Figure:
    """Samples held per old class (solid) and per new class (dashed), with an enlarged view: the paper's Figure 4.

    Where bytes are known there is a second row in kB, and where samples are encoded a third with the codecs.
    """

    def draw(part: SubFigure, groups: Sequence[Group]) -> None:
        grid = part.add_gridspec(_memory_rows(groups), 2)
        _held(part, grid[0, 0], grid[0, 1], groups, "samples per class", samples_per_class)
        if any(map(counts_bytes, groups)):
            _held(part, grid[1, 0], grid[1, 1], groups, "kB per class", kilobytes_per_class)
        if codecs_in_order(groups):
            _codecs(part.add_subplot(grid[-1, :]), groups)
        _legend(part, groups, ages=True)

    return _rows(results, draw, _memory_rows)


def _memory_rows(groups: Sequence[Group]) -> int:
    return 1 + any(map(counts_bytes, groups)) + bool(codecs_in_order(groups))


def _held(
    part: SubFigure, left: SubplotSpec, right: SubplotSpec, groups: Sequence[Group], label: str, count: PerClass
) -> None:
    """What is held per class, whole and enlarged. Groups keep their colours, whether or not they are shown here."""
    whole, enlarged = part.add_subplot(left), part.add_subplot(right)
    highest = 0.0
    for place, group in enumerate(groups):
        if count is kilobytes_per_class and not counts_bytes(group):
            continue
        old, new = held_series(group, count)
        highest = highest if group.oracle else max([highest, *old.means])
        for axes in (whole, enlarged):
            _line(axes, old, place)
            _line(axes, new, place, dashed=True)
    _style_axes(whole, label)
    _style_axes(enlarged, "", f"{label}, enlarged")
    whole.set_ylim(bottom=0)
    enlarged.set_ylim(0, ENLARGED * highest or None)


def _codecs(axes: Axes, groups: Sequence[Group]) -> None:
    """The codec of every phase, exact ones on top; where seeds differ, that of most of them."""
    names = codecs_in_order(groups)
    for place, group in enumerate(groups):
        chosen = {phase: max(own, key=own.count) for phase, own in codecs_by_phase(group).items()}
        beside = 0.05 * (place - (len(groups) - 1) / 2)  # lines that coincide stay visible
        rungs = [names.index(codec) + beside for codec in chosen.values()]
        axes.plot(list(chosen), rungs, color=colour_of(place), marker=marker_of(place), markersize=4.5, linewidth=1.6)
    _style_axes(axes, "codec")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)


def _rows(
    results: Sequence[RunResult],
    draw: Callable[[SubFigure, Sequence[Group]], None],
    plots: Callable[[Sequence[Group]], int] = lambda groups: 1,
) -> Figure:
    """One row per data set and number of phases, with a legend of its own; `plots` are above each other in a row."""
    rows = {title: group_runs(runs) for title, runs in scenarios(results).items()}
    heights = [HEIGHT * (0.25 + 0.75 * plots(own)) + 0.07 * max(0, len(own) - 6) for own in rows.values()]
    figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
    parts = figure.subfigures(len(rows), squeeze=False, height_ratios=heights)[:, 0]
    for part, (title, groups) in zip(parts, rows.items(), strict=True):
        draw(part, groups)
        if len(rows) > 1:
            part.legends[0].set_title(title, {"size": 9, "weight": "bold"})
            part.legends[0].get_title().set_color(INK)
    return figure


def matrix_figure(results: Sequence[RunResult]) -> Figure:
    """Accuracy on the classes of every phase (columns) after every phase (rows); means over seeds."""
    groups = group_runs(results)
    columns = min(3, len(groups))
    rows = -(-len(groups) // columns)
    figure = Figure(figsize=(3.1 * columns + 1, 3.3 * rows), layout=ConstrainedLayoutEngine(h_pad=0.1))
    places = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, group in zip(places, groups, strict=False):
        values = matrix(group)
        mesh = axes.imshow(100 * values, vmin=0, vmax=100, cmap=HEAT)
        _style_axes(axes, "after phase", group.name, grid=False)
        axes.set_xlabel("classes of phase", color=INK)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        if len(values) <= MOST_NUMBERS:
            for row in range(len(values)):
                for column in range(row + 1):
                    share = values[row, column]
                    ink = "white" if share > DARK else "#010203"
                    axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", color=ink, fontsize=8)
    for axes in places[len(groups) :]:
        axes.set_axis_off()
    bar = figure.colorbar(mesh, ax=list(places), shrink=0.8, pad=0.02, aspect=20 * rows)
    bar.set_label("accuracy (%)", color=INK)
    bar.ax.tick_params(colors=INK, labelsize=8)
    bar.outline.set_visible(False)
    return figure


KINDS: dict[str, Callable[[Sequence[RunResult]], Figure]] = {
    "accuracy": accuracy_figure,
    "memory": memory_figure,
    "matrix": matrix_figure,
}


def encode(figure: Figure, kind: str) -> bytes:
    """The bytes of a PDF, PNG or SVG file; equal figures give equal bytes."""
    buffer = io.BytesIO()
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind, {})
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "remem", "pdf.fonttype": 42}):
        figure.savefig(buffer, format=kind, dpi=200, facecolor="white", metadata=undated)
    return buffer.getvalue()


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
    return svg.replace(INK, "currentColor").replace("<svg", f'<svg class="still" role="img" aria-label="{label}"', 1)


def _line(
    axes: Axes,
    series: Series,
    place: int,
    *,
    scale: float = 1.0,
    dashed: bool = False,
    highest: float | None = None,
) -> None:
    """Means over seeds; with their 95 % intervals as a band, from 0 to the highest possible value, if that is given."""
    colour, marker = colour_of(place), marker_of(place)
    middle = [scale * mean for mean in series.means]
    [line] = axes.plot(series.phases, middle, color=colour, marker=marker, markersize=4.5, linewidth=1.6)
    if dashed:
        line.set(linestyle="--", markerfacecolor="white")
    if highest is not None and any(half is not None for half in series.halves):
        spans = [(mean, scale * (half or 0.0)) for mean, half in zip(middle, series.halves, strict=True)]
        low, high = [max(0.0, mean - half) for mean, half in spans], [min(highest, mean + half) for mean, half in spans]
        axes.fill_between(series.phases, low, high, color=colour, alpha=0.18, linewidth=0)


def _style_axes(axes: Axes, label: str, title: str = "", *, grid: bool = True) -> None:
    axes.set_xlabel("phase", color=INK)
    axes.set_ylabel(label, color=INK)
    axes.set_title(title, color=INK, fontsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(colors=INK, width=0.6)
    if grid:
        axes.grid(color=INK, alpha=0.15, linewidth=0.6)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set(color=INK, linewidth=0.6)


def _legend(figure: Figure | SubFigure, groups: Sequence[Group], *, ages: bool = False) -> None:
    lines = [
        Line2D([], [], color=colour_of(place), marker=marker_of(place), markersize=4.5, linewidth=1.6, label=group.name)
        for place, group in enumerate(groups)
    ]
    if ages:
        lines += [
            Line2D([], [], color=INK, linestyle="-", label="old classes"),
            Line2D([], [], color=INK, linestyle="--", label="new classes"),
        ]
    widest = max(len(group.name) for group in groups)
    columns = 3 if widest < 24 else 2 if widest < 46 else 1
    look = {"frameon": False, "labelcolor": INK, "fontsize": 8, "alignment": "left"}
    figure.legend(handles=lines, loc="outside upper left", ncols=columns, **look)
