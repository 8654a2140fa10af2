"""The three-level policy: first how exactly samples are stored, then the two levels of the paper (protocol 6).

Its state has a third number, the rung of the ladder of codecs. The paper's two-level policy is in rmm.py.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from remem.action import Action, State
from remem.policies.rmm import Choice, PolicySettings, TwoLevelPolicy, pick, spread

STEPS = (0, 1)  # from phase 2 on: stay, or one rung down


class CodecChoice(NamedTuple):
    """One decision of all three levels with everything that its log-probability depends on."""

    vector: tuple[float, ...]  # s_i and the rung of phase i-1
    first: bool  # phase 1 has a head of its own
    feasible: tuple[bool, ...]  # over all rungs, or over STEPS
    codec: int | None  # place among them; None where nothing was feasible
    levels: Choice  # of the other two levels, which know the chosen rung


class ThreeLevelPolicy(nn.Module):
    """pi_kappa chooses the rung; pi_eta and pi_phi then see it as a third input. It starts uniform."""

    def __init__(self, rungs: int, settings: PolicySettings | None = None, *, seed: int = 0) -> None:
        super().__init__()
        hidden = (PolicySettings() if settings is None else settings).hidden
        self.settings, self.rungs = PolicySettings(hidden=hidden, levels=3), rungs
        inputs = len(State.highest) + 1
        self.levels = TwoLevelPolicy(PolicySettings(hidden=hidden), seed=seed, inputs=inputs)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed + 1)
            layer = nn.Linear(inputs, hidden)
            spread(layer)
            self.kappa = nn.Sequential(layer, nn.Tanh())
            self.kappa_first, self.kappa_change = nn.Linear(hidden, rungs), nn.Linear(hidden, len(STEPS))
        for head in (self.kappa_first, self.kappa_change):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)

    def parameter_groups(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """Parameters that are trained with the learning rates of level 1 and of level 2."""
        eta, phi = self.levels.parameter_groups()
        kappa = [*self.kappa.parameters(), *self.kappa_first.parameters(), *self.kappa_change.parameters()]
        return [*kappa, *eta], phi

    def choose(self, state: State, rng: np.random.Generator | None = None) -> tuple[Action, CodecChoice]:
        """An action for a state: sampled, or without `rng` the most probable feasible one; ties to the exact rung."""
        first = state.phase == 1
        options = list(range(self.rungs)) if first else [state.rung + step for step in STEPS]
        reachable = state.reachable_rungs
        feasible = tuple(option in reachable for option in options)
        vector, codec, rung = (*state.vector(), state.depth), None, reachable[0]
        if any(feasible):
            blank = CodecChoice(vector, first, feasible, None, _NOTHING)
            with torch.no_grad():
                codec = pick(self._codec([blank])[0], options, state.rung, rng)
            rung = options[codec]
        action, levels = self.levels.choose(state.at(rung), rng, extra=(rung / max(1, len(state.rungs) - 1),))
        chosen = Action(action.old_tenths, action.level2_tenths, rung)
        return chosen, CodecChoice(vector, first, feasible, codec, levels)

    def log_prob(self, choices: Sequence[CodecChoice]) -> Tensor:
        """log pi_kappa + log pi_eta + log pi_phi of every choice (n,); a level without a free choice counts 0."""
        if not choices:
            return torch.zeros(0)
        index = torch.tensor([choice.codec or 0 for choice in choices])
        chosen = self._codec(choices).gather(1, index[:, None])[:, 0]
        free = torch.tensor([choice.codec is not None for choice in choices])
        rung = torch.where(free, chosen, torch.zeros_like(chosen))
        return rung + self.levels.log_prob([choice.levels for choice in choices])

    def entropy(self, choices: Sequence[CodecChoice]) -> Tensor:
        """Entropy of all levels in the states of some choices, in nats (n,)."""
        log_probs = self._codec(choices)
        none = log_probs.isinf()
        terms = torch.where(none, 0.0, -log_probs.exp() * log_probs.masked_fill(none, 0.0))
        free = torch.tensor([choice.codec is not None for choice in choices])
        return torch.where(free, terms.sum(1), 0.0) + self.levels.entropy([choice.levels for choice in choices])

    def _codec(self, choices: Sequence[CodecChoice]) -> Tensor:
        """Masked log-probabilities (n, rungs); steps fill the first two places."""
        width = max(self.rungs, len(STEPS))
        hidden = self.kappa(torch.tensor([choice.vector for choice in choices], dtype=self.kappa_first.weight.dtype))
        heads = (
            nn.functional.pad(head(hidden), (0, width - head.out_features))
            for head in (self.kappa_first, self.kappa_change)
        )
        first, change = heads
        logits = torch.where(torch.tensor([[choice.first] for choice in choices]), first, change)
        mask = torch.tensor([[*c.feasible, *(False,) * (width - len(c.feasible))] for c in choices])
        allowed = mask | ~mask.any(1, keepdim=True)  # a row without a choice keeps a gradient; it counts 0 anyway
        return logits.masked_fill(~allowed, -torch.inf).log_softmax(1)


_NOTHING = Choice((), True, (), None, None)
