"""`finetune`: plain cross-entropy on what is held; without replay the lower line of every table."""

from torch import Tensor

from remem.methods.losses import classify
from remem.methods.method import METHODS, Method, MethodEntry, MethodSettings, PhaseFacts
from remem.methods.stage import Losses, Objective
from remem.nets.contract import Output
from remem.nets.network import Network


class FinetuneMethodSettings(MethodSettings):
    """Settings of `finetune`."""

    name: str = "finetune"
    replay: bool = True


class Finetune(Method):
    """Cross-entropy and nothing else."""

    asks_teacher = False

    def __init__(self, settings: FinetuneMethodSettings) -> None:
        self.regime = "budget" if settings.replay else "none"

    def objective(self, facts: PhaseFacts, network: Network) -> Objective:
        def losses(output: Output, labels: Tensor, teacher: Output | None) -> Losses:
            return {"classify": classify(output.logits, labels)}

        return losses


METHODS.add(
    "finetune",
    MethodEntry(
        "cross-entropy on what is held; method.replay=false is the lower line", FinetuneMethodSettings, Finetune
    ),
)
