"""`mnemonics`: exemplars are parameters (Liu et al., CVPR 2020), refined by the bilevel programme of its paper."""

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.func import functional_call

from remem.methods.bilevel import Forward, Weights, outer_loss
from remem.methods.imprint import imprint_means
from remem.methods.losses import classify, distil
from remem.methods.method import (
    METHODS,
    Describe,
    Exemplars,
    Method,
    MethodEntry,
    MethodSettings,
    PhaseFacts,
)
from remem.methods.stage import Losses, Objective
from remem.nets.contract import Output
from remem.nets.heads import HeadSettings
from remem.nets.network import Network
from remem.nets.two_branch import stabilised
from remem.types import Samples, Values


class MnemonicsSettings(MethodSettings):
    """Settings of `mnemonics`."""

    name: str = "mnemonics"
    temperature: float = Field(default=2.0, gt=0)
    weight: float = Field(default=1.0, ge=0)  # of the distillation
    scale: float = Field(default=1.0, gt=0)  # of the cosines, at the start
    transfer: bool = True  # from phase 1 on, kernels of phase 0 are frozen up to one factor each
    refine_steps: int = Field(default=5, ge=0)  # of every exemplar; 0 keeps them as they are
    refine_rate: float = Field(default=0.01, ge=0)  # of the pixels, on the scale 0..1
    refine_batch: int = Field(default=128, ge=1)
    inner_rate: float = Field(default=0.05, ge=0)
    inner_steps: int = Field(default=2, ge=1)


class Mnemonics(Method):
    """Distillation on a cosine head; before samples are freed, those that stay are made to stand for them better."""

    def __init__(self, settings: MnemonicsSettings) -> None:
        self.head = HeadSettings(name="cosine", scale=settings.scale)
        self._settings = settings

    def expand(self, network: Network) -> None:
        """Weight transfer: the kernels of phase 0 stay, their factors learn."""
        if self._settings.transfer:
            network.backbone.levels = stabilised(network.backbone.levels)

    def begin(self, network: Network, facts: PhaseFacts, held: Samples, describe: Describe) -> None:
        imprint_means(network, facts, held, describe)

    def objective(self, facts: PhaseFacts, network: Network) -> Objective:
        settings = self._settings

        def losses(output: Output, labels: Tensor, teacher: Output | None) -> Losses:
            terms = {"classify": classify(output.logits, labels)}
            if teacher is not None:
                terms["distil"] = settings.weight * distil(output.logits, teacher.logits, settings.temperature)
            return terms

        return losses

    def refine(self, network: Network, exemplars: Exemplars, facts: PhaseFacts) -> None:
        """New exemplars against what will be freed and all old ones; old ones in halves, judged on each other."""
        if self._settings.refine_steps == 0:
            return
        rng = facts.streams.numpy(facts.index, "refine")
        network.eval()
        one, other = halves(exemplars.kept_old)
        if len(other):
            one = self._adjust(network, one, other, exemplars, rng)
            other = self._adjust(network, other, one, exemplars, rng)
        judges = one.with_(other).with_(without(exemplars.latest, exemplars.kept_new))
        if len(judges):  # else nothing is freed, and there is nothing to stand for
            self._adjust(network, exemplars.kept_new, judges, exemplars, rng)

    def _adjust(
        self, network: Network, part: Samples, judges: Samples, exemplars: Exemplars, rng: np.random.Generator
    ) -> Samples:
        """Some exemplars with better values, batch by batch: only one batch is there twice at any time."""
        rows, order, size = part.rows.copy(), rng.permutation(len(part)), self._settings.refine_batch
        for start in range(0, len(part), size):
            places = order[start : start + size]
            batch = part.take(places)
            rows[places] = exemplars.replace(batch, self._move(network, batch, judges, exemplars, rng))
        return Samples(rows, part.labels)

    def _move(
        self, network: Network, batch: Samples, judges: Samples, exemplars: Exemplars, rng: np.random.Generator
    ) -> Values:
        """Moves the pixels of a batch so that a model trained on it recognises the judging samples."""
        settings, device = self._settings, network.mean.device
        stored = exemplars.values(batch)
        pictures = stored.dtype == np.uint8
        rate = settings.refine_rate * (255.0**2 if pictures else 1.0)  # a step on the scale 0..1, taken on 0..255
        forward, weights = as_function(network, exemplars)
        labels, values = torch.from_numpy(batch.labels).to(device), torch.from_numpy(stored).to(device).float()
        for _ in range(settings.refine_steps):
            others = judges.take(rng.permutation(len(judges))[: settings.refine_batch])
            seen = torch.from_numpy(exemplars.values(others)).to(device).float()
            against = seen, torch.from_numpy(others.labels).to(device)
            own = values.requires_grad_(True), labels
            loss = outer_loss(forward, weights, own, against, rate=settings.inner_rate, steps=settings.inner_steps)
            (slope,) = torch.autograd.grad(loss, values)
            values = values.detach() - rate * slope
            if pictures:
                values = values.clamp(0, 255)
        # Rounded, never cut off: a picture that no step moved comes back as it was.
        return values.round().to(torch.uint8).cpu().numpy() if pictures else values.cpu().numpy()


def as_function(network: Network, exemplars: Exemplars) -> tuple[Forward, dict[str, Tensor]]:
    """The network as a function of its weights, and those weights, free of their history."""
    weights = {name: value.detach().requires_grad_(True) for name, value in network.named_parameters()}

    def forward(values: Weights, inputs: Tensor) -> Tensor:
        output: Output = functional_call(network, dict(values), (exemplars.show(inputs),))
        return output.logits

    return forward, weights


def without(samples: Samples, others: Samples) -> Samples:
    return samples.take(~np.isin(samples.rows, others.rows))


def halves(samples: Samples) -> tuple[Samples, Samples]:
    """Two halves with every class in both, as far as it has two: every other place of its ranking."""
    starts = np.searchsorted(samples.labels, samples.labels)
    odd = (np.arange(len(samples)) - starts) % 2 == 1
    return samples.take(~odd), samples.take(odd)


METHODS.add(
    "mnemonics",
    MethodEntry("exemplars refined by bilevel optimisation (Liu et al.)", MnemonicsSettings, Mnemonics, core="lucir"),
)
