"""rewards.jsonl: exact, whole after any stop, and honest about damage."""

import json
from pathlib import Path

import pytest

from remem.errors import DamagedFileError
from remem.rl.paths import Node, TaskKey
from remem.rl.reward_log import RewardLog, recorded

NODES: list[tuple[Node, float]] = [
    ((TaskKey(0, "short"), ()), 1 / 3),
    ((TaskKey(0, "short"), ((6, 5), (7, 2))), 0.1 + 0.2),
    ((TaskKey(2, "features", run="0.1.2", fresh=True), ((6, 5),)), 0.0),
]


def written(out: Path) -> RewardLog:
    ledger = RewardLog(out)
    for node, reward in NODES:
        ledger.write(node, reward)
    return ledger


def test_what_was_written_is_read_to_the_last_bit(tmp_path: Path) -> None:
    assert RewardLog(tmp_path).read() == {}
    assert written(tmp_path).read() == dict(NODES)


def test_a_line_that_was_cut_off_is_dropped_for_good(tmp_path: Path) -> None:
    ledger, path = written(tmp_path), tmp_path / "rewards.jsonl"
    text = path.read_text()
    path.write_text(text[:-20])
    assert ledger.read() == dict(NODES[:2])
    ledger.write(*NODES[2])
    assert path.read_text() == text


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "5",
        '{"task": {"number": 0, "fidelity": "short"}, "path": []}',
        '{"task": {"number": 0, "fidelity": "short"}, "path": [], "reward": 1.5}',
        '{"task": {"number": 0, "fidelity": "short"}, "path": [], "reward": NaN}',
        '{"task": {"number": 0, "fidelity": "short"}, "path": [[1]], "reward": 0.5}',
        '{"task": {"numero": 0}, "path": [], "reward": 0.5}',
    ],
)
def test_a_damaged_line_is_named(line: str, tmp_path: Path) -> None:
    ledger, path = written(tmp_path), tmp_path / "rewards.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], line, *lines[2:]]) + "\n")
    with pytest.raises(DamagedFileError, match=r"rewards.jsonl: line 2 is not a reward") as caught:
        ledger.read()
    assert "\n" not in str(caught.value)


def test_every_reward_is_on_paper_before_it_is_passed_on(tmp_path: Path) -> None:
    ledger, shares = RewardLog(tmp_path), list[float]()
    grow = recorded(lambda nodes: iter(NODES), ledger, shares.append)
    for count, (node, reward) in enumerate(grow([node for node, _ in NODES[:2]]), start=1):
        assert (node, reward) == NODES[count - 1]
        assert len((tmp_path / "rewards.jsonl").read_text().splitlines()) == count
    assert shares == [0.5, 1.0, 1.0]  # an ancestor that had to be trained again does not count beyond all
    assert json.loads((tmp_path / "rewards.jsonl").read_text().splitlines()[1])["path"] == [[6, 5], [7, 2]]
