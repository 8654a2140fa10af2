"""The far end of a crew: jobs come in as JSON, one after another; events and one answer each go back."""

import gc
import json
import os
import platform
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from remem.errors import InputError

if TYPE_CHECKING:  # torch and the like are loaded by the first job
    from remem.runs.build import Prepared
    from remem.runs.tasks import Workplace

Tell = Callable[[dict[str, Any]], None]


def main() -> None:
    """As a process: lines of JSON in and out, until nobody is left to write them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, and the parent ends its workers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not land between the answers
    lines: SimpleQueue[str] = SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)  # the parent is gone; a job that nobody waits for would keep its folder locked

    def answer(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    Thread(target=listen, daemon=True).start()
    answer({"ready": os.getpid()})
    far_end = FarEnd()
    while True:
        far_end.serve(lines.get(), answer)


class FarEnd:
    """Does jobs; what the nodes of one learning share is kept from one to the next."""

    def __init__(self) -> None:
        self._learning: tuple[object, Workplace] | None = None

    def serve(self, text: str, answer: Tell) -> None:
        """One job: `event`s, then `done` or `error`."""
        try:
            job = json.loads(text)
            require_seen(job.get("mark"))
            done = self.do(job["kind"], job["order"], lambda event: answer({"event": event}))
        except Exception as error:
            answer({"error": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()})
        else:
            answer({"done": done})

    def do(self, kind: str, order: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
        """The answer to one job."""
        if kind == "node":
            return self._train_node(order)
        try:
            return {"run": do_run, "phase0": do_phase0}[kind](order, tell)
        finally:
            gc.collect()  # a data set that hangs in a cycle would stay while the next one is read

    def _train_node(self, order: Mapping[str, Any]) -> dict[str, Any]:
        from remem.rl.paths import TaskKey

        workplace = self._workplace(order)
        before = workplace.trained
        rewards = workplace.grow(TaskKey(**order["key"]), tuple((share, split) for share, split in order["path"]))
        return {"rewards": list(rewards.items()), "trained": workplace.trained - before}

    def _workplace(self, order: Mapping[str, Any]) -> "Workplace":
        from remem.runs.learning import LearnConfig
        from remem.runs.shelf import DiskShelf
        from remem.runs.tasks import Workplace

        which = order["config"], order["out"]
        if self._learning is None or self._learning[0] != which:
            config = LearnConfig.model_validate(order["config"])
            shelf = DiskShelf(Path(order["out"]), int(config.learn.disk_gigabytes * 1e9))
            self._learning = which, Workplace(config, shelf)
        return self._learning[1]


def do_run(order: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Begins, resumes or reuses the folder of a run."""
    from remem.runs.folder import go_on_in_folder
    from remem.runs.outline import outline, phases_done
    from remem.runs.phase0 import Phase0Shelf

    out, prepared = Path(order["out"]), prepared_from(order)
    shelf = Phase0Shelf(Path(order["phase0"])) if "phase0" in order else None
    tell(outline(prepared, phases_done(out)))
    return {"result": dict(go_on_in_folder(prepared, out, tell, phase0=shelf).data)}


def do_phase0(order: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Trains phase 0 for the shelf; nothing to do where it has been there before."""
    from remem.runs.folder import train_phase0
    from remem.runs.outline import outline
    from remem.runs.phase0 import Phase0Shelf

    prepared, shelf = prepared_from(order), Phase0Shelf(Path(order["out"]))
    there = shelf.has(prepared)
    begin = outline(prepared, int(there))
    tell({**begin, "phases": begin["phases"][:1]})
    if not there:
        train_phase0(prepared, shelf, tell)
    return {}


def prepared_from(order: Mapping[str, Any]) -> "Prepared":
    from remem.runs.build import prepare
    from remem.runs.config import validate

    config = validate(order["config"])
    if config.train.devices > 1:  # Fabric would start this very process again, once for each
        devices = config.train.devices
        raise InputError(f"train.devices: {devices} given; runs side by side have one device each, expected 1")
    return prepare(config)


def require_seen(mark: str | None) -> None:
    """A file that lies where the jobs' files will go, if there is one: this machine must see it."""
    if mark is not None and not Path(mark).exists():
        folder = Path(mark).parent
        raise InputError(f"--out: {folder} is not seen by the worker on {platform.node()}; expected a shared folder")


if __name__ == "__main__":
    main()
