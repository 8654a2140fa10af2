"""`joint`: trains on all data of all seen classes in every phase, from new weights. An upper bound."""

from remem.methods.finetune import Finetune, FinetuneMethodSettings
from remem.methods.method import MethodEntry
from remem.methods.settings import MethodSettings


class JointSettings(MethodSettings):
    """Settings of `joint`."""

    name: str = "joint"


class Joint(Finetune):
    """Cross-entropy on all data; it exceeds any budget, and every output labels it an oracle."""

    def __init__(self, settings: JointSettings) -> None:
        super().__init__(FinetuneMethodSettings())
        self.replay = "all"
        self.restarts = True


ENTRY = MethodEntry("all data of all seen classes: the upper bound (oracle)", JointSettings, Joint, replay=("all",))
