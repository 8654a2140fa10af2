"""The two-level policy written out with Python's own numbers, to compare the real one with."""

import math
from collections.abc import Sequence

import torch

from remem.action import CHANGES
from remem.policies.rmm import SHARES, Choice, TwoLevelPolicy


def plain_chances(policy: TwoLevelPolicy, choice: Choice) -> tuple[list[float], list[float]]:
    """Probabilities of every action of both levels, matrix by matrix; level 2 knows what level 1 chose."""
    options = SHARES if choice.first else CHANGES
    hidden = [math.tanh(v) for v in _linear(policy.eta[0], choice.vector)]
    logits = _linear(policy.eta_first if choice.first else policy.eta_change, hidden)
    masked = [v if ok else -math.inf for v, ok in zip(logits, choice.feasible, strict=True)]
    chosen = 0.0 if choice.level1 is None else options[choice.level1] / 10
    hidden = [math.tanh(v) for v in _linear(policy.phi[0], [*choice.vector, chosen])]
    return _softmax(masked), _softmax(_linear(policy.phi[2], hidden))


def plain_log_prob(policy: TwoLevelPolicy, choice: Choice) -> float:
    """The log-probability of both levels; one that was not free to choose counts 0."""
    level1, level2 = plain_chances(policy, choice)
    total = 0.0 if choice.level1 is None else math.log(level1[choice.level1])
    return total + (0.0 if choice.level2 is None else math.log(level2[choice.level2]))


def plain_entropy(policy: TwoLevelPolicy, choice: Choice) -> float:
    """The entropy of both levels in nats; one that was not free to choose counts 0."""
    levels = zip(plain_chances(policy, choice), (choice.level1, choice.level2), strict=True)
    return sum(-p * math.log(p) for chances, taken in levels if taken is not None for p in chances if p > 0)


def _linear(layer: torch.nn.Module, x: Sequence[float]) -> list[float]:
    assert isinstance(layer, torch.nn.Linear)
    weight, bias = layer.weight.tolist(), layer.bias.tolist()
    return [sum(w * v for w, v in zip(row, x, strict=True)) + b for row, b in zip(weight, bias, strict=True)]


def _softmax(logits: Sequence[float]) -> list[float]:
    """All zero where no action is feasible."""
    total = sum(math.exp(v) for v in logits)
    return [math.exp(v) / total if total else 0.0 for v in logits]
