"""Rewards on paper: every node that was trained is a line, so that nothing is trained twice after a stop."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from remem.errors import DamagedFileError
from remem.rl.paths import Node, TaskKey
from remem.rl.tree import Grow
from remem.runs.checkpoint import write_atomically

REWARDS = "rewards.jsonl"


class Ledger:
    """Rewards by node, a line each; a line that was cut off by a stop is trained again."""

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
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"task": asdict(node[0]), "path": node[1], "reward": reward}) + "\n")


def _entry(line: str) -> tuple[Node, float]:
    entry = json.loads(line)
    path = tuple((int(share), int(split)) for share, split in entry["path"])
    reward = float(entry["reward"])
    if not 0 <= reward <= 1:
        raise ValueError(f"{reward} is no accuracy")
    return (TaskKey(**entry["task"]), path), reward


def recorded(grow: Grow, ledger: Ledger, tell: Callable[[float], None]) -> Grow:
    """Writes every reward down as it comes; `tell` hears which share of the nodes is done."""

    def grow_and_tell(nodes: Sequence[Node]) -> Iterator[tuple[Node, float]]:
        for done, (node, reward) in enumerate(grow(nodes), start=1):
            ledger.write(node, reward)
            tell(min(1.0, done / len(nodes)))  # ancestors that had to be trained again come on top
            yield node, reward

    return grow_and_tell
