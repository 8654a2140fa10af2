"""Jobs and job kinds. Modules register what they can do; a worker imports a kind's module when it gets such a job."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from remem.errors import InputError
from remem.events import Emit
from remem.registry import Registry

JobHandler = Callable[[Mapping[str, Any], Emit], dict[str, Any]]  # payload, emit -> answer; both are JSON
JOB_KINDS: Registry[JobHandler] = Registry("job kind")


@dataclass(frozen=True)
class Job:
    """A unit of work for any process: settings and paths as JSON, from which the worker rebuilds the objects."""

    name: str  # unique within a call of `WorkerPool.run`; used in messages
    kind: str  # "module:id", as registered with `job_kind`
    payload: Mapping[str, Any]  # JSON
    after: tuple[str, ...] = ()  # names of earlier jobs of the same call that must be done first
    place: tuple[Hashable, ...] = ()  # position in a tree; workers prefer jobs close to their last one
    threads: int = 1  # cores that the job computes on
    folder: Path | None = None  # must be visible to every worker, on other machines too


def job_kind(name: str) -> Callable[[JobHandler], JobHandler]:
    """Registers a handler as "module:name", where the module is the one that defines it."""

    def register(handler: JobHandler) -> JobHandler:
        return JOB_KINDS.add(f"{handler.__module__}:{name}", handler)

    return register


def find_handler(kind: str) -> JobHandler:
    """The handler of a kind such as "remem.runs.jobs:run"."""
    import_kind(kind)
    return JOB_KINDS[kind]


def import_kind(kind: str) -> None:
    """Imports the module of a kind, which registers its handlers and its events."""
    module, colon, name = kind.partition(":")
    if not (module and colon and name):
        raise InputError(f"job kind '{kind}' given; expected 'module:id'")
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(f"job kind '{kind}': cannot import its module ({error})") from error
