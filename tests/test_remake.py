"""results/remake.py: the comparison, the choice of files, and reported files made again on digits."""

import json
from pathlib import Path
from typing import Any

import pytest

from remem.events import ignore
from remem.rl.learn import learn_in_folder
from remem.runs.build import prepare
from remem.runs.results import save_result
from remem.runs.run import run
from remem.storage.jsonfile import write_json
from remem.studies.grid import plan_study
from scripts import load_script

REMAKE = load_script("results/remake.py")

STUDY = "studies/digits-policies"
RUN, POLICY = f"{STUDY}/runs/crossval-fixed-pseudo_seed-0", f"{STUDY}/policies/seed-0/crossval-fixed-pseudo/policy"


def facts(**changes: Any) -> dict[str, Any]:
    """A result, much shortened."""
    phases = [{"accuracy": 0.5, "measures": {"weights": [0.1, 0.2]}, "seconds": {"train": 1.0}}]
    config = {"seed": 0, "train": {"precision": "bf16"}}
    return {"format": 1, "config": config, "data_fingerprint": "ab", "phases": phases, **changes}


def phase(**changes: Any) -> list[dict[str, Any]]:
    return [{**facts()["phases"][0], **changes}]


def test_equal_facts_are_equal_whatever_their_order() -> None:
    assert REMAKE.verdict(facts(), dict(reversed(facts().items()))) == "equal"


def test_seconds_are_not_compared() -> None:
    assert REMAKE.verdict(facts(), facts(phases=phase(seconds={"train": 9.0, "policy": 1.0}))) == "equal"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"data_fingerprint": "cd"}, 'data_fingerprint stored "ab", remade "cd"'),
        ({"phases": phase(accuracy=0.25)}, "phases[0].accuracy stored 0.5, remade 0.25"),
        ({"phases": phase(accuracy=0.5 + 2**-53)}, "phases[0].accuracy stored 0.5, remade 0.5000000000000001"),
        ({"phases": phase(accuracy=None)}, "phases[0].accuracy stored 0.5, remade null"),
        (
            {"phases": phase(measures={"weights": [0.1, 0.3]})},
            "phases[0].measures.weights[1] stored 0.2, remade 0.3",
        ),
        (
            {"phases": phase(measures={"weights": [0.1]})},
            "phases[0].measures.weights stored [0.1, 0.2], remade [0.1]",
        ),
        ({"phases": phase(measures={})}, "phases[0].measures.weights stored [0.1, 0.2], remade nothing"),
        ({"memory": "M = 3"}, 'memory stored nothing, remade "M = 3"'),
        ({"format": 1.0}, "format stored 1, remade 1.0"),
        ({"format": True}, "format stored 1, remade true"),
    ],
)
def test_a_changed_field_is_named_with_both_values(changes: dict[str, Any], expected: str) -> None:
    assert REMAKE.verdict(facts(), facts(**changes)) == f"differs: {expected}"


def test_the_first_of_several_differences_is_shown_and_the_others_are_counted() -> None:
    changed = facts(data_fingerprint="cd", phases=phase(accuracy=0.1, measures={"weights": [1.0, 2.0]}))
    assert REMAKE.verdict(facts(), changed) == 'differs: data_fingerprint stored "ab", remade "cd" (and 3 more)'


def test_a_missing_field_differs() -> None:
    remade = facts()
    del remade["data_fingerprint"]
    assert REMAKE.verdict(facts(), remade) == 'differs: data_fingerprint stored "ab", remade nothing'


def test_a_long_value_is_shortened() -> None:
    line = REMAKE.verdict(facts(data_fingerprint="a" * 200), facts())
    assert len(line) < 200
    assert line.endswith('a ..., remade "ab"')


def test_another_precision_is_said_instead_of_all_fields_that_follow_from_it() -> None:
    other = facts(config={"seed": 0, "train": {"precision": "fp32"}}, phases=phase(accuracy=0.1))
    assert REMAKE.verdict(facts(), other).startswith("differs: computed in bf16, here in fp32; ")


