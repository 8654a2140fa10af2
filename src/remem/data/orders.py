"""Class orders: published ones by name, random ones by seed, and orders from JSON files."""

import json
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from remem.errors import DamagedFileError, InputError, is_damage
from remem.storage.limits import parse_json
from remem.user_paths import expand

LUCIR_SEED = 1993
NAMED = ("natural", "lucir")
SPECS = "lucir, podnet-1, podnet-2, podnet-3, seed:K, natural or a JSON file with a list of labels"


def class_order(spec: str, dataset_name: str, classes: int) -> tuple[int, ...]:
    """The label at each position of the order `spec`, for a data set with `classes` classes."""
    require_order(spec)
    published = published_lists().get(dataset_name, {})
    if spec == "natural":
        return tuple(range(classes))
    if spec == "lucir":
        order = published.get(spec, ())
        return order if len(order) == classes else _shuffled(LUCIR_SEED, classes)
    if spec.startswith("podnet-"):
        if spec not in published or len(published[spec]) != classes:
            known = ", ".join(name for name, lists in published_lists().items() if spec in lists) or "no data set"
            raise InputError(f"order: '{spec}' given for {dataset_name}; it was published for {known}")
        return published[spec]
    if spec.startswith("seed:"):
        return _shuffled(_seed(spec), classes)
    return _read_order(expand(spec), classes)


def require_order(spec: str) -> None:
    """Raises for anything but the name, the seed or the file of an order. Whether it fits the data is seen later."""
    if spec.startswith("seed:"):
        _seed(spec)
    elif not (spec in NAMED or spec.startswith("podnet-") or spec.endswith(".json") or Path(spec).is_file()):
        raise InputError(f"order: '{spec}' given; expected {SPECS}")


def subset_labels(dataset_name: str) -> tuple[int, ...]:
    """The classes of an ImageNet subset, as positions in the sorted list of all 1000 WordNet ids."""
    return published_lists()[dataset_name]["classes"]


@cache
def published_lists() -> dict[str, dict[str, tuple[int, ...]]]:
    """Published lists of labels, by data set and name of the list."""
    text = files("remem.data").joinpath("class_orders.json").read_text(encoding="utf-8")
    return {name: {key: tuple(labels) for key, labels in lists.items()} for name, lists in json.loads(text).items()}


def _shuffled(seed: int, classes: int) -> tuple[int, ...]:
    """Uses numpy's legacy generator, as is usual in the field: seed 1993 gives the orders that LUCIR published."""
    return tuple(np.random.RandomState(seed).permutation(classes).tolist())


def _seed(spec: str) -> int:
    text = spec.removeprefix("seed:")
    if not (text.isascii() and text.isdigit() and len(text) < 100) or int(text) >= 2**32:
        raise InputError(f"order: '{spec}' given; expected seed:K with a whole number K from 0 to {2**32 - 1}")
    return int(text)


def _read_order(path: Path, classes: int) -> tuple[int, ...]:
    try:
        order = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        if not is_damage(error):
            raise
        raise DamagedFileError(f"order: {path} is not a readable JSON file ({error})") from error
    if not isinstance(order, list) or any(type(label) is not int for label in order):
        raise InputError(f"order: {path} holds something else; expected a list of whole numbers")
    if sorted(order) != list(range(classes)):
        raise InputError(f"order: {path} has {len(order)} labels; expected each of 0 to {classes - 1} exactly once")
    return tuple(order)
