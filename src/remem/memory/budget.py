"""The memory budget: its notation in settings, and its size in samples in each phase."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from pydantic import Field, StrictInt, field_validator

from remem.errors import InputError
from remem.settings import Settings

LARGEST = 2**62  # row numbers and totals are int64
EXEMPLARS_PER_CLASS = 20  # protocol 1: E defaults to 20 per class of the scenario

_EXPECTED = "expected a number of samples (7000), bytes (bytes:64MB, bytes:64MiB) or growing:K (growing:20)"
_PREFIXES = "kmgt"
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(?:([kmgt])(i?)b|b)?", re.IGNORECASE | re.ASCII)
_COUNT = re.compile(r"\d+", re.ASCII)


class BudgetSpec(NamedTuple):
    """A parsed budget: a number of samples, of bytes, or of exemplars per old class."""

    kind: Literal["fixed", "bytes", "growing"]
    amount: int


class PhaseFacts(NamedTuple):
    """Classes and training samples of one phase, counted from the data."""

    classes: int
    samples: int


class PaperBudget(NamedTuple):
    """The paper's budget of a scenario: E = 20 samples per class, plus all new data of the largest phase."""

    exemplars: int
    largest_phase: int

    @property
    def total(self) -> int:
        return self.exemplars + self.largest_phase


@dataclass(frozen=True)
class Budget:
    """M and E of a scenario (protocol 1): a `fixed` M, or `growing` by k samples per old class."""

    kind: Literal["fixed", "growing"]
    amount: int  # M, or k
    exemplars: int = 0  # E of a fixed budget; derived for a growing one

    def total(self, old_classes: int, arriving: int) -> int:
        """Returns M_i of a phase i >= 1 with `arriving` training samples."""
        return self.amount if self.kind == "fixed" else self.amount * old_classes + arriving

    def exemplar_part(self, old_classes: int) -> int:
        """Returns E, the part of M_i that the conventional scheme gives to old classes."""
        return self.exemplars if self.kind == "fixed" else self.amount * old_classes


class MemorySettings(Settings):
    """How many samples are held, and which."""

    budget: StrictInt | str | None = Field(
        default=None,
        description="Samples held at once: 7000, bytes:64MB or growing:20; none: E + the largest phase.",
    )
    exemplars: int | None = Field(
        default=None,
        ge=1,
        le=LARGEST,
        description="Part of the budget that `static` gives to old classes; none: 20 per class.",
    )
    selection: str = Field(
        default="herding", description="Which samples of a class are kept (see `remem list selections`)."
    )

    @field_validator("budget")
    @classmethod
    def _is_readable(cls, budget: int | str | None) -> int | str | None:
        parse_budget(budget)
        return budget


def paper_budget(phases: Sequence[PhaseFacts]) -> PaperBudget:
    """The default of every run, and what any other budget is compared with."""
    classes = sum(phase.classes for phase in phases)
    return PaperBudget(EXEMPLARS_PER_CLASS * classes, max((phase.samples for phase in phases[1:]), default=0))


def budget_in_words(budget: Budget, paper: PaperBudget) -> str:
    """M and E for people; what is not the paper's is said."""
    if budget.kind == "growing":
        return f"{budget.amount} samples per old class and all new data"
    usual = f"E = {paper.exemplars} and {paper.largest_phase} new samples of the largest phase"
    if budget.amount == paper.total:
        words = f"M = {budget.amount} samples, the paper's budget ({usual})"
    else:
        words = f"M = {budget.amount} samples, not the paper's {paper.total} ({usual})"
    if budget.exemplars != paper.exemplars:
        words += f"; E = {budget.exemplars}"
    if budget.exemplars > budget.amount // 2:
        words += f"; static keeps half of M, {budget.amount // 2}, for old classes"
    return words


def parse_budget(text: str | int | None) -> BudgetSpec | None:
    """Parses `7000`, `bytes:64MB` or `growing:20`. None stays None: `resolve` then uses the default."""
    if text is None:
        return None
    kind, colon, amount = str(text).strip().partition(":")
    spec: BudgetSpec | None = None
    if not colon and _COUNT.fullmatch(kind):
        spec = BudgetSpec("fixed", int(kind))
    elif kind == "growing" and _COUNT.fullmatch(amount):
        spec = BudgetSpec("growing", int(amount))
    elif kind == "bytes" and (size := _SIZE.fullmatch(amount)):
        number, prefix, binary = size.groups()
        power = _PREFIXES.index(prefix.lower()) + 1 if prefix else 0
        spec = BudgetSpec("bytes", int(Fraction(number) * (1024 if binary else 1000) ** power))
    if spec is None or not 1 <= spec.amount < LARGEST:
        raise InputError(f"budget: '{text}' is not a budget; {_EXPECTED}")
    return spec


def resolve(spec: BudgetSpec | None, exemplars: int | None, phases: Sequence[PhaseFacts], *, row_bytes: int) -> Budget:
    """Computes M and E for these phases. Refuses a budget with less than one sample per class."""
    if exemplars is not None and exemplars < 1:
        raise InputError(f"exemplars: got {exemplars}, expected a whole number of at least 1")
    if spec is not None and spec.kind == "growing":
        if exemplars is not None:
            raise InputError(f"exemplars: got {exemplars}, but growing:{spec.amount} sets them; give one of the two")
        budget = Budget("growing", spec.amount)
    else:
        paper = paper_budget(phases)
        part = paper.exemplars if exemplars is None else exemplars
        budget = Budget("fixed", _fixed_total(spec, part + paper.largest_phase, row_bytes), part)
    for index in range(1, len(phases)) if budget.kind == "growing" else [len(phases) - 1]:
        seen = sum(phase.classes for phase in phases[: index + 1])
        total = budget.total(seen - phases[index].classes, phases[index].samples)
        if total < seen:
            origin = f" ({spec.amount} bytes of {row_bytes} a sample)" if spec and spec.kind == "bytes" else ""
            raise InputError(
                f"budget: {total} samples{origin} are less than one for each of the {seen} classes "
                f"of phases 0 to {index}"
            )
    return budget


def _fixed_total(spec: BudgetSpec | None, default: int, row_bytes: int) -> int:
    if spec is None:
        return default
    return spec.amount // row_bytes if spec.kind == "bytes" else spec.amount
