"""Events of policy training."""

from dataclasses import dataclass

from remem.events import Event


@dataclass(frozen=True)
class TaskSummary:
    """The size of one pseudo task."""

    sizes: tuple[int, ...]  # classes of phases 0..N
    kind: str  # of the budget: fixed or growing
    budget: int
    exemplars: int


@dataclass(frozen=True)
class LearningStarted(Event, kind="learning"):
    """Policy training starts."""

    name: str  # of the policy
    oracle: bool
    source: str  # phase0, target or dataset
    data: str
    classes: int
    tasks: tuple[TaskSummary, ...]  # one per number of phases
    epochs: int
    done: int  # epochs complete before this session


@dataclass(frozen=True)
class NodesTrained(Event, kind="nodes"):
    """Progress within an epoch."""

    epoch: int
    share: float  # of the epoch's nodes
    left: float | None  # estimated seconds
    trained: int  # phases trained in this session


@dataclass(frozen=True)
class PolicyUpdated(Event, kind="policy"):
    """An epoch, or a round of a search, is complete."""

    epoch: int  # from 1
    epochs: int
    fidelity: str
    reward: float  # mean over the epoch's runs, as an average accuracy
    best: float  # of these runs
    path: tuple[tuple[int, ...], ...]  # the most probable actions through the first task, or the best path so far
    loss: float | None  # None: a search without a policy gradient
    entropy: float | None
    grad_norm: float | None
    trained: int
    left: float | None
