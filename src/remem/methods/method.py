"""The base class of methods: a head, a readout and the Stages of a phase. Methods hold no weights and no data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from torch import Tensor

from remem.methods.settings import FinetuneSettings, MethodSettings, TrainSettings
from remem.methods.stage import Objective, ParameterGroup, Stage, whole
from remem.nets.network import Network
from remem.nets.settings import HeadSettings
from remem.seeding import Streams
from remem.types import IntArray, Samples, Values

if TYPE_CHECKING:
    from remem.methods.describe import Described

Describe = Callable[[Samples], "Described"]
"""Features and logits of held samples under the current network, with the evaluation transform."""

Measures = Mapping[str, tuple[float, ...]]
"""Numbers of a method's own that belong in the result file, by name."""
Readout = Literal["cnn", "nme"]
Replay = Literal["budget", "none", "all"]
"""Which old samples are kept: exemplars within the budget, none (exemplar-free), or all (the upper bound)."""


@dataclass(frozen=True)
class Exemplars:
    """The exemplars to keep, and functions to read and replace their values, before other samples are freed."""

    kept_new: Samples  # from the latest phase, best first in every class
    kept_old: Samples  # from all phases before it
    latest: Samples  # all held samples of the latest phase
    values: Callable[[Samples], Values]  # as stored: (n, h, w, c) uint8 or (n, d) float32
    show: Callable[[Tensor], Tensor]  # stored values, also as floats -> inputs of the network
    # (samples, new values) -> row numbers of the new values; the old ones where no bytes are left for the new
    replace: Callable[[Samples, Values], IntArray]


@dataclass(frozen=True)
class PhaseFacts:
    """What a method knows about a phase."""

    index: int
    old_classes: int
    new_classes: int  # 0 where a stream brings samples of known classes alone
    streams: Streams = field(default=Streams(0))

    @property
    def new_labels(self) -> range:
        return range(self.old_classes, self.old_classes + self.new_classes)


class Method:
    """Base class; by default one main stage that trains all parameters on all held samples."""

    head: HeadSettings = HeadSettings(name="linear")
    readout: Readout = "cnn"
    replay: Replay = "budget"
    restarts: bool = False  # train every phase from new weights
    asks_teacher: bool = True  # whether the loss uses the previous phase's model
    # Whether all objectives are `SampleObjective`s and `begin` uses no logits. Heads can then be trained together.
    per_sample: bool = False
    phase0: str | None = None  # how phase 0 is trained; methods with equal head, readout and `phase0` may share it

    def expand(self, network: Network) -> None:
        """Called once, before phase 1 is trained: may add parts to the network."""

    def begin(self, network: Network, facts: PhaseFacts, held: Samples, describe: Describe) -> None:
        """Called after the head has grown and before training, e.g. to imprint the new rows."""

    def objective(self, facts: PhaseFacts, network: Network) -> Objective:
        """The loss of the main stage."""
        raise NotImplementedError

    def groups(self, facts: PhaseFacts, network: Network) -> tuple[ParameterGroup, ...]:
        """The parameters that the main stage trains."""
        return whole(network)

    def stages(self, facts: PhaseFacts, network: Network, held: Samples, train: TrainSettings) -> list[Stage]:
        """The stages of a phase, in order; the learner adds the balanced fine-tuning."""
        first = facts.index == 0 or self.restarts
        return [
            Stage(
                name="main",
                samples=held,
                objective=self.objective(facts, network),
                groups=self.groups(facts, network),
                epochs=train.epochs_of(0 if first else facts.index),
                lr=train.lr if first else train.lr_later,
                schedule=train.schedule,
                needs_teacher=self.asks_teacher and facts.index > 0,
            )
        ]

    def refine(self, network: Network, exemplars: Exemplars, facts: PhaseFacts) -> Measures:
        """Called before samples are freed: may replace the values of exemplars. Only Mnemonics does."""
        return {}

    def measures(self, network: Network) -> Measures:
        """Called after a phase has been trained: numbers of the network for the result file."""
        return {}

    def balanced(self, main: Stage, network: Network, samples: Samples, settings: FinetuneSettings) -> Stage:
        """The balanced fine-tuning: the main stage's loss at a lower learning rate (protocol 2.7)."""
        lr = main.lr * settings.lr_factor
        return replace(
            main, name="balanced", samples=samples, epochs=settings.epochs, lr=lr, schedule=settings.schedule
        )


@dataclass(frozen=True)
class MethodEntry:
    """A registered method: a one-line summary, its settings class, and how to build it from settings."""

    summary: str
    settings: type[MethodSettings]
    build: Callable[..., Method]
    core: str | None = None  # the equivalent method for frozen features; None: itself
    replay: tuple[Replay, ...] = ("budget",)  # what its `replay` may be; keeping all makes every result an oracle's
