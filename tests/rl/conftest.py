"""A small data set and one finished learning on it, made once per test process and only read."""

from pathlib import Path

import pytest

from factories import blobs, write_npz
from remem.events import Event
from remem.rl.learn import learn_in_folder
from rl_factories import Learning, learn_config


@pytest.fixture(scope="session")
def npz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight classes that overlap, so that rewards differ; six of them come in phase 0."""
    path = tmp_path_factory.mktemp("data") / "blobs.npz"
    write_npz(path, blobs(classes=8, per_class=12, spread=2.0))
    return path


@pytest.fixture(scope="session")
def learning(npz: Path, tmp_path_factory: pytest.TempPathFactory) -> Learning:
    """Learned in this process."""
    out, events = tmp_path_factory.mktemp("learning") / "deep" / "out", list[Event]()
    learn_in_folder(learn_config(npz), out, events.append)
    return Learning(out, events)
