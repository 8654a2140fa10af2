"""`mnemonics`: LUCIR whose exemplars are parameters, refined by bilevel optimisation (Liu et al., CVPR 2020)."""

from dataclasses import dataclass

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.func import functional_call

from remem.methods.bilevel import Forward, Weights, outer_loss
from remem.methods.lucir import Lucir, LucirSettings
from remem.methods.method import Exemplars, Measures, MethodEntry, PhaseFacts
from remem.nets.base import Output
from remem.nets.network import Network
from remem.nets.two_branch import stabilised
from remem.types import IntArray, Samples, Values


class MnemonicsSettings(LucirSettings):
    """Settings of `mnemonics`: those of `lucir`, weight transfer and the refinement."""

    name: str = "mnemonics"
    transfer: bool = Field(
        default=False, description="From phase 1 on, freeze the kernels of phase 0 except for one factor each."
    )
    refine_steps: int = Field(
        default=5, ge=0, description="Gradient steps that refine every exemplar; 0 leaves them unchanged."
    )
    refine_lr: float = Field(
        default=0.003,
        ge=0,
        description="Step size: root mean square over an exemplar's values (images 0 to 1, vectors normalised).",
    )
    refine_batch: int = Field(default=128, ge=1, description="Exemplars that are refined at a time.")
    inner_lr: float = Field(default=0.05, ge=0, description="Learning rate of the inner model.")
    inner_steps: int = Field(
        default=2, ge=1, description="Steps of the inner model before each gradient of the exemplars."
    )


@dataclass(frozen=True)
class Refined:
    """Exemplars after refinement, and how much of what is stored has changed."""

    samples: Samples
    values: int = 0  # stored values, such as pixels
    changed: int = 0
    distance: float = 0.0  # sum of absolute changes


class Mnemonics(Lucir):
    """LUCIR; exemplars are optimised to represent the samples that will be freed."""

    def __init__(self, settings: MnemonicsSettings) -> None:
        super().__init__(settings)
        self._refinement = settings

    def expand(self, network: Network) -> None:
        """Weight transfer: the kernels of phase 0 are frozen, one factor per kernel is learned."""
        if self._refinement.transfer:
            network.backbone.levels = stabilised(network.backbone.levels)

    def refine(self, network: Network, exemplars: Exemplars, facts: PhaseFacts) -> Measures:
        """Refines the two halves of the old exemplars against each other, then new exemplars against all other data."""
        if self._refinement.refine_steps == 0:
            return {}
        rng = facts.streams.numpy(facts.index, "refine")
        network.eval()
        one, other = map(Refined, halves(exemplars.kept_old))
        if len(other.samples):
            one = self._adjust(network, one.samples, other.samples, exemplars, rng)
            other = self._adjust(network, other.samples, one.samples, exemplars, rng)
        rest = without(exemplars.latest, exemplars.kept_new)
        targets, new = one.samples.with_(other.samples).with_(rest), Refined(exemplars.kept_new)
        if len(targets):  # otherwise nothing is freed, and there is nothing to refine against
            new = self._adjust(network, new.samples, targets, exemplars, rng)
        return measures_of(one, other, new)

    def _adjust(
        self, network: Network, part: Samples, targets: Samples, exemplars: Exemplars, rng: np.random.Generator
    ) -> Refined:
        """Refines exemplars batch by batch, so that at most one batch exists in two versions at a time."""
        rows, order, size = part.rows.copy(), rng.permutation(len(part)), self._refinement.refine_batch
        values, changed, distance = 0, 0, 0.0
        for start in range(0, len(part), size):
            places = order[start : start + size]
            batch = part.take(places)
            before = exemplars.values(batch)
            after = self._move(network, before, batch.labels, targets, exemplars, rng)
            rows[places] = exemplars.replace(batch, after)
            same = rows[places] == batch.rows  # no room for their new versions
            after[same] = before[same]
            values, changed = values + before.size, changed + int((before != after).sum())
            distance += float(np.abs(after.astype(np.float64) - before).sum())
        return Refined(Samples(rows, part.labels), values, changed, distance)

    def _move(
        self,
        network: Network,
        stored: Values,
        labels: IntArray,
        targets: Samples,
        exemplars: Exemplars,
        rng: np.random.Generator,
    ) -> Values:
        """Refines a batch: gradient steps that lower the loss on `targets` of a model trained on the batch.

        The values are floats until the last step. Only then are they rounded to what is stored, and they replace it
        only if a model trained on them does better on one more draw of the targets.
        """
        settings, device = self._refinement, network.mean.device
        forward, weights = as_function(network, exemplars)
        own = torch.from_numpy(labels).to(device)

        def draw() -> tuple[Tensor, Tensor]:
            drawn = targets.take(rng.permutation(len(targets))[: settings.refine_batch])
            inputs = torch.from_numpy(exemplars.values(drawn)).to(device).float()
            return inputs, torch.from_numpy(drawn.labels).to(device)

        def loss(values: Tensor, outer: tuple[Tensor, Tensor]) -> Tensor:
            return outer_loss(forward, weights, (values, own), outer, lr=settings.inner_lr, steps=settings.inner_steps)

        images = stored.dtype == np.uint8
        size = settings.refine_lr * (255.0 if images else network.std)
        before = values = torch.from_numpy(stored).to(device).float()
        for _ in range(settings.refine_steps):
            values = values.detach().requires_grad_(True)
            (grad,) = torch.autograd.grad(loss(values, draw()), values)
            values = values.detach() - size * unit_steps(grad)
            values = values.clamp(0, 255) if images else values  # the released code lets them wrap around
        values = values.round() if images else values  # not truncated: an unchanged image stays exactly as it was
        last = draw()
        better = values if loss(values, last).item() < loss(before, last).item() else before
        return better.to(torch.from_numpy(stored).dtype).cpu().numpy()


