"""A run that is ready to start."""

from dataclasses import dataclass

from torch import nn

from remem.codecs.table import RAW
from remem.data.scenario import Scenario
from remem.data.stored_codes import mean_sizes
from remem.memory.budget import Budget, PhaseFacts, budget_in_words, paper_budget
from remem.methods.method import Method
from remem.policies.policy import Policy
from remem.runs.config import RunConfig


@dataclass(frozen=True)
class Prepared:
    """All parts of a run, resolved and checked, before training."""

    config: RunConfig  # resolved
    scenario: Scenario
    budget: Budget
    method: Method
    policy: Policy
    module: nn.Module | None = None  # a user-defined backbone
    notes: tuple[str, ...] = ()  # messages for the user, besides those on the data
    ladder: tuple[str, ...] = (RAW,)  # codecs of held samples, from exact to coarse

    @property
    def sample_bytes(self) -> tuple[int, ...]:
        """Bytes of one stored sample at every rung: of each, or on average over all training samples."""
        return tuple(sizes[-1] for sizes in mean_sizes(self.scenario.bank, self.scenario.phases, self.ladder))

    @property
    def memory_in_words(self) -> str:
        """M and E, with the paper's budget where they differ from it; empty for methods that keep all data."""
        if self.method.replay == "all":
            return ""
        facts = [PhaseFacts(len(phase.classes), phase.arriving) for phase in self.scenario.phases]
        return budget_in_words(self.budget, paper_budget(facts))
