"""results/evidence.py: verdicts by hand-made differences, and the page against the stored files."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from remem.runs.results import RunResult
from report_factories import make_run
from scripts import load_script

ROOT = Path(__file__).parents[1]
EVIDENCE: Any = load_script("results/evidence.py")
PLACE = EVIDENCE.Place("cifar100", "pod-aanets", 5)
MANY = EVIDENCE.Place("cifar100", "pod-aanets", 25)
CLAIMS = {claim.key: claim for claim in EVIDENCE.CLAIMS}


def runs(averages: Mapping[tuple[Any, str], Sequence[float]], planned: int = 3) -> Any:
    """Runs of seeds 0, 1, ... with these average accuracies; `planned` seeds of each were to be made."""
    found = EVIDENCE.Runs()
    for cell, values in averages.items():
        found.planned[cell] = set(range(planned))
        found.stored[cell] = {seed: run(cell[1], value, seed) for seed, value in enumerate(values)}
    return found


def run(policy: str, average: float, seed: int) -> RunResult:
    return make_run("pod-aanets", policy, [average, average], seed=seed)


def test_the_page_is_what_the_files_say() -> None:
    assert (ROOT / "docs/reports/evidence.md").read_text(encoding="utf-8") == EVIDENCE.page()


@pytest.mark.parametrize(
    ("values", "bound", "verdict"),
    [
        ([1.0, 1.2, 1.1], 0.0, "holds"),  # 1.1 ± 0.25
        ([-1.0, -1.2, -1.1], 0.0, "does not hold"),
        ([1.0, 1.2, -0.1], 0.0, "open"),
        ([5.0], 0.0, "open"),  # one order has no interval
        ([], 0.0, "open"),
        ([-1.0, -1.2, -1.1], -1.5, "holds"),  # close is close enough
        ([1.0, 1.2, 1.1], 1.0, "open"),
    ],
)
def test_a_verdict_follows_from_the_interval(values: list[float], bound: float, verdict: str) -> None:
    assert EVIDENCE.side(values, bound) == verdict


def test_one_comparison_that_fails_decides_and_one_that_is_open_leaves_the_claim_open() -> None:
    assert EVIDENCE.together(["holds", "open", "does not hold"]) == "does not hold"
    assert EVIDENCE.together(["holds", "open"]) == "open"
    assert EVIDENCE.together(["holds", "holds"]) == "holds"
    assert EVIDENCE.together([]) == "open"


def test_gains_are_paired_by_class_order() -> None:
    """Seeds 0 to 2 differ by 2, 2 and 5 points; the last `static` has no partner."""
    given = {(PLACE, "rmm-learned"): [0.52, 0.62, 0.45], (PLACE, "static"): [0.50, 0.60, 0.40, 0.90]}
    [row] = CLAIMS["C1"].rows(runs(given))
    assert row.values[0] == pytest.approx((2.0, 2.0, 5.0))
    assert row.paper == pytest.approx((68.86 - 66.61, 59.00 - 57.81))
    assert row.verdict(0.0, 2) == "open"  # 3 ± 4.3
    assert "| CIFAR-100 | pod-aanets | 5 | 3 of 3 | +3.00 ± 4.30 | +2.25 |" in EVIDENCE.claim_table(CLAIMS["C1"], [row])


def test_a_comparison_with_one_planned_order_is_not_judged() -> None:
    given = {(PLACE, "rmm-learned"): [0.9], (PLACE, "static"): [0.5]}
    rows = CLAIMS["C1"].rows(runs(given, planned=1))
    assert [row.verdict(0.0, 2) for row in rows] == ["not judged"]
    assert CLAIMS["C1"].verdicts(rows) == []


def test_growth_is_the_gain_of_many_phases_minus_that_of_few() -> None:
    given = {(PLACE, "static"): [0.5, 0.5], (PLACE, "rmm-learned"): [0.51, 0.52]}  # gains 1 and 2
    given |= {(MANY, "static"): [0.4, 0.4], (MANY, "rmm-learned"): [0.44, 0.43]}  # gains 4 and 3
    [row] = CLAIMS["C2"].rows(runs(given))
    assert row.values[0] == pytest.approx((3.0, 1.0))
    assert row.paper[0] == pytest.approx(3.58 - 2.25)


def test_balance_counts_halvings_of_the_ratio_of_new_to_old_samples_per_class() -> None:
    """Both runs hold 10 samples of 4 old and 30 of 2 new classes: 2.5 and 15, a ratio of 6."""
    given = {(PLACE, "static"): [0.5, 0.5], (PLACE, "rmm-learned"): [0.5, 0.5]}
    found = runs(given)
    assert EVIDENCE.imbalance(found.stored[PLACE, "static"][0]) == pytest.approx(2.585, abs=1e-3)  # log2(6)
    even = found.stored[PLACE, "rmm-learned"]
    for seed, result in even.items():
        later = result.phases[1].model_copy(update={"held_old": 28, "held_new": 14})  # 7 and 7
        even[seed] = result.model_copy(update={"phases": (result.phases[0], later)})
    [row] = CLAIMS["C7"].rows(found)
    assert row.values[0] == pytest.approx((2.585, 2.585), abs=1e-3)
    assert row.verdict(1.0, 1) == "holds"


def test_cells_without_runs_are_shown_as_missing() -> None:
    found = runs({(PLACE, "static"): [], (PLACE, "rmm-learned"): [0.5]})
    lines = EVIDENCE.table_2(found).splitlines()
    assert lines[2].startswith("| static | - | 66.61 | - | 57.81 |")
    assert lines[3].startswith("| rmm-learned | 50.00 | 68.86 | 50.00 | 59.00 |")


def test_codecs_are_compared_with_the_best_raw_policy_that_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """`fixed-0.7` is ahead on one order, but has not run on the other; `fixed-0.6` is the best of the others."""
    raw = {"static": [0.3, 0.3], "fixed-0.6": [0.4, 0.5], "fixed-0.7": [0.9]}
    coded = {"fixed-0.6@ycc420": [0.45, 0.57], "rmm-codec-learned": [0.5]}
    own = {
        "n-5": runs({(PLACE, policy): values for policy, values in (raw | coded).items()}, planned=2),
        "n-5-steps": runs({(PLACE, "fixed-0.6@ycc420"): []}, planned=2),
    }
    monkeypatch.setattr(EVIDENCE, "collect", lambda studies: own[studies[0]])
    lines = EVIDENCE.codec_table({"raw": "n-5", "epochs": "n-5", "steps": "n-5-steps"}).splitlines()
    assert "| average - fixed-0.6 | last - fixed-0.6 |" in lines[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert [(row[0], row[1], row[2], row[6]) for row in rows] == [
        ("static", "raw", "2 of 2", "-15.00 ± 63.53"),  # -10 and -20
        ("fixed-0.6", "raw", "2 of 2", "-"),
        ("fixed-0.7", "raw", "1 of 2", "+50.00"),
        ("fixed-0.6@ycc420", "equal epochs", "2 of 2", "+6.00 ± 12.71"),  # 5 and 7
        ("rmm-codec-learned", "equal epochs", "1 of 2", "+10.00"),
        ("fixed-0.6@ycc420", "equal steps", "0 of 2", "-"),
    ]


def test_equal_neighbours_are_counted() -> None:
    assert EVIDENCE.counted(["0.5", "0.6", "0.6", "0.5"]) == "0.5, 0.6 x 2, 0.5"


def test_the_papers_tables_agree_with_each_other_and_with_its_margins() -> None:
    paper = tomllib.loads((ROOT / "results/paper.toml").read_text(encoding="utf-8"))
    margins = {"cifar100": ((2.3, 1.2), (3.0, 3.3), (3.6, 4.0)), "mini-imagenet": ((2.1, 3.8), (2.6, 2.4), (4.4, 5.0))}
    for data, expected in margins.items():
        first, second = paper["table-1"][data], paper["table-2"][data]
        assert first["pod-aanets"] == [average for average, _ in second["static"]]
        assert first["pod-aanets_rmm-learned"] == [average for average, _ in second["rmm-learned"]]
        for base, learned, pair in zip(second["static"], second["rmm-learned"], expected, strict=True):
            differences = [after - before for before, after in zip(base, learned, strict=True)]
            assert differences == pytest.approx(pair, abs=0.07)  # printed with one digit
