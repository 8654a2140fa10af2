"""Limits of text formats before anything is built from them: size, nesting and digits of JSON and TOML."""

import datetime
import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

LARGEST_TEXT = 256 * 2**20  # bytes; the result of a run with 1000 classes and 25 phases has about 2 MB
DEEPEST = 100  # lists and tables inside each other
MOST_DIGITS = 400  # of a number; Python itself refuses whole numbers above 4300
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)  # also one that never ends: no second look at it
_DIGITS = re.compile(rb"[0-9]{%d}" % (MOST_DIGITS + 1))


def parse_json(content: bytes) -> Any:
    """A JSON value; ValueError for anything else, also for what is too large, too deep or too long a number."""
    if len(content) > LARGEST_TEXT:
        raise ValueError(f"{len(content)} bytes, expected at most {LARGEST_TEXT}")
    bare = _STRING.sub(b"", content)
    if _DIGITS.search(bare):
        raise ValueError(f"a number of more than {MOST_DIGITS} digits")
    if nesting(bare) > DEEPEST:
        raise ValueError(f"nested more than {DEEPEST} deep")
    return json.loads(content.decode("utf-8"))


def nesting(text: bytes) -> int:
    """How deep brackets and braces are nested, without any strings."""
    deepest = depth = 0
    for mark in re.findall(rb"[\[\]{}]", text):
        depth += 1 if mark in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def parse_toml(text: str) -> dict[str, Any]:
    """A TOML document; ValueError for anything else, also for what is too large, too deep or too long a number."""
    content = text.encode("utf-8", "surrogatepass")
    if len(content) > LARGEST_TEXT:
        raise ValueError(f"{len(content)} bytes, expected at most {LARGEST_TEXT}")
    if _DIGITS.search(content):
        raise ValueError(f"a number of more than {MOST_DIGITS} digits")
    keys = (line.partition("=")[0].count(".") for line in text.splitlines())
    if nesting(content) > DEEPEST or max(keys, default=0) > DEEPEST:
        raise ValueError(f"nested more than {DEEPEST} deep")
    tree = tomllib.loads(text)
    for key, value in _leaves(tree):
        if isinstance(value, datetime.date | datetime.time):
            raise ValueError(f"{key} is the date or time {value}, expected a number, a truth value or text in quotes")
    return tree


def _leaves(tree: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else None
    if parts is None:
        yield key, tree
        return
    for name, value in parts:
        yield from _leaves(value, f"{key}.{name}" if key else str(name))
