"""tables.py: rows and names of runs, from results made by hand."""

from collections.abc import Sequence

from remem.report.groups import group_runs, paired, reference_of, run_names, varying_settings
from remem.report.summary import AVERAGE, summary_sheet, summary_table
from remem.report.tables import Table, comparison_table, phase_table, totals_line
from remem.runs.results import RunResult
from report_factories import THREE_SEEDS, make_run, with_codecs


def group_names(results: Sequence[RunResult]) -> list[str]:
    return [group.name for group in group_runs(results)]


def test_text_is_aligned() -> None:
    table = Table(("name", "value"), (("a", "1.25"), ("longer", "10.00")), labels=1)
    assert table.text().splitlines() == ["name    value", "------  -----", "a        1.25", "longer  10.00"]


def test_markdown() -> None:
    table = Table(("name", "value"), (("a|b", "1"),), labels=1)
    assert table.markdown().splitlines() == ["| name | value |", "| :-- | --: |", "| a\\|b | 1 |"]


def test_summary_of_single_runs() -> None:
    table = summary_table([make_run("icarl", "static", [0.8, 0.6]), make_run("icarl", "fixed-0.6", [0.8, 0.7])])
    numbers = ("average %", "last %", "forgetting", "average - static", "last - static")
    assert table.header == ("method", "policy", "runs", *numbers, "peak samples")
    assert table.rows == (
        ("icarl", "static", "1", "70.00", "60.00", "20.00", "-", "-", "40"),
        ("icarl", "fixed-0.6", "1", "75.00", "70.00", "10.00", "+5.00", "+10.00", "40"),
    )


def test_summary_over_seeds_has_students_interval() -> None:
    runs = [make_run("icarl", "static", [0.5, 0.5], seed=0), make_run("icarl", "static", [0.6, 0.6], seed=1)]
    [row] = summary_table(runs).rows
    # Two values, 0.1 apart: deviation 0.0707, t(1) = 12.706, half width 12.706 x 0.0707 / sqrt(2) = 0.6353.
    assert row[2:5] == ("2", "55.00 ± 63.53", "55.00 ± 63.53")


def test_settings_that_differ_get_a_column_and_keep_runs_apart() -> None:
    longer = make_run("icarl", "static", [0.8, 0.5], scenario={"phases": 10})
    runs = [make_run("icarl", "static", [0.8, 0.6]), longer]
    assert varying_settings(group_runs(runs)) == ["scenario.phases"]
    assert [len(group.runs) for group in group_runs(runs)] == [1, 1]
    assert [row[2] for row in summary_table(runs).rows] == ["1", "10"]
    assert group_names(runs) == ["icarl / static, scenario.phases 1", "icarl / static, scenario.phases 10"]


def seeded(policy: str, accuracies: Sequence[float], seed: int) -> RunResult:
    """A run whose class order belongs to its seed."""
    return make_run("icarl", policy, accuracies, seed=seed, scenario={"order": f"seed:{seed}"})


def test_seeds_with_class_orders_of_their_own_are_one_group_and_differences_are_paired() -> None:
    runs = [seeded(name.partition("_")[0], values, int(name[-1])) for name, values in THREE_SEEDS.items()]
    static, fixed = group_runs(runs)
    assert (static.name, fixed.name, static.seeds) == ("icarl / static", "icarl / fixed-0.6", (0, 1, 2))
    assert reference_of(fixed, [static, fixed]) is static
    assert reference_of(static, [static, fixed]) is None
    # Differences 0.05, 0.05, 0.08: mean 0.06, deviation 0.01732, t(2) = 4.3027, half width 4.3027 x 0.01 = 0.0430.
    assert summary_sheet(runs).table().rows[1][3:8] == (
        "68.00 ± 8.96", "56.00 ± 17.91", "24.00 ± 17.91", "+6.00 ± 4.30", "+12.00 ± 8.61"
    )  # fmt: skip
    shuffled = group_runs([runs[2], *runs[3:], runs[0], runs[1]])  # pairs go by seed, not by place
    assert paired(shuffled[1], shuffled[0], AVERAGE) == paired(fixed, static, AVERAGE)


def test_a_single_run_is_compared_with_the_same_seed_of_a_reference_with_several() -> None:
    runs = [seeded("static", [0.8, 0.4], 0), seeded("static", [0.8, 0.6], 1), seeded("rmm", [0.8, 0.7], 1)]
    assert summary_table(runs).rows[1][:8] == ("icarl", "rmm", "1", "75.00", "70.00", "10.00", "+5.00", "+10.00")


def test_other_settings_are_never_compared_and_no_seed_in_common_is_no_difference() -> None:
    longer = make_run("icarl", "fixed-0.6", [0.8, 0.6], train={"epochs": 9})
    assert "average - static" not in summary_table([make_run("icarl", "static", [0.8, 0.6]), longer]).header
    other = make_run("icarl", "fixed-0.6", [0.8, 0.7], seed=5)
    assert summary_table([make_run("icarl", "static", [0.8, 0.6]), other]).rows[1][6:8] == ("-", "-")


def test_the_papers_budget_of_uneven_class_orders_does_not_tell_seeds_apart() -> None:
    def run(seed: int, budget: int, memory: str) -> RunResult:
        scenario = {"order": f"seed:{seed}"}
        made = make_run("icarl", "static", [0.8, 0.6], seed=seed, scenario=scenario, memory={"budget": budget})
        return made.model_copy(update={"memory": memory})

    usual = "M = {} samples, the paper's budget (E = 20)"
    assert len(group_runs([run(0, 100, usual.format(100)), run(1, 103, usual.format(103))])) == 1
    chosen = "M = {} samples, not the paper's 99 (E = 20)"
    assert len(group_runs([run(0, 100, chosen.format(100)), run(1, 103, chosen.format(103))])) == 2
    again = [run(seed, budget, chosen.format(budget)) for budget in (100, 200) for seed in (0, 1)]
    assert [group.seeds for group in group_runs(again)] == [(0, 1), (0, 1)]


