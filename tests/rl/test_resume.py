"""learn.py: shared or not, in one process or several, stopped or not, a learning ends with the same policy."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from factories import same_tensors
from remem.events import Event
from remem.parallel.pool import open_pool
from remem.rl.events import LearningStarted, NodesTrained, PolicyUpdated
from remem.rl.learn import learn_in_folder, read_learning
from rl_factories import PHASES, RUNS, Learning, assert_same_learning, learn_config, log_entries, reward_lines


def trained_by(events: list[Event]) -> int:
    """Phases trained in the session with these events."""
    last = events[-1]
    assert isinstance(last, PolicyUpdated)
    return last.trained


def test_rewards_and_weights_are_equal_with_and_without_shared_prefixes(
    learning: Learning, npz: Path, tmp_path: Path
) -> None:
    out, events = tmp_path / "out", list[Event]()
    learn_in_folder(learn_config(npz, share=False), out, events.append)
    assert trained_by(events) == len(reward_lines(out)) == RUNS * PHASES
    assert log_entries(out) == log_entries(learning.out)
    assert same_tensors(*(load_file(folder / "policy.safetensors") for folder in (out, learning.out)))
    alone, shared = (
        {(line["task"]["number"], repr(line["path"])): line["reward"] for line in reward_lines(folder)}
        for folder in (out, learning.out)
    )
    assert alone == shared


def test_a_snapshot_cache_without_room_costs_time_and_changes_nothing(
    learning: Learning, npz: Path, tmp_path: Path
) -> None:
    events = list[Event]()
    learn_in_folder(learn_config(npz, disk_gigabytes=0), tmp_path / "out", events.append)
    assert log_entries(tmp_path / "out") == log_entries(learning.out)
    assert trained_by(events) > trained_by(learning.events)


def test_two_processes_one_of_which_is_killed_give_the_same(learning: Learning, npz: Path, tmp_path: Path) -> None:
    killed: list[int] = []

    def kill_one(event: Event) -> None:
        """After the first reward: the process that was started last."""
        if isinstance(event, NodesTrained) and not killed:
            killed.append(next(slot.pid for slot in reversed(pool._slots.values()) if slot.pid))
            os.kill(killed[0], signal.SIGKILL)

    before = torch.get_num_threads()
    torch.set_num_threads(2)  # as a new process has; no episode is opened here that would set it
    try:
        with open_pool(2, None) as pool:
            learn_in_folder(learn_config(npz), tmp_path / "out", kill_one, pool)
        assert torch.get_num_threads() == 1  # the setting, which the last bit of a policy's weights depends on
    finally:
        torch.set_num_threads(before)
    assert killed
    assert_same_learning(tmp_path / "out", learning.out)


KILLED = """
import json, os, signal, sys
from pathlib import Path
from remem.rl.config import LearnConfig
from remem.rl.events import NodesTrained
from remem.rl.learn import learn_in_folder
config = LearnConfig.model_validate(json.loads(sys.argv[1]))
count = 0
def die(event):
    global count
    count += isinstance(event, NodesTrained)
    if count == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
learn_in_folder(config, Path(sys.argv[2]), die)
"""


def test_a_killed_learning_resumes_and_equals_one_that_was_never_stopped(
    learning: Learning, npz: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    nodes = len(reward_lines(learning.out))
    tree = json.dumps(learn_config(npz).model_dump(mode="json"))
    ended = subprocess.run([sys.executable, "-c", KILLED, tree, str(out), str(nodes - 2)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(reward_lines(out)) == nodes - 2
    assert not (out / "policy.json").exists()
    events = list[Event]()
    learn_in_folder(read_learning(out)[0], out, events.append)
    assert isinstance(events[0], LearningStarted)
    assert events[0].done == 1
    assert trained_by(events) == 2  # only what was missing
    assert_same_learning(out, learning.out)


@pytest.mark.parametrize(("kind", "interval"), [(PolicyUpdated, 1), (NodesTrained, 4)], ids=["epochs", "nodes"])
def test_a_learning_that_is_stopped_repeatedly_ends_with_the_same_policy(
    kind: type[Event], interval: int, learning: Learning, npz: Path, tmp_path: Path
) -> None:
    """Ctrl-C after every epoch, or at every fourth node; each time the last line of the reward log is cut off."""
    out, stops = tmp_path / "out", 0
    for _ in range(RUNS * PHASES):  # every session trains something, so there cannot be more of them
        count = 0

        def interrupt(event: Event) -> None:
            nonlocal count
            count += isinstance(event, kind)
            if count == interval:
                raise KeyboardInterrupt

        try:
            learn_in_folder(learn_config(npz), out, interrupt)
            break
        except KeyboardInterrupt:
            stops += 1
            with open(out / "rewards.jsonl", "a") as file:
                file.write('{"task": {"number"')
    assert stops >= 2
    assert_same_learning(out, learning.out)


def test_an_epoch_that_was_logged_but_not_saved_is_logged_once(learning: Learning, npz: Path, tmp_path: Path) -> None:
    """As after a stop between the log and the checkpoint of the second epoch."""
    out = tmp_path / "out"

    def interrupt(event: Event) -> None:
        if isinstance(event, PolicyUpdated):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn_in_folder(learn_config(npz), out, interrupt)
    assert len(log_entries(out)) == 1
    others = b'{"event": "policy"}\n{"event": "policy", "epoch": "2"}\n{"event": "pol'
    (out / "log.jsonl").write_bytes((learning.out / "log.jsonl").read_bytes() + others)
    learn_in_folder(learn_config(npz), out, lambda event: None)
    assert_same_learning(out, learning.out)
