"""Append-only reward log: one line per trained node, so that nothing is trained twice after a stop.

Every line has a checksum over itself and the identity of its training, so that a line of another one is noticed.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from remem.action import Action
from remem.errors import DamagedFileError
from remem.rl.paths import Node, TaskKey
from remem.rl.prefix_tree import TrainNodes
from remem.storage.atomic import write_atomically
from remem.storage.event_log import LineFile
from remem.storage.jsonfile import digest
from remem.storage.limits import parse_json
from remem.types import Json

REWARDS = "rewards.jsonl"
DIGITS = 16  # of the checksum of a line
FIELDS = {"task", "path", "reward"}


class RewardLog:
    """Rewards by node. An incomplete last line is dropped, and its node is trained again."""

    def __init__(self, out: Path, identity: Json) -> None:
        self._path, self._identity = out / REWARDS, digest(identity)
        self._lines = LineFile(self._path)

    def read(self, *, repair: bool = True) -> dict[Node, float]:
        """All rewards; `repair` removes an incomplete last line from the file."""
        known: dict[Node, float] = {}
        text = self._path.read_text(encoding="utf-8", errors="replace") if self._path.exists() else ""
        whole = [line + "\n" for line in text.split("\n")[:-1]]
        for number, line in enumerate(whole, start=1):
            try:
                node, reward = self._entry(line)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise DamagedFileError(
                    f"{self._path}: line {number} is not a reward ({error}); remove it, and its phase is trained again"
                ) from error
            known[node] = reward
        if repair and "".join(whole) != text:
            write_atomically(self._path, "".join(whole).encode())
        return known

    def write(self, node: Node, reward: float) -> None:
        self._lines.append(self._line(node, reward))

    def order(self, known: Mapping[Node, float]) -> None:
        """Writes all rewards in one order, whatever the order in which workers have found them."""
        lines = sorted(self._line(node, reward) for node, reward in known.items())
        write_atomically(self._path, "".join(line + "\n" for line in lines).encode())

    def _line(self, node: Node, reward: float) -> str:
        key, path = node
        entry = {"task": asdict(key), "path": [action.key() for action in path], "reward": reward}
        return json.dumps({**entry, "check": self._check(entry)})

    def _check(self, entry: Json) -> str:
        return digest([self._identity, entry])[:DIGITS]

    def _entry(self, line: str) -> tuple[Node, float]:
        entry = parse_json(line.encode())
        check = entry.pop("check", None)
        if entry.keys() != FIELDS:
            raise ValueError(f"fields {', '.join(map(str, entry))}")
        if check not in (None, self._check(entry)):  # lines of earlier versions have none
            raise ValueError("it does not match its checksum, or is of another learning")
        return parse_entry(entry)


def parse_entry(entry: Json) -> tuple[Node, float]:
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
