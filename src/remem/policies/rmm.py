"""The two-level policy of the paper (Sec. 4.1): memory between old and new, then between hard and easy classes.

Training is in rl/reinforce.py; it needs the `Choice` of every phase, `log_prob` and `entropy`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from remem.action import CHANGES, EVEN, Action, State

SHARES, SPLITS = Action.grid()  # level 1 in phase 1 (later: CHANGES of it), and level 2, in tenths
STEEPNESS = 12.0  # of hidden units at the start; with torch's 0.6 policies learn more slowly


class Choice(NamedTuple):
    """One decision with everything that its log-probability depends on."""

    vector: tuple[float, ...]  # s_i
    first: bool  # phase 1 has a head of its own
    feasible: tuple[bool, ...]  # over SHARES or CHANGES
    level1: int | None  # place in SHARES or CHANGES; None where nothing was feasible
    level2: int | None  # place in SPLITS; None where there was nothing to split


@dataclass(frozen=True)
class PolicySettings:
    """Shape of the two networks."""

    hidden: int = 32
    levels: int = 2  # 1: the harder half always gets as much as the easier one


class TwoLevelPolicy(nn.Module):
    """pi_eta and pi_phi, two fully connected layers each; output layers start at zero, so it starts uniform."""

    def __init__(
        self, settings: PolicySettings | None = None, *, seed: int = 0, inputs: int = len(State.highest)
    ) -> None:
        super().__init__()
        self.settings = PolicySettings() if settings is None else settings
        hidden = self.settings.hidden
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.eta = nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh())
            self.eta_first = nn.Linear(hidden, len(SHARES))
            self.eta_change = nn.Linear(hidden, len(CHANGES))
            self.phi = nn.Sequential(nn.Linear(inputs + 1, hidden), nn.Tanh(), nn.Linear(hidden, len(SPLITS)))
            for layer in (self.eta[0], self.phi[0]):
                assert isinstance(layer, nn.Linear)
                spread(layer)
        for layer in (self.eta_first, self.eta_change, self.phi[-1]):
            assert isinstance(layer, nn.Linear)
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def parameter_groups(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """Parameters that are trained with the learning rates of level 1 and of level 2."""
        eta = [*self.eta.parameters(), *self.eta_first.parameters(), *self.eta_change.parameters()]
        return eta, list(self.phi.parameters())

    def choose(
        self, state: State, rng: np.random.Generator | None = None, *, extra: tuple[float, ...] = ()
    ) -> tuple[Action, Choice]:
        """An action for a state: sampled, or without `rng` the most probable feasible one.

        `extra` are inputs besides the two numbers of the paper.
        """
        first = state.phase == 1
        options = SHARES if first else CHANGES
        base = 0 if first else state.old_tenths
        feasible = tuple(base + option in state.reachable for option in options)
        level1 = level2 = None
        blank = Choice((*state.vector(), *extra), first, feasible, None, None)
        with torch.no_grad():
            if any(feasible):
                level1 = pick(self._level1([blank])[0], [base + option for option in options], base or EVEN, rng)
            blank = blank._replace(level1=level1)
            if state.splits and self.settings.levels == 2:
                level2 = pick(self._level2([blank])[0], list(SPLITS), EVEN, rng)
        # Where nothing is feasible the old share is asked for again, and memory takes the nearest that it can hold.
        tenths = state.old_tenths if level1 is None else base + options[level1]
        action = Action(old_tenths=tenths, level2_tenths=EVEN if level2 is None else SPLITS[level2])
        return action, blank._replace(level2=level2)

    def log_prob(self, choices: Sequence[Choice]) -> Tensor:
        """log pi_eta + log pi_phi of every choice (n,); a level without a free choice counts 0."""
        if not choices:
            return torch.zeros(0)
        total = self._level1(choices).new_zeros(len(choices))
        for place, log_probs in ((3, self._level1(choices)), (4, self._level2(choices))):
            taken = [choice[place] for choice in choices]
            free = torch.tensor([value is not None for value in taken])
            index = torch.tensor([value or 0 for value in taken])
            chosen = log_probs.gather(1, index[:, None])[:, 0]
            total = total + torch.where(free, chosen, torch.zeros_like(chosen))
        return total

    def entropy(self, choices: Sequence[Choice]) -> Tensor:
        """Entropy of both levels in the states of some choices, in nats (n,)."""
        total = torch.zeros(())
        for place, log_probs in ((3, self._level1(choices)), (4, self._level2(choices))):
            terms = torch.where(
                log_probs.isinf(), 0.0, -log_probs.exp() * log_probs.masked_fill(log_probs.isinf(), 0.0)
            )
            free = torch.tensor([choice[place] is not None for choice in choices])
            total = total + torch.where(free, terms.sum(1), 0.0)
        return total

    def chances(self, choices: Sequence[Choice]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Probabilities of every action of both levels in the states of some choices, (n, 9) each."""
        with torch.no_grad():
            level1, level2 = self._level1(choices), self._level2(choices)
        return level1.double().exp().numpy(), level2.double().exp().numpy()

    def _level1(self, choices: Sequence[Choice]) -> Tensor:
        """Masked log-probabilities (n, 9); changes fill the first three places."""
        hidden = self.eta(self._vectors(choices))
        change = nn.functional.pad(self.eta_change(hidden), (0, len(SHARES) - len(CHANGES)))
        first = torch.tensor([[choice.first] for choice in choices])
        logits = torch.where(first, self.eta_first(hidden), change)
        mask = torch.tensor([[*c.feasible, *(False,) * (len(SHARES) - len(c.feasible))] for c in choices])
        # A row without feasible actions keeps all of them, so that its gradient is defined; it counts 0 anyway.
        allowed = mask | ~mask.any(1, keepdim=True)
        return logits.masked_fill(~allowed, -torch.inf).log_softmax(1)

    def _level2(self, choices: Sequence[Choice]) -> Tensor:
        """Log-probabilities (n, 9), given the state and the level-1 action that was taken."""
        actions = [(SHARES if c.first else CHANGES)[c.level1] / 10 if c.level1 is not None else 0.0 for c in choices]
        taken = torch.tensor(actions, dtype=self.eta_first.weight.dtype)[:, None]
        logits: Tensor = self.phi(torch.cat([self._vectors(choices), taken], dim=1))
        return logits.log_softmax(1)

    def _vectors(self, choices: Sequence[Choice]) -> Tensor:
        return torch.tensor([choice.vector for choice in choices], dtype=self.eta_first.weight.dtype)


def spread(layer: nn.Linear) -> None:
    """Steep hidden units with their turning points inside the range of states: inputs are fractions, a tenth apart.

    With torch's initialisation they can hardly tell an old share of 0.6 from one of 0.8. Some policies then learn one
    change for all states and take long to unlearn it (docs/reports/policy-learning.md, "Where learning starts").
    """
    with torch.no_grad():
        layer.weight.uniform_(-STEEPNESS, STEEPNESS)
        layer.bias.copy_(-(layer.weight * torch.rand_like(layer.weight)).sum(1))


def pick(log_probs: Tensor, values: Sequence[int], favourite: int, rng: np.random.Generator | None) -> int:
    """An index sampled by probability, or the most probable one; ties go to the value nearest to the favourite."""
    chances = log_probs[: len(values)].double().exp().numpy()
    if rng is not None:
        return int(rng.choice(len(values), p=chances / chances.sum()))
    best = np.flatnonzero(chances == chances.max())
    return min(best.tolist(), key=lambda place: (abs(values[place] - favourite), place))
