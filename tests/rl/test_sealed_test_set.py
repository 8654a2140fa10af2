"""Policies are learned without the test set: reading it raises, and its content changes nothing."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from factories import blobs, write_npz
from remem.data.datasets import load_dataset
from remem.data.settings import DataSettings
from remem.data.source import Dataset
from remem.episode import Episode
from remem.errors import SealedError
from remem.events import ignore
from remem.rl.learn import learn_in_folder
from remem.rl.paths import Task
from remem.rl.pseudo_tasks import PseudoTasks
from rl_factories import Learning, assert_same_learning, learn_config


def test_reading_the_test_set_raises(npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_episode: Callable[[PseudoTasks, Task], Episode] = PseudoTasks.open

    def peek(self: PseudoTasks, task: Task) -> Episode:
        assert len(self.dataset.test.labels)
        return open_episode(self, task)

    monkeypatch.setattr(PseudoTasks, "open", peek)
    with pytest.raises(SealedError, match=r"blobs.npz: the test set was asked for while a policy learns"):
        learn_in_folder(learn_config(npz), tmp_path / "out", ignore)
    assert not (tmp_path / "out" / "policy.json").exists()


class Poison:
    """A test split whose every attribute raises."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"the test split was asked for {name}")


@pytest.mark.parametrize("learn", [{}, {"fidelity": "features"}, {"source": "target"}, {"crossval_fixed": True}])
def test_no_kind_of_learning_touches_the_test_split(
    learn: dict[str, Any], npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poisoned(settings: DataSettings) -> Dataset:
        return replace(load_dataset(settings), test=Poison())

    monkeypatch.setattr("remem.rl.pseudo_tasks.load_dataset", poisoned)
    config = learn_config(npz, **learn, epochs=1, tasks=1, runs=2)
    assert learn_in_folder(config, tmp_path / "out", ignore).facts["rewards"]


def test_another_test_set_gives_the_same_policy(learning: Learning, tmp_path: Path) -> None:
    same = blobs(classes=8, per_class=12, spread=2.0)
    write_npz(tmp_path / "blobs.npz", replace(same, test=blobs(classes=8, per_class=12, seed=9).test))
    learn_in_folder(learn_config(tmp_path / "blobs.npz"), tmp_path / "out", ignore)
    assert_same_learning(tmp_path / "out", learning.out)
