"""Figures of a policy: probabilities of the first share, heat maps of changes and splits, and its paths."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from remem.action import CHANGES
from remem.policies.policy import Policy
from remem.policies.rmm import SHARES, TwoLevelPolicy
from remem.report import policy_view
from remem.report.plots import COLOURS, HEAT, INK, MARKERS, encode, inline_svg
from remem.report.policy_text import policy_text, provenance_text
from remem.report.policy_view import BASE, CUSTOMARY, LATER, RATIOS, SPLIT_RATIO, FloatArray
from remem.report.style import STYLE
from remem.storage.atomic import write_atomically

WIDTH, ROW = 9.0, 2.6  # inches
FINE = tuple(np.geomspace(RATIOS[0], RATIOS[-1], 25).tolist())
TENTHS = [share / 10 for share in SHARES]
TICKS = (0.1, 0.3, 0.5, 0.7, 0.9)


def draw_policy(policy: Policy, path: Path) -> None:
    """Writes the figure; the suffix of the path selects the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".html":
        write_atomically(path, policy_page(policy).encode())
        return
    write_atomically(path, encode(policy_figure(policy), path.suffix.lower().removeprefix(".")))


def policy_page(policy: Policy) -> str:
    """A self-contained HTML page: provenance, figure and text."""
    title = escape(f"Policy {policy.name}")
    svg = inline_svg(policy_figure(policy), "policy", "Action probabilities and paths of the policy")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        f'<figure class="wide">\n{svg}\n</figure>\n'
        f'<h2>Where it comes from</h2>\n<pre class="wrap">{escape(provenance_text(policy))}</pre>\n'
        f"<details><summary>The same as text</summary><pre>{escape(policy_text(policy))}</pre></details>\n"
        "</main>\n</body>\n</html>\n"
    )


def policy_figure(policy: Policy) -> Figure:
    """One row per level for policies with probabilities, then a row with the paths."""
    network = policy_view.network_of(policy)
    rows = 1 if network is None else 2 + network.settings.levels
    figure = Figure(figsize=(WIDTH, ROW * rows + 0.4), layout="constrained")
    oracle = " (oracle)" if policy.oracle else ""
    figure.suptitle(f"{policy.name}{oracle}", color=INK, fontsize=13, fontweight="bold")
    parts = figure.subfigures(rows, 1, squeeze=False)[:, 0]
    if network is not None:
        _draw_first(parts[0], network)
        _draw_changes(parts[1], network)
        if network.settings.levels == 2:
            _draw_splits(parts[2], network)
    _draw_paths(parts[-1], policy)
    return figure


def _draw_first(part: SubFigure, network: TwoLevelPolicy) -> None:
    _title(part, "Level 1, phase 1: probability of every share for old classes, if all are feasible")
    every = part.subplots(1, len(RATIOS), sharey=True)
    for axes, ratio, chances in zip(every, RATIOS, policy_view.first_shares(network), strict=True):
        axes.bar(TENTHS, chances, width=0.08, color=COLOURS[0])
        axes.set_title(f"new/old classes = {ratio}", fontsize=9, color=INK)
        axes.set_ylim(0, 1)
        axes.set_xticks(TICKS)
        _style_axes(axes, "share for old classes", "probability" if axes is every[0] else "")


def _draw_changes(part: SubFigure, network: TwoLevelPolicy) -> None:
    _title(part, "Level 1, later phases: probability of a change of that share")
    chances = policy_view.changes(network, FINE)
    every = part.subplots(1, len(CHANGES), sharey=True)
    for place, (axes, change) in enumerate(zip(every, CHANGES, strict=True)):
        _heat(part, every, axes, FINE, chances[:, :, place])
        axes.set_yscale("log")
        axes.set_yticks(RATIOS, [str(ratio) for ratio in RATIOS])
        axes.minorticks_off()
        axes.set_title("no change" if change == 0 else f"change by {change / 10:+.1f}", fontsize=9, color=INK)
        _style_axes(axes, "share so far", "new/old classes" if place == 0 else "")


