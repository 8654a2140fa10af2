"""What runs show, in words: a winner is named only where paired intervals support it."""

import json
from collections.abc import Sequence

from remem.report.groups import Group, differing, group_runs, paired, reference_of
from remem.report.series import scenarios
from remem.report.summary import AVERAGE
from remem.report.tables import hundredths, plus_minus
from remem.runs.results import RunResult, Spread


def headline(results: Sequence[RunResult]) -> list[str]:
    """One sentence for every set of comparable settings, then the gains over `static` that intervals support.

    Comparable settings differ in method and policy only: same data, class orders, budget and training. Oracles and
    unfinished runs do not compete.
    """
    groups = group_runs(results)
    honest = [group for group in groups if not group.oracle and group.complete]
    if not honest:
        return ["No run here is both complete and free of oracles."]
    if len(honest) == 1:
        return ["One setting: there is nothing to compare it with."]
    blocks = [block for block in comparable(honest) if len(block) > 1]
    if not blocks:
        return ["No two settings here are comparable: none differ in method and policy alone."]
    places = [f"{place}: " for place in _places(blocks)] if len(blocks) > 1 else [""]
    verdicts = [place + verdict(block) for place, block in zip(places, blocks, strict=True)]
    gains = [place + line for place, block in zip(places, blocks, strict=True) for line in _gains(block)]
    return [*verdicts, *gains]


def comparable(groups: Sequence[Group]) -> list[list[Group]]:
    """Groups whose settings are equal but for method and policy."""
    blocks: dict[str, list[Group]] = {}
    for group in groups:
        own = {key: value for key, value in group.settings.items() if _tells(key)}
        blocks.setdefault(json.dumps(own, sort_keys=True), []).append(group)
    return list(blocks.values())


def verdict(block: Sequence[Group]) -> str:
    """Who is best, if the paired interval of its difference to every other one is above zero."""
    best, *others = sorted(block, key=lambda group: group.spread(AVERAGE).mean, reverse=True)
    differences = [(other, paired(best, other, AVERAGE)) for other in others]
    level = [(other, difference) for other, difference in differences if not above_zero(difference)]
    if not level:
        other, difference = differences[0]
        assert difference is not None
        return (
            f"Best average accuracy: {best.short_name} with {hundredths(best.spread(AVERAGE).mean)} %, "
            f"{_points(difference)} points above {other.short_name} (paired by seed)."
        )
    if all(difference is None or difference.half_width is None for _, difference in level):
        return "No winner: fewer than two seeds are common to these settings, so no interval supports a difference."
    other, difference = level[0]
    gap = "" if difference is None else f" ({_points(difference)} points, paired by seed)"
    more = f" and {len(level) - 1} more" if len(level) > 1 else ""
    return (
        f"No winner: {best.short_name} has the highest mean, but intervals do not separate it from "
        f"{other.short_name}{gap}{more}."
    )


def above_zero(difference: Spread | None) -> bool:
    """Whether the whole interval is above zero; a single pair has none."""
    return difference is not None and difference.half_width is not None and difference.mean > difference.half_width


def _gains(groups: Sequence[Group]) -> list[str]:
    compared = [(group, reference_of(group, groups)) for group in groups]
    gains = [(group, paired(group, other, AVERAGE)) for group, other in compared if other is not None]
    known = [(group, gain) for group, gain in gains if gain is not None and gain.half_width is not None]
    if not known:
        return []
    supported = [f"{group.short_name} {_points(gain)}" for group, gain in known if above_zero(gain)]
    rest = [f"{group.short_name} {_points(gain)}" for group, gain in known if not above_zero(gain)]
    lines = [f"Above static, by points of average accuracy: {'; '.join(supported)}."] if supported else []
    return lines + ([f"Not separated from static, or below it: {'; '.join(rest)}."] if rest else [])


def _places(blocks: Sequence[Sequence[Group]]) -> list[str]:
    """What tells blocks apart: data set, classes and phases; where these are equal, all settings that differ."""
    titles = [next(iter(scenarios(block[0].runs[:1]))) for block in blocks]
    places = []
    for title, block in zip(titles, blocks, strict=True):
        alike = [other[0] for other, own in zip(blocks, titles, strict=True) if own == title]
        places.append(", ".join([title, *(f"{key} {block[0].word(key)}" for key in differing(alike) if _tells(key))]))
    return places


def _tells(key: str) -> bool:
    """Method and policy are what is compared."""
    return key != "policy" and not key.startswith("method.")


def _points(difference: Spread) -> str:
    return plus_minus(difference.mean, difference.half_width, "+")
