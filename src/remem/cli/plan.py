"""`remem plan`: what a run would hold, how long it would take and how much memory it would need; nothing is trained."""

import json
import math
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

from rich.console import Console

from remem.cli.console import clock, say, size, span
from remem.cli.costs import busy_lines
from remem.cli.flags import SettingSources, takes_settings
from remem.cli.options import COMMON, SCENARIO, TRAINING, option
from remem.cli.run import describe

if TYPE_CHECKING:
    from remem.report.tables import Table
    from remem.runs.cost import Range
    from remem.runs.dry_run import OldQuotas, Plan, PlannedPhase, StoredAs
    from remem.runs.estimate import Bytes
    from remem.runs.prepared import Prepared

HALF = 5  # tenths
SMALLEST = 8  # px; smaller images are not proposed


@takes_settings(SCENARIO, TRAINING, COMMON)
def plan(
    sources: SettingSources,
    quiet: Annotated[bool, option("--quiet", "Print the plan, and nothing else.", COMMON)] = False,
    as_json: Annotated[bool, option("--json", "As a JSON object.", COMMON)] = False,
) -> None:
    """Show what a run would hold in every phase, and about how long it would take.

    Nothing is trained. Takes the flags of `remem run`. Time is measured on a few batches of the real network; memory is
    counted.

    Example: remem plan --dataset digits --phases 3 --budget 300 --policy fixed-0.6
    """
    note = Console(stderr=True, quiet=quiet)
    with note.status("reading the data"):
        layers = sources.checked_layers()
        from remem.runs.build import prepare
        from remem.runs.config import compose
        from remem.runs.cost import machine_now
        from remem.runs.dry_run import plan as make_plan
        from remem.runs.estimate import estimate_bytes, estimate_seconds, try_out

        prepared = prepare(compose(*layers))
        planned = make_plan(prepared)
    with note.status("measuring a few batches"):
        trial = try_out(prepared, planned)
    seconds, bytes_ = estimate_seconds(prepared, planned, trial), estimate_bytes(prepared, planned, trial)
    machine, needed = machine_now(), prepared.config.train.threads * prepared.config.train.devices
    ranges = [trial.range(phase, machine, needed) for phase in seconds]
    if as_json:
        print(json.dumps(_tree(prepared, planned, list(zip(seconds, ranges, strict=True)), bytes_), indent=1))
        return
    console = Console()
    if not quiet:
        say(console, *describe(prepared), "")
    say(console, phase_table(planned, seconds, prepared.ladder).text(), "", class_table(planned).text(), "")
    whole = trial.range(sum(seconds), machine, needed)
    time = f"time     {span(whole.low, whole.high)} on {prepared.config.train.device}, estimated from a few batches"
    say(console, time, *busy_lines(machine, needed, trial.stretch), *_notes(prepared, planned, bytes_))


def _tree(
    prepared: "Prepared", planned: "Plan", times: "Sequence[tuple[float, Range]]", bytes_: "Bytes"
) -> dict[str, object]:
    from dataclasses import asdict

    from remem.runs.dry_run import plan_entry, stored_as

    ladder = prepared.ladder
    return {
        "config": prepared.config.public(),
        "oracle": prepared.policy.oracle or prepared.method.replay == "all",
        "phases": [
            {**plan_entry(p), **_seconds([time]), **({"codec": ladder[p.rung]} if len(ladder) > 1 else {})}
            for p, time in zip(planned.phases, times, strict=True)
        ],
        **_seconds(times),
        "bytes": {**asdict(bytes_), "peak": bytes_.peak},
        "notes": [*prepared.scenario.notes, *prepared.notes],
        **({"stored_as": [asdict(entry) for entry in stored]} if (stored := stored_as(prepared)) else {}),
    }


def _seconds(times: "Sequence[tuple[float, Range]]") -> dict[str, float]:
    return {
        "seconds": sum(seconds for seconds, _ in times),
        "seconds_low": sum(span.low for _, span in times),
        "seconds_high": sum(span.high for _, span in times),
    }


def phase_table(planned: "Plan", seconds: Sequence[float], ladder: Sequence[str] = ()) -> "Table":
    """One row per phase; `-` where nothing is limited or decided. Codecs are shown if there are several."""
    from remem.report.groups import NOTHING
    from remem.report.tables import Table

    rows = []
    for phase, time in zip(planned.phases, seconds, strict=True):
        budget = NOTHING if phase.budget is None else str(phase.budget)
        share = NOTHING if phase.decision is None else f"{phase.decision.old_share:.2f}"
        counts = (phase.phase, phase.classes_seen, phase.arriving)
        codec = [NOTHING if phase.budget is None else ladder[phase.rung]] if len(ladder) > 1 else []
        held = str(phase.held_old), str(phase.held_new)
        rows.append((*map(str, counts), budget, share, *held, _about(time), *codec))
    header = ("phase", "classes", "arriving", "budget", "old share", "held old", "held new", "about")
    return Table((*header, "codec") if len(ladder) > 1 else header, tuple(rows))


