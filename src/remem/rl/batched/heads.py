"""The heads of many runs as one module: every parameter has a first dimension over runs."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from remem.nets.heads import Head, ScaledHead
from remem.nets.network import Network


class StackedHead(nn.Module):
    """Copies of the parameters of heads of one kind and size, stacked; `unstack` writes them back."""

    old: nn.Parameter
    new: nn.Parameter
    scale: nn.Parameter

    def __init__(self, heads: Sequence[Head]) -> None:
        super().__init__()
        self._heads = tuple(heads)  # a tuple, so that torch does not register them as submodules
        for name, _ in heads[0].named_parameters():
            stacked = torch.stack([head.get_parameter(name).detach() for head in heads])
            self.register_parameter(name, nn.Parameter(stacked))
        self._old, self._new = self._named(heads[0].old_parameters()), self._named(heads[0].new_parameters())

    def unstack(self) -> None:
        """Copies all values back to the heads."""
        with torch.no_grad():
            for name, stacked in self.named_parameters():
                for head, value in zip(self._heads, stacked, strict=True):
                    head.get_parameter(name).copy_(value)

    def old_parameters(self) -> list[nn.Parameter]:
        return self._old

    def new_parameters(self) -> list[nn.Parameter]:
        return self._new

    def class_scores(self, prepared: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """Scores (R, n, C) of prepared features (R, n, d)."""
        return self._heads[0].class_scores(prepared, parameters)

    def scaled(self, scores: Tensor) -> Tensor:
        """The logits of scores (R, n, C) of the first R heads."""
        if not isinstance(self._heads[0], ScaledHead):
            return scores
        return self.scale[: len(scores), None, None] * scores

    def _named(self, parameters: Sequence[nn.Parameter]) -> list[nn.Parameter]:
        """The stacked versions of some parameters of the first head."""
        names = {id(parameter): name for name, parameter in self._heads[0].named_parameters()}
        return [self.get_parameter(names[id(parameter)]) for parameter in parameters]


class HeadOnly(nn.Module):
    """A network for methods that use nothing of it but the head; its features are frozen."""

    def __init__(self, head: Head | StackedHead) -> None:
        super().__init__()
        self.head = head

    @property
    def as_network(self) -> Network:
        return cast(Network, self)
