"""REINFORCE for the two-level policy (Eq. 5 and 6, Algorithm 1 lines 20-22); knows no data, no model and no episode."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from remem.policies.rmm import Choice, TwoLevelPolicy


class ReinforceSettings(BaseModel):
    """Learning rates, epochs, and what rewards are compared with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: int = Field(default=10, ge=1)  # m
    rate_eta: float = Field(default=0.03, gt=0)  # beta_1
    rate_phi: float = Field(default=0.03, gt=0)  # beta_2
    baseline: Literal["average", "leave-one-out"] = "average"
    decay: float = Field(default=0.9, ge=0, lt=1)  # of the moving average
    entropy: float = Field(default=0.0, ge=0)  # bonus for undecided policies


@dataclass(frozen=True)
class Run:
    """One run of a task: what was chosen in phases 1..N, and the rewards of phases 0..N."""

    task: str
    choices: tuple[Choice, ...]
    rewards: tuple[float, ...]

    @property
    def total(self) -> float:
        """R: the sum of all rewards, not discounted."""
        return sum(self.rewards)


class MovingAverage:
    """b of the paper: the moving average of earlier rewards; it starts at the first epoch's mean."""

    def __init__(self, decay: float) -> None:
        self._decay = decay
        self.value: float | None = None

    def of(self, runs: Sequence[Run]) -> list[float]:
        if self.value is None:
            self.value = sum(run.total for run in runs) / len(runs)
        return [self.value] * len(runs)

    def update(self, runs: Sequence[Run]) -> None:
        """After the epoch, in run order (protocol 4)."""
        for run in runs:
            if self.value is not None:
                self.value = self._decay * self.value + (1 - self._decay) * run.total


def leave_one_out(runs: Sequence[Run]) -> list[float]:
    """For each run the mean reward of the other runs of its task; a task's only run is compared with itself."""
    baselines = []
    for run in runs:
        others = [other.total for other in runs if other.task == run.task and other is not run]
        baselines.append(sum(others) / len(others) if others else run.total)
    return baselines


def objective(policy: TwoLevelPolicy, runs: Sequence[Run], baselines: Sequence[float]) -> Tensor:
    """What ascent climbs: the mean over runs of (R - b) times the log-probability of the run's actions (Eq. 5)."""
    owners = [index for index, run in enumerate(runs) for _ in run.choices]
    log_probs = policy.log_prob([choice for run in runs for choice in run.choices])
    per_run = log_probs.new_zeros(len(runs)).index_add(0, torch.tensor(owners, dtype=torch.int64), log_probs)
    gains = per_run.new_tensor([run.total - b for run, b in zip(runs, baselines, strict=True)])
    return (gains * per_run).mean()


def learn(
    policy: TwoLevelPolicy,
    play: Callable[[int], Sequence[Run]],
    settings: ReinforceSettings,
    report: Callable[[int, Sequence[Run]], None] = lambda epoch, runs: None,
) -> None:
    """m epochs of Algorithm 1; `play` makes an epoch's K x Z runs with the policy as it is."""
    eta = [*policy.eta.parameters(), *policy.eta_first.parameters(), *policy.eta_change.parameters()]
    groups = [
        {"params": eta, "lr": settings.rate_eta},
        {"params": list(policy.phi.parameters()), "lr": settings.rate_phi},
    ]
    optimizer = torch.optim.Adam(groups)
    average = MovingAverage(settings.decay)
    for epoch in range(settings.epochs):  # line 4
        runs = play(epoch)  # lines 5-19
        baselines = leave_one_out(runs) if settings.baseline == "leave-one-out" else average.of(runs)
        gain = objective(policy, runs, baselines)  # lines 20-21
        if settings.entropy:
            gain = gain + settings.entropy * policy.entropy([choice for run in runs for choice in run.choices]).mean()
        optimizer.zero_grad()
        (-gain).backward()
        optimizer.step()  # line 22
        average.update(runs)
        report(epoch, runs)
