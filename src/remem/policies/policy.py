"""What a policy is, and the policies by name."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from remem.policies.fixed import Fixed
from remem.policies.static import Static
from remem.registry import Registry
from remem.types import Action, State


class Policy(Protocol):
    """State in, action out; nothing else is seen or changed."""

    @property
    def name(self) -> str: ...

    @property
    def oracle(self) -> bool:
        """Whether it saw what no honest policy may see; said wherever its numbers are printed."""

    def act(self, state: State) -> Action: ...

    def provenance(self) -> dict[str, object]:
        """Where it comes from, for `result.json`."""


@dataclass(frozen=True)
class PolicyEntry:
    summary: str
    build: Callable[[], Policy]


POLICIES: Registry[PolicyEntry] = Registry("policy")
POLICIES.add("static", PolicyEntry("the conventional scheme: exemplar part E, all other memory for new data", Static))
for _tenths in range(1, 10):
    _summary = f"{10 * _tenths} % of the memory for old classes in every phase"
    POLICIES.add(f"fixed-0.{_tenths}", PolicyEntry(_summary, partial(Fixed, _tenths)))
