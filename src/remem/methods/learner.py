"""The learner: grows one network over all phases, keeps its teacher, and runs the method's Stages."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from remem.data.augment import AugmentPlan, plain
from remem.data.batches import batches, prefetched
from remem.fences import fenced
from remem.methods.describe import CHUNK, Described, describe
from remem.methods.loop import StageStart, TrainContext, run_stage
from remem.methods.method import Exemplars, Measures, Method, PhaseFacts
from remem.methods.settings import FinetuneSettings
from remem.methods.stage import Stage, group
from remem.nets.network import Network
from remem.selection.ranking import Rank
from remem.storage.tensorfile import Snapshot
from remem.types import IntArray, Phase, Reader, Samples, Values


@dataclass(frozen=True)
class LearnerSpec:
    """The parts of a learner: network, method, fine-tuning, and the ranking of samples."""

    build: Callable[[int], Network]  # seed of the weights -> a network without classes
    measures: bool  # whether mean and standard deviation of the inputs are measured on phase 0
    method: Method
    finetune: FinetuneSettings
    rank: Rank
    steps_of: int | None = None  # samples; stages after phase 0 have as many steps as with so many of them
    keeps_backbone: bool = False  # phase 0 trains the head alone, because the backbone was trained before

    def epochs_share(self, phase: int, held: int) -> float:
        """The share of the epochs that a stage has."""
        return min(1.0, self.steps_of / held) if phase and self.steps_of is not None and held else 1.0


class Learner:
    """Trains on the held samples and describes samples; its only state between phases is the network."""

    def __init__(self, spec: LearnerSpec, context: TrainContext) -> None:
        self._spec = spec
        self._context = context
        self._network: Network | None = None
        self.replay = spec.method.replay  # asked once: what a method says later changes nothing

    @property
    def method(self) -> Method:
        return self._spec.method

    @property
    def mirrors(self) -> bool:
        """Whether a flipped image has the same class."""
        return self._context.plan.flip

    @property
    def plan(self) -> AugmentPlan:
        """How images are augmented; `plain(images, plan)` is the evaluation transform."""
        return self._context.plan

    @property
    def network(self) -> Network:
        assert self._network is not None, "the learner has not seen phase 0"
        return self._network

    def fit(self, phase: Phase, held: Samples, reader: Reader) -> None:
        """Trains phase i on the held samples, starting from the model of phase i-1 (Algorithm 1, line 18)."""
        epochs = self._spec.epochs_share(phase.index, len(held))
        method, finetune, teacher = self.method, self._spec.finetune, None
        old = phase.classes[0] if phase.classes else self.network.head.classes
        facts = PhaseFacts(phase.index, old, len(phase.classes), self._context.streams)
        if phase.index == 0 or method.restarts:
            self._adopt(self._fresh(facts, held, reader))
        else:
            teacher = self._freeze()
            if phase.index == 1:
                method.expand(self.network)
            self.network.head.grow(facts.new_classes, self._generator(phase.index, "head"))
        network = self.network
        method.begin(network, facts, held, fenced(lambda samples: self.describe(reader, samples)))
        stages = [_shortened(stage, epochs) for stage in method.stages(facts, network, held, self._context.settings)]
        if phase.index == 0 and self._spec.keeps_backbone:
            head = group(network.head.parameters())
            stages = [replace(stage, groups=head, updates_statistics=False) for stage in stages]
        keeper = self._context.keeper
        saved = None if keeper is None else keeper.resume(phase.index)
        at = -1 if saved is None else int(saved.facts["stage"])
        train = partial(run_stage, network=network, reader=reader, context=self._context, teacher=teacher)
        for number, stage in enumerate(stages):
            if number >= at:
                train(stage, phase=phase.index, start=StageStart(number, saved if number == at else None))
        if phase.index > 0 and self.replay == "budget" and finetune.epochs > 0:
            inside = saved is not None and at == len(stages)
            samples = _saved_samples(saved) if saved and inside else self._balance(phase, held, reader)
            balanced = _shortened(method.balanced(stages[0], network, samples, finetune), epochs)
            start = StageStart(len(stages), saved if inside else None, keeps_samples=True)
            train(balanced, phase=phase.index, start=start)

    def describe(self, reader: Reader, samples: Samples, *, mirror: bool = False) -> Described:
        """Features and logits under the evaluation transform; `mirror` adds features of the mirror images."""
        context = self._context
        return describe(self.network, reader, samples, plan=context.plan, fabric=context.fabric, mirror=mirror)

    def rank(
        self, features: NDArray[np.floating], labels: IntArray, *, phase: int, purpose: str
    ) -> dict[int, IntArray]:
        """For each class the positions of its samples, best first; `features` are those of the samples."""
        classes = np.unique(labels)
        groups = [np.flatnonzero(labels == label) for label in classes]
        rng = self._context.streams.numpy(phase, purpose)
        ranking = self._spec.rank(features, groups, rng, torch.get_num_threads())
        orders = (np.searchsorted(group, best) for group, best in zip(groups, ranking, strict=True))
        return dict(zip(classes.tolist(), orders, strict=True))

    def refine(
        self,
        kept_new: Samples,
        kept_old: Samples,
        latest: Samples,
        reader: Reader,
        replace: Callable[[Samples, Values], IntArray],
        phase: int,
    ) -> Measures:
        """Lets the method refine exemplars; called before samples are freed."""
        exemplars = Exemplars(
            kept_new,
            kept_old,
            latest,
            values=fenced(lambda samples: reader.read(samples.rows)),
            show=fenced(lambda values: plain(values, self._context.plan)),
            replace=fenced(replace),
        )
        facts = PhaseFacts(phase, self.network.head.classes, 0, self._context.streams)
        return self.method.refine(self.network, exemplars, facts)

    def state(self) -> dict[str, Tensor]:
        """A copy of the weights, the only state between phases."""
        return {name: value.detach().cpu().contiguous().clone() for name, value in self.network.state_dict().items()}

    def load(self, state: dict[str, Tensor]) -> None:
        """Loads weights from `state()` of any phase."""
        self._adopt(restored(self._spec.build(0), self.method, state))

    def _fresh(self, facts: PhaseFacts, held: Samples, reader: Reader) -> Network:
        network = self._spec.build(self._context.streams.integer(facts.index, "weights"))
        if self._spec.measures:
            mean, deviation = measure(reader, held)
            network.normalise_by(torch.from_numpy(mean), torch.from_numpy(deviation))
        network.head.grow(facts.old_classes + facts.new_classes, self._generator(facts.index, "head"))
        return network

    def _adopt(self, network: Network) -> None:
        self._context.fabric.to_device(channels_last(network))
        self._network = network

    def _freeze(self) -> Network:
        """The teacher: a frozen copy of the previous phase's model."""
        teacher = copy.deepcopy(self.network)
        teacher.eval()
        return teacher.requires_grad_(False)

    def _balance(self, phase: Phase, held: Samples, reader: Reader) -> Samples:
        """All old exemplars, and for each new class as many of its best samples as an old class has on average.

        An old class that has brought samples counts as new. If all have, none gets more than the average.
        """
        is_new = np.isin(held.labels, list(phase.train))
        others = held.labels if is_new.all() else held.labels[~is_new]
        quota = balanced_quota(len(others), len(np.unique(others)))
        new = Samples(held.rows[is_new], held.labels[is_new])
        features = self.describe(reader, new).features
        ranking = self.rank(features, new.labels, phase=phase.index, purpose="balance")
        best = [np.flatnonzero(new.labels == label)[order[:quota]] for label, order in ranking.items()]
        chosen = np.concatenate([np.flatnonzero(~is_new), np.flatnonzero(is_new)[np.concatenate(best)]])
        return Samples(held.rows[chosen], held.labels[chosen])

    def _generator(self, phase: int, purpose: str) -> torch.Generator:
        return torch.Generator().manual_seed(self._context.streams.integer(phase, purpose))


