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

_EXPECTED = "expected a number of samples (7000), bytes (2MB, 64MiB, bytes:64MB) or growing:K (growing:20)"
_PREFIXES = "kmgt"
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(?:([kmgt])(i?)b|b)?", re.IGNORECASE | re.ASCII)
_COUNT = re.compile(r"\d+", re.ASCII)


Sizes = tuple[tuple[int, ...], ...]  # bytes of one sample by rung: one number, or one for each phase


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
    """M and E of a scenario (protocol 1, 6): a `fixed` M, `bytes`, or `growing` by k samples per old class."""

    kind: Literal["fixed", "growing", "bytes"]
    amount: int  # M, B or k
    exemplars: int = 0  # E; derived for a growing budget
    sizes: Sizes = ((1,),)  # of one sample in bytes, by rung of the ladder; only bytes depend on it

    def total(self, old_classes: int, arriving: int, *, phase: int = 1, rung: int = 0) -> int:
        """Returns M_i of a phase i >= 1 with `arriving` training samples, stored at this rung."""
        if self.kind == "bytes":
            return self.amount // self.size(rung, phase)
        return self.amount if self.kind == "fixed" else self.amount * old_classes + arriving

    def exemplar_part(self, old_classes: int) -> int:
        """Returns E, the part of M_i that the conventional scheme gives to old classes."""
        return self.amount * old_classes if self.kind == "growing" else self.exemplars

    def size(self, rung: int, phase: int) -> int:
        """Bytes of one sample: of every one, or on average over phases 0..i where codes differ in size."""
        sizes = self.sizes[rung]
        return sizes[min(phase, len(sizes) - 1)]

    @property
    def rungs(self) -> int:
        return len(self.sizes)

    @property
    def bytes(self) -> int | None:
        """B, the most bytes that may be held at once; None if samples are counted."""
        return self.amount if self.kind == "bytes" else None

    @property
    def setting(self) -> int | str:
        """As the setting `memory.budget`."""
        if self.kind == "fixed":
            return self.amount
        return f"{self.amount}B" if self.kind == "bytes" else f"growing:{self.amount}"


class MemorySettings(Settings):
    """How many samples are held, and which."""

    budget: StrictInt | str | None = Field(
        default=None,
        description="What is held at once: 7000 samples, 2MB as stored, or growing:20; none: E + the largest phase.",
    )
    codec: str = Field(
        default="raw",
        description="How samples are stored (see `remem list codecs`); `ladder` or a list: the policy chooses.",
    )
    codec_phase0: bool = Field(
        default=False, description="Store and train phase 0 by the codec, too; only if there is one codec."
    )
    equal_steps: bool = Field(
        default=False,
        description="Train as many steps after phase 0 as raw samples of the same bytes, so fewer epochs with a codec.",
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
    if budget.kind == "bytes":
        return _bytes_in_words(budget, paper)
    usual = f"E = {paper.exemplars} and {paper.largest_phase} new samples of the largest phase"
    if budget.amount == paper.total:
        words = f"M = {budget.amount} samples, the paper's budget ({usual})"
    else:
        words = f"M = {budget.amount} samples, not the paper's {paper.total} ({usual})"
    if budget.exemplars != paper.exemplars:
        words += f"; E = {budget.exemplars}"
    half = budget.amount // 2
    if budget.exemplars > half and paper.largest_phase > budget.amount - half:
        words += f"; static keeps half of M, {half}, for old classes"
    return words


def _bytes_in_words(budget: Budget, paper: PaperBudget) -> str:
    counts = sorted({budget.amount // size for sizes in budget.sizes for size in sizes})
    samples = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    about = "about " if max(map(len, budget.sizes)) > 1 else ""
    words = f"B = {budget.amount} bytes, {about}{samples} samples; the paper's M is {paper.total}"
    return words if budget.exemplars == paper.exemplars else f"{words}; E = {budget.exemplars}"


def parse_budget(text: str | int | None) -> BudgetSpec | None:
    """Parses `7000`, `64MB`, `bytes:64MB` or `growing:20`. None stays None: `resolve` then uses the default."""
    if text is None:
        return None
    kind, colon, amount = str(text).strip().partition(":")
    spec: BudgetSpec | None = None
    if not colon and _COUNT.fullmatch(kind):
        spec = BudgetSpec("fixed", int(kind))
    elif kind == "growing" and _COUNT.fullmatch(amount):
        spec = BudgetSpec("growing", int(amount))
    elif (size := _SIZE.fullmatch(amount if kind == "bytes" else f"{kind}{colon}{amount}")) and (
        kind == "bytes" or kind[-1] in "bB"
    ):
        number, prefix, binary = size.groups()
        power = _PREFIXES.index(prefix.lower()) + 1 if prefix else 0
        spec = BudgetSpec("bytes", int(Fraction(number) * (1024 if binary else 1000) ** power))
    if spec is None or not 1 <= spec.amount < LARGEST:
        raise InputError(f"budget: '{text}' is not a budget; {_EXPECTED}")
    return spec


def resolve(
    spec: BudgetSpec | None,
    exemplars: int | None,
    phases: Sequence[PhaseFacts],
    *,
    row_bytes: int,
    sizes: Sizes | None = None,
) -> Budget:
    """Computes M and E for these phases. Refuses a budget with less than one sample per class.

    `row_bytes` is the size of a sample as it is. `sizes` are those at the rungs of the ladder.
    """
    if exemplars is not None and exemplars < 1:
        raise InputError(f"exemplars: got {exemplars}, expected a whole number of at least 1")
    sizes = ((row_bytes,),) if sizes is None else sizes
    if len(sizes) > 1 and spec is not None and spec.kind != "bytes":
        raise InputError(f"budget: {spec.amount} samples given, but several codecs to choose from; expected bytes, 2MB")
    if spec is not None and spec.kind == "growing":
        if exemplars is not None:
            raise InputError(f"exemplars: got {exemplars}, but growing:{spec.amount} sets them; give one of the two")
        budget = Budget("growing", spec.amount)
    else:
        paper = paper_budget(phases)
        part = paper.exemplars if exemplars is None else exemplars
        total = part + paper.largest_phase
        if spec is None and len(sizes) > 1:  # as many bytes as this many samples take as they are
            spec = BudgetSpec("bytes", total * row_bytes)
        if spec is not None and spec.kind == "bytes":
            budget = Budget("bytes", spec.amount, part, sizes)
        else:
            budget = Budget("fixed", total if spec is None else spec.amount, part)
    require_a_sample_per_class(budget, phases)
    return budget


def require_a_sample_per_class(budget: Budget, phases: Sequence[PhaseFacts]) -> None:
    for index in range(1, len(phases)) if budget.kind != "fixed" else [len(phases) - 1]:
        seen = sum(phase.classes for phase in phases[: index + 1])
        old, rung = seen - phases[index].classes, budget.rungs - 1
        total = max(budget.total(old, phases[index].samples, phase=index, rung=place) for place in range(rung + 1))
        if total < seen:
            origin = ""
            if budget.kind == "bytes":
                origin = f" ({budget.amount} bytes of {budget.size(rung, index)} a sample)"
            raise InputError(
                f"budget: {total} samples{origin} are less than one for each of the {seen} classes "
                f"of phases 0 to {index}"
            )
