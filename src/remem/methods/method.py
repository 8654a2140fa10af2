"""What a method is: a head, a readout, and the Stages of a phase. Methods hold no weights and no data."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from torch import Tensor

from remem.methods.describe import Described
from remem.methods.settings import FinetuneSettings, TrainSettings
from remem.methods.stage import Objective, ParameterGroup, Stage, whole
from remem.nets.heads import HeadSettings
from remem.nets.network import Network
from remem.registry import Registry
from remem.seeding import Streams
from remem.settings import Settings
from remem.types import IntArray, Samples, Values

Describe = Callable[[Samples], Described]
"""Features and logits of held samples under the current network, evaluation transform."""

Readout = Literal["cnn", "nme"]
Regime = Literal["budget", "none", "all"]
"""What of the past is held: a share of the budget, nothing (exemplar-free), or everything (the upper line)."""


class MethodSettings(Settings):
    """Settings that every method has."""

    name: str = "icarl"


@dataclass(frozen=True)
class Exemplars:
    """What is about to be kept, and all that is still held to judge it by."""

    kept_new: Samples  # of the phase that just ended, best first in every class
    kept_old: Samples  # of all phases before it
    latest: Samples  # everything held of the phase that just ended
    values: Callable[[Samples], Values]  # as stored: (n, h, w, c) uint8 or (n, d) float32
    show: Callable[[Tensor], Tensor]  # stored values, also as floats -> inputs of the network
    replace: Callable[[Samples, Values], IntArray]  # new values take the places of samples -> their row numbers


@dataclass(frozen=True)
class PhaseFacts:
    """What a method may know about the phase that it plans."""

    index: int
    old_classes: int
    new_classes: int
    streams: Streams = field(default=Streams(0))

    @property
    def new_labels(self) -> range:
        return range(self.old_classes, self.old_classes + self.new_classes)


class Method:
    """Base of all methods: cross-entropy on what is held, one main stage, all parameters."""

    head: HeadSettings = HeadSettings(name="linear")
    readout: Readout = "cnn"
    regime: Regime = "budget"
    restarts: bool = False  # train every phase from fresh weights
    asks_teacher: bool = True  # whether the loss looks at the model of the phase before

    def expand(self, network: Network) -> None:
        """Once, before phase 1 trains: a method may give the network more parts."""

    def begin(self, network: Network, facts: PhaseFacts, held: Samples, describe: Describe) -> None:
        """After the head has grown and before training, e.g. to imprint the new rows."""

    def objective(self, facts: PhaseFacts, network: Network) -> Objective:
        raise NotImplementedError  # every method has its own loss

    def groups(self, facts: PhaseFacts, network: Network) -> tuple[ParameterGroup, ...]:
        """What the main stage trains."""
        return whole(network)

    def stages(self, facts: PhaseFacts, network: Network, held: Samples, train: TrainSettings) -> list[Stage]:
        """The phase's training, in order; the balanced fine-tuning follows by itself."""
        first = facts.index == 0 or self.restarts
        return [
            Stage(
                name="main",
                samples=held,
                objective=self.objective(facts, network),
                groups=self.groups(facts, network),
                epochs=train.epochs_of(0 if first else facts.index),
                rate=train.rate if first else train.rate_later,
                schedule=train.schedule,
                needs_teacher=self.asks_teacher and facts.index > 0,
            )
        ]

    def refine(self, network: Network, exemplars: Exemplars, facts: PhaseFacts) -> None:
        """Before the rest of a phase's samples is freed: better values for exemplars. Mnemonics alone does this."""

    def balanced(self, main: Stage, network: Network, samples: Samples, settings: FinetuneSettings) -> Stage:
        """The balanced fine-tuning: the phase's loss at a tenth of its rate (protocol 2.7)."""
        rate = main.rate * settings.rate_factor
        return replace(
            main, name="balanced", samples=samples, epochs=settings.epochs, rate=rate, schedule=settings.schedule
        )


@dataclass(frozen=True)
class MethodEntry:
    """A registered method: one line about it, its settings, and how it is made from them."""

    summary: str
    settings: type[MethodSettings]
    build: Callable[..., Method]
    core: str | None = None  # the method that is left of it where features are frozen; None: itself


METHODS: Registry[MethodEntry] = Registry("method")
