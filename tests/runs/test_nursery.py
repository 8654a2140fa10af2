"""Several processes: parents first, lost ones replaced, errors as they were. The processes are cheap stand-ins."""

import json
import sys
from pathlib import Path

import pytest

from remem.errors import InputError
from remem.rl.paths import Node, TaskKey
from remem.rl.tree import missing
from remem.runs.learning import compose_learning
from remem.runs.local import WorkerDiedError
from remem.runs.nursery import Nursery

# Rewards are made of paths; the file named by the shelf says what to do at the first node with that path.
STAND_IN = """
import json, os, sys
first = json.loads(sys.stdin.readline())
shelf = first["shelf"]
order = json.load(open(shelf + "/order"))
for line in sys.stdin:
    job = json.loads(line)
    path = job["path"]
    with open(shelf + "/seen", "a") as file:
        file.write(json.dumps([os.getpid(), job["key"]["number"], path]) + chr(10))
    if path == order.get("at"):
        times = sum(json.loads(entry)[2] == path for entry in open(shelf + "/seen"))
        if times <= order["times"]:
            os._exit(3)
    if path == order.get("wrong"):
        print(json.dumps({"error": "InputError", "message": "this is wrong", "traceback": "somewhere"}), flush=True)
        sys.exit()
    print("a library says hello", flush=True)
    reward = (job["key"]["number"] + sum(map(sum, path))) / 1000
    print(json.dumps({"rewards": [[path, reward]], "trained": 1}), flush=True)
    if path == order.get("leave"):
        sys.exit()
"""

ROOTS = [TaskKey(number, "short") for number in range(3)]
RUNS: list[Node] = [(key, path) for key in ROOTS for path in (((6, 5), (6, 5)), ((6, 5), (7, 5)), ((8, 2), (8, 5)))]


def reward(node: Node) -> float:
    return (node[0].number + sum(map(sum, node[1]))) / 1000


def grown(
    folder: Path, monkeypatch: pytest.MonkeyPatch, order: dict[str, object], workers: int = 2
) -> tuple[dict[Node, float], int, list[list[object]]]:
    """(rewards, phases trained, what was seen by whom, in the order in which it was begun)."""
    monkeypatch.setattr("remem.runs.nursery.COMMAND", (sys.executable, "-I", "-S", "-c", STAND_IN))
    (folder / "order").write_text(json.dumps(order))
    with Nursery(compose_learning({}), folder, workers) as nursery:
        done = dict(nursery.grow(missing(RUNS[:6], {})))
        done |= dict(nursery.grow(missing(RUNS, done)))
        processes = [gardener.process for gardener in nursery._gardeners]
    assert all(process.poll() is not None for process in processes)  # none is left behind
    seen = [json.loads(line) for line in (folder / "seen").read_text().splitlines()]
    return done, nursery.trained, seen


def test_parents_come_first_and_no_node_is_given_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, trained, seen = grown(tmp_path, monkeypatch, {})
    assert done == {node: reward(node) for node in missing(RUNS, {})}
    assert trained == len(seen) == len(done) == 18
    assert len({pid for pid, _, _ in seen}) == 2
    begun = [(number, path) for _, number, path in seen]
    for number, path in begun:
        assert isinstance(path, list)
        if path:
            assert begun.index((number, path[:-1])) < begun.index((number, path))


def test_a_lost_process_is_replaced_and_its_node_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, trained, seen = grown(tmp_path, monkeypatch, {"at": [[6, 5], [7, 5]], "times": 2})
    assert done == {node: reward(node) for node in missing(RUNS, {})}
    assert trained == 18
    assert len(seen) == 20
    assert len({pid for pid, _, _ in seen}) == 4


def test_a_node_that_ends_every_process_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WorkerDiedError, match=r"\(\(8, 2\),\)\): its process ended 3 times; it can be resumed"):
        grown(tmp_path, monkeypatch, {"at": [[8, 2]], "times": 9}, workers=1)


def test_one_that_leaves_while_it_has_nothing_to_do_is_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, _, _ = grown(tmp_path, monkeypatch, {"leave": [[8, 2], [8, 5]]})
    assert done == {node: reward(node) for node in missing(RUNS, {})}


def test_an_error_is_raised_here_as_it_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="this is wrong") as caught:
        grown(tmp_path, monkeypatch, {"wrong": [[6, 5]]})
    assert any("somewhere" in note for note in caught.value.__notes__)
