"""Workers as Ray actors, on this machine or on a cluster; jobs and messages are JSON. Only this module imports Ray."""

import json
import logging
import os
import signal
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
from remem.interrupts import is_deferring, request, unchanged
from remem.parallel.backend import Messages, encode_job
from remem.parallel.jobs import Job
from remem.parallel.worker import serve
from remem.threads import limit_spinning

GRACE_SECONDS = 30.0  # in which a run saves what it has before its actor is killed
POLL_SECONDS = 10.0  # that an actor waits for a message before it returns none
CONNECT_SECONDS = 5.0  # within which a cluster must accept a connection
STORE_BYTES = 100 * 2**20  # Ray's object store: messages are short, and Ray's minimum is 75 MB
ENVIRONMENT = {  # of an instance started here; variables that the user has set take precedence
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # like local processes; at Ray's default of 15 any other load starves them
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # actors see the same devices as this process
}


class RayBackend:
    """Actors of an instance started for them ("local"), or of an existing cluster."""

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
        self._markers: set[Path] = set()

    def open(self, threads: int) -> int:
        if self._address == "local":
            set_auth_token()
        import ray

        if not ray.is_initialized():
            # Ray adds the current folder to its workers' module path. Its sockets need a short path.
            parent = "/tmp" if os.path.isdir("/tmp") else None
            self._scratch = Path(tempfile.mkdtemp(prefix="remem-ray-", dir=parent))
            self._opened = True
            with chdir(self._scratch), unchanged():  # Ray's own handler of SIGTERM ends the process without a word
                self._start_instance() if self._address == "local" else self._connect()
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

    def start(self, messages: Messages, threads: int) -> "RayWorker":
        import ray

        cpus = 1 if self._address == "local" else threads
        options = {"num_cpus": cpus, "max_restarts": 0, "max_task_retries": 0, "max_concurrency": 2}
        remote: Any = ray.remote(Actor)
        actor = remote.options(**options).remote()
        return RayWorker(actor, messages, self)

    def close(self) -> None:
        for marker in self._markers:
            marker.unlink(missing_ok=True)
        if self._opened:
            import ray

            ray.shutdown()  # only disconnects from an existing cluster
            self._opened = False
        if self._scratch is not None:
            rmtree(self._scratch, ignore_errors=True)

    def marker(self, folder: Path) -> Path:
        """Creates a file in the folder, or in its nearest existing parent; workers that cannot see it refuse jobs."""
        there = next(parent for parent in (folder, *folder.parents) if parent.is_dir())
        marker = next((marker for marker in self._markers if marker.parent == there), there / f".remem-{uuid4().hex}")
        self._markers.add(marker)
        marker.touch()
        return marker

    def _start_instance(self) -> None:
        import ray

        for name, value in ENVIRONMENT.items():
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

    def _connect(self) -> None:
        import ray

        host, _, port = self._address.removeprefix("ray://").rpartition(":")
        try:
            if host and port.isdecimal():  # Ray itself retries for minutes
                socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
            ray.init(address=self._address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError, ImportError, AssertionError, OverflowError) as error:
            said = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise InputError(
                f"--ray: {self._address} given, and no cluster answers there ({said}); expected local, auto, HOST:PORT "
                "or ray://HOST:PORT"
            ) from error


def set_auth_token() -> None:
    """Protects our own instance, which listens on all interfaces, by a token. Ray reads it when it is imported."""
    if "ray" not in sys.modules:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", token_hex(32))


class RayWorker:
    """One actor, with a thread that submits its jobs and fetches its messages."""

    def __init__(self, actor: Any, messages: Messages, backend: RayBackend) -> None:
        self._actor, self._backend = actor, backend
        self._jobs: SimpleQueue[str | None] = SimpleQueue()  # encoded; None ends the thread
        self._exit_reason = "ended"
        self._thread = Thread(target=self._communicate, args=(messages,), daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        marker = None if job.folder is None else self._backend.marker(job.folder)
        self._jobs.put(encode_job(job, marker))

    def exit_reason(self) -> str:
        return self._exit_reason

    def stop(self) -> None:
        with suppress(Exception):  # as below
            self._actor.stop.remote()

    def close(self) -> None:
        import ray

        self._jobs.put(None)
        self.stop()
        self._thread.join(GRACE_SECONDS)
        with suppress(Exception):  # the connection to the cluster may be lost
            ray.kill(self._actor)
        self._thread.join()

    def _communicate(self, messages: Messages) -> None:
        import ray

        try:
            version, pid = ray.get(self._actor.identify.remote())
            if version != __version__:
                raise InputError(f"--ray: a worker has remem {version}; expected {__version__}, as here")
            messages.put((self, {"ready": pid}))
            while (job := self._jobs.get()) is not None:
                ray.get(self._actor.submit.remote(job))
                self._forward(messages)
        except InputError as error:
            messages.put((self, {"error": "InputError", "message": str(error), "traceback": ""}))
        except Exception as error:  # Ray has many types for a lost process, machine or connection
            lines = str(error).strip().splitlines()
            self._exit_reason = f"was lost ({type(error).__name__}{': ' + lines[0] if lines else ''})"
        finally:
            messages.put((self, None))

    def _forward(self, messages: Messages) -> None:
        """Passes messages on until the job is answered."""
        import ray

        while True:
            for text in ray.get(self._actor.poll.remote()):
                message = json.loads(text)
                messages.put((self, message))
                if "done" in message or "error" in message:
                    return


class Actor:
    """The worker side: a thread runs the jobs while others fetch its messages."""

    def __init__(self) -> None:
        limit_spinning()  # on this machine, which may not be the command's
        self._jobs: SimpleQueue[str] = SimpleQueue()
        self._messages: SimpleQueue[str] = SimpleQueue()
        Thread(target=self._work, daemon=True).start()

    def identify(self) -> tuple[str, int]:
        return __version__, os.getpid()

    def submit(self, job: str) -> None:
        self._jobs.put(job)

    def stop(self) -> None:
        """Called while another call waits for messages: a run saves what it has, anything else ends at once."""
        if is_deferring():
            request(signal.SIGTERM)
        else:
            os._exit(0)

    def poll(self) -> list[str]:
        """New messages; waits a while for the first one."""
        try:
            texts = [self._messages.get(timeout=POLL_SECONDS)]
        except Empty:
            return []
        while True:
            try:
                texts.append(self._messages.get_nowait())
            except Empty:
                return texts

    def _work(self) -> None:
        try:
            while True:
                serve(self._jobs.get(), lambda message: self._messages.put(json.dumps(message)))
        finally:  # without this thread no job would ever be answered: end the process, and the pool replaces it
            os._exit(1)
