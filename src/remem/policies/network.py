"""What policies with probabilities have in common, for learning them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from torch import Tensor, nn

from remem.action import Action, State


class PolicyNetwork(Protocol):
    """A network over states. Its choices carry everything that their log-probability depends on."""

    def choose(self, state: State, rng: np.random.Generator | None = None) -> tuple[Action, Any]: ...

    def log_prob(self, choices: Sequence[Any]) -> Tensor: ...

    def entropy(self, choices: Sequence[Any]) -> Tensor: ...

    def parameter_groups(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]: ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any: ...
