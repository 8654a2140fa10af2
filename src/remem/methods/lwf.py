"""`lwf`: learning without forgetting (Li and Hoiem), with the replay that all rows of the paper's tables have."""

from typing import Literal

from pydantic import Field
from torch import Tensor

from remem.methods.losses import classify, distil
from remem.methods.method import METHODS, Method, MethodEntry, MethodSettings, PhaseFacts
from remem.methods.stage import Losses, Objective
from remem.nets.contract import Output
from remem.nets.heads import HeadSettings
from remem.nets.network import Network


class LwfSettings(MethodSettings):
    """Settings of `lwf`; the weight of the distillation depends on replay unless it is given."""

    name: str = "lwf"
    replay: bool = True
    temperature: float = Field(default=2.0, gt=0)
    weight: float | None = Field(default=None, ge=0)  # 1 with replay (as in the tables), 3 without
    head: Literal["linear", "cosine"] = "linear"


class Lwf(Method):
    """Cross-entropy and distillation of the old classes' outputs, read out by the network's own head."""

    def __init__(self, settings: LwfSettings) -> None:
        self.regime = "budget" if settings.replay else "none"
        self.head = HeadSettings(name=settings.head)
        self._settings = settings

    def objective(self, facts: PhaseFacts, network: Network) -> Objective:
        settings, old = self._settings, facts.old_classes
        weight = settings.weight if settings.weight is not None else (1.0 if settings.replay else 3.0)
        # Without exemplars the old columns see no positive sample: the cross-entropy is over new classes alone.
        first = 0 if settings.replay else old

        def losses(output: Output, labels: Tensor, teacher: Output | None) -> Losses:
            terms = {"classify": classify(output.logits[:, first:], labels - first)}
            if teacher is not None:
                terms["distil"] = weight * distil(output.logits, teacher.logits, settings.temperature)
            return terms

        return losses


METHODS.add("lwf", MethodEntry("cross-entropy and distillation, CNN readout", LwfSettings, Lwf))
