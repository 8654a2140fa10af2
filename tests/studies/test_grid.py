"""grid.py: the runs of a study, their names, the learnings they share, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from remem.codecs.table import CODECS
from remem.errors import InputError
from remem.policies.coded import split_codec
from remem.runs.config import compose
from remem.runs.presets import read_toml, shipped_configs
from remem.studies.grid import Study, plan_study, read_study_file
from remem.studies.learned_policies import LEARNED

BASE: dict[str, Any] = {"data": {"name": "digits"}, "scenario": {"phases": 3}, "memory": {"budget": 300}}


def planned(study: dict[str, Any], **sections: Any) -> Study:
    return plan_study(BASE, {"study": study, **sections})


def names(study: Study) -> list[str]:
    return [run.name for run in study.runs]


def test_names_have_a_word_for_every_axis_with_several_values() -> None:
    study = planned({"policies": ["static", "fixed-0.6"], "phases": [2], "seeds": [0, 7]})
    assert names(study) == ["static_seed-0", "fixed-0.6_seed-0", "static_seed-7", "fixed-0.6_seed-7"]
    assert names(planned({})) == ["run"]


def test_every_combination_is_a_run_with_its_own_settings() -> None:
    axes = {
        "methods": ["icarl", "lucir"],
        "phases": [2, 4],
        "seeds": [1],
        "vary": {"memory.budget": [200, "growing:5"]},
    }
    study = planned(axes)
    assert names(study) == [
        f"{method}_phases-{phases}_budget-{word}"
        for method in ("icarl", "lucir")
        for word in ("200", "growing-5")
        for phases in (2, 4)
    ]
    run = next(run for run in study.runs if run.name == "lucir_phases-4_budget-growing-5")
    layers = {"method": {"name": "lucir"}, "scenario": {"phases": 4}, "memory": {"budget": "growing:5"}, "seed": 1}
    assert run.config == compose(BASE, layers)
    assert (run.policy, run.learning) == ("static", None)


def test_parts_choose_runs_of_the_grid() -> None:
    axes = {"methods": ["icarl", "lucir"], "policies": ["static", "fixed-0.6"], "seeds": [0, 1]}
    parts = [{"policies": ["static"], "seeds": [0]}, {"methods": ["lucir"]}]
    assert names(planned({**axes, "parts": parts})) == [
        "icarl_static_seed-0",
        "lucir_static_seed-0",
        "lucir_fixed-0.6_seed-0",
        "lucir_static_seed-1",
        "lucir_fixed-0.6_seed-1",
    ]


def test_runs_and_learnings_have_one_thread_unless_the_settings_say_more() -> None:
    for given, taken in ((0, 1), (3, 3)):
        study = planned({"policies": ["static", "rmm-learned"]}, train={"threads": given})
        assert [run.config.train.threads for run in study.runs] == [taken, taken]
        assert [learning.target.train.threads for learning in study.learnings.values()] == [taken]


def test_seeds_can_have_their_own_class_orders() -> None:
    seeds = planned({"seeds": [0, 3], "order_by_seed": True}).runs
    assert [(run.config.seed, run.config.scenario.order) for run in seeds] == [(0, "seed:0"), (3, "seed:3")]
    fixed = planned({"seeds": [0, 3]}, scenario={"order": "seed:9"}).runs
    assert [run.config.scenario.order for run in fixed] == ["seed:9", "seed:9"]


def test_settings_of_one_method_do_not_apply_to_another() -> None:
    study = planned({"methods": ["lwf", "icarl"]}, method={"name": "lwf", "replay": False})
    assert study.runs[0].config.method.model_dump()["replay"] is False
    assert study.runs[1].config == compose(BASE, {"method": {"name": "icarl"}})


def test_policies_in_folders_are_named_after_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("one/mine", "two/mine"):
        (tmp_path / place).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    study = planned({"policies": ["./one/mine", "two/mine", "static"]})
    assert names(study) == ["mine", "mine+2", "static"]
    assert [run.config.policy for run in study.runs] == [
        str(tmp_path / "one/mine"),
        str(tmp_path / "two/mine"),
        "static",
    ]
    with pytest.raises(InputError, match=r"study.policies: '.*mine' given twice"):
        planned({"policies": ["one/mine", "./one/mine"]})


def test_names_of_runs_are_safe_as_names_of_folders() -> None:
    values = ["npz:/data/Ä b/a.npz", "npz:/data/..", "DIGITS", "digits"]
    words = [name.removeprefix("data-") for name in names(planned({"vary": {"data.name": values}}))]
    assert words == ["npz-data-b-a.npz", "npz-data", "DIGITS", "digits+2"]  # case does not count everywhere
    vary = {"net.name": ["mlp", "small"], "train.epochs": [1, 2], "finetune.epochs": [1, 2]}
    assert names(planned({"vary": vary}))[0] == "net-mlp_train.epochs-1_finetune.epochs-1"


def test_planning_from_the_settings_of_a_plan_gives_the_same_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    axes = {"policies": ["mine", "rmm-transferred"], "vary": {"data.name": ["npz:a.npz", "digits"]}, "seeds": [1, 2]}
    study = planned(axes, data={"root": "data"}, learn={"source": "dataset:npz:b.npz", "epochs": 2})
    monkeypatch.chdir("/")
    again = plan_study(study.tree)
    assert (again.runs, again.learnings, again.settings) == (study.runs, study.learnings, study.settings)
    assert study.runs[0].config.data.name == f"npz:{tmp_path / 'a.npz'}"
    assert study.runs[0].config.data.root == tmp_path / "data"
    assert study.learnings["data-digits_seed-1/rmm-transferred"].learn.source == f"dataset:npz:{tmp_path / 'b.npz'}"


def test_every_policy_that_is_learned_has_its_own_settings() -> None:
    learn = {"source": "dataset:glyphs", "epochs": 3}
    study = planned({"policies": list(LEARNED)}, learn=learn)
    assert list(study.learnings) == list(LEARNED) == [run.learning for run in study.runs]
    asked = {
        name: (config.learn.source, config.learn.levels, config.learn.crossval_fixed, config.learn.epochs)
        for name, config in study.learnings.items()
    }
    assert asked == {
        "rmm-learned": ("phase0", 2, False, 3),
        "rmm-one-level-learned": ("phase0", 1, False, 3),
        "rmm-codec-learned": ("phase0", 3, False, 3),
        "rmm-transferred": ("dataset:glyphs", 2, False, 3),
        "rmm-upper-bound": ("target", 2, False, 3),
        "crossval-fixed-pseudo": ("phase0", 2, True, 3),
        "crossval-fixed-codec-pseudo": ("phase0", 3, True, 3),
        "crossval-fixed": ("target", 2, True, 3),
    }


def test_runs_share_a_learning_unless_it_depends_on_what_they_differ_in() -> None:
    axes = {"policies": ["rmm-learned", "rmm-transferred"], "seeds": [0, 1], "order_by_seed": True}
    vary = {"memory.budget": [200, 300], "scenario.validation": [0.0, 0.1]}
    study = planned({**axes, "vary": vary}, learn={"source": "dataset:glyphs"})
    assert len(study.runs) == 16
    assert list(study.learnings) == [
        "budget-200_seed-0/rmm-learned",
        "seed-0/rmm-transferred",  # a budget for digits is none for glyphs
        "budget-300_seed-0/rmm-learned",
        "budget-200_seed-1/rmm-learned",
        "seed-1/rmm-transferred",
        "budget-300_seed-1/rmm-learned",
    ]
    run = study.runs[-2]
    assert (run.name, run.learning) == (
        "rmm-learned_budget-300_validation-0.1_seed-1",
        "budget-300_seed-1/rmm-learned",
    )
    target = study.learnings["budget-300_seed-1/rmm-learned"].target
    assert (target.seed, target.scenario.order, target.memory.budget, target.policy) == (1, "seed:1", 300, "static")


@pytest.mark.parametrize(
    ("study", "sections", "message"),
    [
        ({"seed": [0]}, {}, "study.seed: no such setting; there are methods, policies, phases, seeds, order_by_seed"),
        ({"seeds": []}, {}, "study.seeds: [] given; tuple should have at least 1 item"),
        ({"seeds": 3}, {}, "study.seeds: 3 given; input should be a valid tuple"),
        ({"seeds": [0, 0]}, {}, "study.seeds: 0 given twice; expected each value once"),
        ({"vary": {"memory.budget": [1, 1]}}, {}, "study.vary.memory.budget: 1 given twice"),
        ({"vary": {"memory.budget": []}}, {}, "study.vary: no value for 'memory.budget'; expected at least one"),
        ({"vary": {"seed": [0]}}, {}, "study.vary: 'seed' given; expected study.seeds for this"),
        ({"vary": {"learn.epochs": [1, 2]}}, {}, "study.vary: 'learn.epochs' given; expected a setting of a run"),
        ({"vary": {"scenario.order": ["lucir"]}, "order_by_seed": True}, {}, "study.order_by_seed decides it"),
        ({"seeds": [0, -1]}, {}, "seed--1: seed: -1 given; input should be greater than or equal to 0"),
        ({"methods": ["icarl", "lucri"]}, {}, "lucri: no method named 'lucri'; did you mean 'lucir'?"),
        ({"vary": {"train.epoch": [1, 2]}}, {}, "epoch-1: train.epoch: no such setting; did you mean 'train.epochs'?"),
        ({"vary": {"train.epochs": [2, "2"]}}, {}, "study: epochs-2 and epochs-2+2 are the same run"),
        ({"seeds": [0], "parts": [{"seeds": [1]}]}, {}, "study.parts: 1 given; expected values of study.seeds (0)"),
        (
            {"parts": [{"methods": ["icarl"]}]},
            {},
            "study.parts: 'icarl' given; expected values of study.methods (none)",
        ),
        ({"seeds": [0], "parts": [{"seed": [0]}]}, {}, "study.parts"),
        ({}, {"learn": {"epoch": 1}}, "learn.epoch: no such setting"),
        ({}, {"learn": 3}, "learn: 3 given; expected a section [learn]"),
        ({}, {"learn": {"levels": 1}}, "learn.levels: 1 given, but in a study the policy's name says it"),
        ({}, {"learn": {"source": "target"}}, "learn.source: 'target' given; expected dataset:NAME"),
        ({"policies": ["rmm-transferred"]}, {}, "learn.source: 'phase0' given; expected dataset:NAME"),
        ({"vary": {f"train.{'x' * 90}{k}": [1, 2] for k in range(3)}}, {}, "is too long for the name of a folder"),
    ],
)
def test_mistakes_are_one_line(study: dict[str, Any], sections: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        planned(study, **sections)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_shipped_studies_are_found_with_and_without_their_folder(tmp_path: Path) -> None:
    shipped = [name for name in shipped_configs() if name.startswith("studies/")]
    assert {"studies/digits-policies", "studies/glyphs-policies", "studies/tuning-lucir"} <= set(shipped)
    for name in shipped:
        tree = read_study_file(Path(name))
        assert tree == read_study_file(Path(name.removeprefix("studies/")))
        assert plan_study(tree).runs
    plain = tmp_path / "plain.toml"
    plain.write_text("seed = 1\n")
    with pytest.raises(InputError, match=r"no section \[study\]"):
        read_study_file(plain)


def test_studies_of_codecs_compare_equal_bytes() -> None:
    """Every pair of studies has the same runs with codecs, by equal epochs and by equal steps; codecs fit the images.

    Raw runs are the same in both, and stand in the first one, or in the study `from-scratch`.
    """
    names = [name for name in shipped_configs() if name.startswith("studies/codecs-")]
    pairs = [(name, f"{name}-steps") for name in names if not name.endswith("-steps")]
    assert len(pairs) == 5
    for by_epochs, by_steps in pairs:
        first, second = (plan_study(read_study_file(Path(name))) for name in (by_epochs, by_steps))
        coded = [run.name for run in first.runs if "@" in run.policy or "codec" in run.policy]
        assert coded == [run.name for run in second.runs]
        assert {run.config.memory.equal_steps for run in first.runs} == {False}
        assert {run.config.memory.equal_steps for run in second.runs} == {True}
        assert len({run.config.memory.budget for run in (*first.runs, *second.runs)}) == 1
        side = first.runs[0].config.data.side
        assert side is not None
        samples = 3000 if "scratch" in by_epochs else 7000
        assert first.runs[0].config.memory.budget == f"{samples * 3 * side**2}B"
        codecs = {split_codec(run.policy)[1] for run in first.runs} - {None}
        for codec in codecs:
            assert CODECS[str(codec)].misfit((side, side, 3)) is None
        learned = {learning.learn.levels for learning in first.learnings.values()}
        assert learned == ({3} if "codecs-from-scratch" in by_epochs else {2, 3})


def test_the_study_of_glyphs_has_the_settings_of_the_demo() -> None:
    tree = read_study_file(Path("glyphs-policies"))
    assert {key: value for key, value in tree.items() if key not in ("study", "learn")} == read_toml(Path("demo"))
    assert len(plan_study(tree).runs) == 4 * 3


def test_a_folder_of_the_same_name_does_not_hide_a_shipped_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`remem study NAME --out NAME` makes one, and the same command must go on from it."""
    (tmp_path / "digits-policies").mkdir()
    (tmp_path / "demo").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "study" in read_study_file(Path("digits-policies"))
    assert read_toml(Path("demo"))["data"]["name"] == "glyphs"
