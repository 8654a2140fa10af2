"""hoarding.py: state that grows with the samples seen ends a run in one line; anything else is left alone."""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from factories import blobs, pictures, ready
from remem.errors import InputError
from remem.methods import hoarding
from remem.methods.hoarding import HoardWatch, footprint
from remem.methods.icarl import Icarl, IcarlSettings
from remem.methods.method import Describe, MethodEntry, PhaseFacts
from remem.methods.stage import Losses, Objective
from remem.methods.table import METHODS
from remem.nets.base import Output
from remem.nets.network import Network
from remem.runs.run import run
from remem.types import Samples

EVERYTHING: list[Tensor] = []  # a global of this module, as a plug-in may have
INPUTS, BATCH = 400, 32  # bytes of a sample, samples


class Toy(nn.Module):
    """A network, and what a loss has of it."""

    kept_by_class: list[Tensor] = []  # noqa: RUF012  (the cheat)
    bank: Tensor
    shared: list[Any]
    numbers: list[int]

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(100, 3)
        self.register_buffer("bank", torch.empty(0, 100))
        self.calls = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        logits: Tensor = self.layer(inputs)
        return logits


Cheat = Callable[[Toy, Tensor], None]


def to_buffer(toy: Toy, inputs: Tensor) -> None:
    toy.bank = torch.cat([toy.bank, inputs])


def to_attribute(name: str, make: Callable[[], Any]) -> Cheat:
    def keep(toy: Toy, inputs: Tensor) -> None:
        if not hasattr(toy, name):
            setattr(toy, name, make())
        getattr(toy, name).append(inputs.numpy().copy())

    return keep


def to_dictionary(toy: Toy, inputs: Tensor) -> None:
    toy.__dict__.setdefault("seen", {}).setdefault("deep", {})[toy.calls] = (inputs.tolist(),)


def to_views(toy: Toy, inputs: Tensor) -> None:
    toy.__dict__.setdefault("corners", []).append(inputs[0, 0])  # a number that keeps its whole batch


def to_class(toy: Toy, inputs: Tensor) -> None:
    Toy.kept_by_class.append(inputs)


def to_module_in_a_list(toy: Toy, inputs: Tensor) -> None:
    toy.__dict__.setdefault("models", []).append(nn.ParameterList([nn.Parameter(inputs)]))


def to_bytes(toy: Toy, inputs: Tensor) -> None:
    toy.__dict__["code"] = toy.__dict__.get("code", b"") + inputs.numpy().tobytes()


CHEATS: dict[str, Cheat] = {
    "a buffer": to_buffer,
    "a list": to_attribute("kept", list),
    "a queue": to_attribute("kept", lambda: deque(maxlen=64)),
    "a dictionary of lists of numbers": to_dictionary,
    "views": to_views,
    "a list of its class": to_class,
    "modules in a list": to_module_in_a_list,
    "bytes": to_bytes,
}


def watched(toy: Toy, after: Cheat | None, *others: object, batches: int = 8, last: int = BATCH) -> None:
    """One pass over samples."""
    watch = HoardWatch(toy, *others)
    for number in range(batches):
        inputs = torch.rand(last if number == batches - 1 else BATCH, 100)
        with torch.no_grad():
            toy(inputs)
        if after is not None:
            after(toy, inputs)
        watch.after_batch(len(inputs))
    watch.check("a test", Fabric(accelerator="cpu", devices=1))


@pytest.fixture(autouse=True)
def emptied() -> Iterator[None]:
    yield
    EVERYTHING.clear()
    Toy.kept_by_class.clear()


@pytest.mark.parametrize("name", CHEATS)
def test_what_grows_with_the_samples_is_noticed(name: str) -> None:
    with pytest.raises(InputError, match=r"^method: .* keeps \d+ bytes more after the 8 batches of a test than after"):
        watched(Toy(), CHEATS[name])