def _draw_splits(part: SubFigure, network: TwoLevelPolicy) -> None:
    _title(
        part, f"Level 2 at new/old classes = {SPLIT_RATIO}: probability of the harder half's share (blank: impossible)"
    )
    every = part.subplots(1, 1 + len(CHANGES), sharey=True)
    later = policy_view.later_splits(network)
    titles = ["phase 1", *("later, no change" if c == 0 else f"later, after {c / 10:+.1f}" for c in CHANGES)]
    for axes, title, chances in zip(every, titles, [policy_view.first_splits(network), *later], strict=True):
        _heat(part, every, axes, TENTHS, chances.T)
        axes.set_yticks(TICKS)
        axes.set_title(title, fontsize=9, color=INK)
        first = axes is every[0]
        _style_axes(axes, "share just chosen" if first else "share so far", "harder half's share" if first else "")


def _draw_paths(part: SubFigure, policy: Policy) -> None:
    _title(part, f"Its decisions: {BASE + LATER} classes of 500 samples, {BASE} of them in phase 0")
    rungs = policy_view.codecs_of(policy)
    shares, splits, *more = part.subplots(1, 3 if len(rungs) > 1 else 2, sharey=len(rungs) < 2)
    for place, (phases, budget) in enumerate(CUSTOMARY.items()):
        decisions = policy_view.path(policy, phases, budget)
        seen = [BASE + LATER * (phase + 1) // phases for phase in range(phases)]
        # Lines that coincide stay visible, because those below are wider.
        style = {
            "color": COLOURS[place],
            "marker": MARKERS[place],
            "linewidth": 4.5 - 1.7 * place,
            "markersize": 7 - 1.5 * place,
        }
        shares.plot(seen, [d.old_share for d in decisions], label=f"N = {phases}, M = {budget}", **style)
        halves = [np.nan if d.level2 is None else d.level2 for d in decisions]
        splits.plot(seen, halves, **style)
        for codecs in more:
            codecs.plot(seen, [d.rung for d in decisions], **style)
    for axes, words in ((shares, "share for old classes"), (splits, "harder half's share")):
        axes.set_ylim(0, 1)
        axes.grid(color=INK, alpha=0.15, linewidth=0.6)
        _style_axes(axes, "classes seen after the phase", words)
    for codecs in more:
        _style_axes(codecs, "classes seen after the phase", "codec")
        codecs.set_yticks(range(len(rungs)), rungs)
        codecs.invert_yaxis()  # exact ones on top
        codecs.grid(color=INK, alpha=0.15, linewidth=0.6)
    shares.legend(frameon=False, fontsize=8, labelcolor=INK, loc="best")


def _heat(part: SubFigure, every: Sequence[Axes], axes: Axes, ys: Sequence[float], chances: FloatArray) -> None:
    """A heat map over old shares from left to right; the row shares one colour bar."""
    # Edges in the colours of the cells: without them, browsers show the seams of an SVG.
    mesh = axes.pcolormesh(TENTHS, ys, chances, vmin=0, vmax=1, cmap=HEAT, shading="nearest", edgecolors="face", lw=0.4)
    axes.set_xticks(TICKS)
    if axes is every[-1]:
        bar = part.colorbar(mesh, ax=list(every), shrink=0.9, pad=0.01)
        bar.set_label("probability", color=INK, fontsize=9)
        bar.ax.tick_params(colors=INK, labelsize=8)
        bar.outline.set_visible(False)


def _title(part: SubFigure, words: str) -> None:
    part.suptitle(words, color=INK, fontsize=10, x=0.01, ha="left")


def _style_axes(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x, color=INK, fontsize=9)
    axes.set_ylabel(y, color=INK, fontsize=9)
    axes.tick_params(colors=INK, width=0.6, labelsize=8)
    for spine in axes.spines.values():
        spine.set(color=INK, linewidth=0.6)
