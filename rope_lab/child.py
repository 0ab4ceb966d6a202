"""A process that answers jobs, one line of JSON each, until this process ends."""

import atexit
import contextlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GUARDIAN = Path(__file__).with_name("guardian.py")
LOOK_AGAIN = 0.2  # seconds after which a silent process is asked whether it is alive


class Child:
    """A running script with a folder of its own; its last argument is that folder's name.

    It leads a session of its own: an interrupt of the notebook doesn't reach it, and it is ended
    together with the processes that it started.

    Attributes:
        process: the process.
        folder: what it may write to; gone when it ends.
        busy: it was asked, and the answer is not complete.
    """

    def __init__(self, *script: str | Path, environment: dict[str, str | None]) -> None:
        """Start `python *script folder`; None takes a variable out of the environment."""
        self.folder = tempfile.TemporaryDirectory()
        self.busy = False
        self._errors = Path(self.folder.name, "errors.txt")
        self._read, self._unread = 0, b""
        changed = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | environment
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *script, self.folder.name],
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

    @property
    def is_free(self) -> bool:
        """Whether it can be asked: one that was left in the middle of a job can't."""
        return not self.busy and self.process.poll() is None

    def ask(self, job: dict, seconds: float = math.inf, mark: str = "") -> tuple[str, str]:
        """Its answer, '' if it has died of the job; and what it wrote to standard error.

        The caller that gets the last line of an answer sets `busy` to False.

        Args:
            job: what JSON can write.
            seconds: how long it may take.
            mark: what a line of the answer begins with, and is returned without; others are
                skipped.

        Raises:
            TimeoutError: it took longer, and has been ended.
        """
        self.busy = True
        self._read = self._errors.stat().st_size
        with contextlib.suppress(BrokenPipeError):  # it is dead, which `listen` finds out
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
        return self.listen(seconds, mark)

    def listen(self, seconds: float = math.inf, mark: str = "") -> tuple[str, str]:
        """Its next line for the same job, as `ask` returns it."""
        late = time.monotonic() + seconds
        try:
            answer = self._line(late)
            while answer and not answer.startswith(mark):
                answer = self._line(late)
        except BaseException:  # too late, or interrupted: it would go on
            self.end()
            raise
        errors = self._errors.read_bytes()[self._read :]
        self._read += len(errors)
        if not answer:
            self.end()
        return answer.removeprefix(mark), errors.decode(errors="replace").strip()

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
        self.folder.cleanup()