def restored(network: Network, method: Method, state: Mapping[str, Tensor]) -> Network:
    """A new network with the weights of any phase."""
    if len(state["head.old"]):  # a model of phase 1 or later
        method.expand(network)
    network.restore(state)
    return network


def channels_last(network: Network) -> Network:
    """Inputs have this format, and convolutions on a CPU are about a third faster."""
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def _saved_samples(saved: Snapshot) -> Samples:
    """The balanced samples of a fine-tuning that was stopped: training has changed the network that chose them."""
    return Samples(saved.tensors["samples/rows"].numpy(), saved.tensors["samples/labels"].numpy())


def _shortened(stage: Stage, share: float) -> Stage:
    return stage if share == 1.0 else replace(stage, epochs=max(1, round(stage.epochs * share)))


def balanced_quota(exemplars: int, old_classes: int) -> int:
    """Exemplars per old class, rounded half up: what each new class has in the balanced fine-tuning."""
    return (2 * exemplars + old_classes) // (2 * old_classes)


def measure(reader: Reader, samples: Samples) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation per channel (images, 0..255) or per dimension (vectors), in one pass."""
    # Sums of differences from one sample, so that a constant dimension has a deviation of exactly 0.
    first = reader.read(samples.rows[:1])
    origin = first.reshape(-1, first.shape[-1])[0].astype(np.float64)
    count, total, squares = 0, np.zeros_like(origin), np.zeros_like(origin)
    for values, _ in prefetched(reader, batches(samples, CHUNK, None)):
        flat = values.reshape(-1, len(origin)) - origin
        count, total, squares = count + len(flat), total + flat.sum(0), squares + (flat**2).sum(0)
    shift = total / count
    return origin + shift, np.sqrt(np.maximum(squares / count - shift**2, 0.0))
