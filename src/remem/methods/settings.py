"""Settings of methods, training and balanced fine-tuning; the defaults are the `small` preset."""

from typing import Annotated, Any, Literal

from pydantic import Field

from remem.settings import Settings

Schedule = Literal["constant", "step", "cosine", "one-cycle"]
Precision = Literal["auto", "fp32", "bf16", "fp16"]


class MethodSettings(Settings):
    """Settings that every method has."""

    name: str = Field(default="icarl", description="Learning method (see `remem list methods`).")


class TrainSettings(Settings):
    """How a phase is trained, for all methods."""

    epochs: int = Field(default=15, ge=1, description="Epochs per phase.")
    epochs_later: int | None = Field(
        default=None, ge=1, description="Epochs of phases 1 to N; none: the same as in phase 0."
    )
    batch_size: int = Field(default=128, ge=2, description="Batch size of all processes together.")
    optimizer: str = Field(default="sgd", description="An optimiser of torch.optim by its name, in any case.")
    options: dict[str, Any] = Field(
        default_factory=dict, description="Further arguments of an optimiser other than SGD."
    )
    lr: float = Field(default=0.2, gt=0, description="Peak learning rate of phase 0, and of every phase of `joint`.")
    lr_later: float = Field(default=0.1, gt=0, description="Peak learning rate of phases 1 to N.")
    momentum: float = Field(default=0.9, ge=0, lt=1, description="Momentum of SGD.")
    nesterov: bool = Field(default=True, description="Nesterov momentum of SGD.")
    weight_decay: float = Field(default=5e-4, ge=0, description="Weight decay.")
    schedule: Schedule = Field(default="one-cycle", description="How the learning rate changes during a phase.")
    warmup: float = Field(
        default=0.2, ge=0, lt=1, description="one-cycle: the share of the steps in which the rate rises."
    )
    milestones: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        default=(0.5, 0.75),
        description="step: the shares of the epochs after which the rate falls.",
    )
    decay: float = Field(default=0.1, gt=0, le=1, description="step: the factor of each fall.")
    device: str = Field(default="auto", description="cpu, cuda or mps; auto: cuda if there is one.")
    devices: int = Field(default=1, ge=1, description="How many devices train one run.")
    strategy: str = Field(
        default="auto", description="How devices share the work, as Lightning Fabric names it; auto: ddp for several."
    )
    precision: Precision = Field(
        default="auto", description="Number format; auto: bf16 if the processor has instructions for it, else fp32."
    )
    threads: int = Field(
        default=1,
        ge=0,
        le=1024,
        description="Threads of torch, BLAS and herding; 0: all cores, at most 16 (1 in studies and learning).",
    )

    checkpoint_minutes: float = Field(
        default=10.0,
        ge=0,
        description="Save training inside a phase after so many minutes; 0: only when a signal stops it.",
    )

    def epochs_of(self, phase: int) -> int:
        return self.epochs if phase == 0 or self.epochs_later is None else self.epochs_later


class FinetuneSettings(Settings):
    """The balanced fine-tuning at the end of phases 1..N (protocol 2.7)."""

    epochs: int = Field(default=20, ge=0, description="Epochs of the fine-tuning; 0 turns it off.")
    lr_factor: float = Field(default=0.1, gt=0, description="Factor of the phase's peak learning rate.")
    schedule: Schedule = Field(default="constant", description="How the learning rate changes, as in train.schedule.")
