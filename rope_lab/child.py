"""Processes that work for this one: a `Worker` answers jobs."""

import atexit
import contextlib
import math
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from .guardian import APART, end_with_all_it_started

LAB = Path(__file__).resolve().parents[1]
GUARDIAN = Path(__file__).with_name("guardian.py")
WORKER = Path(__file__).with_name("worker.py")
LOOK_AGAIN = 0.2  # seconds between checks whether a silent process is alive
FAREWELL = 2.0  # seconds that a process may take to exit after its last message


class Ended(RuntimeError):
    """A child has ended in the middle of its work, or took too long and was killed.

    Attributes:
        late: it took too long.
        code: its exit status; None if it took too long.
        words: what it wrote to standard output and error during the job.
        at: the last part of the job that it reported to begin; '' if none.
    """

    def __init__(self, child: "Worker", late: bool = False) -> None:
        super().__init__("a child took too long" if late else "a child has ended")
        self.late, self.code, self.words = late, child.process.returncode, child.words
        self.at = child.at


class Worker:
    """A process that runs `worker.py`: it answers jobs, one at a time, and is kept for the next.

    An interrupt of the notebook doesn't reach it, and it is killed together with the processes that
    it started. It isn't a fork, nor a `multiprocessing` process: it doesn't inherit what the
    notebook has loaded, and doesn't run a reader's script again.

    Attributes:
        process: the process.
        folder: where it may write; deleted when it ends.
        at: the last part of a job that it reported to begin.
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
        """Start it, and wait until it is ready, so that no job waits for imports.

        Args:
            place: a module's name, or a file; its `answer` runs a job.
            environment: variables to add to this process's; None removes one.
        """
        # Windows doesn't remove a file that some process has open
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        words = Path(self.folder.name, "words.txt")
        self.at, self._written_before = "", 0
        # Triton, too, writes files there, whose names and contents a reader chooses
        folders = _folders_of_modules()
        at_first = os.pathsep.join(folder or str(LAB) for folder in folders)
        own = {"PYTHONPATH": at_first, "PYTHONUTF8": "1"}
        changed = os.environ | own | environment
        with words.open("ab") as file:
            # jobs arrive on its standard input, answers leave on its standard output; `worker.py`
            # hides both from a job
            self.process = subprocess.Popen(
                [sys.executable, "-P", WORKER, place, self.folder.name, os.pathsep.join(folders)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env={name: value for name, value in changed.items() if value is not None},
                **APART,
            )
        self._words = words.open("rb")
        self._heard: queue.SimpleQueue[str | dict | None] = queue.SimpleQueue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        numbers = str(os.getpid()), str(self.process.pid)
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", GUARDIAN, *numbers, self.folder.name],
            stdin=subprocess.PIPE,  # which is closed when this process ends, however it ends
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **APART,
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
        """What it has written to standard output and error since its last job arrived."""
        self._words.seek(self._written_before)
        return self._words.read().decode(errors="replace").strip()

    def ask(self, job: object, seconds: float) -> dict:
        """Its answer. It is killed after a job that has changed the process for later ones.

        Args:
            job: an object that can be pickled.
            seconds: how long it may be silent. It reports when it begins another part of the job.

        Raises:
            Ended: it crashed during the job, or was silent for too long.
        """
        self.at, self._written_before = "", self._words.seek(0, os.SEEK_END)
        with self._ended_if_it_fails():
            with contextlib.suppress(OSError):  # it is dead; `_said` notices
                self.process.stdin.write(pickle.dumps(job))
                self.process.stdin.flush()
            while isinstance(said := self._said(seconds), str):
                self.at = said
        if said.pop("spoiled", False):  # the next job gets a new process
            self.end()
        return said

    @contextlib.contextmanager
    def _ended_if_it_fails(self) -> Iterator[None]:
        """Kill the process if waiting for it took too long or was interrupted."""
        try:
            yield
        except BaseException:
            self.end()
            raise

    def _said(self, seconds: float) -> str | dict:
        """Its next message: which part of a job it begins, or the answer."""
        late = time.monotonic() + seconds
        while True:
            try:
                said = self._heard.get(timeout=LOOK_AGAIN)
            except queue.Empty:
                if time.monotonic() > late:
                    raise Ended(self, late=True) from None
                if not self.is_alive:  # another process, started by it, may hold the pipe open
                    self._listener.join(FAREWELL)  # it may have left an answer
                    self._heard.put(None)
                continue
            if said is not None:
                return said
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(FAREWELL)  # so that its exit status is known
            raise Ended(self)

    def _listen(self) -> None:
        """Collect its messages, and None at its end.

        This runs in a thread: Windows can't wait for a pipe with a timeout.
        """
        with self.process.stdout as said, contextlib.suppress(EOFError, pickle.UnpicklingError):
            try:
                while True:
                    self._heard.put(pickle.load(said))
            finally:
                self._heard.put(None)

    def end(self) -> None:
        """Kill it and all processes that it started, whatever they are doing."""
        atexit.unregister(self.end)
        self._guardian.kill()
        self._guardian.wait()
        self._guardian.stdin.close()
        end_with_all_it_started(self.process.pid)
        self.process.kill()  # if that failed, the wait would never end
        self.process.wait()
        with contextlib.suppress(OSError):  # it has not read everything
            self.process.stdin.close()
        self._words.close()
        self.folder.cleanup()


def _folders_of_modules() -> list[str]:
    """Where this process finds modules, with the standard library first.

    A reader's file, such as random.py, must not replace a module that Python or the lab needs. It
    may be in the notebook's own folder, which is `''`, or in a folder that the reader put first.
    """
    library = [
        folder
        for folder in sys.path
        if Path(folder).is_relative_to(sys.base_prefix) and "-packages" not in folder
    ]
    return [*library, *(folder for folder in sys.path if folder not in library)]
