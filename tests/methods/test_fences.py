"""What a plug-in method gets leads to nothing that is not held, and what it keeps is what it is registered for."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from factories import blobs, ready
from remem.data.bank import Bank
from remem.episode import Episode
from remem.errors import InputError
from remem.memory.store import HeldView, Memory
from remem.methods.icarl import Icarl, IcarlSettings
from remem.methods.method import Describe, Exemplars, Measures, MethodEntry, PhaseFacts
from remem.methods.table import METHODS
from remem.nets.network import Network
from remem.runs.run import run
from remem.types import Samples

FOUND: list[str] = []


def explore(root: object, deepest: int = 8) -> None:
    """Follows attributes, slots, closures, bound methods and containers, as a curious plug-in would."""
    seen, queue = {id(root)}, [(root, "it", 0)]
    while queue:
        thing, way, depth = queue.pop()
        if isinstance(thing, Bank | Memory | Episode):
            FOUND.append(way)
        elif depth < deepest and not isinstance(thing, str | int | float | np.ndarray | type):
            parts = ((f"{way}.{name}", getattr(thing, name, None)) for name in dir(thing))
            cells = [(f"{way}.cell", cell.cell_contents) for cell in getattr(thing, "__closure__", None) or ()]
            inside = enumerate(thing) if isinstance(thing, tuple | list) else ()
            for name, part in [*parts, *cells, *((f"{way}[{n}]", p) for n, p in inside)]:
                if id(part) not in seen and type(part).__module__.partition(".")[0] in ("remem", "builtins"):
                    seen.add(id(part))
                    queue.append((part, name, depth + 1))


class Curious(Icarl):
    """Looks at everything that it is given."""

    def begin(self, network: Network, facts: PhaseFacts, held: Samples, describe: Describe) -> None:
        explore(describe)
        describe(held)  # it still works

    def refine(self, network: Network, exemplars: Exemplars, facts: PhaseFacts) -> Measures:
        explore(exemplars)
        assert len(exemplars.values(exemplars.kept_new)) == len(exemplars.kept_new)
        return {}


class Greedy(Icarl):
    """Claims to keep to the budget, and keeps everything."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.replay = "all"


class Sly(Icarl):
    """Changes what it keeps once the run has begun."""

    def begin(self, network: Network, facts: PhaseFacts, held: Samples, describe: Describe) -> None:
        self.replay = "all"


class CuriousSettings(IcarlSettings):
    name: str = "curious"


class GreedySettings(IcarlSettings):
    name: str = "greedy"


class OpenlyGreedySettings(IcarlSettings):
    name: str = "openly-greedy"


class SlySettings(IcarlSettings):
    name: str = "sly"


ENTRIES = {
    "curious": MethodEntry("looks around", CuriousSettings, Curious),
    "greedy": MethodEntry("keeps all", GreedySettings, Greedy),
    "openly-greedy": MethodEntry("keeps all, and says so", OpenlyGreedySettings, Greedy, replay=("all",)),
    "sly": MethodEntry("changes its mind", SlySettings, Sly),
}


@pytest.fixture(autouse=True)
def plugged_in() -> Iterator[None]:
    for name, entry in ENTRIES.items():
        METHODS.add(name, entry)
    yield
    for name in ENTRIES:
        METHODS.remove(name)


def test_nothing_that_a_method_gets_leads_to_the_bank_or_the_episode() -> None:
    FOUND.clear()
    run(ready(blobs(), {"method": {"name": "curious"}}))
    assert FOUND == []
    memory = Memory()
    explore(HeldView(memory, Bank(blobs().train)))
    assert FOUND == []
    explore(type("Open", (), {"memory": memory})())
    assert FOUND == ["it.memory"]  # the search finds what there is


def test_a_regime_is_what_the_method_is_registered_for() -> None:
    with pytest.raises(InputError, match="greedy keeps 'all' of old samples, but is registered for budget"):
        ready(blobs(), {"method": {"name": "greedy"}})
    assert run(ready(blobs(), {"method": {"name": "openly-greedy"}})).oracle


def test_a_regime_cannot_change_during_a_run() -> None:
    result = run(ready(blobs(), {"method": {"name": "sly"}}))
    honest = run(ready(blobs(), {"method": {"name": "icarl"}}))
    assert not result.oracle
    assert [phase.held_per_class for phase in result.phases] == [phase.held_per_class for phase in honest.phases]


def test_a_view_dies_with_its_episode() -> None:
    """Nothing keeps a data set alive behind its gates."""
    bank = Bank(blobs().train)
    alive, view = weakref.ref(bank), HeldView(Memory(), bank)
    del bank
    assert alive() is not None
    del view
    gc.collect()
    assert alive() is None
