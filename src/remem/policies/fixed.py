"""A fixed old share for all phases."""

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
