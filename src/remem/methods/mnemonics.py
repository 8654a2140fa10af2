"""`mnemonics`: treats exemplars as parameters and refines them by bilevel optimisation (Liu et al., CVPR 2020)."""

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.func import functional_call

from remem.methods.bilevel import Forward, Weights, outer_loss
from remem.methods.imprint import imprint_means
from remem.methods.losses import classify, distil
from remem.methods.method import Describe, Exemplars, Method, MethodEntry, PhaseFacts
from remem.methods.settings import MethodSettings
from remem.methods.stage import Losses, Objective
from remem.nets.base import Output
from remem.nets.network import Network
from remem.nets.settings import HeadSettings
from remem.nets.two_branch import stabilised
from remem.types import Samples, Values


class MnemonicsSettings(MethodSettings):
    """Settings of `mnemonics`."""

    name: str = "mnemonics"
    temperature: float = Field(default=2.0, gt=0, description="Temperature of the distillation.")
    weight: float = Field(default=1.0, ge=0, description="Weight of the distillation.")
    scale: float = Field(default=1.0, gt=0, description="Initial value of the learned scale of the cosines.")
    transfer: bool = Field(
        default=True, description="From phase 1 on, freeze the kernels of phase 0 except for one factor each."
    )
    refine_steps: int = Field(
        default=5, ge=0, description="Gradient steps that refine every exemplar; 0 leaves them unchanged."
    )
    refine_lr: float = Field(default=0.01, ge=0, description="Learning rate of the pixels, on the scale 0 to 1.")
    refine_batch: int = Field(default=128, ge=1, description="Exemplars that are refined at a time.")
    inner_lr: float = Field(default=0.05, ge=0, description="Learning rate of the inner model.")
    inner_steps: int = Field(
        default=2, ge=1, description="Steps of the inner model before each gradient of the exemplars."
    )


class Mnemonics(Method):
    """Distillation with a cosine head; exemplars are optimised to represent the samples that will be freed."""

    def __init__(self, settings: MnemonicsSettings) -> None:
        self.head = HeadSettings(name="cosine", scale=settings.scale)
        self._settings = settings

    def expand(self, network: Network) -> None:
        """Weight transfer: the kernels of phase 0 are frozen, one factor per kernel is learned."""
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
        """Refines the two halves of the old exemplars against each other, then new exemplars against all other data."""
        if self._settings.refine_steps == 0:
            return
        rng = facts.streams.numpy(facts.index, "refine")
        network.eval()
        one, other = halves(exemplars.kept_old)
        if len(other):
            one = self._adjust(network, one, other, exemplars, rng)
            other = self._adjust(network, other, one, exemplars, rng)
        targets = one.with_(other).with_(without(exemplars.latest, exemplars.kept_new))
        if len(targets):  # otherwise nothing is freed, and there is nothing to refine against
            self._adjust(network, exemplars.kept_new, targets, exemplars, rng)

    def _adjust(
        self, network: Network, part: Samples, targets: Samples, exemplars: Exemplars, rng: np.random.Generator
    ) -> Samples:
        """Refines exemplars batch by batch, so that at most one batch exists in two versions at a time."""
        rows, order, size = part.rows.copy(), rng.permutation(len(part)), self._settings.refine_batch
        for start in range(0, len(part), size):
            places = order[start : start + size]
            batch = part.take(places)
            rows[places] = exemplars.replace(batch, self._move(network, batch, targets, exemplars, rng))
        return Samples(rows, part.labels)

    def _move(
        self, network: Network, batch: Samples, targets: Samples, exemplars: Exemplars, rng: np.random.Generator
    ) -> Values:
        """Refines a batch: gradient steps that lower the loss on `targets` of a model trained on the batch."""
        settings, device = self._settings, network.mean.device
        stored = exemplars.values(batch)
        images = stored.dtype == np.uint8
        lr = settings.refine_lr * (255.0**2 if images else 1.0)  # refine_lr is for values in 0..1, pixels are in 0..255
        forward, weights = as_function(network, exemplars)
        labels, values = torch.from_numpy(batch.labels).to(device), torch.from_numpy(stored).to(device).float()
        for _ in range(settings.refine_steps):
            drawn = targets.take(rng.permutation(len(targets))[: settings.refine_batch])
            inputs = torch.from_numpy(exemplars.values(drawn)).to(device).float()
            outer = inputs, torch.from_numpy(drawn.labels).to(device)
            inner = values.requires_grad_(True), labels
            loss = outer_loss(forward, weights, inner, outer, lr=settings.inner_lr, steps=settings.inner_steps)
            (grad,) = torch.autograd.grad(loss, values)
            values = values.detach() - lr * grad
            if images:
                values = values.clamp(0, 255)
        # Rounded, not truncated: an unchanged image stays exactly as it was.
        return values.round().to(torch.uint8).cpu().numpy() if images else values.cpu().numpy()


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
    "exemplars refined by bilevel optimisation (Liu et al.)", MnemonicsSettings, Mnemonics, core="lucir"
)
