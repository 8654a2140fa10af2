"""The far end of local.py: one job, read from standard input, in a process of its own; answers are lines of JSON."""

import json
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def main() -> None:
    """Answers `event` for every event, and at the end `done` or `error`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, and the parent stops its workers
    job = json.load(sys.stdin)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not land between the answers

    def answer(**content: Any) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    try:
        work(job, lambda event: answer(event=event))
    except Exception as error:
        answer(error=type(error).__name__, message=str(error), traceback=traceback.format_exc())
    else:
        answer(done=True)


def work(job: Mapping[str, Any], tell: Any) -> None:
    """Begins, resumes or reuses the job's folder."""
    from remem.runs.build import prepare
    from remem.runs.config import validate
    from remem.runs.folder import go_on_in_folder
    from remem.runs.outline import outline, phases_done

    out = Path(job["out"])
    prepared = prepare(validate(job["config"]))
    tell(outline(prepared, phases_done(out)))
    go_on_in_folder(prepared, out, tell)


if __name__ == "__main__":
    main()
