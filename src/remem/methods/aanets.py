"""`*-aanets`: adaptive aggregation networks (Liu et al., CVPR 2021), which wrap another method."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import numpy as np
from pydantic import Field, create_model
from torch import Tensor

from remem.methods.icarl import Icarl, IcarlSettings
from remem.methods.losses import classify
from remem.methods.lucir import Lucir, LucirSettings
from remem.methods.method import Describe, Measures, Method, MethodEntry, PhaseFacts
from remem.methods.podnet import Podnet, PodnetSettings
from remem.methods.settings import FinetuneSettings, MethodSettings, TrainSettings
from remem.methods.stage import Losses, Objective, ParameterGroup, Stage
from remem.nets.base import Output
from remem.nets.network import Network
from remem.nets.two_branch import TwoBranch
from remem.types import Samples


class AANets(Method):
    """Trains another method on a two-branch network and learns the branch weights on balanced data every epoch."""

    def __init__(self, inner: Method, mixture_lr: float) -> None:
        self._inner = inner
        self._mixture_lr = mixture_lr
        self.head, self.readout, self.replay = inner.head, inner.readout, inner.replay
        self.phase0 = inner.phase0  # which has one branch

    def expand(self, network: Network) -> None:
        """Before phase 1, both branches start as copies of the phase-0 network; they are never merged."""
        network.backbone = TwoBranch(network.backbone)

    def begin(self, network: Network, facts: PhaseFacts, held: Samples, describe: Describe) -> None:
        self._inner.begin(network, facts, held, describe)

    def objective(self, facts: PhaseFacts, network: Network) -> Objective:
        return self._inner.objective(facts, network)

    def groups(self, facts: PhaseFacts, network: Network) -> tuple[ParameterGroup, ...]:
        """The inner method's parameters without the branch weights, which only the upper level trains."""
        return tuple(_without_mixture(part, network) for part in self._inner.groups(facts, network))

    def stages(self, facts: PhaseFacts, network: Network, held: Samples, train: TrainSettings) -> list[Stage]:
        stages = self._inner.stages(facts, network, held, train)
        if facts.index == 0:
            return stages
        alternate = self._mixture_stage(facts, network, held, train)
        groups = self.groups(facts, network)
        return [replace(stage, groups=groups, after_epoch=alternate) for stage in stages]

    def balanced(self, main: Stage, network: Network, samples: Samples, settings: FinetuneSettings) -> Stage:
        return replace(self._inner.balanced(main, network, samples, settings), after_epoch=None)

    def measures(self, network: Network) -> Measures:
        """The stable branch's weight at every level."""
        backbone = network.backbone
        return {"branch_weights": tuple(backbone.weights.tolist())} if isinstance(backbone, TwoBranch) else {}

    def _mixture_stage(self, facts: PhaseFacts, network: Network, held: Samples, train: TrainSettings) -> Stage | None:
        """The upper level: cross-entropy on balanced data; trains only the branch weights, batch norm is frozen."""
        if self._mixture_lr == 0:
            return None  # both branches keep weight 0.5, as in the released POD-AANets
        backbone = network.backbone
        assert isinstance(backbone, TwoBranch)
        return Stage(
            name="mixture",
            samples=balanced_at_random(facts, held),
            objective=_classify_only,
            groups=(ParameterGroup((backbone.weights,), weight_decay=0.0, bounds=(0.0, 1.0)),),
            epochs=train.epochs_of(facts.index),
            lr=self._mixture_lr,
            lr_is_total=True,
            schedule=train.schedule,
            updates_statistics=False,
        )


def balanced_at_random(facts: PhaseFacts, held: Samples) -> Samples:
    """All exemplars, and for each new class as many random samples as an old class has on average (at least one)."""
    old, new = held.of(range(facts.old_classes)), held.of(facts.new_labels)
    quota = max(1, len(old) // facts.old_classes)
    rng = facts.streams.numpy(facts.index, "mixture")
    chosen = [rng.permutation(np.flatnonzero(new.labels == label))[:quota] for label in facts.new_labels]
    places = np.concatenate([np.empty(0, np.int64), *chosen])
    rows, labels = np.concatenate([old.rows, new.rows[places]]), np.concatenate([old.labels, new.labels[places]])
    return Samples(rows, labels)


def _classify_only(output: Output, labels: Tensor, teacher: Output | None) -> Losses:
    return {"classify": classify(output.logits, labels)}


def _without_mixture(part: ParameterGroup, network: Network) -> ParameterGroup:
    backbone = network.backbone
    mixture = backbone.weights if isinstance(backbone, TwoBranch) else None
    return replace(part, parameters=tuple(parameter for parameter in part.parameters if parameter is not mixture))


def _build(settings: Any, inner: type[Any]) -> Method:
    return AANets(inner(settings), settings.mixture_lr)


def _entry(name: str, summary: str, settings: type[MethodSettings], inner: type[Method]) -> MethodEntry:
    """The entry of `inner` on two branches; its settings are the inner method's and `mixture_lr`."""
    fields: dict[str, Any] = {
        "name": (str, name),
        "mixture_lr": (
            Annotated[
                float,
                Field(
                    ge=0,
                    description="Learning rate of the branches' weights, summed over a phase; 0 keeps both at a half.",
                ),
            ],
            0.0,
        ),
    }
    own = create_model(f"{settings.__name__}AANets", __base__=settings, **fields)
    core = str(settings.model_fields["name"].default)
    return MethodEntry(summary, own, partial(_build, inner=inner), core)


ICARL_AANETS = _entry("icarl-aanets", "icarl on two branches (Liu et al.)", IcarlSettings, Icarl)
LUCIR_AANETS = _entry("lucir-aanets", "lucir on two branches (Liu et al.)", LucirSettings, Lucir)
POD_AANETS = _entry("pod-aanets", "podnet on two branches (Liu et al.)", PodnetSettings, Podnet)
