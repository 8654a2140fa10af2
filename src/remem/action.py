"""What a policy observes and decides before a phase: State in, Action out. The grid of actions is defined only here."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from typing import ClassVar, NamedTuple, Self

TENTHS = tuple(range(1, 10))  # shares and splits are whole tenths, 0.1 to 0.9
CHANGES = (-1, 0, 1)  # from phase 2 on, level 1 moves the old share by at most one tenth
EVEN = 5  # the default of both levels: half and half


class Rung(NamedTuple):
    """What a phase could hold if its samples were stored by one codec of the ladder."""

    budget: int  # M_i
    feasible: tuple[int, ...]  # old shares, in tenths


@dataclass(frozen=True)
class State:
    """What a policy sees before phase i >= 1 (protocol 2.1): the paper's two fractions, counts, feasible actions."""

    phase: int
    new_classes: int
    old_classes: int
    old_tenths: int  # nominal old share of phase i-1 in tenths; 0 for i = 1
    budget: int  # M_i
    exemplars: int  # E, the part of M_i that the conventional scheme gives to old classes
    arriving: int  # training samples that the new classes bring
    feasible: tuple[int, ...]  # every feasible old share of this phase, in tenths
    splits: bool  # whether phase i-1 has two classes or more, so that level 2 has something to split
    rung: int = 0  # codec of phase i-1's samples, as a place in the ladder; 0 for i = 1
    rungs: tuple[Rung, ...] = ()  # of the whole ladder; empty where there is one codec, so that nothing is to choose

    # Upper bounds of `vector`. New to old classes is at most 1 where phase 0 is the largest, but a target may start
    # small; RL checkers dislike infinity, so this is the largest float32.
    highest: ClassVar[tuple[float, ...]] = (3.4028234663852886e38, 1.0)

    def vector(self) -> tuple[float, ...]:
        """s_i of the paper: (C_i / sum_{t<i} C_t, |M_old| / |M|)."""
        return self.new_classes / self.old_classes, self.old_tenths / 10

    @property
    def depth(self) -> float:
        """The third number of a policy that chooses codecs: where the rung is, from 0 (exact) to 1 (coarsest)."""
        return self.rung / max(1, len(self.rungs) - 1)

    @property
    def reachable_rungs(self) -> tuple[int, ...]:
        """Rungs that a policy can choose: any for i = 1, the same or the next coarser one later (protocol 6).

        Rungs that hold less than one sample per class are left out. If these are all of them, the finest rung that
        holds enough is chosen, or else the coarsest.
        """
        if not self.rungs:
            return (self.rung,)
        large = [place for place, rung in enumerate(self.rungs) if rung.budget >= self.old_classes + self.new_classes]
        near = range(len(self.rungs)) if self.phase == 1 else (self.rung, self.rung + 1)
        coarser = [place for place in large if place >= self.rung]
        return tuple(place for place in near if place in large) or (coarser[0] if coarser else len(self.rungs) - 1,)

    def at(self, rung: int) -> "State":
        """The state if the phase's samples are stored at this rung: its budget and its feasible shares."""
        if not self.rungs:
            return self
        return replace(self, budget=self.rungs[rung].budget, feasible=self.rungs[rung].feasible)

    @property
    def reachable(self) -> tuple[int, ...]:
        """Feasible shares that level 1 can choose: any for i = 1, a change of at most a tenth later."""
        if self.phase == 1:
            return self.feasible
        return tuple(t for t in self.feasible if t - self.old_tenths in CHANGES)

    def choices(self) -> tuple[tuple[int, ...], ...]:
        """The values that each component of an action may take here.

        Where no share can be reached the old one is asked for again, and memory takes the nearest that it can hold.
        """
        return self.reachable or (self.old_tenths,), TENTHS if self.splits else (EVEN,)


@dataclass(frozen=True, order=True)
class Action:
    """A policy's decision for one phase. Components are whole numbers from a grid, so actions can be keys of a tree.

    `old_total` is an exact number of samples instead of a share, for hand-written policies; it is not part of the grid.
    """

    old_tenths: int = EVEN  # level 1: the old share, in tenths
    level2_tenths: int = EVEN  # level 2: what the harder half of phase i-1's classes gets, in tenths
    rung: int = 0  # codec level (protocol 6): the codec of all rows of the phase, as a place in the ladder
    old_total: int | None = field(default=None, kw_only=True)

    @classmethod
    def grid(cls) -> tuple[tuple[int, ...], ...]:
        """All values of the two components of the paper. How many rungs there are depends on the ladder."""
        return TENTHS, TENTHS

    def key(self) -> tuple[int, ...]:
        """The components in order: the action in prefix trees, reward logs and messages between processes.

        The first rung is left out, so that keys of the paper's actions have two components.
        """
        if self.old_total is not None:
            raise ValueError("an exact number of samples has no key; action paths consist of shares")
        components: tuple[int, ...] = astuple(self)[: len(self.grid())]
        return (*components, self.rung) if self.rung else components

    @classmethod
    def from_key(cls, key: Sequence[int]) -> Self:
        """The inverse of `key`; components that a shorter, older key lacks take their defaults."""
        if not 1 <= len(key) <= len(cls.grid()) + 1:
            raise ValueError(f"{list(key)} is not the key of an action with {len(cls.grid()) + 1} components")
        return cls(*map(int, key))

    @classmethod
    def from_indices(cls, indices: Sequence[int]) -> Self:
        """From the position of every component in its grid, as agents of RL libraries answer; a third one is a rung."""
        shares, rungs = indices[: len(cls.grid())], indices[len(cls.grid()) :]
        old, level2 = (values[index] for values, index in zip(cls.grid(), shares, strict=True))
        return cls(old, level2, rungs[0] if rungs else 0)

    def nearest(self, state: State) -> Self:
        """Every component moved to the nearest value that the state allows, ties to the lower one."""
        rung = nearest_value(self.rung, state.reachable_rungs)
        shares, splits = state.at(rung).choices()
        return type(self)(nearest_value(self.old_tenths, shares), nearest_value(self.level2_tenths, splits), rung)


def nearest_value(wanted: int, allowed: Sequence[int]) -> int:
    """The nearest of the allowed values, ties to the lower one."""
    return min(allowed, key=lambda value: (abs(value - wanted), value))


@dataclass(frozen=True)
class Decision:
    """An action as it is carried out, after an infeasible one became the nearest feasible one."""

    old_total: int  # |M_old| before unused memory flows from one side to the other
    old_share: float  # nominal
    old_tenths: int  # nominal, what the next state reports
    level1: float | None  # the share (i = 1) or its change (i >= 2); None for an exact number
    level2: float | None  # None where there is nothing to split
    clamped: bool
    rung: int = 0

    def to_json(self) -> dict[str, float | bool | None]:
        """The entry `action` of `result.json`. The codec has an entry of its own."""
        hidden = ("old_total", "old_tenths", "rung")
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in hidden}
