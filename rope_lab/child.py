"""A process that answers jobs, one line of JSON each, until this process ends."""

import atexit
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


class Child:
    """A running script with a folder of its own; its last argument is that folder's name.

    Attributes:
        process: the process.
        folder: what it may write to; gone when it ends.
    """

    def __init__(self, *script: str | Path, environment: dict[str, str | None]) -> None:
        """Start `python *script folder`; None takes a variable out of the environment."""
        self.folder = tempfile.TemporaryDirectory()
        self._errors = Path(self.folder.name, "errors.txt")
        changed = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | environment
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *script, self.folder.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={name: value for name, value in changed.items() if value is not None},
            )
        atexit.register(self.end)

    def ask(self, job: dict) -> tuple[str, str]:
        """Its answer, '' if it has died of the job; and what it wrote to standard error."""
        self._read = self._errors.stat().st_size
        with contextlib.suppress(BrokenPipeError):  # it is dead, which `listen` finds out
            print(json.dumps(job), file=self.process.stdin, flush=True)
        return self.listen()

    def listen(self) -> tuple[str, str]:
        """Its next line for the same job, as `ask` returns it."""
        answer = self.process.stdout.readline()
        if not answer:
            self.process.wait()
        errors = self._errors.read_bytes()[self._read :]
        self._read += len(errors)
        return answer, errors.decode(errors="replace").strip()

    def end(self) -> None:
        """End it, whatever it is at."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.folder.cleanup()