def test_settings_of_a_method_are_compared_among_its_runs_and_become_part_of_its_name() -> None:
    runs = [
        make_run("icarl", "static", [0.8, 0.6], method={"weight": 1.0}),
        make_run("finetune", "static", [0.8, 0.6], method={"replay": True, "weight": 2.0}),
        make_run("finetune", "static", [0.8, 0.5], method={"replay": False, "weight": 2.0}, seed=1),
        make_run("finetune", "static", [0.8, 0.4], method={"replay": False, "weight": 2.0}, seed=2),
    ]
    assert varying_settings(group_runs(runs)) == []
    assert group_names(runs) == [
        "icarl / static",
        "finetune (replay=true) / static",
        "finetune (replay=false) / static",
    ]
    assert [row[:3] for row in summary_table(runs).rows] == [
        ("icarl", "static", "1"),
        ("finetune (replay=true)", "static", "1"),
        ("finetune (replay=false)", "static", "2"),
    ]
    assert run_names(runs)[1:3] == ["finetune (replay=true) / static", "finetune (replay=false) / static, seed 1"]
    assert [row[0] for row in comparison_table(runs).rows] == run_names(runs)


def test_settings_that_some_runs_lack_and_settings_that_are_tables_tell_runs_apart() -> None:
    plain = make_run("icarl", "static", [0.8, 0.6], train={"options": {}})
    adam = make_run("icarl", "static", [0.8, 0.6], train={"options": {"betas": [0.9, 0.99]}})
    older = make_run("icarl", "static", [0.8, 0.6], train={})
    assert group_names([plain, adam, older]) == [
        "icarl / static, train.options {}",
        'icarl / static, train.options {"betas": [0.9, 0.99]}',
        "icarl / static, train.options -",
    ]


def test_oracles_are_marked() -> None:
    run = make_run("joint", "static", [0.8, 0.8], oracle=True)
    assert summary_table([run]).rows[0][0] == "joint (oracle)"
    assert comparison_table([run]).rows[0][0] == "joint / static (oracle)"


def test_a_policy_that_decides_nothing_is_named_only_where_rows_would_have_equal_names() -> None:
    upper = make_run("joint", "static", [0.8, 0.8], oracle=True, decides=False)
    assert summary_table([upper]).rows[0][:2] == ("joint (oracle)", "-")
    assert group_names([upper]) == [upper.label] == ["joint / - (oracle)"]
    again = make_run("joint", "fixed-0.6", [0.8, 0.8], oracle=True, decides=False)
    assert group_names([upper, again, make_run("icarl", "static", [0.8, 0.6])]) == [
        "joint (policy=static) / - (oracle)",
        "joint (policy=fixed-0.6) / - (oracle)",
        "icarl / static",
    ]


def test_totals_say_if_they_are_not_from_test_data() -> None:
    line = totals_line(make_run("icarl", "static", [0.8, 0.6], scenario={"validation": 0.1}))
    assert line.endswith("forgetting 20.00 points, evaluated on a share of the training data (0.1)")


def test_comparison_shows_the_memory_of_the_last_phase() -> None:
    [row] = comparison_table([make_run("icarl", "static", [0.8, 0.6])]).rows
    assert row == ("icarl / static", "70.00", "60.00", "20.00", "10", "30")


def test_the_phases_of_a_run() -> None:
    run = make_run("icarl", "static", [0.8, 0.6])
    assert phase_table(run).rows == (
        ("0", "4", "80.00", "70.00", "80.00", "-", "0", "100"),
        ("1", "6", "60.00", "50.00", "60.00", "0.25", "10", "30"),
    )
    assert totals_line(run) == "average accuracy 70.00 %, last 60.00 %, forgetting 20.00 points"


def test_codecs_and_bytes_have_columns_where_they_are_known() -> None:
    """Phase 1 holds 40 samples of 250 bytes."""
    plain, run = make_run("icarl", "static", [0.8, 0.6]), make_run("icarl", "fixed-0.6", [0.8, 0.6])
    coded = with_codecs(run, ["ycc420"], {"ycc420": 250})
    assert phase_table(coded).header[-2:] == ("codec", "kB held")
    assert [row[-2:] for row in phase_table(coded).rows] == [("-", "-"), ("ycc420", "10.0")]
    assert summary_table([plain, coded]).header[-2:] == ("peak samples", "peak kB")
    assert [row[-2:] for row in summary_table([plain, coded]).rows] == [("40", "-"), ("40", "10.0")]


def test_a_run_of_which_only_phase_0_is_complete() -> None:
    run = make_run("icarl", "static", [0.8], complete=False)
    assert summary_table([run]).rows[0][3:] == ("80.00", "80.00", "0.00", "0")
    assert comparison_table([run]).rows[0][1:] == ("80.00", "80.00", "0.00", "0", "100")
    assert phase_table(run).rows == (("0", "4", "80.00", "70.00", "80.00", "-", "0", "100"),)


def test_a_phase_without_class_means_has_no_such_accuracy() -> None:
    run = make_run("icarl", "static", [0.8, 0.6])
    bare = run.model_copy(update={"phases": tuple(p.model_copy(update={"accuracy_nme": None}) for p in run.phases)})
    assert [row[4] for row in phase_table(bare).rows] == ["-", "-"]