def test_weights_of_a_policy_are_compared_byte_for_byte(tmp_path: Path) -> None:
    for name, weights in (("one", b"abc"), ("two", b"abd")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.json").write_text('{"format": 1}')
        (tmp_path / name / "policy.safetensors").write_bytes(weights)
    one, two = (REMAKE.facts_of(tmp_path / name / "policy.json") for name in ("one", "two"))
    assert REMAKE.verdict(one, one) == "equal"
    assert REMAKE.verdict(one, two).startswith("differs: policy.safetensors stored ")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder of results of every layout, and files that no command makes."""
    names = ("demo/static", "two-devices/one-0", "two-devices/two-12", f"{STUDY}/runs/static_seed-1", RUN, POLICY)
    for name in (*names, "demo/other", f"{STUDY}/runs/other", "two-devices/one-x", "benchmarks"):
        path = tmp_path / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"format": 1}')
    return tmp_path


def test_the_catalogue_has_every_file_that_a_command_makes(results: Path) -> None:
    files = REMAKE.catalogue(results)
    assert {name: (file.kind, file.command) for name, file in files.items()} == {
        "demo/static": ("demo", "remem demo --out DIR"),
        "two-devices/one-0": ("two-devices", "remem run two-devices/one --seed 0 --out DIR"),
        "two-devices/two-12": ("two-devices", "remem run two-devices/two --seed 12 --out DIR"),
        f"{STUDY}/runs/static_seed-1": (STUDY, "remem study digits-policies --out DIR"),
        RUN: (STUDY, "remem study digits-policies --out DIR"),
        POLICY: ("policies/crossval-fixed-pseudo", "remem study digits-policies --out DIR"),
    }
    assert files["two-devices/two-12"].config.seed == 12
    assert files["two-devices/two-12"].config.train.devices == 2
    assert files[RUN].config.policy == str(results / POLICY.removesuffix("/policy"))
    assert files[POLICY].config.learn.crossval_fixed
    assert files[POLICY].run == RUN


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["demo/static"], ["demo/static"]),
        (["demo/static.json", "results/demo", "demo/"], ["demo/static"]),
        (["two-devices"], ["two-devices/one-0", "two-devices/two-12"]),
        ([f"{STUDY}/policies/seed-0/crossval-fixed-pseudo"], [POLICY]),
        ([f"{POLICY}.safetensors"], [POLICY]),
        (["studies"], [POLICY, RUN, f"{STUDY}/runs/static_seed-1"]),
    ],
)
def test_a_name_is_a_file_or_a_folder(results: Path, names: list[str], expected: list[str]) -> None:
    assert [file.name for file in REMAKE.named(names, REMAKE.catalogue(results))] == expected


@pytest.mark.parametrize("name", ["demo/stat", "demo/other", "benchmarks", "static", "two-devices/one"])
def test_an_unknown_name_is_one_line_and_exit_code_2(
    results: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert REMAKE.main(["demo/static", name], results) == 2
    printed = capsys.readouterr()
    assert printed.err == f"error: {name}: no reported file that can be made again; expected one of those in --list\n"
    assert printed.out == ""


def test_no_name_at_all_is_refused(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert REMAKE.main([], results) == 2
    assert capsys.readouterr().err == "error: NAME: none given; expected names, folders or --sample N\n"


def test_a_folder_of_a_study_that_does_not_exist_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "studies" / "mine").mkdir(parents=True)
    assert REMAKE.main(["--list"], tmp_path) == 2
    assert capsys.readouterr().err == "error: studies/mine: reported, but no config of that name comes with remem\n"


def test_the_list_has_a_line_for_every_file(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert REMAKE.main(["two-devices", "--list"], results) == 0
    assert capsys.readouterr().out.splitlines() == [
        "two-devices/one-0: remem run two-devices/one --seed 0 --out DIR",
        "two-devices/two-12: remem run two-devices/two --seed 12 --out DIR",
    ]


def made_up(**sizes: int) -> dict[str, Any]:
    """Files of some kinds; only their names and kinds matter."""
    names = [(kind, f"{kind}/{number:02}") for kind, size in sizes.items() for number in range(size)]
    return {name: REMAKE.Stored(name, kind, "", None, name) for kind, name in names}


def test_a_sample_has_one_file_of_every_kind_before_a_second_of_any() -> None:
    files = made_up(a=30, b=1, c=5)
    for seed in range(20):
        assert sorted(file.kind for file in REMAKE.sample(3, seed, files)) == ["a", "b", "c"]
        assert sorted(file.kind for file in REMAKE.sample(5, seed, files)) == ["a", "a", "b", "c", "c"]
    assert len({file.name for file in REMAKE.sample(12, 0, files)}) == 12


def test_a_sample_depends_on_its_seed_only() -> None:
    files = made_up(a=30, b=30)
    drawn = [[file.name for file in REMAKE.sample(4, seed, files)] for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] == sorted(drawn[0])
    assert drawn[0] != drawn[2]


def test_a_sample_of_more_than_there_is_has_everything() -> None:
    files = made_up(a=2, b=1)
    assert [file.name for file in REMAKE.sample(15, 0, files)] == ["a/00", "a/01", "b/00"]


def test_an_empty_sample_is_refused(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert REMAKE.main(["--sample", "0"], results) == 2
    assert capsys.readouterr().err == "error: --sample: 0 given; expected at least 1\n"


@pytest.mark.parametrize("name", ["two-devices/one-0", "two-devices/two-12"])
def test_missing_data_are_one_line_and_exit_code_2(
    results: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REMEM_DATA", str(results))
    assert REMAKE.main([name], results) == 2
    printed = capsys.readouterr()
    assert "cifar100: no readable " in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_a_file_in_another_precision_is_not_run(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (results / f"{RUN}.json").write_text('{"format": 1, "config": {"train": {"precision": "fp16"}}}')
    assert REMAKE.main([RUN, POLICY, "--out", str(results / "out")], results) == 1
    *lines, count = capsys.readouterr().out.splitlines()
    for line, name in zip(lines, (RUN, POLICY), strict=True):
        assert line.startswith(f"{name}: differs: computed in fp16, here in ")
    assert count == "0 of 2 equal"
    assert not (results / "out").exists()


def test_reported_files_are_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A learned policy and a run with it are equal; a tampered accuracy is found in the runs that were kept."""
    planned = next(run for run in plan_study(REMAKE.shipped(STUDY)).runs if RUN.endswith(f"/{run.name}"))
    policy, stored = (tmp_path / POLICY).parent, tmp_path / f"{RUN}.json"
    learn_in_folder(plan_study(REMAKE.shipped(STUDY)).learnings[planned.learning or ""], policy, ignore)
    stored.parent.mkdir()
    save_result(stored, run(prepare(planned.config.model_copy(update={"policy": str(policy)}))))
    command = ["studies", "--out", str(tmp_path / "out")]

    assert REMAKE.main(command, tmp_path) == 0
    assert capsys.readouterr().out.splitlines() == [f"{POLICY}: equal", f"{RUN}: equal", "2 of 2 equal"]

    tree = json.loads(stored.read_text())
    true = tree["phases"][2]["accuracy_per_class"]["1"]
    tree["phases"][2]["accuracy_per_class"]["1"] = 2.5
    write_json(stored, tree)
    assert REMAKE.main(command, tmp_path) == 1
    line = f"{RUN}: differs: phases[2].accuracy_per_class.1 stored 2.5, remade {true}"
    assert capsys.readouterr().out.splitlines() == [f"{POLICY}: equal", line, "1 of 2 equal"]
