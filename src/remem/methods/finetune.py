"""`finetune`: cross-entropy on the held samples; without replay, the lower bound in every table."""

from pydantic import Field
from torch import Tensor

from remem.methods.losses import Reduction, classify
from remem.methods.method import Method, MethodEntry, PhaseFacts
from remem.methods.settings import MethodSettings
from remem.methods.stage import Losses, Objective
from remem.nets.base import Output
from remem.nets.network import Network


class FinetuneMethodSettings(MethodSettings):
    """Settings of `finetune`."""

    name: str = "finetune"
    replay: bool = Field(default=True, description="Whether exemplars of old classes are kept.")


class Finetune(Method):
    """Cross-entropy only."""

    asks_teacher = False
    phase0 = "cross-entropy"
    per_sample = True

    def __init__(self, settings: FinetuneMethodSettings) -> None:
        self.replay = "budget" if settings.replay else "none"

    def objective(self, facts: PhaseFacts, network: Network) -> Objective:
        def losses(output: Output, labels: Tensor, teacher: Output | None, *, reduction: Reduction = "mean") -> Losses:
            return {"classify": classify(output.logits, labels, reduction)}

        return losses


ENTRY = MethodEntry(
    "cross-entropy on the held samples; method.replay=false gives the lower bound",
    FinetuneMethodSettings,
    Finetune,
    replay=("budget", "none"),
)
