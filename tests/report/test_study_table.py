"""study_table.py: the table of a study line by line, its columns, and the notes that it needs."""

from remem.report.study_table import notes, study_table
from remem.studies.summary import summarise_study
from report_factories import THREE_SEEDS, make_results, make_study


def test_the_table_line_by_line() -> None:
    study = make_study(seeds=[0, 1, 2])
    summary = summarise_study(study, make_results(study, THREE_SEEDS, oracle=True, policy_saw_classes=True))
    assert study_table(summary).text().splitlines() == [
        "method  policy              seeds     average %         last %  average - static  last - static  saw classes",
        "------  ------------------  -----  ------------  -------------  ----------------  -------------  -----------",
        "icarl   static                  3  62.00 ± 4.97   44.00 ± 9.94                 -              -           no",
        "icarl   fixed-0.6 (oracle)      3  68.00 ± 8.96  56.00 ± 17.91      +6.00 ± 4.30  +12.00 ± 8.61          yes",
    ]
    assert [line.partition(":")[0] for line in notes(summary)[2:]] == ["oracle", "saw classes"]
    assert "paired by seed" in notes(summary)[1]


def test_one_seed_has_no_interval_and_axes_have_columns() -> None:
    study = make_study(phases=[1, 2], vary={"memory.budget": [200, 300]})
    accuracies = {run.name: [0.5, 0.4] for run in study.runs}
    accuracies["fixed-0.6_phases-2_budget-300"] = [0.5, 0.3]
    summary = summarise_study(study, make_results(study, accuracies))
    table = study_table(summary)
    assert table.header[:5] == ("method", "policy", "phases", "memory.budget", "seeds")
    assert len(table.rows) == 8
    row = next(row for row in table.rows if row[1:4] == ("fixed-0.6", "2", "300"))
    assert row[4:] == ("1", "40.00", "30.00", "-5.00", "-10.00", "no")
    assert notes(summary) == ["M = 40 samples, not the paper's 92"]


def test_a_single_policy_is_compared_with_nothing() -> None:
    study = make_study(policies=["static"], seeds=[0, 1])
    results = make_results(study, {"seed-0": [0.5, 0.4], "seed-1": [0.5, 0.4]})
    header = study_table(summarise_study(study, results)).header
    assert header == ("method", "policy", "seeds", "average %", "last %", "saw classes")
