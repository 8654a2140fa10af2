"""The errors that remem raises on purpose; the command line turns InputError into one line and exit code 2."""


class InputError(ValueError):
    """The user's input is wrong: the message names the field, what was given and what is allowed."""


class DamagedFileError(InputError):
    """A file that remem reads is missing, cut short or not what it claims to be."""


class BudgetError(RuntimeError):
    """More samples would be held at the same time than the budget allows (protocol 1). Never caught inside remem."""


class NotHeldError(RuntimeError):
    """A row was read that is not in memory (protocol 1: what is discarded is gone)."""


class SealedError(RuntimeError):
    """The test set was read while a policy learns (protocol 3: no choice ever sees a test set)."""
