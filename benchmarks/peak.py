"""What this machine can do at best, and how much a network asks of it."""

import time

import torch
from torch import Tensor, nn

SIDE = 1024  # of the matrices: they fit into the cache
REPEATS = 10


def peak_flops(threads: int, precision: str) -> float:
    """Multiplications and additions per second of the fastest of some matrix products in fp32 or bf16."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    left, right = torch.rand(2, SIDE, SIDE).to(torch.bfloat16 if precision == "bf16" else torch.float32)
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        left @ right
        times.append(time.perf_counter() - started)
    torch.set_num_threads(before)
    return 2 * SIDE**3 / min(times)


def forward_flops(network: nn.Module, image: Tensor) -> int:
    """Multiplications and additions of all convolutions and linear layers in one forward pass."""
    total = 0

    def count(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal total
        if isinstance(layer, nn.Conv2d | nn.Linear):
            total += 2 * output.numel() * layer.weight[0].numel()

    handles = [layer.register_forward_hook(count) for layer in network.modules()]
    with torch.no_grad():
        network.eval()(image)
    for handle in handles:
        handle.remove()
    return total
