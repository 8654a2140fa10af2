"""Workers as Ray actors, here or on a cluster. Only this file knows Ray; jobs and messages cross as JSON texts."""

import json
import logging
import os
import socket
import sys
import tempfile
from contextlib import chdir, suppress
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from secrets import token_hex
from shutil import rmtree
from threading import Thread
from typing import Any
from uuid import uuid4

from remem import __version__
from remem.errors import InputError
from remem.runs.crew import Answers, Job
from remem.runs.worker import FarEnd

POLL = 10.0  # seconds that an actor waits for news before it says that there are none
KNOCK = 5.0  # seconds within which a cluster must answer
STORE_BYTES = 100 * 2**20  # Ray's object store; our texts are short, and Ray allows no less than 75 MB
OWN = {  # environment of an instance that we start; what the user has set stays
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # as local processes; with Ray's own 15 any other load would starve them
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # actors see the devices that this process sees
}


class RayTeam:
    """Actors of an instance that is started for them (`local`), or of a cluster that is joined."""

    def __init__(self, address: str, workers: int | None) -> None:
        if find_spec("ray") is None:
            raise InputError(f"--ray: {address} given, but Ray is not installed; install remem[ray]")
        if address == "local":
            workers = workers or os.cpu_count() or 1
        self.about = f"{workers or 'as many'} Ray worker{'' if workers == 1 else 's'}"
        self.about += "" if workers else " as the cluster has CPUs"
        self._address, self._workers = address, workers
        self._opened = False
        self._scratch: Path | None = None
        self._marks: set[Path] = set()

    def open(self, threads: int) -> int:
        if self._address == "local":
            _keep_others_out()
        import ray

        if not ray.is_initialized():
            # Ray lets its workers take modules from the folder that it was started in. Its sockets need a short path.
            parent = "/tmp" if os.path.isdir("/tmp") else None
            self._scratch = Path(tempfile.mkdtemp(prefix="remem-ray-", dir=parent))
            self._opened = True
            with chdir(self._scratch):
                self._start() if self._address == "local" else self._join()
        if self._address == "local":
            assert self._workers is not None
            return self._workers
        cpus = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
        if max(cpus, default=0) < threads:
            raise InputError(
                f"train.threads: {threads} given; expected at most {max(cpus, default=0)}, the CPUs of the largest "
                f"machine of {self._address}"
            )
        return self._workers or sum(count // threads for count in cpus)

    def hire(self, answers: Answers, threads: int) -> "RayWorker":
        import ray

        cpus = 1 if self._address == "local" else threads
        actor = ray.remote(num_cpus=cpus, max_restarts=0, max_task_retries=0)(Actor).remote()
        return RayWorker(actor, answers, self)

    def close(self) -> None:
        for mark in self._marks:
            mark.unlink(missing_ok=True)
        if self._opened:
            import ray

            ray.shutdown()  # of a cluster that was joined, it only takes leave
            self._opened = False
        if self._scratch is not None:
            rmtree(self._scratch, ignore_errors=True)

    def mark(self, out: Path) -> Path:
        """A file of ours where a job's files will go; a worker that does not see it is somewhere else."""
        folder = next(folder for folder in (out, *out.parents) if folder.is_dir())
        mark = next((mark for mark in self._marks if mark.parent == folder), folder / f".remem-{uuid4().hex}")
        self._marks.add(mark)
        mark.touch()
        return mark

    def _start(self) -> None:
        import ray

        for name, value in OWN.items():
            os.environ.setdefault(name, value)
        ray.init(
            address="local",
            num_cpus=self._workers,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=STORE_BYTES,
            _temp_dir=str(self._scratch),
        )

    def _join(self) -> None:
        import ray

        host, _, port = self._address.removeprefix("ray://").rpartition(":")
        try:
            if host and port.isdecimal():  # Ray itself would try for minutes
                socket.create_connection((host, int(port)), timeout=KNOCK).close()
            ray.init(address=self._address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError, ImportError, AssertionError, OverflowError) as error:
            said = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise InputError(
                f"--ray: {self._address} given, and no cluster answers there ({said}); expected local, auto, HOST:PORT "
                "or ray://HOST:PORT"
            ) from error


def _keep_others_out() -> None:
    """A token for an instance of our own, which listens on all interfaces; Ray reads it when it is imported."""
    if "ray" not in sys.modules:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", token_hex(32))


class RayWorker:
    """One actor; a thread hands its jobs over, fetches its messages, and says None when it has ended."""

    def __init__(self, actor: Any, answers: Answers, team: RayTeam) -> None:
        self._actor, self._team = actor, team
        self._texts: SimpleQueue[str | None] = SimpleQueue()
        self._fate = "ended"
        self._thread = Thread(target=self._listen, args=(answers,), daemon=True)
        self._thread.start()

    def give(self, job: Job) -> None:
        mark = self._team.mark(Path(job.order["out"]))
        self._texts.put(json.dumps({"kind": job.kind, "order": job.order, "mark": str(mark)}))

    def fate(self) -> str:
        return self._fate

    def close(self) -> None:
        import ray

        self._texts.put(None)
        with suppress(Exception):  # of a lost cluster nothing can be ended
            ray.kill(self._actor)
        self._thread.join()

    def _listen(self, answers: Answers) -> None:
        import ray

        try:
            version, pid = ray.get(self._actor.about.remote())
            if version != __version__:
                raise InputError(f"--ray: a worker has remem {version}; expected {__version__}, as here")
            answers.put((self, {"ready": pid}))
            while (text := self._texts.get()) is not None:
                ray.get(self._actor.give.remote(text))
                self._pass_on(answers)
        except InputError as error:
            answers.put((self, {"error": "InputError", "message": str(error), "traceback": ""}))
        except Exception as error:  # whatever Ray calls it: the process, its machine or the way to it is lost
            said = str(error).strip().splitlines()
            self._fate = f"was lost ({type(error).__name__}{': ' + said[0] if said else ''})"
        finally:
            answers.put((self, None))

    def _pass_on(self, answers: Answers) -> None:
        """Until the job is answered."""
        import ray

        while True:
            for text in ray.get(self._actor.news.remote()):
                message = json.loads(text)
                answers.put((self, message))
                if "done" in message or "error" in message:
                    return


class Actor:
    """The far end: a thread does the jobs, while the messages that it leaves are fetched."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[str] = SimpleQueue()
        self._messages: SimpleQueue[str] = SimpleQueue()
        Thread(target=self._work, daemon=True).start()

    def about(self) -> tuple[str, int]:
        return __version__, os.getpid()

    def give(self, text: str) -> None:
        self._jobs.put(text)

    def news(self) -> list[str]:
        """Messages since the last call; waits for one, but not for ever."""
        try:
            texts = [self._messages.get(timeout=POLL)]
        except Empty:
            return []
        while True:
            try:
                texts.append(self._messages.get_nowait())
            except Empty:
                return texts

    def _work(self) -> None:
        far_end = FarEnd()
        try:
            while True:
                far_end.serve(self._jobs.get(), lambda message: self._messages.put(json.dumps(message)))
        finally:  # what is no error of a job ends the process, and the crew finds it lost
            os._exit(1)
