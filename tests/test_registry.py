"""registry.py: strict names, sorted listing, and a suggestion for a typo."""

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


def test_a_strange_name_gets_the_list() -> None:
    with pytest.raises(InputError) as caught:
        table()["xyz"]
    assert str(caught.value) == "no method named 'xyz'; known: finetune, icarl, lwf"
