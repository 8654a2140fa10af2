"""Trees grown by several processes: each trains one node at a time, and no node is given to two of them."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Any, Self

from remem.rl.paths import Node
from remem.runs.learning import LearnConfig
from remem.runs.local import PATIENCE, WorkerDiedError, parsed, rebuilt

COMMAND = (sys.executable, "-P", "-m", "remem.runs.gardener")  # -P: no module is taken from the working folder
TRIES = 3  # a node whose process was lost this often is given up

Answer = dict[str, Any] | None  # None: the process has ended


class Nursery:
    """K processes that live as long as it is open; a lost one is replaced and its node trained again."""

    def __init__(self, config: LearnConfig, shelf: Path, workers: int) -> None:
        self._first_line = json.dumps({"config": config.model_dump(mode="json"), "shelf": str(shelf)})
        self._workers = workers
        self._answers: SimpleQueue[tuple[Gardener, Answer]] = SimpleQueue()
        self._gardeners: list[Gardener] = []
        self.trained = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for gardener in self._gardeners:
            gardener.process.terminate()
        for gardener in self._gardeners:
            gardener.close()
        self._gardeners = []

    def grow(self, nodes: Sequence[Node]) -> Iterator[tuple[Node, float]]:
        """Rewards as they come in; a node waits for its parent, whose snapshot it starts from."""
        waiting = dict.fromkeys(nodes)
        lost: dict[Node, int] = {}
        running: dict[Gardener, Node] = {}
        while waiting or running:
            self._hand_out(waiting, running)
            gardener, answer = self._answers.get()
            node = running.pop(gardener, None)
            if node is None:  # one that ended while it had nothing to do
                self._gardeners.remove(gardener)
                gardener.close()
            elif answer is None:
                self._replace(gardener, node, lost)
                waiting = {node: None, **waiting}
            elif "error" in answer:
                raise rebuilt(str(node), answer)
            else:
                self.trained += answer["trained"]
                gardener.last = node
                for path, reward in answer["rewards"]:
                    done = node[0], tuple(map(tuple, path))
                    waiting.pop(done, None)
                    yield done, reward

    def _hand_out(self, waiting: dict[Node, None], running: dict["Gardener", Node]) -> None:
        while len(self._gardeners) < min(self._workers, len(waiting) + len(running)):
            self._gardeners.append(Gardener(self._first_line, self._answers))
        for gardener in self._gardeners:
            if gardener in running:
                continue
            busy = set(running.values())
            ready = [node for node in waiting if not _waits(node, waiting, busy)]
            if not ready:
                return
            node = min(ready, key=gardener.distance)
            del waiting[node]
            running[gardener] = node
            gardener.give({"key": asdict(node[0]), "path": node[1]})

    def _replace(self, gardener: "Gardener", node: Node, lost: dict[Node, int]) -> None:
        lost[node] = lost.get(node, 0) + 1
        self._gardeners.remove(gardener)
        words = gardener.last_words()
        gardener.close()
        if lost[node] == TRIES:
            raise WorkerDiedError(f"{node}: its process ended {TRIES} times{words}; it can be resumed")


def _waits(node: Node, waiting: dict[Node, None], busy: set[Node]) -> bool:
    """Whether an ancestor is still to be trained."""
    task, path = node
    ancestors = [(task, path[:depth]) for depth in range(len(path))]
    return any(ancestor in waiting or ancestor in busy for ancestor in ancestors)


class Gardener:
    """One process; it keeps the episode of its last node, so that going deeper restores nothing."""

    def __init__(self, first_line: str, answers: "SimpleQueue[tuple[Gardener, Answer]]") -> None:
        self.last: Node | None = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self.process = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, text=True, encoding="utf-8"
        )
        self._thread = Thread(target=self._listen, args=(answers,), daemon=True)
        self._thread.start()
        self._send(first_line)

    def distance(self, node: Node) -> tuple[bool, int]:
        """How little of the last node can be used; a child of it comes first."""
        if self.last is None or node[0] != self.last[0]:
            return True, 0
        pairs = zip(node[1], self.last[1], strict=False)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return False, len(node[1]) + len(self.last[1]) - 2 * shared

    def give(self, job: dict[str, Any]) -> None:
        self._send(json.dumps(job))

    def last_words(self) -> str:
        self.process.wait()
        self._stderr.seek(0)
        said = self._stderr.read().decode(errors="replace").strip().splitlines()[-1:]
        return "".join(f" ({line})" for line in said)

    def close(self) -> None:
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._thread.join()
        for stream in (self.process.stdin, self.process.stdout, self._stderr):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:  # its last line was never read
                    continue

    def _send(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except (BrokenPipeError, OSError):  # it has ended, which its thread tells
            return

    def _listen(self, answers: "SimpleQueue[tuple[Gardener, Answer]]") -> None:
        assert self.process.stdout is not None
        try:
            for line in self.process.stdout:
                answer = parsed(line)
                if answer is not None:
                    answers.put((self, answer))
        finally:
            answers.put((self, None))
