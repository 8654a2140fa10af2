"""One training step of the small network: memory layout against torch's default layout."""

import torch

from benchmarks.timing import Row, compare
from remem.nets.contract import NetSettings
from remem.nets.heads import HeadSettings
from remem.nets.network import Network, build_network


def network(memory_format: torch.memory_format) -> Network:
    made = build_network(NetSettings(name="small"), (16, 16, 3), HeadSettings(name="linear"), seed=0)
    made.head.grow(100, torch.Generator())
    made.to(memory_format=memory_format)  # type: ignore[call-overload]
    return made


def step(net: Network, inputs: torch.Tensor, labels: torch.Tensor) -> None:
    torch.nn.functional.cross_entropy(net(inputs).logits, labels).backward()
    net.zero_grad()


def rows(repeats: int = 10) -> list[Row]:
    inputs = 255 * torch.rand(128, 3, 16, 16)
    labels = torch.randint(0, 100, (128,))
    last, first = network(torch.channels_last), network(torch.contiguous_format)
    shown = inputs.contiguous(memory_format=torch.channels_last)
    return [
        compare(
            "forward and backward, small network, 16 px, batch 128",
            lambda: step(last, shown, labels),
            lambda: step(first, inputs, labels),
            "channels first",
            repeats,
        )
    ]
