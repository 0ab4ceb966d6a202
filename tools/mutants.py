"""Deliberate bugs, each alone in a copy of the project: does a test turn red?

    python tools/mutants.py                     all of tests/mutants.toml
    python tools/mutants.py --only "a sign"     those with these words in their file, edit or title

The list names the tests that have to find a bug. It is killed by one that is red, and green without
the bug.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests/mutants.toml"


@dataclass(frozen=True)
class Mutant:
    """An edit that makes something wrong."""

    file: str
    old: str  # occurs once in the file
    new: str
    wrong: str
    tests: tuple[str, ...] = ()  # what should find it: files, `FILE -k WORDS`, single tests

    def applied(self, text: str) -> str:
        if self.old == self.new or (count := text.count(self.old)) != 1:
            found = "equals the new one" if self.old == self.new else f"occurs {count} times"
            raise ValueError(f"the old text {found} in {self.file}; accepted: once: {self.old!r}")
        return text.replace(self.old, self.new)

    @property
    def title(self) -> str:
        return f"{self.file}: {self.wrong}"


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant."""

    mutant: Mutant
    state: str  # "killed", "survived", "unfinished"; "no verdict": its test is red anyway
    by: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.state:10} {self.seconds:6.1f} s  {self.mutant.title}  {self.by}"


@dataclass(frozen=True)
class Run:
    """What pytest said."""

    red: tuple[str, ...] = ()  # tests
    ended: bool = True


def listed() -> list[Mutant]:
    by_file = tomllib.loads(LIST.read_text())
    edits = [(file, edit) for file, edits in by_file.items() for edit in edits]
    return [Mutant(file, **edit | {"tests": tuple(edit["tests"])}) for file, edit in edits]


def tracked() -> list[str]:
    """The files that git doesn't ignore, new ones too."""
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.check_output(command, cwd=ROOT, text=True).split("\0")
    return [name for name in names if name and (ROOT / name).exists()]


@dataclass(frozen=True)
class Copy:
    """The files of the project in a folder of their own."""

    folder: Path
    limit: float  # seconds

    def red(self, tests: list[str], every: bool = False) -> Run:
        """The first of tests, then of notebooks, or every one; none if all are green."""
        found = Run()
        for nbval in ([], ["--nbval"]):
            some = [test for test in tests if bool(nbval) == test.startswith("notebooks")]
            if some and (every or found == Run()):
                run = self.pytest(some, *([] if every else ["-x"]), *nbval)
                red = (*found.red, *(run.red if every else run.red[:1]))
                found = Run(red, found.ended and run.ended)
        return found

    def pytest(self, tests: list[str], *options: str) -> Run:
        """Bytecode is not written: an edit within a second, of the same size, would not be seen."""
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE", *options]
        command += [*arguments_of(tests), "-p", "no:cacheprovider"]
        path = os.pathsep.join(filter(None, (str(self.folder), os.environ.get("PYTHONPATH"))))
        here = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "1000"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        process = subprocess.Popen(
            command, cwd=self.folder, env=os.environ | here, start_new_session=True, **pipes
        )
        try:
            said, _ = process.communicate(timeout=self.limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # kernels of notebooks too
            process.communicate()
            return Run(ended=False)
        if process.returncode in (0, 5):  # 5: all were deselected
            return Run()
        if "ERROR: not found:" in said or "file or directory not found:" in said:
            return Run(("a test that is not there",), ended=False)
        red = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", said, re.MULTILINE)
        return Run(tuple(red or tests))  # without a line: it broke before the first test, or died


class Bench:
    """A copy of the project, and the mutants that are tried in it."""

    def __init__(self, folder: Path, limit: float) -> None:
        self.place, self.anyway = Copy(folder, limit), {}
        for name in tracked():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)

    def try_one(self, mutant: Mutant) -> Outcome:
        path, begin = self.place.folder / mutant.file, time.monotonic()
        right = path.read_text()
        path.write_text(mutant.applied(right))
        try:
            found = self.place.red(list(mutant.tests))
        finally:
            path.write_text(right)
        seconds, by = round(time.monotonic() - begin, 1), "".join(found.red[:1])
        state = "unfinished" if not found.ended else "killed" if by else "survived"
        if state == "killed" and by in self.red_anyway(by):
            state = "no verdict"
        return Outcome(mutant, state, by, seconds)

    def red_anyway(self, test: str) -> set[str]:
        """What is red without an edit: the test, or of a notebook any cell, for it needs all."""
        asked = test.split("::")[0] if ".ipynb" in test else test
        if asked not in self.anyway:
            run = self.place.red([asked], every=True)
            self.anyway[asked] = set(run.red if run.ended else [test])
        return self.anyway[asked]


def arguments_of(tests: list[str]) -> list[str]:
    """As pytest takes them. `FILE -k WORDS` are cases of a file; the words hold for all files."""
    files, words = [x.split(" -k ")[0] for x in tests], [x.split(" -k ")[1:] for x in tests]
    found = " or ".join(dict.fromkeys(word for some in words for word in some))
    return [*dict.fromkeys(files), *(["-k", found] if found else [])]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], metavar="TEXT")
    parser.add_argument("--jobs", type=int, default=1, help="copies of the project, side by side")
    parser.add_argument("--limit", type=float, default=600, help="seconds of one run of pytest")
    options = parser.parse_args()
    mutants = listed()
    if options.only:
        mutants = [m for m in mutants if any(x in f"{m.title}{m.old}" for x in options.only)]
    alive, free = [], SimpleQueue()

    def try_one(mutant: Mutant) -> Outcome:
        bench = free.get()
        try:
            return bench.try_one(mutant)
        finally:
            free.put(bench)

    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as folder,
        ThreadPoolExecutor(options.jobs) as pool,
    ):
        for n in range(options.jobs):
            free.put(Bench(Path(folder, str(n)), options.limit))
        for ended in as_completed([pool.submit(try_one, mutant) for mutant in mutants]):
            outcome = ended.result()
            print(outcome, flush=True)
            alive += [] if outcome.state == "killed" else [outcome]
    print(f"{len(mutants) - len(alive)} of {len(mutants)} killed", *alive, sep="\n")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
