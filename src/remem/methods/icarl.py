"""`icarl`: distillation and nearest-mean readout (Rebuffi et al.); softmax as in the RMM tables, or sigmoid."""

from typing import Literal

from pydantic import Field
from torch import Tensor

from remem.methods.losses import Reduction, classify, distil, sigmoid_targets
from remem.methods.method import Method, MethodEntry, PhaseFacts, Readout
from remem.methods.settings import MethodSettings
from remem.methods.stage import Losses, Objective
from remem.nets.base import Output
from remem.nets.network import Network
from remem.nets.settings import HeadSettings


class IcarlSettings(MethodSettings):
    """Settings of `icarl`."""

    name: str = "icarl"
    loss: Literal["softmax", "sigmoid"] = Field(
        default="softmax", description="Cross-entropy over all classes (softmax) or for each class (sigmoid)."
    )
    temperature: float = Field(default=2.0, gt=0, description="Temperature of the distillation.")
    weight: float = Field(default=1.0, ge=0, description="Weight of the distillation.")
    head: Literal["linear", "cosine"] = Field(default="linear", description="Classification head.")


class Icarl(Method):
    """Classification and distillation on exemplars and new data; predicts the class with the nearest mean."""

    readout: Readout = "nme"
    per_sample = True

    def __init__(self, settings: IcarlSettings) -> None:
        self.head = HeadSettings(name=settings.head)
        self.phase0 = "cross-entropy" if settings.loss == "softmax" else "sigmoid"
        self._settings = settings

    def objective(self, facts: PhaseFacts, network: Network) -> Objective:
        settings = self._settings

        def sigmoid(output: Output, labels: Tensor, teacher: Output | None, *, reduction: Reduction = "mean") -> Losses:
            advice = None if teacher is None else teacher.logits
            return {"sigmoid": sigmoid_targets(output.logits, labels, advice, reduction)}

        def softmax(output: Output, labels: Tensor, teacher: Output | None, *, reduction: Reduction = "mean") -> Losses:
            terms = {"classify": classify(output.logits, labels, reduction)}
            if teacher is not None:
                terms["distil"] = settings.weight * distil(
                    output.logits, teacher.logits, settings.temperature, reduction
                )
            return terms

        return sigmoid if settings.loss == "sigmoid" else softmax


ENTRY = MethodEntry("cross-entropy and distillation, nearest-mean readout", IcarlSettings, Icarl)
