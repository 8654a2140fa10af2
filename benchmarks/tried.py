"""What else was tried for the training step: every variant against ours as it is, the same step in turn."""

import copy
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from benchmarks.phase import BATCH
from benchmarks.table import Row
from benchmarks.timing import alternate, ratio
from remem.nets.blocks import Block
from remem.nets.network import Network, build_network
from remem.nets.settings import HeadSettings, NetSettings
from remem.runs.devices import has_bf16
from remem.runs.heap import keep_freed_memory

OLD, NEW, SIDE = 50, 10, 32
OPTIONS = {"lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 5e-4}


@dataclass
class Step:
    """One step of icarl with a teacher; each variant changes one part."""

    network: nn.Module
    teacher: nn.Module
    inputs: Tensor
    labels: Tensor
    optimizer: torch.optim.Optimizer
    quiet: Callable[[], torch.no_grad | torch.inference_mode] = torch.no_grad
    flush: bool = False
    bf16: bool = field(default_factory=lambda: has_bf16("cpu"))

    def __call__(self) -> None:
        torch.set_flush_denormal(self.flush)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            logits = self.network(self.inputs).logits
        with self.quiet(), torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            advice = self.teacher(self.inputs).logits
        old = F.log_softmax(advice.clone() / 2, 1)
        distil = F.kl_div(F.log_softmax(logits[:, :OLD] / 2, 1), old, reduction="batchmean", log_target=True)
        self.optimizer.zero_grad()
        (F.cross_entropy(logits, self.labels) + distil).backward()
        self.optimizer.step()
        torch.set_flush_denormal(False)


class FirstStageContiguous(nn.Module):
    """A level in torch's default layout between others that are channels-last."""

    def __init__(self, level: nn.Module) -> None:
        super().__init__()
        self._level = level.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        shown: Tensor = self._level(x.contiguous())
        return shown.contiguous(memory_format=torch.channels_last)


def network(memory_format: torch.memory_format = torch.channels_last) -> Network:
    made = build_network(NetSettings(name="resnet32"), (SIDE, SIDE, 3), HeadSettings(name="linear"), seed=0)
    made.head.grow(OLD, torch.Generator())
    made.to(memory_format=memory_format)  # type: ignore[call-overload]
    return made


def step(
    change: Callable[[Network], nn.Module] = lambda net: net,
    change_teacher: Callable[[Network], nn.Module] | None = None,
    *,
    batch: int = BATCH,
    memory_format: torch.memory_format = torch.channels_last,
    **options: bool,
) -> Step:
    """The same weights and images for all; by default the teacher is changed like its student."""
    student, teacher = network(memory_format), network(memory_format).eval().requires_grad_(False)
    student.head.grow(NEW, torch.Generator())
    draws = torch.Generator().manual_seed(0)
    inputs = 255 * torch.rand(batch, 3, SIDE, SIDE, generator=draws).contiguous(memory_format=memory_format)
    labels = torch.randint(0, OLD + NEW, (batch,), generator=draws)
    optimizer = torch.optim.SGD(student.parameters(), **OPTIONS, **options)  # type: ignore[arg-type]
    return Step(change(student), (change_teacher or change)(teacher), inputs, labels, optimizer)


def first_stage_contiguous(net: Network) -> Network:
    net.backbone.levels[0] = FirstStageContiguous(net.backbone.levels[0])
    return net


def folded(net: Network) -> Network:
    """Batch norms of a frozen network as part of its convolutions."""
    for block in [module for module in net.modules() if isinstance(module, Block)]:
        block.conv1, block.norm1 = fuse_conv_bn_eval(block.conv1, block.norm1), nn.Identity()  # type: ignore[assignment]
        block.conv2, block.norm2 = fuse_conv_bn_eval(block.conv2, block.norm2), nn.Identity()  # type: ignore[assignment]
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return net


def same(net: Network) -> Network:
    return copy.deepcopy(net)


def compiled(net: Network) -> nn.Module:
    return cast(nn.Module, torch.compile(net))


def variants() -> dict[str, Step]:
    inference, flushed = step(), step()
    inference.quiet, flushed.flush = torch.inference_mode, True
    other = step()
    other.bf16 = not other.bf16
    # A compiled graph fuses batch norm, ReLU and additions; it needs a C++ compiler and minutes before its first step.
    with_compiler = {"compiled graphs": step(compiled)} if shutil.which("g++") else {}
    return with_compiler | {
        "bf16" if other.bf16 else "fp32": other,
        "torch's default layout": step(memory_format=torch.contiguous_format),
        "default layout in the first stage alone": step(first_stage_contiguous),
        "batch norm of the teacher folded into its convolutions": step(same, folded),
        "teacher in inference mode": inference,
        "denormal numbers flushed to zero": flushed,
        "fused SGD": step(fused=True),
        "foreach SGD": step(foreach=True),
    }


def rows(repeats: int = 5) -> list[Row]:
    keep_freed_memory()
    sides = variants()
    took = alternate({"ours": step(), **sides, "twice": step(batch=2 * BATCH)}, repeats)
    made = [ratio(name, took[name], took["ours"], "ours") for name in sides]
    half = [seconds / 2 for seconds in took["twice"]]
    return [*made, ratio("batches of 256, for each 128", half, took["ours"], "ours")]
