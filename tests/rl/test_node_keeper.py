"""node_keeper.py: a node that is stopped goes on between the same two steps, in any process; damage costs the node."""

import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from remem import interrupts
from remem.interrupts import Interrupted
from remem.methods.loop import StageRunner
from remem.rl.learn import learn_in_folder
from remem.rl.node_keeper import NodeKeeper
from remem.rl.paths import Node, TaskKey
from remem.storage.tensorfile import Snapshot
from rl_factories import Learning, assert_same_learning, learn_config, reward_lines

A: Node = (TaskKey(0, "full"), ())
B: Node = (TaskKey(1, "full"), ())


def count_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    steps, real = [0], StageRunner._step_on

    def counted(self: StageRunner, *arguments: Any) -> Any:
        steps[0] += 1
        return real(self, *arguments)

    monkeypatch.setattr(StageRunner, "_step_on", counted)
    return steps


def test_nodes_that_are_stopped_once_each_lose_no_step(
    learning: Learning, npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, stopped, real = tmp_path / "out", set[Node](), NodeKeeper.enter
    steps = count_steps(monkeypatch)
    learn_in_folder(learn_config(npz), tmp_path / "whole", lambda event: None)
    expected, steps[0] = steps[0], 0

    def enter(self: NodeKeeper, node: Node) -> None:
        real(self, node)
        if node not in stopped:
            stopped.add(node)
            interrupts.request(signal.SIGTERM)

    monkeypatch.setattr(NodeKeeper, "enter", enter)
    for _ in range(len(reward_lines(learning.out))):
        with pytest.raises(Interrupted):
            learn_in_folder(learn_config(npz), out, lambda event: None)
        assert len(list((out / "snapshots").glob("*.training"))) == 1
    learn_in_folder(learn_config(npz), out, lambda event: None)
    assert_same_learning(out, learning.out)
    assert steps[0] == expected


def test_nodes_are_saved_as_time_passes(npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With next to no minutes after every step: a power cut in the second step of a node costs that step."""

    class PowerCut(Exception):
        pass

    config, steps = learn_config(npz, {"train": {"checkpoint_minutes": 1e-9}}), count_steps(monkeypatch)
    real = StageRunner._step_on

    def cut(self: StageRunner, *arguments: Any) -> Any:
        if steps[0] == 1:
            raise PowerCut
        return real(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(StageRunner, "_step_on", cut)
        with pytest.raises(PowerCut):
            learn_in_folder(config, tmp_path / "out", lambda event: None)
    learn_in_folder(config, tmp_path / "out", lambda event: None)
    in_pieces, steps[0] = steps[0], 0
    learn_in_folder(config, tmp_path / "whole", lambda event: None)
    assert in_pieces == steps[0]
    assert_same_learning(tmp_path / "out", tmp_path / "whole")


def test_a_file_stays_until_the_next_node_and_is_not_taken_for_another(tmp_path: Path) -> None:
    """Until then the node's reward may not be in the log."""
    keeper, state = NodeKeeper(tmp_path, 60), Snapshot({"phase": 0}, {"x": torch.arange(3)})
    keeper.enter(A)
    assert keeper.resume(0) is None
    assert not keeper.due()
    keeper.save(state)
    [path] = tmp_path.iterdir()
    other = NodeKeeper(tmp_path, 0)
    other.enter(A)
    assert not other.due()  # only when a signal comes
    assert torch.equal(found(other, 0).tensors["x"], torch.arange(3))
    assert other.resume(1) is None
    other.enter(A)  # once more, after a failure
    assert found(other, 0).facts["phase"] == 0
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert other.resume(0) is None
    path.write_bytes(content)
    keeper.enter(B)
    assert list(tmp_path.iterdir()) == []
    keeper.save(state)
    [foreign] = tmp_path.iterdir()
    foreign.write_bytes(content)
    assert keeper.resume(0) is None  # of node A


def found(keeper: NodeKeeper, phase: int) -> Snapshot:
    snapshot = keeper.resume(phase)
    assert snapshot is not None
    return snapshot
