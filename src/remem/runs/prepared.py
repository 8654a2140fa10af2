"""A run that is ready to start."""

from dataclasses import dataclass

from torch import nn

from remem.data.scenario import Scenario
from remem.memory.budget import Budget
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
