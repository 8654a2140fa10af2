"""A policy as text for terminals: provenance, probabilities as bars of characters, and paths."""

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from math import gcd
from statistics import fmean
from typing import Any

from remem.action import CHANGES, Decision
from remem.policies.learned import Learned
from remem.policies.policy import Policy
from remem.policies.rmm import SHARES, TwoLevelPolicy
from remem.report import policy_view
from remem.report.policy_view import CUSTOMARY, RATIOS, SPLIT_RATIO, FloatArray

BARS, PLAIN_BARS = "·▁▂▃▄▅▆▇█", "_.:-=+*#%"  # from 0 to 1; the second for terminals without Unicode
NAMED_CLASSES = 6  # how many classes are named before "..."
SOURCES = {"phase0": "phase 0 of", "target": "the target itself,", "dataset": "another data set,"}
Rows = list[list[str]]


def policy_text(policy: Policy, bars: str = BARS) -> str:
    """Provenance, probabilities if there are any, and paths; characters that cannot be printed become `?`."""
    blocks = [provenance_text(policy)]
    network = policy_view.network_of(policy)
    if network is not None:
        blocks += [_first_block(network, bars), _change_block(network, bars)]
        if network.settings.levels == 2:
            blocks.append(_split_block(network, bars))
    blocks.append(paths_text(policy))
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in "\n\n".join(blocks))


def provenance_text(policy: Policy) -> str:
    """Where a policy comes from, one line per fact."""
    facts = policy.provenance()
    lines = {"policy": policy.name + (" (oracle: it saw what no honest policy may see)" if policy.oracle else "")}
    if "kind" in facts:
        lines["kind"] = _kind(facts)
    if "old_share" in facts:
        lines["old share"] = f"{facts['old_share']}"
    if "source" in facts:
        lines |= _source(facts["source"])
    for key in ("method", "settings"):
        if facts.get(key):
            lines[key] = ", ".join(f"{name} {_word(value)}" for name, value in _flat(facts[key]))
    rewards = facts.get("rewards")
    if isinstance(rewards, Sequence) and rewards:
        settings = facts.get("settings")
        lines["rewards"] = progress(rewards, settings.get("learn", {}) if isinstance(settings, Mapping) else {})
        lines["seed"] = f"{facts['seed']}"
    if "remem" in facts:
        lines["remem"] = f"{facts['remem']}"
    if "sha256" in facts:
        lines["weights"] = f"sha256 {facts['sha256']}"
    return "\n".join(f"{key:12}{line}" for key, line in lines.items())


def paths_text(policy: Policy) -> str:
    """The path of a policy through the customary scenarios, in tenths."""
    how = "A sampled path" if isinstance(policy, Learned) and policy.seed is not None else "Its path"
    lines = [f"{how} in tenths: 100 classes of 500 samples, 50 in phase 0 (! not feasible as asked)"]
    for phases, budget in CUSTOMARY.items():
        decisions = policy_view.path(policy, phases, budget)
        lines.append(f"  N = {phases:<3} M = {budget}  old share     {_digits(decisions)}")
        splits = "".join(f"{'-' if d.level2 is None else round(10 * d.level2):<2}" for d in decisions)
        lines.append(f"{'':20}harder half   {splits.rstrip()}")
        if len(rungs := policy_view.codecs_of(policy)) > 1:
            chosen = ", ".join(_runs([rungs[d.rung] for d in decisions]))
            lines.append(f"{'':20}codec         {chosen}")
    return "\n".join(lines)


