"""How long OpenMP threads spin: set by the command and by workers before torch is imported, unless the user has."""

import subprocess
import sys
from pathlib import Path

import pytest

from parallel.toy_jobs import WAITING
from remem.parallel.jobs import Job
from remem.parallel.pool import WorkerPool, open_pool
from remem.threads import SPINS, limit_spinning

CASES = {  # what the user has set: what is set in the end
    "nothing": ({}, (str(SPINS), None)),
    "count": ({"GOMP_SPINCOUNT": "7"}, ("7", None)),
    "policy": ({"OMP_WAIT_POLICY": "ACTIVE"}, (None, "ACTIVE")),  # a count would take precedence over it
    "both": ({"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "9"}, ("9", "PASSIVE")),
}
SPY = "import os; print(*(os.environ.get(name) for name in {names})); raise SystemExit"


@pytest.fixture(params=CASES)
def expected(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str | None, str | None]:
    """The variables that must be set, in an environment with those of a user."""
    given, expected = CASES[request.param]
    forget(monkeypatch)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return expected


def test_the_command_sets_it_before_torch_is_imported(expected: tuple[str | None, str | None], tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(SPY.format(names=WAITING))
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from remem.cli.main import main; main()"
    command = [sys.executable, "-c", code, "plan", "--dataset", "digits", "--quiet"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout.split() == [str(value) for value in expected]


def test_workers_of_any_program_have_it(expected: tuple[str | None, str | None], toys: None) -> None:
    with open_pool(1, None) as pool:
        assert waiting(pool) == expected


def test_workers_inherit_it(toys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch)
    monkeypatch.setattr("remem.threads.SPINS", 123)  # in this process alone
    limit_spinning()
    with open_pool(1, None) as pool:
        assert waiting(pool) == ("123", None)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the variables until the test has ended, and then whatever it has set."""
    for name in WAITING:
        monkeypatch.setenv(name, "")  # else there would be nothing to restore
        monkeypatch.delenv(name)


def waiting(pool: WorkerPool) -> tuple[str | None, str | None]:
    """The variables in a worker, which has not imported torch yet."""
    [(_, answer)] = pool.run([Job("a", "parallel.toy_jobs:waiting", {})])
    assert answer.pop("torch") is False
    return answer["GOMP_SPINCOUNT"], answer["OMP_WAIT_POLICY"]
