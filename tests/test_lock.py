"""The lock files: every package that `make` needs, in the versions of constraints.txt, with hashes and no address."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from scripts import load_script

ROOT = Path(__file__).parents[1]
LOCKS = ("requirements.lock", "requirements-cuda.lock")
ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)(?: ; [^\\\n]+)? \\\n((?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.M)


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(file: str) -> dict[str, str]:
    """Versions by name; everything in the file but comments must be an entry with hashes."""
    text = "".join(line for line in (ROOT / file).read_text().splitlines(keepends=True) if not line.startswith("#"))
    assert ENTRY.sub("", text) == ""
    return {plain(name): version for name, version, _ in ENTRY.findall(text)}


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {plain(name): version for name, version in pairs}


def test_versions_are_those_of_the_constraints() -> None:
    versions, constraints = locked(LOCKS[0]), pinned()
    assert {name: versions.get(name) for name in constraints} == constraints


def test_everything_that_the_project_declares_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["dev"], "setuptools"]
    names = {plain(re.split(r"[\[<>=!~ ;]", text)[0]) for text in declared}
    assert names <= locked(LOCKS[0]).keys(), "run `make lock`"


def test_cuda_is_apart() -> None:
    first, second = map(locked, LOCKS)
    assert not first.keys() & second.keys()
    assert [name for name in first if name.startswith(("nvidia", "cuda", "triton"))] == []


def test_the_cpu_build_is_of_the_same_version() -> None:
    assert locked("requirements-cpu.lock") == {"torch": f"{pinned()['torch']}+cpu"}


@pytest.mark.parametrize("file", [*LOCKS, "requirements-cpu.lock", "lock.py", "Makefile"])
def test_no_index_is_named(file: str) -> None:
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links", (ROOT / file).read_text())


def test_the_bill_of_materials_lists_what_is_installed() -> None:
    bill = load_script("sbom.py").bill()
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "remem")
    versions = {entry["name"]: entry["version"] for entry in bill["components"]}
    for name in ("numpy", "torch", "scikit-learn"):
        assert versions[name] == version(name)
    entry = next(entry for entry in bill["components"] if entry["name"] == "scikit-learn")
    assert entry["purl"] == f"pkg:pypi/scikit-learn@{version('scikit-learn')}"
    assert list(versions) == sorted(versions)
    assert "remem" not in versions
