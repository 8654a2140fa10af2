"""`remem demo` with tiny settings, and what it says about the differences."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Command
from remem.cli.demo import POLICIES, verdict
from remem.events import Event
from remem.parallel.jobs import Job, find_handler
from remem.parallel.pool import WorkerPool, ignore
from remem.runs.results import RunResult
from report_factories import make_run

TINY = (
    "train.epochs=1",
    "finetune.epochs=1",
    "scenario.phases=2",
    "scenario.classes=6",
    "memory.budget=30",
    "memory.exemplars=8",
)


class OneAfterAnother(WorkerPool):
    """A pool without the cost of new processes."""

    def run(
        self, jobs: Sequence[Job], emit: Callable[[Job, Event], None] = ignore
    ) -> Iterator[tuple[Job, dict[str, Any]]]:
        for job in jobs:
            yield job, find_handler(job.kind)(job.payload, partial(emit, job))


def test_the_demo_compares_all_runs_and_reuses_them(
    remem: Command, vectors: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "demo"
    settings = [word for pair in (f"data.name={vectors}", *TINY) for word in ("--set", pair)]
    said = remem("demo", "--out", out, *settings)
    assert said.code == 0, said.err
    results = [json.loads((out / policy / "result.json").read_text()) for policy in POLICIES]
    page = (out / "report.html").read_text()
    for result in results:
        average, last = (f"{100 * result[name]:.2f}" for name in ("average_accuracy", "last_accuracy"))
        row = next(line for line in said.out.splitlines() if line.startswith(f"lwf / {result['config']['policy']} "))
        phase = result["phases"][-1]
        assert row.split()[3:5] == [average, last]
        assert row.split()[-2:] == [str(phase["held_old"]), str(phase["held_new"])]
        assert average in page
        assert last in page
    assert "One seed names no winner" in said.out
    assert f"report: {out / 'report.html'}" in said.out

    assert not (out / "phase0").exists()
    stamps = [(out / policy / "result.json").stat().st_mtime_ns for policy in POLICIES]
    monkeypatch.setattr("remem.parallel.pool.WorkerPool", OneAfterAnother)
    again = remem("demo", "--out", out, *settings)
    assert again.code == 0
    assert "complete already and reused: static, fixed-0.6, rmm-glyphs" in again.out
    assert [(out / policy / "result.json").stat().st_mtime_ns for policy in POLICIES] == stamps

    changed = remem("demo", "--out", out, *settings, "--set", "train.epochs=2")
    assert changed.code == 2
    assert "train.epochs is 2, but this run began with 1; settings cannot change" in changed.err


def made(policy: str, average: float, forgetting: float) -> RunResult:
    return make_run("icarl", policy, [average]).model_copy(update={"forgetting": forgetting})


def test_differences_in_words_and_no_winner_by_one_seed() -> None:
    words = verdict([made("static", 0.40, 0.2), made("fixed-0.6", 0.43, 0.1), made("rmm", 0.385, 0.05)])
    assert words == (
        "Average accuracy minus static, in points: fixed-0.6 +3.00, rmm -1.50. "
        "Points forgotten: static 20.00, fixed-0.6 10.00, rmm 5.00. "
        "One seed names no winner: `remem study glyphs-policies` compares several seeds."
    )
