"""Device, precision, processes and threads of a run."""

import logging
import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from threadpoolctl import threadpool_limits

from remem.errors import InputError
from remem.methods.settings import TrainSettings
from remem.threads import usable_cores

if TYPE_CHECKING:
    from lightning_fabric import Fabric

MOST_THREADS = 16  # default limit per run: a batch is too little work for more
FABRIC_PRECISION = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}


def resolve_devices(train: TrainSettings) -> TrainSettings:
    """Replaces every `auto`. Raises if this machine does not support the settings."""
    device = train.device if train.device != "auto" else ("cuda" if torch.cuda.is_available() else "cpu")
    precision = train.precision if train.precision != "auto" else ("bf16" if has_bf16(device) else "fp32")
    if (device, precision) == ("cpu", "fp16"):
        raise InputError("train.precision: fp16 given, but a CPU has none; expected fp32 or bf16")
    cores = os.cpu_count() or 1
    if device == "cpu" and train.devices > cores:  # Fabric would start all of them
        raise InputError(
            f"train.devices: {train.devices} processes given, expected at most the {cores} cores of this CPU"
        )
    threads = train.threads or max(1, min(MOST_THREADS, usable_cores() // train.devices))
    strategy = train.strategy if train.strategy != "auto" else ("ddp" if train.devices > 1 else "single")
    resolved = {"device": device, "precision": precision, "strategy": strategy, "threads": threads}
    return train.model_copy(update=resolved)


def limit_threads(threads: int) -> None:
    """Sets the threads of torch, BLAS and OpenMP, so that parallel runs do not compete and results repeat."""
    # Deterministic results on a GPU as well. Not tested on a GPU yet.
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    torch.set_num_threads(threads)
    threadpool_limits(threads)


def open_fabric(train: TrainSettings) -> "Fabric":
    """Returns a Fabric for device, precision and processes; `launch` has not been called."""
    from lightning_fabric import Fabric

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    precision: Any = FABRIC_PRECISION[train.precision]
    strategy = "auto" if train.strategy == "single" else train.strategy  # Fabric has no name for one process
    try:
        return Fabric(accelerator=train.device, devices=train.devices, strategy=strategy, precision=precision)
    except (ValueError, RuntimeError, TypeError, ImportError) as error:
        wanted = f"device {train.device}, devices {train.devices}, strategy {train.strategy}"
        raise InputError(f"train: {wanted} given; {str(error).splitlines()[0]}") from error


class OneDevice:
    """One process on one device, for inference: computes what Fabric would, without the seconds that it takes to load.

    If the run's device is absent, it is the CPU in fp32.
    """

    global_rank = 0
    world_size = 1

    def __init__(self, train: TrainSettings) -> None:
        kind = "cuda" if train.device == "gpu" else train.device
        present = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        found = present.get(kind, False)
        self.device = torch.device(kind if found else "cpu")
        self._mixed = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(train.precision) if found else None

    def autocast(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._mixed is None else torch.autocast(self.device.type, dtype=self._mixed)

    def to_device(self, obj: Any) -> Any:
        return obj.to(self.device)

    def all_reduce(self, data: Any, *, reduce_op: str) -> Any:
        return data

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        return obj


def has_bf16(device: str) -> bool:
    """Returns whether the processor has bf16 instructions. Never decided by timing, so that runs repeat."""
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    if device == "cpu":
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return False
