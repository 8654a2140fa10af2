"""`smooth`: cross-entropy with label smoothing, and features that stay close to the teacher's. An example method."""

import math

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from remem.methods.losses import less_forget
from remem.methods.method import Method, MethodEntry, PhaseFacts
from remem.methods.settings import MethodSettings
from remem.methods.stage import Losses, Objective
from remem.nets.base import Output
from remem.nets.network import Network


class SmoothSettings(MethodSettings):
    """Settings of `smooth`."""

    name: str = "smooth"
    smoothing: float = Field(default=0.1, ge=0, lt=1, description="Part of the label that is spread over all classes.")
    keep: float = Field(default=2.0, ge=0, description="Weight of the feature term, times sqrt(old / new classes).")


class Smooth(Method):
    """Two terms: cross-entropy with smoothed labels, and the distance of the features from the teacher's."""

    def __init__(self, settings: SmoothSettings) -> None:
        self._settings = settings

    def objective(self, facts: PhaseFacts, network: Network) -> Objective:
        settings = self._settings
        weight = settings.keep * math.sqrt(facts.old_classes / facts.new_classes)

        def losses(output: Output, labels: Tensor, teacher: Output | None) -> Losses:
            terms = {"classify": F.cross_entropy(output.logits, labels, label_smoothing=settings.smoothing)}
            if teacher is not None:
                terms["keep"] = weight * less_forget(output.features, teacher.features)
            return terms

        return losses


ENTRY = MethodEntry("smoothed labels and feature distillation (example)", SmoothSettings, Smooth)
