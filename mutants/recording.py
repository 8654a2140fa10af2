"""What the tests run: recorded once, renewed where files changed, and from it the tests of a mutant."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest

from mutants.operators import Mutant
from mutants.record import Recorder
from mutants.trial import Trial, run_trials

MOST_SECONDS = 20.0  # of tests for one mutant
FILE_SECONDS = 0.3  # to import a file of tests
RECORDING_SECONDS = 3600.0
# Ray and other processes import the package themselves, without the mutant; the others test no behaviour of the code.
UNUSED = (
    *("tests/parallel/test_ray.py", "tests/parallel/test_processes.py", "tests/test_results_folder.py"),
    *("tests/test_layers.py", "tests/test_performance_page.py", "tests/test_mutants.py"),
)


@dataclass(frozen=True)
class Recording:
    """Seconds and lines of every test and of every fixture that tests share, and the fixtures of each test."""

    contexts: dict[str, dict[str, Any]]

    @cached_property
    def tests(self) -> list[str]:
        return [name for name, facts in self.contexts.items() if facts["fixtures"] is not None]

    @cached_property
    def _by_line(self) -> dict[str, dict[int, set[str]]]:
        """For every file and line, the tests that run it, themselves or in a fixture."""
        found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for test in self.tests:
            for context in (test, *self._shared(test)):
                for file, lines in self.contexts[context]["lines"].items():
                    for line in lines:
                        found[file][line].add(test)
        return found

    def _shared(self, test: str) -> list[str]:
        return [fixture for fixture in self.contexts[test]["fixtures"] if fixture in self.contexts]

    def stages(self, mutant: Mutant) -> tuple[list[str], list[str]]:
        """The tests that can notice a mutant, those of its own package first; up to some seconds, quickest first."""
        by_line = self._by_line[mutant.file]
        able = {test for line in mutant.lines for test in by_line.get(line, ())}
        able = able or {test for tests in by_line.values() for test in tests}  # a line that is new, or run on import
        own = {test for test in able if test.startswith(f"tests/{Path(mutant.file).parent.name}/")}
        first = self._quickest(own, MOST_SECONDS)
        left = MOST_SECONDS - self.seconds(first)
        return first, self._quickest(able - own, left) if left > 0 else []

    def _quickest(self, tests: set[str], limit: float) -> list[str]:
        """The cheapest tests within a limit, at least one; file by file. Tests share the cost of files and fixtures."""
        parts = {test: {_file(test), *self._shared(test)} for test in tests}
        users = Counter(part for found in parts.values() for part in found)
        costs = {
            test: self._seconds(test) + sum(self._seconds(part) / users[part] for part in parts[test]) for test in tests
        }
        chosen: list[str] = []
        paid: set[str] = set()  # files that are imported and fixtures that are set up
        for test in sorted(tests, key=lambda test: (costs[test], test)):
            limit -= self._seconds(test) + sum(self._seconds(part) for part in parts[test] - paid)
            if chosen and limit < 0:
                break
            chosen.append(test)
            paid |= parts[test]
        files = list(dict.fromkeys(map(_file, chosen)))
        return sorted(chosen, key=lambda test: files.index(_file(test)))  # the order in a file is kept

    def seconds(self, tests: Sequence[str]) -> float:
        parts = {part for test in tests for part in (_file(test), *self._shared(test))}
        return sum(self._seconds(name) for name in (*tests, *parts))

    def _seconds(self, name: str) -> float:
        return float(self.contexts[name]["seconds"]) if name in self.contexts else FILE_SECONDS


def _file(test: str) -> str:
    return test.partition("::")[0]


def _on_present_lines(contexts: dict[str, Any], sources: dict[str, str]) -> dict[str, Any]:
    """Recorded contexts after changes of the code: lines that are still there have new numbers, others get number 0."""
    moved = {file: _moved_lines(text, Path(file)) for file, text in sources.items()}
    return {
        name: facts | {"lines": {f: [moved[f].get(line, 0) for line in lines] for f, lines in facts["lines"].items()}}
        for name, facts in contexts.items()
    }


def _moved_lines(before: str, path: Path) -> dict[int, int]:
    """Where the lines of a file are now."""
    after = path.read_text(encoding="utf-8") if path.exists() else ""
    blocks = SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False).get_matching_blocks()
    return {a + place + 1: b + place + 1 for a, b, size in blocks for place in range(size)}


def renewed(store: Path, workers: int, *, keep: bool = False) -> Recording:
    """The stored recording after all tests that changed ran again; with any change of the code, all tests.

    `keep` renews only changed test files: quicker, and nearly right after a small change of the code.
    """
    old: dict[str, Any] = {"code": "", "files": {}, "contexts": {}, "sources": {}}
    old |= json.loads(store.read_text()) if store.exists() else {}
    files = {name: _digest([Path(name)]) for name in map(str, sorted(Path("tests").rglob("test_*.py")))}
    files = {name: digest for name, digest in files.items() if not name.startswith(UNUSED)}
    shared = [path for path in Path("tests").rglob("*.py") if not path.name.startswith("test_")]
    code = _digest([*Path("src").rglob("*.py"), *shared])
    same = keep or old["code"] == code
    changed = [name for name, digest in files.items() if not same or old["files"].get(name) != digest]
    kept = {
        name: facts
        for name, facts in old["contexts"].items()
        if facts["fixtures"] is None or (_file(name) in files and _file(name) not in changed)
    }
    sources = {str(path): path.read_text(encoding="utf-8") for path in sorted(Path("src/remem").glob("*/*.py"))}
    store.parent.mkdir(exist_ok=True)
    contexts = _on_present_lines(kept, old["sources"]) | _record(changed, store, workers)
    store.write_text(json.dumps({"code": code, "files": files, "contexts": contexts, "sources": sources}))
    return Recording(contexts)


def _digest(paths: Iterable[Path]) -> str:
    return hashlib.sha256(b"".join(str(path).encode() + path.read_bytes() for path in sorted(paths))).hexdigest()


def _record(files: Sequence[str], store: Path, workers: int) -> dict[str, dict[str, Any]]:
    """Runs test files in as many children as there are workers."""
    parts = [part for part in (list(files[start::workers]) for start in range(workers)) if part]
    outputs = [store.with_suffix(f".{place}") for place in range(len(parts))]
    trials = [
        Trial(partial(_run, part, output.absolute()), RECORDING_SECONDS)
        for part, output in zip(parts, outputs, strict=True)
    ]
    found: dict[str, dict[str, Any]] = {}
    for place, code in run_trials(trials, workers):
        if code not in (0, 1, 5):  # tests that fail are not used
            raise RuntimeError(f"recording ended with {code}: {' '.join(parts[place])}")
        found |= json.loads(outputs[place].read_text())
        outputs[place].unlink()
    return found


def _run(files: Sequence[str], output: Path, folder: str) -> int:
    options = ["-p", "no:cacheprovider", "--tb=no", "-m", "not realdata and not paper", f"--basetemp={folder}/pytest"]
    return int(pytest.main([*options, *files], plugins=[Recorder(Path.cwd(), output)]))
