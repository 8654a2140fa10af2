"""Classification heads: linear, cosine, and proxies with local similarity.

Old and new classes have separate parameters, so a method freezes the old embeddings by not training that parameter. The
score of a class depends on the features and on that class's own parameters alone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remem.nets.settings import HeadSettings
from remem.registry import Registry


class Head(nn.Module):
    """Weight rows of the classes of earlier phases (`old`) and of this phase (`new`), both (classes, *row shape)."""

    def __init__(self, row: tuple[int, ...]) -> None:
        super().__init__()
        self.row = row
        self.old = nn.Parameter(torch.empty(0, *row))
        self.new = nn.Parameter(torch.empty(0, *row))

    @property
    def classes(self) -> int:
        return len(self.old) + len(self.new)

    def old_parameters(self) -> list[nn.Parameter]:
        """The parameters of earlier phases; a method that freezes old embeddings does not train these."""
        return [self.old]

    def new_parameters(self) -> list[nn.Parameter]:
        return [self.new]

    def grow(self, new_classes: int, generator: torch.Generator) -> None:
        """Appends `new` to `old` and creates rows for new classes, drawn from a CPU generator on any device."""
        fresh = self.fresh(new_classes, generator)
        self.old = nn.Parameter(torch.cat((self.old, self.new)).detach())
        self.new = nn.Parameter(fresh.to(self.old))

    def grow_to(self, old: int, new: int) -> None:
        """Resizes both parameters, to be filled by load_state_dict."""
        self.old = nn.Parameter(self.old.new_zeros(old, *self.row))
        self.new = nn.Parameter(self.old.new_zeros(new, *self.row))

    def keep(self, places: Sequence[int]) -> None:
        """Removes all rows but those at these places. If there were old classes, all that are left are old."""
        had_old = len(self.old) > 0
        for old, new in zip(self.old_parameters(), self.new_parameters(), strict=True):
            rows = torch.cat((old, new)).detach()[list(places)]
            kept = (rows, rows[:0]) if had_old else (rows[:0], rows)
            old.data, new.data = (part.clone() for part in kept)

    def imprint(self, rows: Tensor) -> None:
        """Sets the rows of the new classes."""
        if rows.shape != self.new.shape:
            raise ValueError(f"rows to imprint have shape {tuple(rows.shape)}, expected {tuple(self.new.shape)}")
        with torch.no_grad():
            self.new.copy_(rows)

    def fresh(self, classes: int, generator: torch.Generator) -> Tensor:
        raise NotImplementedError

    @staticmethod
    def prepare(features: Tensor) -> Tensor:
        """What `class_scores` takes of the features: here the features themselves."""
        return features

    @staticmethod
    def class_scores(prepared: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """Scores (..., n, C) of some classes, given `old_parameters`, `new_parameters` or both, concatenated.

        Leading dimensions stand for several heads of the same shape, as many in every argument.
        """
        raise NotImplementedError

    def scaled(self, scores: Tensor) -> Tensor:
        """The logits of these scores."""
        return scores

    def score(self, features: Tensor) -> tuple[Tensor, Tensor]:
        pairs = zip(self.old_parameters(), self.new_parameters(), strict=True)
        scores = self.class_scores(self.prepare(features), [torch.cat(pair).float() for pair in pairs])
        return scores, self.scaled(scores)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Maps features (n, d) to scores and logits, both (n, C), in float32 even under autocast."""
        if not torch.is_autocast_enabled(features.device.type):  # entering the context takes as long as the head
            return self.score(features.float())
        with torch.autocast(features.device.type, enabled=False):
            return self.score(features.float())