def unit_steps(grad: Tensor) -> Tensor:
    """Scales the gradient of every sample to a root mean square of 1; a gradient of zero stays zero.

    The size of the outer gradient depends on the network, the batch and the inner learning rate. Without scaling, no
    learning rate moves pixels by about as much everywhere.
    """
    scale = grad.flatten(1).square().mean(1).sqrt()
    return grad / torch.where(scale > 0, scale, 1.0).view(-1, *[1] * (grad.dim() - 1))


def measures_of(*parts: Refined) -> Measures:
    """The share of stored values that have changed, and the mean absolute change of a value."""
    values = sum(part.values for part in parts)
    if not values:
        return {}
    changed, distance = sum(part.changed for part in parts), sum(part.distance for part in parts)
    return {"refined_share": (changed / values,), "refined_distance": (distance / values,)}


def as_function(network: Network, exemplars: Exemplars) -> tuple[Forward, dict[str, Tensor]]:
    """The network as a function of its weights, and the weights, detached."""
    weights = {name: value.detach().requires_grad_(True) for name, value in network.named_parameters()}

    def forward(values: Weights, inputs: Tensor) -> Tensor:
        output: Output = functional_call(network, dict(values), (exemplars.show(inputs),))
        return output.logits

    return forward, weights


def without(samples: Samples, others: Samples) -> Samples:
    return samples.take(~np.isin(samples.rows, others.rows))


def halves(samples: Samples) -> tuple[Samples, Samples]:
    """Splits every class by even and odd ranks into two halves."""
    starts = np.searchsorted(samples.labels, samples.labels)
    odd = (np.arange(len(samples)) - starts) % 2 == 1
    return samples.take(~odd), samples.take(odd)


ENTRY = MethodEntry(
    "lucir with exemplars refined by bilevel optimisation (Liu et al.)", MnemonicsSettings, Mnemonics, core="lucir"
)
