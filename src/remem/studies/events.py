"""Events of a study: its beginning, and the events of its learnings and runs under their names."""

from dataclasses import dataclass

from remem.events import Event
from remem.runs.events import RunStarted


@dataclass(frozen=True)
class StudyStarted(Event, kind="study"):
    """What is going to happen; the time left is estimated from the jobs."""

    runs: int
    done: int  # runs that are complete already
    learnings: tuple[str, ...]  # policies to be learned before the runs
    jobs: dict[str, RunStarted]  # runs, and phases 0 that several runs share


@dataclass(frozen=True)
class LearningProgress(Event, kind="study-learning"):
    """An event of the policy that is being learned."""

    name: str
    progress: Event


@dataclass(frozen=True)
class PolicyLearned(Event, kind="study-learned"):
    """A policy is complete."""

    name: str


@dataclass(frozen=True)
class JobProgress(Event, kind="study-job"):
    """An event of a run, or of a shared phase 0."""

    name: str
    progress: Event


@dataclass(frozen=True)
class JobEnded(Event, kind="study-ended"):
    """A job is complete; a shared phase 0 has no accuracies."""

    name: str
    average_accuracy: float | None = None
    last_accuracy: float | None = None
