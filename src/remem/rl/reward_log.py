"""Append-only reward log: one line per trained node, so that nothing is trained twice after a stop."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from remem.action import Action
from remem.errors import DamagedFileError
from remem.rl.paths import Node, TaskKey
from remem.rl.prefix_tree import TrainNodes
from remem.storage.atomic import write_atomically

REWARDS = "rewards.jsonl"


class RewardLog:
    """Rewards by node. An incomplete last line is dropped, and its node is trained again."""

    def __init__(self, out: Path) -> None:
        self._path = out / REWARDS

    def read(self) -> dict[Node, float]:
        known: dict[Node, float] = {}
        text = self._path.read_text(encoding="utf-8", errors="replace") if self._path.exists() else ""
        whole = [line + "\n" for line in text.split("\n")[:-1]]
        for number, line in enumerate(whole, start=1):
            try:
                node, reward = _entry(line)
            except (ValueError, KeyError, TypeError) as error:
                raise DamagedFileError(f"{self._path}: line {number} is not a reward ({error})") from error
            known[node] = reward
        if "".join(whole) != text:
            write_atomically(self._path, "".join(whole).encode())
        return known

    def write(self, node: Node, reward: float) -> None:
        key, path = node
        entry = {"task": asdict(key), "path": [action.key() for action in path], "reward": reward}
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def _entry(line: str) -> tuple[Node, float]:
    entry = json.loads(line)
    path = tuple(Action.from_key(key) for key in entry["path"])
    reward = float(entry["reward"])
    if not 0 <= reward <= 1:
        raise ValueError(f"{reward} is not an accuracy")
    return (TaskKey(**entry["task"]), path), reward


def logged(train_nodes: TrainNodes, log: RewardLog, progress: Callable[[float], None]) -> TrainNodes:
    """Logs every reward as it arrives. `progress` is called with the completed share of the nodes."""

    def train_and_log(nodes: Sequence[Node]) -> Iterator[tuple[Node, float]]:
        for done, (node, reward) in enumerate(train_nodes(nodes), start=1):
            log.write(node, reward)
            progress(min(1.0, done / len(nodes)))  # ancestors that are trained again count as well
            yield node, reward

    return train_and_log
