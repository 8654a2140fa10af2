"""`lwf`: learning without forgetting (Li and Hoiem), with replay as in the tables of the RMM paper."""

from typing import Literal

from pydantic import Field
from torch import Tensor

from remem.methods.losses import Reduction, classify, distil
from remem.methods.method import Method, MethodEntry, PhaseFacts
from remem.methods.settings import MethodSettings
from remem.methods.stage import Losses, Objective
from remem.nets.base import Output
from remem.nets.network import Network
from remem.nets.settings import HeadSettings


class LwfSettings(MethodSettings):
    """Settings of `lwf`; the default weight of the distillation depends on `replay`."""

    name: str = "lwf"
    replay: bool = Field(default=True, description="Whether exemplars of old classes are kept.")
    temperature: float = Field(default=2.0, gt=0, description="Temperature of the distillation.")
    weight: float | None = Field(
        default=None,
        ge=0,
        description="Weight of the distillation; none: 1 with replay, as in the tables, and 3 without.",
    )
    head: Literal["linear", "cosine"] = Field(default="linear", description="Classification head.")


class Lwf(Method):
    """Cross-entropy and distillation of the old classes' logits; predicts with the network's head."""

    phase0 = "cross-entropy"
    per_sample = True

    def __init__(self, settings: LwfSettings) -> None:
        self.replay = "budget" if settings.replay else "none"
        self.head = HeadSettings(name=settings.head)
        self._settings = settings

    def objective(self, facts: PhaseFacts, network: Network) -> Objective:
        settings, old = self._settings, facts.old_classes
        weight = settings.weight if settings.weight is not None else (1.0 if settings.replay else 3.0)
        # Without exemplars, old classes have no positive samples: the cross-entropy covers new classes only.
        first = 0 if settings.replay else old

        def losses(output: Output, labels: Tensor, teacher: Output | None, *, reduction: Reduction = "mean") -> Losses:
            terms = {"classify": classify(output.logits[:, first:], labels - first, reduction)}
            if teacher is not None:
                terms["distil"] = weight * distil(output.logits, teacher.logits, settings.temperature, reduction)
            return terms

        return losses


ENTRY = MethodEntry("cross-entropy and distillation, CNN readout", LwfSettings, Lwf, replay=("budget", "none"))
