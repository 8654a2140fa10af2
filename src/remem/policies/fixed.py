"""A fixed old share for all phases."""

import re
from dataclasses import dataclass

from remem.action import Action, State


@dataclass(frozen=True)
class Fixed:
    """`fixed-0.1` to `fixed-0.9`: the same old share in every phase."""

    old_tenths: int
    oracle: bool = False
    rung: int = 0  # of a ladder of codecs, while shares and codecs are compared

    @property
    def name(self) -> str:
        return f"fixed-0.{self.old_tenths}"

    def act(self, state: State) -> Action:
        return Action(old_tenths=self.old_tenths, rung=self.rung)

    def provenance(self) -> dict[str, object]:
        return {"name": self.name, "old_share": self.old_tenths / 10}


def fixed_meant(text: str) -> str | None:
    """The policy that `fixed-60`, `fixed-60%`, `fixed-6` or `fixed-.6` means; None for anything else."""
    match = re.fullmatch(r"fixed[-_ ]?(\d*[.,]?\d+)(%?)", text, re.ASCII)
    if match is None or len(text) > 20:
        return None
    digits, percent = match.groups()
    number = float(digits.replace(",", "."))
    whole = digits.isdigit() and not percent and 1 <= number < 10  # tenths
    share = number / 10 if whole else number / 100 if percent or number > 1 else number
    return Fixed(min(9, max(1, round(10 * share)))).name
