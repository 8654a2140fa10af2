"""`lucir`: cosine head, less-forget constraint and margin ranking loss (Hou et al., CVPR 2019)."""

import math
from dataclasses import replace

from pydantic import Field
from torch import Tensor

from remem.methods.imprint import imprint_means
from remem.methods.losses import Reduction, classify, less_forget, rank_margin
from remem.methods.method import Describe, Method, MethodEntry, PhaseFacts
from remem.methods.settings import MethodSettings, TrainSettings
from remem.methods.stage import Losses, Objective, ParameterGroup, Stage, group
from remem.nets.base import Output
from remem.nets.network import Network
from remem.nets.settings import HeadSettings
from remem.types import Samples


class LucirSettings(MethodSettings):
    """Settings of `lucir`; the defaults are the published ones for CIFAR-100."""

    name: str = "lucir"
    less_forget: float = Field(
        default=5.0, ge=0, description="Weight of the less-forget constraint, lambda_base; 10 on ImageNet."
    )
    margin: float = Field(default=0.5, ge=0, description="Margin of the ranking loss.")
    top: int = Field(default=2, ge=1, description="How many new classes an exemplar is separated from.")
    scale: float = Field(default=1.0, gt=0, description="Initial value of the learned scale of the cosines.")
    freeze_old: bool = Field(default=True, description="Whether the head's weights of old classes stay fixed.")


class Lucir(Method):
    """Cross-entropy on scaled cosines, plus terms that preserve the features and margins of old classes."""

    phase0 = "cross-entropy"
    per_sample = True

    def __init__(self, settings: LucirSettings) -> None:
        self.head = HeadSettings(name="cosine", scale=settings.scale)
        self._settings = settings

    def begin(self, network: Network, facts: PhaseFacts, held: Samples, describe: Describe) -> None:
        imprint_means(network, facts, held, describe)

    def objective(self, facts: PhaseFacts, network: Network) -> Objective:
        settings, old = self._settings, facts.old_classes
        weight = settings.less_forget * math.sqrt(old / max(1, facts.new_classes))

        def losses(output: Output, labels: Tensor, teacher: Output | None, *, reduction: Reduction = "mean") -> Losses:
            terms = {"classify": classify(output.logits, labels, reduction)}
            if teacher is not None:
                terms["less_forget"] = weight * less_forget(output.features, teacher.features, reduction)
                terms["margin"] = rank_margin(
                    output.scores, labels, old, margin=settings.margin, top=settings.top, reduction=reduction
                )
            return terms

        return losses

    def stages(self, facts: PhaseFacts, network: Network, held: Samples, train: TrainSettings) -> list[Stage]:
        """`counted`: the margin loss is a mean over exemplars only, which processes that share a batch must know."""
        stages = super().stages(facts, network, held, train)
        return [replace(stage, counted={"margin": lambda labels: labels < facts.old_classes}) for stage in stages]

    def groups(self, facts: PhaseFacts, network: Network) -> tuple[ParameterGroup, ...]:
        frozen = network.head.old_parameters() if self._settings.freeze_old and facts.index > 0 else []
        kept = {id(parameter) for parameter in frozen}
        return group(parameter for parameter in network.parameters() if id(parameter) not in kept)


ENTRY = MethodEntry("cosine head, less-forget and margin ranking (Hou et al.)", LucirSettings, Lucir)
