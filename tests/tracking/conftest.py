"""The command and the data set of the command line's tests."""

from cli.conftest import remem, vectors

__all__ = ["remem", "vectors"]