def test_hooks_are_followed_into_closures_defaults_partials_and_globals() -> None:
    own: list[Tensor] = []

    def by_closure(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        own.append(inputs[0])

    def by_default(
        module: nn.Module,
        inputs: tuple[Tensor, ...],
        output: Tensor,
        kept: list[Any] = [],  # noqa: B006
    ) -> None:
        kept.append(inputs[0])

    def by_global(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        EVERYTHING.append(inputs[0])

    def by_argument(kept: list[Tensor], module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        kept.append(inputs[0])

    class Keeper:
        def __init__(self) -> None:
            self.kept: list[Tensor] = []

        def hook(self, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            self.kept.append(inputs[0])

    for hook in (by_closure, by_default, by_global, partial(by_argument, []), Keeper().hook):
        toy = Toy()
        toy.layer.register_forward_hook(hook)
        with pytest.raises(InputError, match=r"method: layer\._forward_hooks keeps"):
            watched(toy, None)


def test_losses_are_watched_as_well() -> None:
    kept: list[Tensor] = []

    def loss(inputs: Tensor) -> None:
        kept.append(inputs)

    with pytest.raises(InputError, match="loss keeps"):
        watched(Toy(), lambda toy, inputs: loss(inputs), loss)


def holds_the_latest(toy: Toy, inputs: Tensor) -> None:
    toy.latest = inputs


def counts(toy: Toy, inputs: Tensor) -> None:
    toy.__dict__.setdefault("losses", []).append(0.5)
    toy.__dict__.setdefault("means", []).append(inputs.mean())


def makes_a_table(toy: Toy, inputs: Tensor) -> None:
    toy.table = torch.zeros(200, 100)  # in the first batch, once for all


@pytest.mark.parametrize("after", [None, holds_the_latest, counts, makes_a_table])
def test_what_does_not_grow_is_left_alone(after: Cheat | None) -> None:
    watched(Toy(), after)
    watched(Toy(), after, last=2 * BATCH)  # the latest batch may be larger than the first


def test_one_batch_says_nothing() -> None:
    watched(Toy(), to_buffer, batches=1)
    watched(Toy(), to_buffer, batches=0)


def test_sizes_by_place() -> None:
    toy = Toy()
    toy.shared = [toy.layer.weight.detach(), np.zeros(5)]  # a view of the weights costs nothing
    sizes = footprint(toy)
    assert (sizes["layer", "weight"], sizes["layer", "bias"], sizes["", "shared"]) == (4 * 300, 12, 40)
    sparse = torch.eye(3).to_sparse()
    toy.shared = [sparse, np.array([None, np.float64(3)], dtype=object)[::1], np.zeros(10)[:2]]
    assert footprint(toy)["", "shared"] == 9 * 4 + 16 + 8 + 80
    toy.myself = toy  # a circle


def test_the_walk_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Toy()
    toy.numbers = list(range(1000))
    whole = footprint(toy)["", "numbers"]
    monkeypatch.setattr(hoarding, "MOST", 100)
    assert footprint(toy)["", "numbers"] < whole == 8000


class Hoarder(Icarl):
    """Hooks its network, and keeps all that it sees."""

    def begin(self, network: Network, facts: PhaseFacts, held: Samples, describe: Describe) -> None:
        kept: list[Any] = []
        network.backbone.register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0]))


class Sly(Icarl):
    """Looks at samples only when they are described, which happens to test images as well."""

    def begin(self, network: Network, facts: PhaseFacts, held: Samples, describe: Describe) -> None:
        kept: list[Any] = []

        def keep(module: nn.Module, inputs: Any, output: Any) -> None:
            if not module.training:
                kept.append(output)

        network.backbone.register_forward_hook(keep)
        describe(held)


class Studious(Icarl):
    """Keeps features in its loss."""

    def objective(self, facts: PhaseFacts, network: Network) -> Objective:
        usual, kept = super().objective(facts, network), list[Tensor]()

        def loss(output: Output, labels: Tensor, teacher: Output | None) -> Losses:
            kept.append(output.features.detach())
            return usual(output, labels, teacher)

        return loss


class PlugIn(IcarlSettings):
    name: str = "plug-in"


@pytest.mark.parametrize("method", [Hoarder, Sly, Studious])
def test_a_run_of_a_method_that_hoards_ends_in_one_line(method: type[Icarl], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remem.methods.describe.CHUNK", 16)
    METHODS.add("plug-in", MethodEntry("hoards", PlugIn, method))
    try:
        with pytest.raises(InputError, match="old samples are kept in the memory alone") as caught:
            run(ready(pictures(per_class=40), {"method": {"name": "plug-in"}}))
    finally:
        METHODS.remove("plug-in")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", ["icarl", "lucir", "podnet", "lucir-aanets", "mnemonics", "lwf", "joint"])
def test_the_methods_themselves_do_not(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checks, real = list[str](), HoardWatch.check

    def noted(self: HoardWatch, what: str, fabric: Fabric) -> None:
        checks.append(what)
        real(self, what, fabric)

    monkeypatch.setattr(HoardWatch, "check", noted)
    monkeypatch.setattr(hoarding, "PER_SAMPLE", 0)
    monkeypatch.setattr(hoarding, "PER_BATCH", 0)  # not one byte
    dataset = blobs() if method == "lwf" else pictures()
    run(ready(dataset, {"method": {"name": method}, "train": {"batch_size": 4}}))
    assert "phase 1, stage main" in checks
