"""Nodes of the prefix trees as jobs of a crew: no node is given to two workers, and a child follows its parent."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from remem.rl.paths import Node
from remem.runs.crew import Crew, Job
from remem.runs.learning import LearnConfig


class CrewGrower:
    """Has nodes trained by a crew; the snapshots that they start from lie in `shelf`, which all workers see."""

    def __init__(self, crew: Crew, config: LearnConfig, shelf: Path) -> None:
        self._crew = crew
        self._order = {"config": config.model_dump(mode="json"), "out": str(shelf.absolute())}
        self._threads = config.target.train.threads
        self.trained = 0  # phases

    def grow(self, nodes: Sequence[Node]) -> Iterator[tuple[Node, float]]:
        """Rewards as they come in; a node waits for its nearest ancestor, whose snapshot it starts from."""
        jobs: dict[str, Node] = {}
        for node in nodes:
            jobs[name_of(node)] = node
        for job, answer in self._crew.run([self._job(node, jobs) for node in nodes]):
            self.trained += answer["trained"]
            for path, reward in answer["rewards"]:
                yield (jobs[job.name][0], tuple((share, split) for share, split in path)), reward

    def _job(self, node: Node, jobs: dict[str, Node]) -> Job:
        key, path = node
        order: dict[str, Any] = {**self._order, "key": asdict(key), "path": path}
        ancestors = (name_of((key, path[:depth])) for depth in range(len(path) - 1, -1, -1))
        after = next((name for name in ancestors if name in jobs), None)
        return Job(
            name_of(node), "node", order, () if after is None else (after,), place=(key, *path), threads=self._threads
        )


def name_of(node: Node) -> str:
    """A node in messages."""
    return f"task {node[0].number} {node[0].fidelity}{node[0].run and f' {node[0].run}'}, path {list(node[1])}"
