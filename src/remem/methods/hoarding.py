"""Notices code that hoards what it sees: state of a network or a loss that grows with the samples of a pass.

What is there after the first batch of a pass over samples is compared with what is there after the last one. Anything
that holds the latest batch stays as it is, heads have grown before, and a number per sample or step is too little to
matter. What is left over keeps samples outside the memory, whose budget is then worth nothing.
"""

from collections import OrderedDict, deque
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from remem.errors import InputError

DEEPEST = 12  # attributes, items and closures that are followed
MOST = 100_000  # objects that are looked at in one place: what is larger has long been noticed
PER_SAMPLE, PER_BATCH = 8, 64  # bytes that are too few to matter
CONTAINERS = (list, tuple, set, frozenset, deque)
NUMBERS = (NoneType, bool, int, float)
EMPTY = (dict, OrderedDict, list, tuple, set)  # most attributes of a module are numbers, or tables without hooks
DATA = (Tensor, np.ndarray, bytes, bytearray, dict, *CONTAINERS)
TRUSTED = ("torch", "remem", "builtins", "numpy", "pydantic", "functools", "collections", "enum", "abc", "typing")

Place = tuple[str, str]  # a module of the network, and the attribute


class Noted(NamedTuple):
    """What is there after a batch."""

    batch: int  # samples of it
    sizes: dict[Place, int]


class Processes(Protocol):
    """What is needed of Fabric."""

    @property
    def world_size(self) -> int: ...

    def broadcast(self, obj: Any, src: int = 0) -> Any: ...


class HoardWatch:
    """Watches one pass over samples: `after_batch` after each, `check` at the end."""

    def __init__(self, network: torch.nn.Module, *others: object) -> None:
        self._network, self._others = network, others  # such as loss functions
        self._first: Noted | None = None
        self._largest = self._samples = self._batches = 0

    def after_batch(self, size: int) -> None:
        if self._first is None:
            self._first = Noted(size, footprint(self._network, *self._others))
        self._largest = max(self._largest, size)
        self._samples += size
        self._batches += 1

    def check(self, what: str, fabric: Processes) -> None:
        """Raises if something has grown with the samples. All processes must call it, and all raise or none."""
        found = self._found(what)
        if fabric.world_size > 1:
            found = fabric.broadcast(found, src=0)
        if found:
            raise InputError(found)

    def _found(self, what: str) -> str:
        if self._first is None or self._batches == 1:
            return ""
        ratio = self._largest / self._first.batch  # what holds one batch may hold the largest
        now, before = footprint(self._network, *self._others), self._first.sizes
        grown = {place: size - int(ratio * before.get(place, 0)) for place, size in now.items()}
        total = sum(size for size in grown.values() if size > 0)
        if total <= PER_SAMPLE * self._samples + PER_BATCH * self._batches:
            return ""
        worst = max(grown, key=lambda place: grown[place])
        return (
            f"method: {'.'.join(filter(None, worst))} keeps {total} bytes more after the {self._batches} batches of "
            f"{what} than after the first one; expected state that does not grow with the samples: "
            "old samples are kept in the memory alone"
        )


def footprint(network: torch.nn.Module, *others: object) -> dict[Place, int]:
    """Bytes of tensors, arrays and numbers that hang on a network and on other objects, by place; without zeros."""
    walk, sizes = _Walk(), dict[Place, int]()
    modules = dict(network.named_modules())
    walk.seen.update(map(id, modules.values()))
    plain, weights = list[tuple[str, str, Any]](), list[tuple[str, str, Any]]()
    for name, module in modules.items():
        for attribute, value in vars(module).items():
            if attribute in ("_parameters", "_buffers"):
                weights.extend((name, own, tensor) for own, tensor in value.items())
            elif attribute != "_modules" and type(value) not in NUMBERS and (type(value) not in EMPTY or value):
                plain.append((name, attribute, value))
    for name, attribute, value in (*weights, *plain):  # weights first: views of them cost nothing
        if size := walk.size(value):
            sizes[name, attribute] = size
    for name, module in modules.items():
        if size := walk.class_size(type(module)):
            sizes[name, type(module).__name__] = size
    for other in others:
        place = ("", getattr(other, "__qualname__", type(other).__qualname__))
        sizes[place] = sizes.get(place, 0) + walk.size(other)
    return sizes


class _Walk:
    """Follows attributes, items, closures and hooks; counts every object and every storage once."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self._storages: set[int] = set()

    def size(self, root: object) -> int:
        total, stack, looked_at = 0, [(root, 0)], 0
        while stack and looked_at < MOST:
            thing, depth = stack.pop()
            looked_at += 1
            if thing is None or isinstance(thing, bool):
                continue
            if isinstance(thing, int | float | complex):
                total += 8
                continue
            if id(thing) in self.seen or isinstance(thing, ModuleType | type | CodeType):
                continue
            self.seen.add(id(thing))
            total += self._own_size(thing)
            if depth < DEEPEST:
                stack.extend((part, depth + 1) for part in self._parts(thing))
        return total

    def class_size(self, kind: type) -> int:
        """What hangs on the class of a network or a method, if it is not ours: lists of its own, globals it uses."""
        foreign = [base for base in kind.__mro__ if base.__module__.partition(".")[0] not in TRUSTED]
        parts = [value for base in foreign if id(base) not in self.seen for value in vars(base).values()]
        self.seen.update(map(id, foreign))
        return sum(self.size(part) for part in parts if isinstance(part, (FunctionType, *DATA)))

    def _own_size(self, thing: object) -> int:
        """Bytes of an object itself."""
        if isinstance(thing, str | bytes | bytearray):
            return len(thing)
        if isinstance(thing, np.generic):
            return thing.nbytes
        if isinstance(thing, np.ndarray):
            whole = thing.base if isinstance(thing.base, np.ndarray) else thing
            return self._once(id(whole), whole.nbytes)
        if isinstance(thing, Tensor):
            if thing.layout != torch.strided:
                return thing.numel() * thing.element_size()
            storage = thing.untyped_storage()  # a view keeps all of it
            return self._once(storage.data_ptr() or id(thing), storage.nbytes())
        return 0 if type(thing).__module__ == "builtins" else self.class_size(type(thing))

    def _once(self, key: int, size: int) -> int:
        new = key not in self._storages
        self._storages.add(key)
        return size if new else 0

    def _parts(self, thing: Any) -> list[Any]:
        """What an object leads to."""
        if isinstance(thing, dict):
            return [*thing, *thing.values()]
        if isinstance(thing, CONTAINERS):
            return list(thing)
        if isinstance(thing, MethodType):
            return [thing.__self__, thing.__func__]
        if isinstance(thing, partial):
            return [thing.func, thing.args, thing.keywords]
        if isinstance(thing, FunctionType):
            return self._of_function(thing)
        if isinstance(thing, np.ndarray):
            return thing.ravel().tolist() if thing.dtype == object else []
        attributes = getattr(thing, "__dict__", None)
        return [attributes] if isinstance(attributes, dict) else []

    def _of_function(self, function: FunctionType) -> list[Any]:
        """Its closure, defaults and attributes, and the containers among the globals that it names."""
        cells = []
        for cell in function.__closure__ or ():
            try:
                cells.append(cell.cell_contents)
            except ValueError:  # not filled yet
                continue
        parts = [*cells, function.__defaults__, function.__kwdefaults__, function.__dict__]
        if function.__module__.partition(".")[0] in TRUSTED:
            return parts
        known = (function.__globals__.get(name) for name in function.__code__.co_names)
        return [*parts, *(value for value in known if isinstance(value, DATA))]
