"""`podnet`: pooled outputs distillation and the local similarity classifier (Douillard et al., ECCV 2020)."""

import hashlib
import math
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from remem.methods.kmeans import kmeans_centres
from remem.methods.losses import Reduction, less_forget, nca, nca_as_shipped, pod_spatial
from remem.methods.method import Describe, Method, MethodEntry, PhaseFacts
from remem.methods.settings import FinetuneSettings, MethodSettings, TrainSettings
from remem.methods.stage import Losses, Objective, ParameterGroup, Stage, group
from remem.nets.base import Output
from remem.nets.heads import Head
from remem.nets.network import Network
from remem.nets.settings import HeadSettings
from remem.recent import Recent
from remem.types import Samples


class PodnetSettings(MethodSettings):
    """Settings of `podnet`; the defaults are the published ones for CIFAR-100."""

    name: str = "podnet"
    spatial: float = Field(
        default=3.0, ge=0, description="Weight of the distillation of the maps, lambda_c; 8 on ImageNet."
    )
    flat: float = Field(
        default=1.0, ge=0, description="Weight of the distillation of the features, lambda_f; 10 on ImageNet."
    )
    proxies: int = Field(default=10, ge=1, description="Proxies per class.")
    nca: Literal["shipped", "margin"] = Field(
        default="shipped",
        description="The NCA loss as in the released code (shipped) or as in the paper's equation (margin).",
    )
    margin: float = Field(default=0.6, ge=0, description="Margin of the NCA loss; only with method.nca=margin.")
    clamp: float = Field(default=5.0, gt=0, description="Limit of every element of every gradient.")


class Podnet(Method):
    """NCA loss on local similarities, plus distillation of the maps of all stages and of the features."""

    def __init__(self, settings: PodnetSettings) -> None:
        self.head = HeadSettings(name="proxies", proxies=settings.proxies)
        self.per_sample = settings.nca == "shipped"  # the margin depends on the scale of each run's own head
        self.phase0 = f"nca={settings.nca} margin={settings.margin} clamp={settings.clamp}"
        self._settings = settings

    def begin(self, network: Network, facts: PhaseFacts, held: Samples, describe: Describe) -> None:
        """Imprinting: a new class's proxies are k-means centres of its features, scaled to the norm of old proxies."""
        if facts.index == 0 or not facts.new_classes:
            return
        new = held.of(facts.new_labels)
        units = F.normalize(torch.from_numpy(describe(new).features)).numpy()
        seed = facts.streams.integer(facts.index, "k-means") % 2**32
        centres = [centre_proxies(units[new.labels == c], self._settings.proxies, seed) for c in facts.new_labels]
        length = network.head.old.detach().norm(dim=-1).mean()
        network.head.imprint(torch.from_numpy(np.stack(centres)).to(length) * length)

    def objective(self, facts: PhaseFacts, network: Network) -> Objective:
        settings = self._settings
        factor = math.sqrt((facts.old_classes + facts.new_classes) / max(1, facts.new_classes))

        def losses(output: Output, labels: Tensor, teacher: Output | None, *, reduction: Reduction = "mean") -> Losses:
            terms = {"nca": self._nca(output, labels, network.head, reduction)}
            if teacher is not None:
                terms["flat"] = settings.flat * factor * less_forget(output.features, teacher.features, reduction)
                if output.maps:
                    terms["spatial"] = settings.spatial * factor * pod_spatial(output.maps, teacher.maps)
            return terms

        return losses

    def groups(self, facts: PhaseFacts, network: Network) -> tuple[ParameterGroup, ...]:
        old = {id(parameter) for parameter in network.head.old_parameters()} if facts.index > 0 else set()
        return group(parameter for parameter in network.parameters() if id(parameter) not in old)

    def stages(self, facts: PhaseFacts, network: Network, held: Samples, train: TrainSettings) -> list[Stage]:
        return [replace(stage, clamp=self._settings.clamp) for stage in super().stages(facts, network, held, train)]

    def balanced(self, main: Stage, network: Network, samples: Samples, settings: FinetuneSettings) -> Stage:
        """Trains only the proxies, old ones included; distillation gives them no gradient, so it is left out."""
        stage = super().balanced(main, network, samples, settings)
        head = network.head

        def losses(output: Output, labels: Tensor, teacher: Output | None, *, reduction: Reduction = "mean") -> Losses:
            return {"nca": self._nca(output, labels, head, reduction)}

        return replace(stage, objective=losses, groups=group([head.old, head.new]), needs_teacher=False)

    def _nca(self, output: Output, labels: Tensor, head: Head, reduction: Reduction) -> Tensor:
        if self._settings.nca == "shipped":
            return nca_as_shipped(output.logits, labels, reduction)
        return nca(output.logits, labels, self._settings.margin * _scale(head), reduction)


def _scale(head: Head) -> Tensor:
    scale = head.scale
    assert isinstance(scale, Tensor)
    return scale


def centre_proxies(units: NDArray[np.float32], proxies: int, seed: int) -> NDArray[np.float32]:
    """K-means centres of one class's unit features; a class with too few distinct samples repeats them.

    Many runs of a policy training begin a phase with the same samples of a class, so the latest centres are kept.
    """
    key = hashlib.sha256(units.tobytes()).hexdigest(), proxies, seed
    found = _CENTRES.find(key)
    if found is None:
        found = _centres(units, proxies, seed)
        _CENTRES.put(key, found)
    return found


def forget_centres() -> None:
    """Empties the cache of `centre_proxies`."""
    _CENTRES.clear()


def _centres(units: NDArray[np.float32], proxies: int, seed: int) -> NDArray[np.float32]:
    distinct = np.unique(units, axis=0)
    if len(distinct) <= proxies:
        return distinct[np.arange(proxies) % len(distinct)]
    return kmeans_centres(units, proxies, seed)


CENTRES_BYTES = 2**24  # 6500 classes with ten proxies of 64 features
_CENTRES = Recent[tuple[str, int, int], NDArray[np.float32]](CENTRES_BYTES, lambda centres: centres.nbytes)

ENTRY = MethodEntry("pooled distillation and proxies (Douillard et al.)", PodnetSettings, Podnet)