def class_table(planned: "Plan") -> "Table":
    """Samples per class: new ones, and old ones by the phase that brought them."""
    from remem.report.tables import Table

    header = ("phase", "per new class", "per old class, by the phase it came in: harder / easier half")
    rows = tuple((str(p.phase), _span(p.new), old_quotas(p)) for p in planned.phases)
    return Table(header, rows, labels=3)


def old_quotas(phase: "PlannedPhase") -> str:
    """`0: 40 / 20, 1-3: 35 / 25`; neighbours with equal quotas share a place."""
    from remem.report.groups import NOTHING

    parts = []
    for quotas, run in groupby(phase.old, key=_halves):
        first, *_, last = [*(group := [part.phase for part in run]), group[-1]]
        parts.append(f"{first}: {quotas}" if first == last else f"{first}-{last}: {quotas}")
    return ", ".join(parts) or NOTHING


def _halves(quotas: "OldQuotas") -> str:
    return " / ".join(_span(half) for half in (quotas.harder, quotas.easier) if half)


def spans(numbers: Sequence[int]) -> str:
    """Ascending numbers, such as `1-3, 5`."""
    parts = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        first, *_, last = [*(group := [number for _, number in run]), group[-1]]
        parts.append(str(first) if first == last else f"{first}-{last}")
    return ", ".join(parts)


def _span(counts: Sequence[int]) -> str:
    """Quotas that do not come out even differ by one, or by what their classes have: `7` or `7-8`."""
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low}-{high}"


def _notes(prepared: "Prepared", planned: "Plan", bytes_: "Bytes") -> list[str]:
    from remem.methods.method import Method
    from remem.runs.dry_run import stored_as

    config, stored = prepared.config, stored_as(prepared)
    lines = []
    if config.train.devices > 1:
        lines.append(f"note     measured in one process; {config.train.devices} share the work")
    if type(prepared.method).refine is not Method.refine:
        lines.append(f"note     the time that {config.method.name} takes to refine exemplars is not in it")
    lines.append(f"memory   at most {size(bytes_.held)} of samples held in phases 1 to {len(planned.phases) - 1}")
    lines += _stored_lines(prepared, stored)
    lines.append(f"         {_peak(bytes_)}")
    lines += _same_shares(prepared, planned)
    clamped = spans([p.phase for p in planned.phases if p.decision is not None and p.decision.clamped])
    if clamped:
        lines.append(f"note     phase {clamped}: the policy's choice does not fit; the nearest that does is taken")
    if stored:
        title = f"Samples that {size(prepared.budget.amount)} would hold:"
        lines += ["", title, "", stored_table(prepared, stored).text()]
    return lines


def _same_shares(prepared: "Prepared", planned: "Plan") -> list[str]:
    """A policy has little to decide where shares of a half and more leave room for all new samples."""
    budget, later = prepared.budget, planned.phases[1:]
    if budget.kind != "fixed" or prepared.method.replay == "all":
        return []
    share = 10 * (budget.amount - max(phase.arriving for phase in later)) // budget.amount
    if share < HALF:
        return []
    return [f"note     all new samples fit beside an old share of {share / 10}: lower shares hold the same"]


def _stored_lines(prepared: "Prepared", stored: "Sequence[StoredAs]") -> list[str]:
    """What a budget in bytes holds by the run's codecs."""
    if not stored:
        return []
    shape = prepared.scenario.bank.stored_shape
    what = f"at {shape[0]} px" if len(shape) == 3 else f"of {shape[0]} numbers"
    budget, own = size(prepared.budget.amount), len(prepared.ladder)
    lines = [f"{budget} = {s.samples} samples {what} as {s.codec} ({s.sample_bytes} bytes each)" for s in stored[:own]]
    return [f"         {line}" for line in lines]


def stored_table(prepared: "Prepared", stored: "Sequence[StoredAs]") -> "Table":
    """Samples that the budget holds by codec; for images also at half and at twice the side."""
    from remem.report.groups import NOTHING
    from remem.report.tables import Table
    from remem.runs.dry_run import stored_at

    shape = prepared.scenario.bank.stored_shape
    columns = {shape[0]: {entry.codec: entry.samples for entry in stored}}
    if len(shape) == 3 and shape[0] == shape[1]:
        columns |= stored_at(prepared, [side for side in (shape[0] // 2, 2 * shape[0]) if side >= SMALLEST])
    sides = sorted(columns)
    codecs = dict.fromkeys(name for side in (shape[0], *sides) for name in columns[side])
    header = [f"{side} px" for side in sides] if len(shape) == 3 else ["samples"]
    rows = [(name, *(str(columns[side].get(name, NOTHING)) for side in sides)) for name in codecs]
    return Table(("codec", *header), tuple(rows), labels=1)


def _about(seconds: float) -> str:
    return clock(math.ceil(seconds))


def _peak(bytes_: "Bytes") -> str:
    named = {
        "data set": bytes_.data,
        "model": bytes_.model,
        "teacher": bytes_.teacher,
        "gradients and optimiser": bytes_.training,
        "a batch": bytes_.batch,
        "program": bytes_.program,
    }
    parts = ", ".join(f"{name} {size(count)}" for name, count in named.items() if count)
    return f"peak about {size(bytes_.peak)}: {parts}"
