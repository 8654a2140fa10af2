"""What a better split gains with and without balanced fine-tuning: the picture and the table of the README.

`python results/split.py` reads the stored runs of `shares`, `without-finetuning` and
`aanets-without-finetuning`, draws docs/images/shares.svg and prints the table.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from remem.evaluation.metrics import mean_interval
from remem.report.groups import NOTHING
from remem.report.plots import COLOURS, INK, encode
from remem.report.tables import Table, plus_minus
from remem.runs.results import load_result
from remem.studies.grid import plan_study, read_study_file

HERE = Path(__file__).parent
PICTURE = HERE.parent / "docs" / "images" / "shares.svg"
KINDS = ("studies", "unfinished")
STATIC, LEARNED = "static", "rmm-learned"
STATIC_SHARE = 2000 / 7000  # `static` keeps 20 samples for each of 100 classes, and all new ones of a phase
RECIPES = {
    "with balanced fine-tuning": ("shares",),
    "without": ("without-finetuning", "aanets-without-finetuning"),
}
METHODS = ("lucir", "pod-aanets")  # `lucir-aanets` when its runs are there
POLICIES = (STATIC, "proportional", "fixed-0.6", "fixed-0.7", "rmm-one-level-learned", LEARNED)

Averages = dict[tuple[str, str], dict[int, float]]  # by method and policy, then by seed


def averages(*studies: str) -> Averages:
    """Average accuracies of all stored runs of some studies."""
    found: Averages = {}
    for study in studies:
        for run in plan_study(read_study_file(Path(study))).runs:
            for path in (HERE / kind / study / "runs" / f"{run.name}.json" for kind in KINDS):
                if path.exists():
                    own = found.setdefault((run.config.method.name, run.policy), {})
                    own[run.config.seed] = load_result(path).average_accuracy
    return found


def differences(runs: Mapping[int, float], reference: Mapping[int, float]) -> list[float]:
    """Paired by class order, which is the seed."""
    return [runs[seed] - reference[seed] for seed in sorted(runs.keys() & reference.keys())]


def fixed_shares(runs: Averages, method: str) -> dict[float, dict[int, float]]:
    """Runs of a method under fixed shares and under `static`, by share."""
    found = {STATIC_SHARE: runs[method, STATIC]} if (method, STATIC) in runs else {}
    for (name, policy), own in runs.items():
        if name == method and policy.startswith("fixed-"):
            found[float(policy.removeprefix("fixed-"))] = own
    return dict(sorted(found.items()))


def draw(axes: Axes, method: str, recipes: Mapping[str, Averages]) -> None:
    """One panel: for every recipe what each old share gains over `static` with fine-tuning, paired by class order.

    Bars are 95 % intervals, squares are `static`, dashed lines the learned policy.
    """
    reference = recipes[next(iter(RECIPES))][method, STATIC]
    for (name, runs), colour in zip(recipes.items(), COLOURS, strict=False):
        shares = fixed_shares(runs, method)
        gains = [mean_interval(differences(own, reference)) for own in shares.values()]
        middle, halves = [100 * mean for mean, _ in gains], [100 * (half or 0.0) for _, half in gains]
        axes.errorbar([*shares], middle, halves, color=colour, marker="o", markersize=4, capsize=2, label=name)
        axes.plot(STATIC_SHARE, middle[0], marker="s", markersize=7, color=colour, markerfacecolor="white")
        if learned := runs.get((method, LEARNED)):
            axes.axhline(100 * fmean(differences(learned, reference)), color=colour, linestyle="--", linewidth=1.2)
    axes.axhline(0, color=INK, linewidth=0.6)
    axes.set_title(method, color=INK, fontsize=9)
    axes.set_xlabel("old share", color=INK)
    axes.grid(color=INK, alpha=0.15, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def figure() -> Figure:
    """One panel per method."""
    recipes = {name: averages(*studies) for name, studies in RECIPES.items()}
    drawn = Figure(figsize=(7.0, 3.2), layout="constrained")
    panels = drawn.subplots(1, len(METHODS), sharex=True, sharey=True)
    for axes, method in zip(panels, METHODS, strict=True):
        draw(axes, method, recipes)
    panels[0].set_ylabel("points above static, fine-tuned", color=INK, fontsize=9)
    curves, names = panels[0].get_legend_handles_labels()
    square = Line2D([], [], color=INK, marker="s", linestyle="", markersize=7, markerfacecolor="white")
    curves += [square, Line2D([], [], color=INK, linestyle="--", linewidth=1.2)]
    names += [STATIC, "learned policy"]
    drawn.legend(curves, names, loc="outside upper center", ncols=len(names), frameon=False, fontsize=8)
    return drawn


def table() -> str:
    """Average accuracies under both recipes, and what every policy gains over `static` of the same recipe."""
    recipes = [averages(*studies) for studies in RECIPES.values()]
    lines = []
    for method in METHODS:
        for policy in POLICIES:
            line = [method, policy]
            for runs in recipes:
                own, static = runs.get((method, policy), {}), runs.get((method, STATIC), {})
                ahead = differences(own, static) if policy != STATIC else []
                line.append(plus_minus(*mean_interval([*own.values()])) if own else NOTHING)
                line.append(plus_minus(*mean_interval(ahead), sign="+") if ahead else NOTHING)
            lines.append(tuple(line))
    heads = (head for name in ("fine-tuned", "not fine-tuned") for head in (f"{name}: average %", "- static"))
    return Table(("method", "policy", *heads), tuple(lines), labels=2).markdown()


def main() -> int:
    PICTURE.write_bytes(encode(figure(), "svg"))
    print(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
