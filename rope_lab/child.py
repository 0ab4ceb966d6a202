"""Processes that work for this one: a `Worker` answers jobs."""

import atexit
import contextlib
import json
import math
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

GUARDIAN = Path(__file__).with_name("guardian.py")
WORKER = Path(__file__).with_name("worker.py")
LOOK_AGAIN = 0.2  # seconds after which a silent process is asked whether it is alive
FAREWELL = 2.0  # seconds from a process's last word to its end


class Ended(RuntimeError):
    """A child has ended in the middle of its work, or took too long and was ended.

    Attributes:
        late: it took too long.
        code: its exit status.
        words: what it wrote to standard error meanwhile.
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
        busy: it was asked, and the answer is not complete.
    """

    _kept: ClassVar[dict[tuple, "Worker"]] = {}
    _keeping: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def kept(cls, place: str, interpret: str | None) -> "Worker":
        """The worker of this place and `TRITON_INTERPRET`; a new one if that can't be asked."""
        with cls._keeping:
            worker = cls._kept.get((place, interpret))
            if worker is None or not worker.is_free:
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
        self.folder, self.at = tempfile.TemporaryDirectory(), ""
        self.busy, self._lock = False, threading.RLock()
        self._errors = Path(self.folder.name, "errors.txt")
        self._said_before, self._unread, self._words = 0, b"", ""
        changed = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | environment
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, WORKER, place, self.folder.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
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
        with self._ended_if_late():
            ready = self._line(math.inf)
        if not ready:
            self.end()
            raise RuntimeError(f"{place} did not start: {self.words}")

    @property
    def is_free(self) -> bool:
        """Whether it can be asked, once other threads have their answers.

        One that was left in the middle of a job can't be.
        """
        with self._lock:
            return not self.busy and self.process.poll() is None

    def ask(self, job: dict, seconds: float) -> dict:
        """What it answers.

        Args:
            job: what JSON can write.
            seconds: how long it may be silent. It speaks when it begins another part of the job.

        Raises:
            Ended: it has died of the job, or was silent for too long.
        """
        with self._lock, self._ended_if_late():
            self.busy, self.at, self._said_before = True, "", self._errors.stat().st_size
            mark = secrets.token_hex(8)  # what a job itself writes to the pipe is no answer
            with contextlib.suppress(BrokenPipeError):  # it is dead, which `_line` finds out
                self.process.stdin.write(json.dumps([mark, job]).encode() + b"\n")
                self.process.stdin.flush()
            fields = self._answer(mark, seconds)
            while "begins" in fields:
                self.at = fields["begins"]
                fields = self._answer(mark, seconds)
            self.busy = False
            return fields

    def _answer(self, mark: str, seconds: float) -> dict:
        late = time.monotonic() + seconds
        line = self._line(late)
        while line and not line.startswith(mark):
            line = self._line(late)
        if not line:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(FAREWELL)  # its exit status is its own
            self.end()
            raise Ended(self)
        return json.loads(line.removeprefix(mark))

    @property
    def words(self) -> str:
        """What it has written to standard error since its last job came."""
        if self._errors.exists():
            written = self._errors.read_bytes()[self._said_before :]
            self._words = written.decode(errors="replace").strip()
        return self._words

    @contextlib.contextmanager
    def _ended_if_late(self) -> Iterator[None]:
        """End the process where waiting for it took too long or was interrupted: it would go on."""
        try:
            yield
        except (TimeoutError, subprocess.TimeoutExpired):
            self.end()
            raise Ended(self, late=True) from None
        except BaseException:
            self.end()
            raise

    def _line(self, late: float) -> str:
        """Its next line, '' if it has died; a process that it started may still hold the pipe."""
        pipe = self.process.stdout.fileno()
        waiting = select.poll()
        waiting.register(pipe, select.POLLIN)
        while b"\n" not in self._unread:
            dead = self.process.poll() is not None
            ready = waiting.poll(0 if dead else 1000 * LOOK_AGAIN)
            if time.monotonic() > late:
                raise TimeoutError
            text = os.read(pipe, 1 << 16) if ready else b""
            if not text and (ready or dead):
                return ""
            self._unread += text
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode(errors="replace") + "\n"

    def end(self) -> None:
        """End it, and all that it started, whatever they are at."""
        atexit.unregister(self.end)
        self._guardian.kill()
        self._guardian.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):  # there is nothing to end
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):  # of a job that nobody has read
                pipe.close()
        _ = self.words  # the last ones, while there is a file
        self.folder.cleanup()
