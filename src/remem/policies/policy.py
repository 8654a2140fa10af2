"""What a policy is: a function from states to actions that says where it comes from."""

from typing import Protocol, runtime_checkable

from remem.action import Action, State
from remem.errors import InputError


class Policy(Protocol):
    """State in, action out. A policy sees and changes nothing else."""

    @property
    def name(self) -> str: ...

    @property
    def oracle(self) -> bool:
        """Whether it saw data that no honest policy may see; marked wherever its numbers are printed."""

    def act(self, state: State) -> Action: ...

    def provenance(self) -> dict[str, object]:
        """Where it comes from, for `result.json`."""


@runtime_checkable
class ChoosesCodec(Protocol):
    """A policy that says how samples are stored."""

    @property
    def codecs(self) -> tuple[str, ...]:
        """The ladder that its actions refer to, or its only codec; empty if it leaves that to the settings."""


@runtime_checkable
class Sampler(Protocol):
    """A policy with action probabilities."""

    def sampling(self, seed: int) -> Policy:
        """The same policy with sampled actions."""


def sampled(policy: Policy, seed: int) -> Policy:
    """The policy with sampled actions; an error for one without probabilities."""
    if isinstance(policy, Sampler):
        return policy.sampling(seed)
    raise does_not_sample(policy.name)


def does_not_sample(name: str) -> InputError:
    """The error for a policy without probabilities."""
    return InputError(f"sample_actions: true given, but policy '{name}' has no probabilities; expected a learned one")
