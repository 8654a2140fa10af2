"""The far end of nursery.py: nodes come in as lines of JSON, each is trained, and its rewards go back."""

import json
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remem.runs.tasks import Workplace


def main() -> None:
    """The first line says what is learned; every other line is a node, until there are no more lines."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, and the parent ends this process
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not land between the answers

    def answer(content: Mapping[str, Any]) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    workplace: Workplace | None = None
    for line in sys.stdin:
        try:
            if workplace is None:
                workplace = open_workplace(json.loads(line))
            else:
                answer(train(workplace, json.loads(line)))
        except Exception as error:
            answer({"error": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()})
            return


def open_workplace(order: Mapping[str, Any]) -> "Workplace":
    from remem.runs.learning import LearnConfig
    from remem.runs.shelf import DiskShelf
    from remem.runs.tasks import Workplace

    config = LearnConfig.model_validate(order["config"])
    return Workplace(config, DiskShelf(Path(order["shelf"]), int(config.learn.disk_gigabytes * 1e9)))


def train(workplace: "Workplace", job: Mapping[str, Any]) -> dict[str, Any]:
    from remem.rl.paths import TaskKey

    before = workplace.trained
    rewards = workplace.grow(TaskKey(**job["key"]), tuple((share, split) for share, split in job["path"]))
    return {"rewards": list(rewards.items()), "trained": workplace.trained - before}


if __name__ == "__main__":
    main()
