"""Settings before validation: merging layers, dotted keys and `key=value` overrides."""

import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from remem.errors import InputError
from remem.storage.limits import DEEPEST, parse_toml

Tree = dict[str, Any]


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Tree:
    """Merges nested tables key by key; other values are replaced. Settings of another method are dropped."""
    result = dict(below)
    for key, value in above.items():
        if isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            before = result[key].get("name")
            renamed = key == "method" and before is not None and value.get("name", before) != before
            result[key] = dict(value) if renamed else merged(result[key], value)
        elif isinstance(value, Mapping) and key in result:  # do not silently replace a plain value
            raise InputError(
                f"{key}: {result[key]!r} given; expected settings such as {key}.{next(iter(value), 'name')}"
            )
        else:
            result[key] = value
    return result


def nested(key: str, value: Any) -> Tree:
    """'train.epochs', 5 -> {'train': {'epochs': 5}}."""
    for part in reversed(key.split(".")):
        value = {part: value}
    return dict(value)


def value_at(tree: Mapping[str, Any], key: str, default: Any) -> Any:
    for part in key.split("."):
        if not isinstance(tree, Mapping) or part not in tree:
            return default
        tree = tree[part]
    return tree


def read_overrides(pairs: Iterable[str]) -> Tree:
    """Parses overrides such as `train.epochs=5`. A value that is not TOML is a string."""
    tree: Tree = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not all(key.split(".")) or key.count(".") > DEEPEST:
            raise InputError(f"--set: '{pair}' given, expected key=value such as train.epochs=5")
        try:
            parsed = parse_toml(f"value = {text}")
        except tomllib.TOMLDecodeError:
            parsed = {"value": text}
        except ValueError as error:
            raise InputError(f"--set: {key}={text[:40]} given; {error}") from error
        if parsed.keys() != {"value"}:
            raise InputError(f"--set: {pair!r} given, expected one key=value")
        value = parsed["value"]
        tree = merged(tree, nested(key, value))
    return tree
