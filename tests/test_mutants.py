"""Mutation testing: each operator makes its change, what cannot be noticed is left out, and survivors are reported."""

import time
from pathlib import Path

import pytest

from mutants.__main__ import outcomes_of, report, sample, without_equivalent
from mutants.operators import Mutant, mutants, mutated
from mutants.recording import Recording, renewed
from mutants.trial import Trial, run_trials

TOY = """
def larger(a, b):
    return a if a > b else b


def unused(a):
    return a + 1
"""
TOY_TEST = """
import importlib.util

import pytest


@pytest.fixture(scope="module")
def toy():
    spec = importlib.util.find_spec("remem.memory.toy")
    if spec is None:
        spec = importlib.util.spec_from_file_location("toy", "src/remem/memory/toy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_larger(toy):
    assert toy.larger(1, 2) == toy.larger(2, 1) == 2


def test_nothing():
    assert True


def test_that_fails(toy):
    assert toy.larger(1, 2) == 1
"""
FILE, TEST = "src/remem/memory/toy.py", "tests/memory/test_toy.py"


def changes(source: str) -> list[str]:
    return [mutant.change for mutant in mutants("toy.py", source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b <= c", ["a < b <= c -> a <= b <= c", "a < b <= c -> a < b < c"]),
        ("a is not b", ["a is not b -> a is b"]),
        ("a in b", ["a in b -> a not in b"]),
        ("a - b", ["a - b -> a + b"]),
        ("a // b", ["a // b -> a * b"]),
        ("a and b", ["a and b -> a or b"]),
        ("not a", ["not a -> a"]),
        ("-a", ["-a -> a"]),
        ("a = 3", ["3 -> 4"]),
        ("a = 0.25", ["0.25 -> 0.5"]),
        ("a = 0.0", ["0.0 -> 1.0"]),
        ("a = True", ["True -> False"]),
        ("f(a)", ["f(a) -> pass"]),
        ("a += b", ["a += b -> pass", "a += b -> a -= b"]),
        ("a = min(b)", ["min(b) -> max(b)"]),
        ("a = b.max()", ["b.max() -> b.min()"]),
        ("a = b[c:d]", ["c:d -> c + 1:d", "c:d -> c:d + 1"]),
        ("a = b[1]", ["1 -> 2"]),
        ("a = f(b, c=d, e=g)", ["f(..., c=d) -> f(...)", "f(..., e=g) -> f(...)"]),
        ("if a:\n    b = c", ["if a -> if not a"]),
        ("a = b if c() else d", ["if c() -> if not c()"]),
        ("def f():\n    return a", ["return a -> return None"]),
    ],
)
def test_every_operator_makes_its_change(source: str, expected: list[str]) -> None:
    assert changes(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""Text."""',
        "a: Literal[1] = b",
        "def f(a: Literal[1]) -> Literal[2]:\n    pass",
        "raise ValueError(f'{a + 1}', 1)",
        "assert a > 1",
        "a = f'{b + 1}'",
        "a = Field(description='b')",
        "@dataclass(frozen=True)\nclass A:\n    pass",
        "class A(Protocol):\n    def f(self):\n        return 1",
        "if TYPE_CHECKING:\n    a = 1",
        "a = zip(b, c, strict=True)",
        "print(1)",
        "def __repr__(self):\n    return 1",
        "_CHUNK_BYTES = 8",
        "a = [b] * c",
        "a = int | None",
    ],
)
def test_what_no_test_can_notice_is_left_out(source: str) -> None:
    assert changes(source) == []


def test_a_mutant_is_the_module_with_one_change() -> None:
    [none, more, three] = mutants("toy.py", "def f(a):\n    return a > 2\n")
    assert (more.line, more.column, more.text) == (2, 12, "return a > 2")
    values: list[list[object]] = []
    for mutant in (none, more, three):
        module: dict[str, object] = {}
        exec(compile(mutated(mutant), "toy.py", "exec"), module)
        f = module["f"]
        assert callable(f)
        values.append([f(1), f(2), f(3), f(4)])
    assert values == [[None] * 4, [False, True, True, True], [False, False, False, True]]


def test_lines_whose_tests_are_run() -> None:
    found = mutants("toy.py", "a = 1\ndef f(b=2):\n    c = g(\n        3)\n    if d > b:\n        c = 4\n")
    lines = {mutant.change: mutant.lines for mutant in found}
    assert lines == {
        **{"1 -> 2": range(0), "2 -> 3": range(3, 7), "3 -> 4": range(3, 5)},
        **{"d > b -> d >= b": range(5, 6), "4 -> 5": range(6, 7)},
    }


def test_a_sample_has_mutants_of_every_module_in_proportion() -> None:
    found = mutants("a.py", "x = 1\n" * 60) + mutants("b.py", "x = 1\n" * 20)
    chosen = sample(found, 20, seed=3)
    assert chosen == sample(found, 20, seed=3) != sample(found, 20, seed=4)
    assert [mutant.file for mutant in chosen] == ["a.py"] * 15 + ["b.py"] * 5
    assert len(set(chosen)) == 20
    assert sample(found, 100, seed=3) == found


def test_known_equivalent_mutants_are_left_out() -> None:
    found = mutants("a.py", "x = 1\ny = 1\n")
    assert without_equivalent(found, [{"file": "a.py", "text": "y = 1", "change": "1 -> 2"}]) == found[:1]
    found = mutants("a.py", "x = 1, 1\n")
    known = {"file": "a.py", "text": "x = 1, 1", "change": "1 -> 2"}
    assert without_equivalent(found, [known]) == []
    assert without_equivalent(found, [{**known, "column": 8}]) == found[:1]


def test_the_quickest_tests_that_run_the_line_are_chosen() -> None:
    def context(seconds: float, *lines: int, fixtures: list[str] | None) -> dict[str, object]:
        return {"seconds": seconds, "lines": {FILE: list(lines)}, "fixtures": fixtures}

    recording = Recording(
        {
            "shared": context(12.0, 3, fixtures=None),
            "tests/rl/test_a.py::test_elsewhere": context(0.1, 3, fixtures=[]),
            "tests/memory/test_b.py::test_slow": context(7.0, 3, fixtures=[]),
            "tests/memory/test_b.py::test_by_fixture": context(0.5, 9, fixtures=["shared"]),
            "tests/memory/test_c.py::test_by_fixture_too": context(0.6, fixtures=["shared"]),
            "tests/memory/test_c.py::test_other_line": context(0.1, 4, fixtures=[]),
        }
    )
    [first, *_] = mutants(FILE, TOY)
    assert first.lines == range(3, 4)
    # Both tests of the fixture cost 6 more than their own seconds, and 20 seconds are all that there is.
    own = ["tests/memory/test_b.py::test_by_fixture", "tests/memory/test_c.py::test_by_fixture_too"]
    assert recording.stages(first) == (own, ["tests/rl/test_a.py::test_elsewhere"])
    assert recording.seconds(own) == pytest.approx(12.0 + 0.5 + 0.6 + 2 * 0.3)  # and two files


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Mutant]:
    """A module with a test in the working folder; the mutants of the module."""
    for name, text in {FILE: TOY, TEST: TOY_TEST, "pyproject.toml": "[tool.pytest.ini_options]\nmarkers = []"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return mutants(FILE, TOY)


def test_a_planted_survivor_is_reported(project: list[Mutant], tmp_path: Path) -> None:
    recording = renewed(tmp_path / "store" / "recording.json", 1)
    assert set(recording.tests) == {f"{TEST}::test_larger", f"{TEST}::test_nothing"}  # not the one that fails
    assert recording.stages(project[0]) == ([f"{TEST}::test_larger"], [])
    outcomes = outcomes_of(project[:2], recording, 2)
    assert [mutant.change for mutant in project[:2]] == ["return a if a > b else b -> return None", "a > b -> a >= b"]
    assert outcomes == ["killed", "survived"]
    found = report(7, {"memory": 4, "rl": 5}, project[:2], outcomes)
    counts = {"tested": 2, "killed": 1, "survived": 1, "timeout": 0, "score": 50.0}
    none = {"tested": 0, "killed": 0, "survived": 0, "timeout": 0, "score": None}
    assert found == {
        "seed": 7,
        "all": {"generated": 9, **counts},
        "packages": {"memory": {"generated": 4, **counts}, "rl": {"generated": 5, **none}},
        "survivors": [f"{FILE}:3:17: a > b -> a >= b"],
    }


def test_a_recording_follows_lines_that_move(project: list[Mutant], tmp_path: Path) -> None:
    store = tmp_path / "recording.json"
    renewed(store, 1)
    (tmp_path / FILE).write_text('"""A new line."""\n' + TOY)
    moved = mutants(FILE, '"""A new line."""\n' + TOY)
    assert moved[0].lines == range(4, 5)
    assert renewed(store, 1, keep=True).stages(moved[0]) == ([f"{TEST}::test_larger"], [])


def test_a_child_that_does_not_end_is_killed() -> None:
    def sleep(folder: str) -> int:
        time.sleep(60)
        return 0

    assert dict(run_trials([Trial(sleep, 0.2), Trial(lambda folder: 1, 300)], 2)) == {0: None, 1: 1}
