"""Processes that work for this one: a `Worker` answers jobs."""

import atexit
import contextlib
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import Pipe
from pathlib import Path
from typing import ClassVar

GUARDIAN = Path(__file__).with_name("guardian.py")
WORKER = Path(__file__).with_name("worker.py")
LOOK_AGAIN = 0.2  # seconds after which a silent process is asked whether it is alive
FAREWELL = 2.0  # seconds from a process's last word to its end


class Ended(RuntimeError):
    """A child has ended in the middle of its work, or took too long and is ended.

    Attributes:
        late: it took too long.
        code: its exit status; None if it took too long.
        words: what it wrote to standard output and error meanwhile.
        at: what it said last that it begins; '' if nothing.
    """

    def __init__(self, child: "Worker", late: bool = False) -> None:
        super().__init__("a child took too long" if late else "a child has ended")
        self.late, self.code, self.words = late, child.process.returncode, child.words
        self.at = child.at


class Worker:
    """A process that runs `worker.py`: it answers jobs, one at a time, and is kept for the next.

    It leads a session of its own: an interrupt of the notebook doesn't reach it, and it is ended
    together with the processes that it started.

    Attributes:
        process: the process.
        folder: what it may write to; gone when it ends.
        at: what it said last that it begins.
    """

    _kept: ClassVar[dict[tuple, "Worker"]] = {}

    @classmethod
    def kept(cls, place: str, interpret: str | None) -> "Worker":
        """The worker of this place and `TRITON_INTERPRET`; a new one if that has ended."""
        worker = cls._kept.get((place, interpret))
        if worker is None or not worker.is_alive:
            if worker is not None:
                worker.end()
            worker = cls._kept[place, interpret] = cls(place, {"TRITON_INTERPRET": interpret})
        return worker

    def __init__(self, place: str | Path, environment: dict[str, str | None]) -> None:
        """Start it, and wait until it can be asked: no job waits for imports.

        Args:
            place: a module's name, or a file; its `answer` does a job.
            environment: variables beside this process's; None takes one out.
        """
        self.folder, self.at, self._written_before = tempfile.TemporaryDirectory(), "", 0
        self._errors = tempfile.TemporaryFile("a+b")  # noqa: SIM115 (`end` closes it)
        self._pipe, its_end = Pipe()
        # Triton, too, writes files there, whose names and texts a reader chooses
        own = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUTF8": "1"}
        changed = os.environ | own | environment
        with its_end:
            self.process = subprocess.Popen(
                [sys.executable, WORKER, place, self.folder.name, str(its_end.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                pass_fds=[its_end.fileno()],
                start_new_session=True,
                env={name: value for name, value in changed.items() if value is not None},
            )
        numbers = str(os.getpid()), str(self.process.pid)
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", GUARDIAN, *numbers, self.folder.name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        atexit.register(self.end)
        try:
            with self._ended_if_it_fails():
                self._said(math.inf)
        except Ended as ended:
            raise RuntimeError(f"{place} did not start: {ended.words}") from None

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def words(self) -> str:
        """What it has written to standard output and error since its last job came."""
        file = self._errors.fileno()
        size = os.fstat(file).st_size - self._written_before
        return os.pread(file, size, self._written_before).decode(errors="replace").strip()

    def ask(self, job: dict, seconds: float) -> dict:
        """What it answers.

        Args:
            job: what can be pickled.
            seconds: how long it may be silent. It speaks when it begins another part of the job.

        Raises:
            Ended: it has died of the job, or was silent for too long.
        """
        self.at, self._written_before = "", os.fstat(self._errors.fileno()).st_size
        with self._ended_if_it_fails():
            with contextlib.suppress(BrokenPipeError):  # it is dead, which `_said` finds out
                self._pipe.send(job)
            while isinstance(said := self._said(seconds), str):
                self.at = said
            return said

    @contextlib.contextmanager
    def _ended_if_it_fails(self) -> Iterator[None]:
        """End the process where waiting for it took too long or was interrupted: it would go on."""
        try:
            yield
        except BaseException:
            self.end()
            raise

    def _said(self, seconds: float) -> str | dict:
        """What it says next: which part of a job it begins, or the answer."""
        late = time.monotonic() + seconds
        try:
            while not self._pipe.poll(LOOK_AGAIN):
                if time.monotonic() > late:
                    raise Ended(self, late=True)
                # it may have left an answer, and a process that it started may hold the pipe
                if not self.is_alive and not self._pipe.poll():
                    raise EOFError
            return self._pipe.recv()
        except (EOFError, ConnectionError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(FAREWELL)  # its exit status is its own
            raise Ended(self) from None

    def end(self) -> None:
        """End it, and all that it started, whatever they are at."""
        atexit.unregister(self.end)
        self._guardian.kill()
        self._guardian.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):  # there is nothing to end
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._pipe.close()
        self._errors.close()
        self.folder.cleanup()
