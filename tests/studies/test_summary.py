"""A study's numbers by hand: means and intervals over seeds, differences paired by seed, and what the table says."""

from typing import Any

import pytest

from remem.studies.summary import notes, study_table, summarise_study
from remem.runs.results import RunResult
from remem.studies.grid import Study, plan_study
from report_factories import made_run

T3 = 4.302652729911275  # Student's t, two degrees of freedom, 0.975: from a printed table


def study_of(**axes: Any) -> Study:
    return plan_study({"data": {"name": "digits"}, "study": {"policies": ["static", "fixed-0.6"], **axes}})


def with_results(study: Study, accuracies: dict[str, list[float]], **facts: Any) -> dict[str, RunResult]:
    """Results by name of run; the facts are of runs with another policy than `static`."""
    found = {}
    for run in study.runs:
        made = made_run("icarl", run.policy, accuracies[run.name], seed=run.config.seed)
        more = {"policy_saw_classes": False, **(facts if run.policy != "static" else {})}
        found[run.name] = RunResult({**made.data, **more})
    return found


THREE = {
    "static_seed-0": [0.8, 0.4],  # averages 0.60, 0.62, 0.64: mean 0.62, deviation 0.02
    "static_seed-1": [0.8, 0.44],
    "static_seed-2": [0.8, 0.48],
    "fixed-0.6_seed-0": [0.8, 0.5],  # averages 0.65, 0.67, 0.72: differences 0.05, 0.05, 0.08
    "fixed-0.6_seed-1": [0.8, 0.54],
    "fixed-0.6_seed-2": [0.8, 0.64],
}


def test_rows_are_means_over_seeds_and_differences_are_paired() -> None:
    study = study_of(seeds=[0, 1, 2])
    summary = summarise_study(study, with_results(study, THREE))
    static, fixed = summary["rows"]
    assert (static["method"], static["policy"], static["phases"], static["settings"]) == ("icarl", "static", 5, {})
    assert static["seeds"] == fixed["seeds"] == [0, 1, 2]
    assert static["difference"] is None
    assert static["average_accuracy"]["mean"] == pytest.approx(0.62, abs=1e-12)
    assert static["average_accuracy"]["half_width"] == pytest.approx(T3 * 0.02 / 3**0.5, abs=1e-9)
    assert static["last_accuracy"]["mean"] == pytest.approx(0.44, abs=1e-12)
    assert fixed["difference"]["policy"] == "static"
    assert fixed["difference"]["average_accuracy"]["mean"] == pytest.approx(0.06, abs=1e-12)
    # Deviation of 0.05, 0.05, 0.08 is 0.03 / sqrt(3), so the half width is t x 0.01.
    assert fixed["difference"]["average_accuracy"]["half_width"] == pytest.approx(T3 * 0.01, abs=1e-9)
    assert fixed["difference"]["last_accuracy"]["mean"] == pytest.approx(0.12, abs=1e-12)


def test_runs_are_listed_with_their_place_and_numbers() -> None:
    study = study_of(seeds=[0, 1, 2])
    runs = summarise_study(study, with_results(study, THREE))["runs"]
    assert [run["name"] for run in runs] == [run.name for run in study.runs]
    assert runs[1] == {
        "name": "fixed-0.6_seed-0",
        "method": "icarl",
        "policy": "fixed-0.6",
        "phases": 5,
        "settings": {},
        "seed": 0,
        "oracle": False,
        "policy_saw_classes": False,
        "average_accuracy": 0.65,
        "last_accuracy": 0.5,
        "forgetting": pytest.approx(0.3, abs=1e-12),  # 0.8 after phase 0, 0.5 at the end
    }


def test_the_table_in_words() -> None:
    study = study_of(seeds=[0, 1, 2])
    summary = summarise_study(study, with_results(study, THREE, oracle=True, policy_saw_classes=True))
    assert study_table(summary).text().splitlines() == [
        "method  policy              seeds     average %         last %  average - static  last - static  saw classes",
        "------  ------------------  -----  ------------  -------------  ----------------  -------------  -----------",
        "icarl   static                  3  62.00 ± 4.97   44.00 ± 9.94                 -              -           no",
        "icarl   fixed-0.6 (oracle)      3  68.00 ± 8.96  56.00 ± 17.91      +6.00 ± 4.30  +12.00 ± 8.61          yes",
    ]
    assert [line.partition(":")[0] for line in notes(summary)[1:]] == ["oracle", "saw classes"]
    assert "paired by seed" in notes(summary)[0]


def test_one_seed_has_no_interval_and_axes_have_columns() -> None:
    study = study_of(phases=[1, 2], vary={"memory.budget": [200, 300]})
    accuracies = {run.name: [0.5, 0.4] for run in study.runs}
    accuracies["fixed-0.6_phases-2_budget-300"] = [0.5, 0.3]
    summary = summarise_study(study, with_results(study, accuracies))
    table = study_table(summary)
    assert table.header[:5] == ("method", "policy", "phases", "memory.budget", "seeds")
    assert len(table.rows) == 8
    row = next(row for row in table.rows if row[1:4] == ("fixed-0.6", "2", "300"))
    assert row[4:] == ("1", "40.00", "30.00", "-5.00", "-10.00", "no")
    assert notes(summary) == []


def test_a_single_policy_is_compared_with_nothing() -> None:
    study = study_of(policies=["static"], seeds=[0, 1])
    results = with_results(study, {"seed-0": [0.5, 0.4], "seed-1": [0.5, 0.4]})
    assert study_table(summarise_study(study, results)).header == (
        "method",
        "policy",
        "seeds",
        "average %",
        "last %",
        "saw classes",
    )


def test_the_summary_has_no_path_of_the_machine() -> None:
    vary = {"data.name": ["npz:/somewhere/a.npz", "digits"]}
    study = study_of(policies=["/somewhere/mine", "static"], vary=vary)
    results = with_results(study, {run.name: [0.5, 0.4] for run in study.runs})
    summary = summarise_study(study, results)
    assert "/somewhere" not in str(summary)
    assert summary["rows"][0]["policy"] == "mine"
