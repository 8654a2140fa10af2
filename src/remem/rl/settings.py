"""Settings of policy training: pseudo tasks, runs and their cost, and the policy gradient."""

from typing import Literal

from pydantic import Field, field_validator, model_validator

from remem.errors import InputError
from remem.settings import Settings

Fidelity = Literal["full", "short", "features"]
Search = Literal["reinforce", "exhaustive", "random", "tpe"]


class ReinforceSettings(Settings):
    """Learning rates of both levels, the baseline and the entropy bonus."""

    lr_eta: float = Field(default=0.02, gt=0, description="Learning rate of level 1, beta_1.")
    lr_phi: float = Field(default=0.02, gt=0, description="Learning rate of level 2, beta_2.")
    baseline: Literal["average", "leave-one-out"] = Field(
        default="average",
        description="What rewards are compared with: a moving average, or the other runs of the same task.",
    )
    decay: float = Field(default=0.9, ge=0, lt=1, description="Decay of the moving average.")
    entropy: float = Field(
        default=0.0, ge=0, description="Weight of the entropy bonus, which rewards undecided policies."
    )


class LearnSettings(ReinforceSettings):
    """The `learn` section: Algorithm 1 with K tasks x Z runs in each of m epochs."""

    levels: Literal[1, 2, 3] = Field(
        default=2,
        description="1: decide between old and new classes; 2: also between harder and easier ones; 3: also the codec.",
    )
    search: Search = Field(
        default="reinforce",
        description="How paths are searched: the paper's REINFORCE, all of level 1, at random, or by TPE (Optuna).",
    )
    crossval_fixed: bool = Field(
        default=False, description="Learn nothing: compare all fixed shares on the P tasks and keep the best."
    )
    source: str = Field(
        default="phase0", description="Where tasks are cut from: phase0, target (an oracle) or dataset:NAME."
    )
    fidelity: Fidelity = Field(
        default="features",
        description="How exactly runs are trained: full, short (fewer epochs) or features (only the head).",
    )
    epochs: int = Field(default=50, ge=1, description="Policy updates, m.")
    tasks: int = Field(default=2, ge=1, description="Tasks in each epoch, K.")
    runs: int = Field(default=8, ge=1, description="Runs of each task, Z.")
    pool: int = Field(default=4, ge=0, description="Tasks in total, used in turn; 0: new ones in every epoch.")
    finish_epochs: int = Field(default=0, ge=0, description="Further epochs afterwards, at learn.finish_fidelity.")
    finish_fidelity: Fidelity = Field(
        default="full", description="How exactly the runs of these further epochs are trained."
    )
    phases: tuple[int, ...] | None = Field(
        default=None, description="Several N at once, such as [5, 10, 25], task by task; none: the target's."
    )
    scale_batch: bool = Field(
        default=True, description="Shrink batches with the memory, so that a phase has as many steps as on the target."
    )
    scale_finetune: bool = Field(
        default=True,
        description="Raise the rate of a shortened fine-tuning, so that it changes the head as much as the whole one.",
    )
    short_share: float = Field(
        default=0.25, gt=0, le=1, description="The share of the epochs after phase 0 that `short` trains."
    )
    phase0_share: float = Field(
        default=1.0, gt=0, le=1, description="The share of phase 0's epochs after which `features` are computed."
    )
    features_steps: int = Field(
        default=200, ge=1, description="`features` trains a head for at most this many steps per stage."
    )
    baseline: Literal["average", "leave-one-out"] = Field(
        default="leave-one-out",
        description="What rewards are compared with: a moving average, or the other runs of the same task.",
    )
    batched: bool = Field(
        default=True, description="Train the heads of many runs together at fidelity features; false: one by one."
    )
    entropy: float = Field(
        default=0.05, ge=0, description="Weight of the entropy bonus, which rewards undecided policies."
    )
    fresh_init: bool = Field(
        default=False, description="Train phase 0 anew for every run, as in the paper; then no prefix is shared."
    )
    share: bool = Field(
        default=True, description="Train prefixes that runs share only once; results are the same without it."
    )
    hidden: int = Field(default=32, ge=1, le=4096, description="Units of the policy's hidden layers.")
    disk_gigabytes: float = Field(
        default=4.0, ge=0, description="Disk space for snapshots of models that later runs continue from."
    )

    @field_validator("source")
    @classmethod
    def _is_a_source(cls, source: str) -> str:
        if source not in ("phase0", "target") and not (source.startswith("dataset:") and source != "dataset:"):
            raise InputError(f"source: '{source}' given; expected phase0, target or dataset:NAME")
        return source

    @field_validator("phases")
    @classmethod
    def _are_phases(cls, phases: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if phases is not None and (not phases or min(phases) < 1):
            raise InputError(f"learn.phases: {list(phases)} given; expected whole numbers of at least 1")
        return phases

    @model_validator(mode="after")
    def _has_tasks_for_all(self) -> "LearnSettings":
        if self.crossval_fixed and not self.pool:
            raise InputError("learn.pool: 0 given; expected at least 1, the tasks that fixed shares are compared on")
        if self.search != "reinforce":
            self._can_search()
        if self.pool and len(self.phases or ()) > self.pool:
            raise InputError(f"learn.pool: {self.pool} given; expected a task for each of learn.phases")
        return self

    def _can_search(self) -> None:
        """Checks the settings of a search for one path, which is compared on the same tasks as all others."""
        if self.crossval_fixed:
            raise InputError(f"learn.search: {self.search} given, but learn.crossval_fixed compares fixed shares only")
        if not self.pool:
            raise InputError("learn.pool: 0 given; expected at least 1, the tasks that paths are compared on")
        if len(self.phases or ()) > 1:
            raise InputError(f"learn.phases: {list(self.phases or ())} given; a path has one N, expected one number")
        if self.finish_epochs:
            raise InputError(f"learn.finish_epochs: {self.finish_epochs} given; only reinforce has them, expected 0")
        if self.search == "exhaustive" and self.levels != 1:
            raise InputError(f"learn.levels: {self.levels} given; an exhaustive search covers level 1, expected 1")
        if self.levels == 3:
            raise InputError(f"learn.levels: 3 given; {self.search} searches shares and splits, expected 1 or 2")

    @property
    def all_epochs(self) -> int:
        """Epochs, or rounds of a search."""
        return 1 if self.crossval_fixed or self.search == "exhaustive" else self.epochs + self.finish_epochs

    @property
    def paths_per_round(self) -> int:
        """Paths of a search, each run on all P tasks: as many runs as in an epoch of K x Z."""
        return max(1, self.tasks * self.runs // self.pool)

    def fidelity_of(self, epoch: int) -> Fidelity:
        return self.fidelity if epoch < self.epochs else self.finish_fidelity

    def tasks_of(self, epoch: int) -> list[int]:
        """Returns the numbers of the K tasks of an epoch: the pool in turn, or new ones in every epoch."""
        first = epoch * self.tasks
        return [number % self.pool if self.pool else number for number in range(first, first + self.tasks)]
