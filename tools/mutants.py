"""Mutation tests: make each deliberate bug in a copy of the project, and run its tests.

    python tools/mutants.py                  all of tests/mutants.toml
    python tools/mutants.py --only "a sign"  those with these words in their file, edit or title

The list names the tests that must find each bug. A bug is killed if one of them fails, and passes
without the bug.

Starting Python with torch, Triton and pytest takes most of the time. So this process imports them
once, and forks for each run of pytest. It tries as many bugs at a time as there are cores.
"""

import argparse
import compileall
import contextlib
import importlib
import multiprocessing
import os
import py_compile
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FORKS = multiprocessing.get_context("fork")
# Other projects' modules that the tests import. This project's modules are imported by the forks,
# each from its own copy.
LOADED_ONCE = (
    "torch",
    "torch._dynamo",
    "torch._inductor.config",
    "triton",
    "triton.language",
    "triton.runtime.interpreter",
    "pytest",
    "hypothesis",
    "nbval",
    "transformers",
    "matplotlib.pyplot",
    "nbformat",
)


@dataclass(frozen=True)
class Mutant:
    """A deliberate bug: an edit of a file."""

    file: str
    old: str  # occurs once in the file
    new: str
    wrong: str  # what the edit breaks
    # Those that should find it: files, `FILE --every`, `FILE -k WORDS`, single tests.
    tests: tuple[str, ...] = ()

    def applied(self, text: str) -> str:
        if self.old == self.new or (count := text.count(self.old)) != 1:
            found = "equals the new one" if self.old == self.new else f"occurs {count} times"
            raise ValueError(f"the old text {found} in {self.file}; accepted: once: {self.old!r}")
        return text.replace(self.old, self.new)

    @property
    def title(self) -> str:
        return f"{self.file}: {self.wrong}"


def listed() -> list[Mutant]:
    by_file = tomllib.loads((ROOT / "tests/mutants.toml").read_text(encoding="utf-8"))
    edits = [(file, edit) for file, edits in by_file.items() for edit in edits]
    return [Mutant(file, **edit | {"tests": tuple(edit["tests"])}) for file, edit in edits]


def tracked() -> list[str]:
    """The files that git doesn't ignore, including new ones."""
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.check_output(command, cwd=ROOT, encoding="utf-8").split("\0")
    return [name for name in names if name and (ROOT / name).exists()]


class Bench:
    """A copy of the project, in which mutants are tried."""

    def __init__(self, folder: Path, limit: float = 600) -> None:
        self.folder, self.limit = folder, limit  # seconds per run of pytest
        self.red_anyway = cache(self.red_of)
        for name in tracked():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
        # Python compares bytecode with the source's hash, so it recompiles an edited file.
        checked = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(folder, quiet=2, invalidation_mode=checked)

    def try_one(self, mutant: Mutant) -> tuple[str, str]:
        """The state of a mutant, and the test that fails.

        "killed", "survived", "unfinished", or "no verdict" if the test also fails without the bug.
        """
        path = self.folder / mutant.file
        right = path.read_text(encoding="utf-8")
        path.write_text(mutant.applied(right), encoding="utf-8")
        notebooks = [test for test in mutant.tests if test.startswith("notebooks")]
        tests = [test for test in mutant.tests if test not in notebooks]
        try:
            red = tests and self.pytest(tests, "-x")
            red = red or (notebooks and self.pytest(notebooks, "-x", "--nbval"))
            path.write_text(right, encoding="utf-8")
            if not red:
                return "survived", ""
            # A notebook runs as a whole, so any failing cell counts.
            asked = red[0].split("::")[0] if ".ipynb" in red[0] else red[0]
            return "no verdict" if red[0] in self.red_anyway(asked) else "killed", red[0]
        except (TimeoutError, LookupError):
            return "unfinished", ""
        finally:
            path.write_text(right, encoding="utf-8")

    def red_of(self, test: str) -> list[str]:
        return self.pytest([test], *(["--nbval"] if ".ipynb" in test else []))

    def pytest(self, tests: list[str], *options: str) -> list[str]:
        """The tests that fail.

        Raises:
            TimeoutError: they didn't end in time.
            LookupError: a test doesn't exist.
        """
        asked = ["-q", "--tb=no", "-rfE", *options, *arguments_of(tests), "-p", "no:cacheprovider"]
        # faulthandler's thread doesn't survive a fork, and pytest would wait for it. `limit` stops
        # tests that hang.
        asked += ["-p", "no:faulthandler"]
        with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
            fork = FORKS.Process(target=run_pytest, args=(self.folder, asked, output.fileno()))
            fork.start()
            fork.join(self.limit)
            is_late = fork.exitcode is None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(fork.pid, signal.SIGKILL)  # with its children, such as Jupyter kernels
            fork.join()
            output.seek(0)
            said = output.read()
        if is_late:
            raise TimeoutError
        if re.search("^ERROR: (file or directory )?not found:", said, re.MULTILINE):
            raise LookupError(said)
        if fork.exitcode in (0, 5):  # 5: all were deselected
            return []
        red = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", said, re.MULTILINE)
        return red or list(tests)  # No line: it failed before the first test, or crashed.


def load_once() -> None:
    """Import what all forks need."""
    # Ask NVML for GPUs, because CUDA doesn't work in the forks of a process that has used it.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    for name in LOADED_ONCE:
        with contextlib.suppress(ImportError):  # If it isn't installed, its tests are skipped.
            importlib.import_module(name)


def run_pytest(folder: Path, asked: list[str], output: int) -> None:
    """Run pytest in a fork, as the leader of a process group, and exit with its status."""
    import pytest

    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = sys.stderr = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    # Don't write bytecode: Python wouldn't notice a second edit of the same size within a second.
    os.environ |= {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "1000"}
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(folder))
    os.chdir(folder)
    status = pytest.main(asked)
    sys.stdout.flush()
    os._exit(status)


_bench: Bench  # of a process of the pool


def make_bench(folder: Path) -> None:
    """Run first in each process of the pool, which needs its own copy, because it edits files."""
    global _bench
    _bench = Bench(folder / str(os.getpid()))


def tried(mutant: Mutant) -> tuple[str, str, float]:
    """The state of a mutant, the test that fails, and the seconds that this took."""
    begin = time.monotonic()
    state, by = _bench.try_one(mutant)
    return state, by, time.monotonic() - begin


def arguments_of(tests: list[str]) -> list[str]:
    """The arguments of pytest. The words of all `FILE -k WORDS` apply to all files."""
    before = [x.split(" -k ")[0] for x in tests]
    files = [x.removesuffix(" --every") for x in before]  # A single test's name may have spaces.
    every = ["--every"] if any(x.endswith(" --every") for x in before) else []
    words = [x.split(" -k ")[1:] for x in tests]
    found = " or ".join(dict.fromkeys(word for some in words for word in some))
    return [*dict.fromkeys(files), *every, *(["-k", found] if found else [])]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], metavar="TEXT")
    asked = parser.parse_args()
    only = asked.only or [""]
    mutants = [m for m in listed() if any(x in f"{m.title}{m.old}" for x in only)]
    load_once()
    alive = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        begin = partial(make_bench, Path(folder))
        with ProcessPoolExecutor(os.cpu_count(), FORKS, initializer=begin) as pool:
            for mutant, (state, by, seconds) in zip(mutants, pool.map(tried, mutants), strict=True):
                line = f"{state:10} {seconds:6.1f} s  {mutant.title}  {by}"
                print(line, flush=True)
                alive += [] if state == "killed" else [line]
    print(f"{len(mutants) - len(alive)} of {len(mutants)} killed", *alive, sep="\n")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