class LinearHead(Head):
    """Weight and bias; scores equal logits."""

    def __init__(self, width: int) -> None:
        super().__init__((width,))
        self.old_bias = nn.Parameter(torch.empty(0))
        self.new_bias = nn.Parameter(torch.empty(0))

    def old_parameters(self) -> list[nn.Parameter]:
        return [self.old, self.old_bias]

    def new_parameters(self) -> list[nn.Parameter]:
        return [self.new, self.new_bias]

    def grow(self, new_classes: int, generator: torch.Generator) -> None:
        super().grow(new_classes, generator)
        self.old_bias = nn.Parameter(torch.cat((self.old_bias, self.new_bias)).detach())
        self.new_bias = nn.Parameter(self.old_bias.new_zeros(new_classes))

    def grow_to(self, old: int, new: int) -> None:
        super().grow_to(old, new)
        self.old_bias = nn.Parameter(self.old_bias.new_zeros(old))
        self.new_bias = nn.Parameter(self.old_bias.new_zeros(new))

    def fresh(self, classes: int, generator: torch.Generator) -> Tensor:
        # Kaiming-uniform for a linear layer
        return uniform((classes, *self.row), math.sqrt(3 / self.row[-1]), generator)

    @staticmethod
    def class_scores(prepared: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        weights, biases = parameters
        if weights.dim() == 2:
            return F.linear(prepared, weights, biases)
        return torch.baddbmm(biases[:, None], prepared, weights.mT)


class ScaledHead(Head):
    """Scores of unit features; logits are scaled by one learned factor."""

    def __init__(self, row: tuple[int, ...], scale: float) -> None:
        super().__init__(row)
        self.scale = nn.Parameter(torch.tensor(scale))

    @staticmethod
    def prepare(features: Tensor) -> Tensor:
        return F.normalize(features, dim=-1)

    def scaled(self, scores: Tensor) -> Tensor:
        return self.scale.float() * scores


class CosineHead(ScaledHead):
    """LUCIR's classifier: scores are cosines, logits are scaled by one learned sigma."""

    def __init__(self, width: int, scale: float = 1.0) -> None:
        super().__init__((width,), scale)

    def fresh(self, classes: int, generator: torch.Generator) -> Tensor:
        return uniform((classes, *self.row), 1 / math.sqrt(self.row[-1]), generator)

    @staticmethod
    def class_scores(prepared: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        [rows] = parameters
        return prepared @ (F.normalize(rows) if rows.dim() == 2 else unit_rows(rows)).mT


class ProxyHead(ScaledHead):
    """PODNet's local similarity classifier: several proxies per class, logits scaled by one learned eta."""

    def __init__(self, width: int, proxies: int = 10, scale: float = 1.0) -> None:
        super().__init__((proxies, width), scale)

    def fresh(self, classes: int, generator: torch.Generator) -> Tensor:
        # Kaiming-normal for a linear layer
        return torch.randn(classes, *self.row, generator=generator) / math.sqrt(self.row[-1])

    @staticmethod
    def class_scores(prepared: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        [proxies] = parameters  # (..., C, k, d)
        if proxies.dim() == 4:
            units = unit_rows(proxies).transpose(1, 2)  # (R, k, C, d)
            scores: Tensor = LocalSimilarity.apply(prepared, units)
            return scores
        cosines = prepared @ F.normalize(proxies, dim=-1).flatten(0, 1).mT  # (n, C k)
        similarity = 2 * cosines.unflatten(-1, proxies.shape[:2]) - 2  # minus the squared distance of unit vectors
        mean: Tensor = (similarity.softmax(dim=-1) * similarity).sum(dim=-1)
        return mean


class LocalSimilarity(torch.autograd.Function):
    """The proxies' scores for many heads: features (R, n, d) and unit proxies (R, k, C, d) -> (R, n, C).

    A similarity is 2 cos - 2. The constant is left out until the end, and exponentials need no shift, since 2 cos lies
    between -2 and 2. Sums over k are fastest where classes are contiguous. Features are constant.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, units: Tensor) -> Tensor:
        doubled = torch.bmm(features, (2 * units).flatten(1, 2).mT).unflatten(2, units.shape[1:3])  # (R, n, k, C)
        powers = doubled.exp()
        mass = powers.sum(dim=2)
        weighted = doubled.mul_(powers)
        mean = weighted.sum(dim=2) / mass
        ctx.save_for_backward(features, powers, weighted, mass, mean)
        scores: Tensor = mean - 2
        return scores

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        features, powers, weighted, mass, mean = ctx.saved_tensors
        outer = 2 * gradient / mass
        slopes = (weighted * outer[:, :, None]).addcmul_(powers, (outer * (1 - mean))[:, :, None])
        return None, torch.bmm(slopes.flatten(2).mT, features).unflatten(1, slopes.shape[2:])


class UnitRows(torch.autograd.Function):
    """Normalises the last dimension, like `F.normalize`, with a backward pass of a third of its operations."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        lengths = rows.norm(dim=-1, keepdim=True).clamp_min_(1e-12)
        units: Tensor = rows / lengths
        ctx.save_for_backward(units, lengths)
        return units

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        units, lengths = ctx.saved_tensors
        along = (gradient * units).sum(dim=-1, keepdim=True)
        slopes: Tensor = torch.addcmul(gradient, units, along, value=-1).div_(lengths)
        return slopes


def unit_rows(rows: Tensor) -> Tensor:
    units: Tensor = UnitRows.apply(rows)
    return units


def uniform(shape: tuple[int, ...], bound: float, generator: torch.Generator) -> Tensor:
    return torch.empty(shape).uniform_(-bound, bound, generator=generator)


@dataclass(frozen=True)
class HeadEntry:
    """A registered head; `build` takes the settings and the number of features and returns a head without classes."""

    summary: str
    build: Callable[[HeadSettings, int], Head]


HEADS: Registry[HeadEntry] = Registry("head")
HEADS.add("linear", HeadEntry("weight and bias", lambda settings, width: LinearHead(width)))
HEADS.add("cosine", HeadEntry("cosines and one learned scale (LUCIR)", lambda s, width: CosineHead(width, s.scale)))
HEADS.add(
    "proxies",
    HeadEntry("local similarity to several proxies per class (PODNet)", lambda s, d: ProxyHead(d, s.proxies, s.scale)),
)