def progress(rewards: Sequence[float], learn: Mapping[str, Any]) -> str:
    """Mean rewards at both ends of a training, each over as many epochs as the tasks need to take turns."""
    pool, tasks = learn.get("pool", 0), learn.get("tasks", 1)
    turn = min(len(rewards), pool // gcd(pool, tasks) if pool else 1)
    first, last = fmean(rewards[:turn]), fmean(rewards[-turn:])
    own = f" {turn}" if turn > 1 else ""
    return f"{first:.3f} in the first{own} of {len(rewards)} epochs, {last:.3f} in the last{own}"


def _runs(names: Sequence[str]) -> list[str]:
    """`raw x 2, ycc420 x 3` instead of every name."""
    return [f"{name} x {len(list(group))}" for name, group in groupby(names)]


def _first_block(network: TwoLevelPolicy, bars: str) -> str:
    rows = [["new/old", *(f"{share / 10}" for share in SHARES)]]
    for ratio, chances in zip(RATIOS, policy_view.first_shares(network), strict=True):
        rows.append([f"{ratio}", *(f"{_bar(chance, bars)}{100 * chance:3.0f}" for chance in chances)])
    return "Level 1 in phase 1: probability in % of every old share, if all are feasible\n" + _aligned(rows)


def _change_block(network: TwoLevelPolicy, bars: str) -> str:
    rows = [["new/old", *(f"{share / 10}" for share in SHARES)]]
    for ratio, chances in zip(RATIOS, policy_view.changes(network), strict=True):
        rows.append([f"{ratio}", *("".join(_bar(chance, bars) for chance in cell) for cell in chances)])
    return "Level 1 later, by the old share so far: change by -0.1, 0, +0.1 from left to right\n" + _aligned(rows)


def _split_block(network: TwoLevelPolicy, bars: str) -> str:
    shown = range(0, len(SHARES), 2)
    rows = [["old share", *(f"{SHARES[place] / 10}" for place in shown)]]
    rows.append(["phase 1, this one chosen", *_sparks(policy_view.first_splits(network), shown, bars)])
    for change, chances in zip(CHANGES, policy_view.later_splits(network), strict=True):
        words = f"changed by {change / 10:+.1f}" if change else "not changed"
        rows.append([f"later, {words}", *_sparks(chances, shown, bars)])
    title = f"Level 2 at new/old = {SPLIT_RATIO}: the harder half's share, 0.1 to 0.9 from left to right"
    return f"{title}\n{_aligned(rows)}"


def _sparks(chances: FloatArray, shown: Sequence[int], bars: str) -> list[str]:
    return ["".join(_bar(c, bars) for c in chances[place]) if chances[place][0] >= 0 else "-" for place in shown]


def _bar(chance: float, bars: str) -> str:
    """A probability as one character; very small ones look like 0."""
    return bars[round(chance * (len(bars) - 1))]


def _aligned(rows: Rows) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _digits(decisions: Sequence[Decision]) -> str:
    return "".join(f"{d.old_tenths}{'!' if d.clamped else ' '}" for d in decisions).rstrip()


def _kind(facts: Mapping[str, Any]) -> str:
    if facts["kind"] == "fixed":
        return f"one old share for all phases, 0.{facts['old_tenths']}"
    if facts["kind"] == "path":
        shares, splits = (" ".join(f"0.{action[level]}" for action in facts["path"]) for level in (0, 1))
        return f"one action for every phase; old shares {shares}, harder halves {splits}"
    if facts["kind"] != "two-level":
        return str(facts["kind"])
    levels = "two levels" if facts["levels"] == 2 else "one level (the harder half gets as much as the easier one)"
    return f"{levels}, {facts['hidden']} hidden units" + (", actions are sampled" if facts.get("sampled") else "")


def _source(source: Mapping[str, Any] | Any) -> dict[str, str]:
    if not isinstance(source, Mapping):
        return {"learned on": "nothing"}
    classes = [str(name) for name in source.get("classes", ())]
    named = ", ".join(classes[:NAMED_CLASSES]) + (", ..." if len(classes) > NAMED_CLASSES else "")
    lines = {"learned on": f"{SOURCES.get(str(source.get('kind')), '')} {source.get('data')}".strip()}
    lines["classes"] = f"{len(classes)}: {named}"
    rest = {key: source.get(key) for key in ("order", "phases", "budget")}
    lines["scenario"] = ", ".join(f"{key} {_word(value)}" for key, value in rest.items() if value is not None)
    return lines


def _flat(tree: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if not isinstance(tree, Mapping):
        return [(prefix, tree)]
    return [pair for key, value in tree.items() for pair in _flat(value, f"{prefix}.{key}" if prefix else str(key))]


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
