"""reward_log.py: rewards are read back exactly, a line that was cut off is dropped, damage is reported."""

import json
from pathlib import Path

import pytest

from remem.errors import DamagedFileError
from remem.rl.paths import Node, TaskKey
from remem.rl.reward_log import RewardLog, logged
from rl_factories import make_path

IDENTITY = {"settings": {"seed": 0}, "data": "abc"}
NODES: list[tuple[Node, float]] = [
    ((TaskKey(0, "short"), ()), 1 / 3),
    ((TaskKey(0, "short"), make_path((6, 5), (7, 2))), 0.1 + 0.2),
    ((TaskKey(2, "features", run="0.1.2", fresh=True), make_path((6, 5))), 0.0),
]


def written(out: Path) -> RewardLog:
    log = RewardLog(out, IDENTITY)
    for node, reward in NODES:
        log.write(node, reward)
    return log


def test_rewards_are_read_back_to_the_last_bit(tmp_path: Path) -> None:
    assert RewardLog(tmp_path, IDENTITY).read() == {}
    assert written(tmp_path).read() == dict(NODES)


def test_a_line_that_was_cut_off_is_removed_from_the_file(tmp_path: Path) -> None:
    log, path = written(tmp_path), tmp_path / "rewards.jsonl"
    text = path.read_text()
    path.write_text(text[:-20])
    assert log.read() == dict(NODES[:2])
    log.write(*NODES[2])
    assert path.read_text() == text


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "5",
        '{"task": {"number": 0, "fidelity": "short"}, "path": []}',
        '{"task": {"number": 0, "fidelity": "short"}, "path": [], "reward": 1.5}',
        '{"task": {"number": 0, "fidelity": "short"}, "path": [], "reward": NaN}',
        '{"task": {"number": 0, "fidelity": "short"}, "path": [[]], "reward": 0.5}',
        '{"task": {"number": 0, "fidelity": "short"}, "path": [[6, 5, 0, 5]], "reward": 0.5}',
        '{"task": {"number": 0, "fidelity": "short"}, "path": [6], "reward": 0.5}',
        '{"task": {"number": 0, "fidelity": "short"}, "path": [["x", 5]], "reward": 0.5}',
        '{"task": {"numero": 0}, "path": [], "reward": 0.5}',
    ],
)
def test_a_damaged_line_is_named(line: str, tmp_path: Path) -> None:
    log, path = written(tmp_path), tmp_path / "rewards.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], line, *lines[2:]]) + "\n")
    with pytest.raises(DamagedFileError, match=r"rewards.jsonl: line 2 is not a reward") as caught:
        log.read()
    assert "\n" not in str(caught.value)


def test_actions_of_an_older_shorter_form_take_defaults(tmp_path: Path) -> None:
    """Logs that were written when actions had fewer components stay readable."""
    line = '{"task": {"number": 0, "fidelity": "short"}, "path": [[6], [7, 2]], "reward": 0.5}'
    (tmp_path / "rewards.jsonl").write_text(line + "\n")
    assert RewardLog(tmp_path, IDENTITY).read() == {(TaskKey(0, "short"), make_path((6, 5), (7, 2))): 0.5}


def test_every_reward_is_written_before_it_is_passed_on(tmp_path: Path) -> None:
    log, shares = RewardLog(tmp_path, IDENTITY), list[float]()
    train_nodes = logged(lambda nodes: iter(NODES), log, shares.append)
    for count, (node, reward) in enumerate(train_nodes([node for node, _ in NODES[:2]]), start=1):
        assert (node, reward) == NODES[count - 1]
        assert len((tmp_path / "rewards.jsonl").read_text().splitlines()) == count
        assert len(shares) == count
    assert shares == [0.5, 1.0, 1.0]  # an ancestor that had to be trained again does not count beyond all
    assert json.loads((tmp_path / "rewards.jsonl").read_text().splitlines()[1])["path"] == [[6, 5], [7, 2]]


def test_every_changed_character_of_a_line_is_noticed(tmp_path: Path) -> None:
    log, path = written(tmp_path), tmp_path / "rewards.jsonl"
    text = path.read_text()
    silent = 0
    for place in range(len(text.splitlines()[0])):
        path.write_text(text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :])
        try:
            assert log.read() == dict(NODES)
            silent += 1
        except DamagedFileError:
            pass
    assert silent == 0


def test_rewards_of_another_learning_are_refused(tmp_path: Path) -> None:
    written(tmp_path)
    other = RewardLog(tmp_path, {**IDENTITY, "settings": {"seed": 1}})
    with pytest.raises(DamagedFileError, match=r"line 1 is not a reward \(it does not match its checksum, or is of an"):
        other.read()


def test_lines_are_put_in_one_order(tmp_path: Path) -> None:
    """Two workers write them as they come."""
    texts = []
    for name, nodes in (("a", NODES), ("b", NODES[::-1])):
        (tmp_path / name).mkdir()
        log = RewardLog(tmp_path / name, IDENTITY)
        for node, reward in nodes:
            log.write(node, reward)
        log.order(log.read())
        assert log.read() == dict(NODES)
        texts.append((tmp_path / name / "rewards.jsonl").read_text())
    assert texts[0] == texts[1]
