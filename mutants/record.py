"""A pytest plugin that records which lines each test runs, and how long it takes."""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage

PACKAGES = ("memory", "selection", "methods", "policies", "rl")


class Recorder:
    """Contexts are tests, and fixtures that several tests share: their lines belong to every test that uses them."""

    def __init__(self, root: Path, output: Path) -> None:
        self._root, self._output = root, output
        include = [str(root / "src" / "remem" / package / "*") for package in PACKAGES]
        self._coverage = Coverage(data_file=None, include=include)
        self._seconds: dict[str, float] = defaultdict(float)
        self._fixtures: dict[str, list[str]] = {}
        self._unusable: set[str] = set()
        self._context = ""

    def pytest_configure(self) -> None:
        sys.addaudithook(self._audit)
        self._coverage.set_option("run:disable_warnings", ["no-data-collected", "module-not-measured"])
        self._coverage.start()

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen" and "python" in str(arguments[0]):
            self._unusable.add(self._context)

    def _enter(self, context: str) -> tuple[str, float]:
        outer, self._context = self._context, context
        self._coverage.switch_context(context)
        return outer, time.perf_counter()

    def _leave(self, outer: str, began: float) -> None:
        seconds = time.perf_counter() - began
        self._seconds[self._context] += seconds
        self._seconds[outer] -= seconds
        self._context = outer
        self._coverage.switch_context(outer)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        shared = item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]
        self._fixtures[item.nodeid] = sorted({_name(found[-1]) for found in shared if found[-1].scope != "function"})
        outer = self._enter(item.nodeid)
        try:
            return (yield)
        finally:
            self._leave(*outer)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        outer = self._enter(_name(fixturedef))
        try:
            return (yield)
        finally:
            self._leave(*outer)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._unusable.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        lines: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        data = self._coverage.get_data()
        for file in data.measured_files():
            name = str(Path(file).relative_to(self._root))
            for line, names in data.contexts_by_lineno(file).items():
                for context in names:
                    lines[context][name].append(line)
        contexts = {
            name: {"seconds": round(seconds, 4), "lines": lines[name], "fixtures": self._fixtures.get(name)}
            for name, seconds in self._seconds.items()
            if name and not self._unusable & {name, *self._fixtures.get(name, ())}
        }
        self._output.write_text(json.dumps(contexts))


def _name(fixture: pytest.FixtureDef[Any]) -> str:
    return f"{fixture.baseid}::{fixture.argname}::fixture"
