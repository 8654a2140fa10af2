"""summary.py: means and intervals over seeds, and differences paired by seed, by hand."""

import json

import pytest

from remem.studies.summary import StudySummary, summarise_study
from report_factories import THREE_SEEDS, make_results, make_study

T3 = 4.302652729911275  # Student's t, two degrees of freedom, 0.975: from a printed table


def test_rows_are_means_over_seeds_and_differences_are_paired() -> None:
    study = make_study(seeds=[0, 1, 2])
    static, fixed = summarise_study(study, make_results(study, THREE_SEEDS)).rows
    assert (static.method, static.policy, static.phases, static.settings) == ("icarl", "static", 5, {})
    assert static.seeds == fixed.seeds == (0, 1, 2)
    assert (static.oracle, static.policy_saw_classes) == (False, False)
    assert static.difference is None
    assert static.average_accuracy.mean == pytest.approx(0.62, abs=1e-12)
    assert static.average_accuracy.half_width == pytest.approx(T3 * 0.02 / 3**0.5, abs=1e-9)
    assert static.last_accuracy.mean == pytest.approx(0.44, abs=1e-12)
    assert static.forgetting.mean == pytest.approx(0.36, abs=1e-12)  # 0.40, 0.36 and 0.32 below phase 0
    assert fixed.difference is not None
    assert fixed.difference.policy == "static"
    assert fixed.difference.average_accuracy.mean == pytest.approx(0.06, abs=1e-12)
    # Deviation of 0.05, 0.05, 0.08 is 0.03 / sqrt(3), so the half width is t x 0.01.
    assert fixed.difference.average_accuracy.half_width == pytest.approx(T3 * 0.01, abs=1e-9)
    assert fixed.difference.last_accuracy.mean == pytest.approx(0.12, abs=1e-12)


def test_runs_are_listed_with_their_place_and_numbers() -> None:
    study = make_study(seeds=[0, 1, 2])
    runs = summarise_study(study, make_results(study, THREE_SEEDS)).runs
    assert [run.name for run in runs] == [run.name for run in study.runs]
    assert runs[1].model_dump(mode="json") == {
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


def test_a_row_is_marked_if_any_of_its_runs_is() -> None:
    study = make_study(seeds=[0, 1, 2])
    results = make_results(study, THREE_SEEDS)
    marks = {"oracle": True, "policy_saw_classes": True}
    results["fixed-0.6_seed-1"] = results["fixed-0.6_seed-1"].model_copy(update=marks)
    static, fixed = summarise_study(study, results).rows
    assert (static.oracle, static.policy_saw_classes, fixed.oracle, fixed.policy_saw_classes) == (0, 0, 1, 1)


def test_every_value_of_another_axis_is_compared_with_the_first_policy_at_the_same_value() -> None:
    study = make_study(phases=[1, 2], vary={"memory.budget": [200, 300]})
    accuracies = {run.name: [0.5, 0.4] for run in study.runs}
    accuracies["static_phases-2_budget-300"] = [0.5, 0.1]
    rows = summarise_study(study, make_results(study, accuracies)).rows
    assert len(rows) == 8
    found = {
        (row.phases, row.settings["memory.budget"]): row.difference.last_accuracy.mean
        for row in rows
        if row.difference is not None
    }
    assert found == pytest.approx({(1, 200): 0.0, (2, 200): 0.0, (1, 300): 0.0, (2, 300): 0.3}, abs=1e-12)
    assert {row.average_accuracy.half_width for row in rows} == {None}  # one seed has no interval


def test_differences_are_over_the_seeds_that_both_have() -> None:
    parts = [{"policies": ["static"], "seeds": [0, 1]}, {"policies": ["fixed-0.6"], "seeds": [1, 2]}]
    study = make_study(seeds=[0, 1, 2], parts=parts)
    accuracies = {"static_seed-0": [0.9], "static_seed-1": [0.4], "fixed-0.6_seed-1": [0.6], "fixed-0.6_seed-2": [0.1]}
    rows = summarise_study(study, make_results(study, accuracies)).rows
    assert [(row.policy, row.seeds) for row in rows] == [("static", (0, 1)), ("fixed-0.6", (1, 2))]
    assert rows[1].difference is not None
    assert rows[1].difference.average_accuracy.mean == pytest.approx(0.2, abs=1e-12)
    assert rows[1].difference.average_accuracy.half_width is None


def test_a_row_without_the_first_policy_has_no_difference() -> None:
    study = make_study(phases=[1, 2], parts=[{"policies": ["static"], "phases": [1]}, {"policies": ["fixed-0.6"]}])
    rows = summarise_study(study, make_results(study, {run.name: [0.5, 0.4] for run in study.runs})).rows
    assert [(row.policy, row.phases, row.difference is None) for row in rows] == [
        ("static", 1, True),
        ("fixed-0.6", 1, False),
        ("fixed-0.6", 2, True),
    ]


def test_the_summary_survives_json() -> None:
    study = make_study(seeds=[0, 1, 2])
    summary = summarise_study(study, make_results(study, THREE_SEEDS))
    tree = summary.model_dump(mode="json")
    assert StudySummary.model_validate(json.loads(json.dumps(tree))) == summary
    assert tree["format"] == 1
    assert list(tree["rows"][1]["difference"]) == ["policy", "average_accuracy", "last_accuracy"]
    assert list(tree["rows"][0]["average_accuracy"]) == ["mean", "half_width"]


def test_the_summary_has_no_path_of_the_machine() -> None:
    vary = {"data.name": ["npz:/somewhere/a.npz", "digits"]}
    study = make_study(policies=["/somewhere/mine", "static"], vary=vary)
    summary = summarise_study(study, make_results(study, {run.name: [0.5, 0.4] for run in study.runs}))
    assert "/somewhere" not in json.dumps(summary.model_dump(mode="json"))
    assert summary.rows[0].policy == "mine"
