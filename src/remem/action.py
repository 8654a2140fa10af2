"""What a policy observes and decides before a phase: State in, Action out. The grid of actions is defined only here."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, fields
from typing import ClassVar, Self

TENTHS = tuple(range(1, 10))  # shares and splits are whole tenths, 0.1 to 0.9
CHANGES = (-1, 0, 1)  # from phase 2 on, level 1 moves the old share by at most one tenth
EVEN = 5  # the default of both levels: half and half


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

    # Upper bounds of `vector`. New to old classes is at most 1 where phase 0 is the largest, but a target may start
    # small; RL checkers dislike infinity, so this is the largest float32.
    highest: ClassVar[tuple[float, ...]] = (3.4028234663852886e38, 1.0)

    def vector(self) -> tuple[float, ...]:
        """s_i of the paper: (C_i / sum_{t<i} C_t, |M_old| / |M|)."""
        return self.new_classes / self.old_classes, self.old_tenths / 10

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
    old_total: int | None = field(default=None, kw_only=True)

    @classmethod
    def grid(cls) -> tuple[tuple[int, ...], ...]:
        """All values of each component."""
        return TENTHS, TENTHS

    def key(self) -> tuple[int, ...]:
        """The components in order: the action in prefix trees, reward logs and messages between processes."""
        if self.old_total is not None:
            raise ValueError("an exact number of samples has no key; action paths consist of shares")
        return astuple(self)[: len(self.grid())]

    @classmethod
    def from_key(cls, key: Sequence[int]) -> Self:
        """The inverse of `key`; components that a shorter, older key lacks take their defaults."""
        if not 1 <= len(key) <= len(cls.grid()):
            raise ValueError(f"{list(key)} is not the key of an action with {len(cls.grid())} components")
        return cls(*map(int, key))

    @classmethod
    def from_indices(cls, indices: Sequence[int]) -> Self:
        """From the position of every component in its grid, as agents of RL libraries answer."""
        return cls(*(values[index] for values, index in zip(cls.grid(), indices, strict=True)))

    def nearest(self, state: State) -> Self:
        """Every component moved to the nearest value that the state allows, ties to the lower one."""
        own = astuple(self)
        return type(self)(
            *(min(allowed, key=lambda v: (abs(v - own[i]), v)) for i, allowed in enumerate(state.choices()))
        )


@dataclass(frozen=True)
class Decision:
    """An action as it is carried out, after an infeasible one became the nearest feasible one."""

    old_total: int  # |M_old| before unused memory flows from one side to the other
    old_share: float  # nominal
    old_tenths: int  # nominal, what the next state reports
    level1: float | None  # the share (i = 1) or its change (i >= 2); None for an exact number
    level2: float | None  # None where there is nothing to split
    clamped: bool

    def to_json(self) -> dict[str, float | bool | None]:
        """The entry `action` of `result.json`."""
        hidden = ("old_total", "old_tenths")
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in hidden}
