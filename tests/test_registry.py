"""registry.py: strict names, sorted listing, suggestions for typos, and entries that are imported on first use."""

import subprocess
import sys

import pytest

from remem.errors import InputError
from remem.registry import Registry


def table() -> Registry[int]:
    registry: Registry[int] = Registry("method")
    for value, name in enumerate(("lwf", "icarl", "finetune")):
        registry.add(name, value)
    return registry


def test_entries_by_name() -> None:
    registry = table()
    assert registry["icarl"] == 1
    assert list(registry) == ["finetune", "icarl", "lwf"]
    assert len(registry) == 3
    assert "lwf" in registry
    assert "lucir" not in registry
    assert registry.add("joint", 9) == 9


def test_a_clash_raises_and_changes_nothing() -> None:
    registry = table()
    with pytest.raises(ValueError, match="a method named 'lwf' is registered already"):
        registry.add("lwf", 5)
    assert registry["lwf"] == 0


def test_a_typo_gets_a_suggestion() -> None:
    with pytest.raises(InputError) as caught:
        table()["icral"]
    assert str(caught.value) == "no method named 'icral'; did you mean 'icarl'?"


def test_an_unknown_name_gets_the_list() -> None:
    with pytest.raises(InputError) as caught:
        table()["xyz"]
    assert str(caught.value) == "no method named 'xyz'; known: finetune, icarl, lwf"


def lazy() -> Registry[object]:
    registry: Registry[object] = Registry("thing")
    registry.add("b", 2)
    registry.add_lazy("a", "string:digits")
    registry.add_lazy("c", "no_such_module:ENTRY")
    return registry


def test_lazy_entries_are_listed_without_importing_them() -> None:
    registry = lazy()
    assert list(registry) == ["a", "b", "c"]
    assert len(registry) == 3
    assert "c" in registry
    with pytest.raises(InputError, match="no thing named 'd'; known: a, b, c"):
        registry["d"]


def test_lazy_entries_are_imported_on_first_use() -> None:
    registry = lazy()
    assert registry["a"] == "0123456789"
    assert registry["a"] is registry["a"]
    assert list(registry) == ["a", "b", "c"]
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        registry["c"]


def test_lazy_entries_are_strict_too() -> None:
    registry = lazy()
    for name in ("a", "b"):
        with pytest.raises(ValueError, match=f"a thing named '{name}' is registered already"):
            registry.add_lazy(name, "string:digits")
        with pytest.raises(ValueError, match=f"a thing named '{name}' is registered already"):
            registry.add(name, 5)
    for path in ("string", "string:", ":digits"):
        with pytest.raises(ValueError, match="is not an import path; expected 'module:name'"):
            registry.add_lazy("d", path)


def test_items_and_removal() -> None:
    registry = lazy()
    registry.remove("c")
    assert list(registry.items()) == [("a", "0123456789"), ("b", 2)]
    registry.remove("a")
    registry.add_lazy("a", "string:hexdigits")
    assert registry["a"] == "0123456789abcdefABCDEF"


TYPOS = """
import sys
from remem.data.datasets import DATASETS
from remem.errors import InputError
from remem.methods.table import METHODS
from remem.nets.backbones import BACKBONES
for table, name in ((METHODS, "lucri"), (BACKBONES, "smal"), (DATASETS, "cifar10")):
    try:
        table[name]
    except InputError as error:
        print(error)
print("torch" in sys.modules)
"""


def test_typos_are_refused_without_torch() -> None:
    run = subprocess.run([sys.executable, "-c", TYPOS], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [
        "no method named 'lucri'; did you mean 'lucir'?",
        "no backbone named 'smal'; did you mean 'small'?",
        "no data set named 'cifar10'; did you mean 'cifar100'?",
        "False",
    ]
