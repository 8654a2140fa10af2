"""`POLICY@CODEC`: any policy, with all samples stored by one codec."""

from dataclasses import dataclass

from remem.action import Action, State
from remem.policies.policy import Policy, sampled


@dataclass(frozen=True)
class Coded:
    """Decides like another policy. Which codec it names decides how many samples a budget in bytes holds."""

    core: Policy
    codec: str

    @property
    def name(self) -> str:
        return f"{self.core.name}@{self.codec}"

    @property
    def oracle(self) -> bool:
        return self.core.oracle

    @property
    def codecs(self) -> tuple[str, ...]:
        return (self.codec,)

    def act(self, state: State) -> Action:
        return self.core.act(state)

    def sampling(self, seed: int) -> "Coded":
        return Coded(sampled(self.core, seed), self.codec)

    def provenance(self) -> dict[str, object]:
        return {**self.core.provenance(), "name": self.name, "codec": self.codec}


def split_codec(text: str) -> tuple[str, str | None]:
    """`fixed-0.7@ycc420-5` -> its policy and its codec; None where no codec is named."""
    policy, at, codec = text.rpartition("@")
    return (policy, codec) if at and policy else (text, None)
