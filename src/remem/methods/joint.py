"""`joint`: all data of all seen classes in every phase, from fresh weights. The upper line, not a competitor."""

from remem.methods.finetune import Finetune, FinetuneMethodSettings
from remem.methods.method import METHODS, MethodEntry, MethodSettings


class JointSettings(MethodSettings):
    """Settings of `joint`."""

    name: str = "joint"


class Joint(Finetune):
    """Cross-entropy on everything; it holds more than any budget, and every output says so."""

    def __init__(self, settings: JointSettings) -> None:
        super().__init__(FinetuneMethodSettings())
        self.regime = "all"
        self.restarts = True


METHODS.add("joint", MethodEntry("all data of all seen classes: the upper line (oracle)", JointSettings, Joint))
