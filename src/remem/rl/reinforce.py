"""REINFORCE for policies with probabilities: Eq. 5 and 6, Algorithm 1, lines 20-22. Uses no data, model or episode."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from remem.policies.network import PolicyNetwork
from remem.rl.settings import ReinforceSettings


@dataclass(frozen=True)
class Run:
    """One run of a task: the choices of phases 1..N, and the rewards of phases 0..N."""

    task: str
    choices: tuple[Any, ...]
    rewards: tuple[float, ...]

    @property
    def total(self) -> float:
        """R, the undiscounted sum of all rewards."""
        return sum(self.rewards)


class MovingAverage:
    """The paper's baseline b: a moving average of earlier rewards, initialised with the first epoch's mean.

    Sums over different numbers of phases are not comparable, so each N has its own average.
    """

    def __init__(self, decay: float) -> None:
        self._decay = decay
        self.values: dict[int, float] = {}  # by the number of rewards, N + 1

    def of(self, runs: Sequence[Run]) -> list[float]:
        for length in {len(run.rewards) for run in runs} - self.values.keys():
            totals = [run.total for run in runs if len(run.rewards) == length]
            self.values[length] = sum(totals) / len(totals)
        return [self.values[len(run.rewards)] for run in runs]

    def update(self, runs: Sequence[Run]) -> None:
        """Updates the averages after an epoch, in run order (protocol 4)."""
        for run in runs:
            value = self.values.get(len(run.rewards))
            if value is not None:
                self.values[len(run.rewards)] = self._decay * value + (1 - self._decay) * run.total


def leave_one_out(runs: Sequence[Run]) -> list[float]:
    """Returns the mean reward of the other runs of the same task, for each run. A single run is its own baseline."""
    baselines = []
    for run in runs:
        others = [other.total for other in runs if other.task == run.task and other is not run]
        baselines.append(sum(others) / len(others) if others else run.total)
    return baselines


def objective(policy: PolicyNetwork, runs: Sequence[Run], baselines: Sequence[float]) -> Tensor:
    """Returns the mean over runs of (R - b) log p(actions), whose gradient is Eq. 6 (Eq. 5)."""
    owners = [index for index, run in enumerate(runs) for _ in run.choices]
    log_probs = policy.log_prob([choice for run in runs for choice in run.choices])
    per_run = log_probs.new_zeros(len(runs)).index_add(0, torch.tensor(owners, dtype=torch.int64), log_probs)
    gains = per_run.new_tensor([run.total - b for run, b in zip(runs, baselines, strict=True)])
    return (gains * per_run).mean()


class Update(NamedTuple):
    """Statistics of one policy update, for logs and trackers."""

    loss: float  # the negative objective, including the entropy bonus
    entropy: float  # mean over the visited states, in nats
    grad_norm: float


class Reinforce:
    """Updates a policy epoch by epoch (lines 20-22). `state()` is everything needed to resume."""

    def __init__(self, policy: PolicyNetwork, settings: ReinforceSettings) -> None:
        self.policy = policy
        self._settings = settings
        self._average = MovingAverage(settings.decay)
        eta, phi = policy.parameter_groups()
        self._optimizer = torch.optim.Adam(
            [{"params": eta, "lr": settings.lr_eta}, {"params": phi, "lr": settings.lr_phi}]
        )

    def step(self, runs: Sequence[Run]) -> Update:
        """Updates both levels with the K x Z runs of an epoch (lines 20-22)."""
        settings = self._settings
        baselines = leave_one_out(runs) if settings.baseline == "leave-one-out" else self._average.of(runs)
        gain = objective(self.policy, runs, baselines)
        entropy = self.policy.entropy([choice for run in runs for choice in run.choices]).mean()
        if settings.entropy:
            gain = gain + settings.entropy * entropy
        self._optimizer.zero_grad()
        (-gain).backward()
        norms = [parameter.grad.norm() for parameter in self.policy.parameters() if parameter.grad is not None]
        self._optimizer.step()
        self._average.update(runs)
        return Update(loss=-gain.item(), entropy=entropy.item(), grad_norm=torch.stack(norms).norm().item())

    def state(self) -> dict[str, Tensor]:
        """Returns weights, optimiser moments and moving averages by name."""
        tensors = {f"policy/{name}": value.detach().clone() for name, value in self.policy.state_dict().items()}
        for place, moments in self._optimizer.state_dict()["state"].items():
            tensors |= {f"adam/{place}/{name}": value.detach().clone() for name, value in moments.items()}
        for length, value in self._average.values.items():
            tensors[f"average/{length}"] = torch.tensor(value, dtype=torch.float64)
        return tensors

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restores the result of `state()`."""
        weights = {name.removeprefix("policy/"): v for name, v in state.items() if name.startswith("policy/")}
        self.policy.load_state_dict(weights)
        tree = self._optimizer.state_dict()
        for name, value in state.items():
            if name.startswith("adam/"):
                _, place, moment = name.split("/")
                tree["state"].setdefault(int(place), {})[moment] = value.clone()
        self._optimizer.load_state_dict(tree)
        averages = {name.removeprefix("average/"): v for name, v in state.items() if name.startswith("average/")}
        self._average.values = {int(length): float(value) for length, value in averages.items()}
