"""A pool of workers, local processes or Ray actors, that runs jobs. Knows nothing of learning."""
