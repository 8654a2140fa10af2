"""A pool of workers, local processes or Ray actors, that runs jobs. Knows nothing of learning."""

from remem.parallel.jobs import Job, JobHandler, job_kind
from remem.parallel.pool import WorkerDiedError, WorkerPool, open_pool

__all__ = ["Job", "JobHandler", "WorkerDiedError", "WorkerPool", "job_kind", "open_pool"]
