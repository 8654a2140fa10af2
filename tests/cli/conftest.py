"""What the tests of the command line share: the command in this process, and a data set of vectors in a file."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from factories import blobs
from remem.cli.main import main

TINY = ("--set", "train.epochs=1", "--set", "finetune.epochs=0", "--set", "net.hidden=[8]", "--phases", "2")


class Said(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Said]


@pytest.fixture
def remem(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """`remem("list", "methods")` in this process."""
    monkeypatch.delenv("REMEM_DATA", raising=False)

    def call(*arguments: object) -> Said:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Said(int(stop.value.code or 0), captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a data set: six classes of vectors, 20 + 8 each."""
    train, test = blobs().train, blobs().test
    path = tmp_path_factory.mktemp("data") / "vectors.npz"
    x_train, x_test = (part.read(np.arange(len(part.labels))) for part in (train, test))
    np.savez(path, x_train=x_train, y_train=train.labels, x_test=x_test, y_test=test.labels)
    return f"npz:{path}"
