"""Settings of methods, training and balanced fine-tuning; the defaults are the `small` preset."""

from typing import Annotated, Any, Literal

from pydantic import Field

from remem.settings import Settings

Schedule = Literal["constant", "step", "cosine", "one-cycle"]
Precision = Literal["auto", "fp32", "bf16", "fp16"]


class MethodSettings(Settings):
    """Settings that every method has."""

    name: str = "icarl"


class TrainSettings(Settings):
    """How a phase is trained, for all methods."""

    epochs: int = Field(default=15, ge=1)
    epochs_later: int | None = Field(default=None, ge=1)  # of phases 1..N; None: the same
    batch_size: int = Field(default=128, ge=2)
    optimizer: str = "sgd"  # any optimiser of torch.optim, by its name in lower case
    options: dict[str, Any] = Field(default_factory=dict)  # further arguments of an optimiser other than SGD
    lr: float = Field(default=0.2, gt=0)  # peak learning rate of phase 0
    lr_later: float = Field(default=0.1, gt=0)  # peak learning rate of phases 1..N
    momentum: float = Field(default=0.9, ge=0, lt=1)
    nesterov: bool = True
    weight_decay: float = Field(default=5e-4, ge=0)
    schedule: Schedule = "one-cycle"
    warmup: float = Field(default=0.2, ge=0, lt=1)  # one-cycle: share of the steps that rise
    milestones: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = (
        0.5,
        0.75,
    )  # step: shares of the epochs after which the rate falls
    decay: float = Field(default=0.1, gt=0, le=1)  # step: the factor of each fall
    device: str = "auto"
    devices: int = Field(default=1, ge=1)
    strategy: str = "auto"
    precision: Precision = "auto"
    threads: int = Field(default=1, ge=0, le=1024)  # 0: all cores; in a study or a learning 1, runs share the cores

    def epochs_of(self, phase: int) -> int:
        return self.epochs if phase == 0 or self.epochs_later is None else self.epochs_later


class FinetuneSettings(Settings):
    """The balanced fine-tuning at the end of phases 1..N (protocol 2.7)."""

    epochs: int = Field(default=20, ge=0)  # 0 switches it off
    lr_factor: float = Field(default=0.1, gt=0)  # of the phase's peak rate
    schedule: Schedule = "constant"
