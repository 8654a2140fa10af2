"""Runs tests in forked children of this warm process; a mutant takes the place of its module when that is imported."""

import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from itertools import islice
from pathlib import Path
from types import CodeType

import pytest

from mutants.operators import Mutant, mutated

LIBRARIES = (
    "numpy",
    "torch",
    "pydantic",
    "lightning_fabric",
    "safetensors.torch",
    "gymnasium",
    "scipy.optimize",
    "rich",
)
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def warm_up() -> None:
    """Imports the libraries once, so that children need not. None of them starts threads on import."""
    os.environ.update(dict.fromkeys(THREADS, "1"), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    os.environ.pop("REMEM_DATA", None)
    for name in LIBRARIES:
        importlib.import_module(name)
    assert not any(name.partition(".")[0] == "remem" for name in sys.modules), "children must import remem themselves"


class MutantLoader(SourceFileLoader):
    """Loads a module from a mutated tree; the file stays as it is."""

    def __init__(self, name: str, path: str, mutant: Mutant) -> None:
        super().__init__(name, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        return compile(mutated(self._mutant), self.path, "exec")


class MutantFinder(MetaPathFinder):
    """Finds the mutant in place of its module."""

    def __init__(self, mutant: Mutant, path: Path) -> None:
        self._mutant, self._path = mutant, str(path)
        self._name = ".".join(Path(mutant.file).relative_to("src").with_suffix("").parts).removesuffix(".__init__")

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        return spec_from_file_location(name, self._path, loader=MutantLoader(name, self._path, self._mutant))


class ChosenTests:
    """A pytest plugin: only these tests, file by file, and each file's quickest first."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._place = {name: place for place, name in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self._place), key=lambda item: self._place[item.nodeid])


def try_mutant(mutant: Mutant, stages: Sequence[Sequence[str]], folder: str) -> int:
    """Runs tests on a mutant in this process, up to the first failure; the exit code of pytest."""
    sys.meta_path.insert(0, MutantFinder(mutant, Path(mutant.file).absolute()))
    options = ["-x", "-p", "no:cacheprovider", "--tb=no", f"--basetemp={folder}/pytest"]
    for tests in filter(None, stages):
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        if code := int(pytest.main([*options, *files], plugins=[ChosenTests(tests)])):
            return code
    return 0


@dataclass(frozen=True)
class Trial:
    """What a child does in a temporary folder, and how long it may take."""

    work: Callable[[str], int]  # returns an exit code
    seconds: float


def run_trials(trials: Iterable[Trial], workers: int) -> Iterator[tuple[int, int | None]]:
    """Runs each trial in a child of its own. Yields places and exit codes, as they come; None: out of time."""
    waiting, running = enumerate(trials), dict[int, tuple[int, str, float]]()
    try:
        while True:
            for place, trial in islice(waiting, workers - len(running)):
                folder = tempfile.mkdtemp(prefix="mutant-")
                running[_fork(trial, folder)] = place, folder, time.monotonic() + trial.seconds
            if not running:
                return
            time.sleep(0.01)
            for child, (place, folder, deadline) in list(running.items()):
                late = time.monotonic() > deadline
                if late:
                    os.killpg(child, signal.SIGKILL)
                ended, status = os.waitpid(child, 0 if late else os.WNOHANG)
                if ended:
                    del running[child]
                    shutil.rmtree(folder, ignore_errors=True)
                    yield place, None if late else os.waitstatus_to_exitcode(status)
    finally:
        for child, (_, folder, _) in running.items():
            os.killpg(child, signal.SIGKILL)
            shutil.rmtree(folder, ignore_errors=True)


def _fork(trial: Trial, folder: str) -> int:
    child = os.fork()
    if child:
        os.setpgid(child, child)  # so that the child and all that it starts can be ended together
        return child
    code = 3
    try:
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        code = trial.work(folder)
    finally:
        os._exit(code)
