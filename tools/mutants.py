"""Deliberate bugs, each alone in a copy of the project: does a test turn red?

    python tools/mutants.py                  all of tests/mutants.toml
    python tools/mutants.py --only "a sign"  those with these words in their file, edit or title

The list names the tests that have to find a bug. It is killed by one that is red, and green without
the bug.

What takes long is starting Python with torch, Triton and pytest. So this process loads them once,
and each run of pytest is a fork of it. As many bugs as there are cores are tried at a time.
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
# What the tests import of other projects. Nothing of this one: a fork has to import its own copy.
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


def listed() -> list[Mutant]:
    by_file = tomllib.loads((ROOT / "tests/mutants.toml").read_text(encoding="utf-8"))
    edits = [(file, edit) for file, edits in by_file.items() for edit in edits]
    return [Mutant(file, **edit | {"tests": tuple(edit["tests"])}) for file, edit in edits]


def tracked() -> list[str]:
    """The files that git doesn't ignore, new ones too."""
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.check_output(command, cwd=ROOT, encoding="utf-8").split("\0")
    return [name for name in names if name and (ROOT / name).exists()]


class Bench:
    """A copy of the project, in which mutants are tried."""

    def __init__(self, folder: Path, limit: float = 600) -> None:
        self.folder, self.limit = folder, limit  # seconds of one run of pytest
        self.red_anyway = cache(self.red_of)
        for name in tracked():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
        # checked by the text, not by its time: an edited file is compiled again by whoever reads it
        checked = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(folder, quiet=2, invalidation_mode=checked)

    def try_one(self, mutant: Mutant) -> tuple[str, str]:
        """What became of it, and the test that is red.

        "killed", "survived", "unfinished", or "no verdict" where the test is red without it too.
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
            # of a notebook any cell, for it needs all
            asked = red[0].split("::")[0] if ".ipynb" in red[0] else red[0]
            return "no verdict" if red[0] in self.red_anyway(asked) else "killed", red[0]
        except (TimeoutError, LookupError):
            return "unfinished", ""
        finally:
            path.write_text(right, encoding="utf-8")

    def red_of(self, test: str) -> list[str]:
        return self.pytest([test], *(["--nbval"] if ".ipynb" in test else []))

    def pytest(self, tests: list[str], *options: str) -> list[str]:
        """The tests that are red.

        Raises:
            TimeoutError: they didn't end.
            LookupError: one isn't there.
        """
        asked = ["-q", "--tb=no", "-rfE", *options, *arguments_of(tests), "-p", "no:cacheprovider"]
        # Its thread doesn't survive a fork, and pytest would wait for it. `limit` ends what hangs.
        asked += ["-p", "no:faulthandler"]
        with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
            fork = FORKS.Process(target=run_pytest, args=(self.folder, asked, output.fileno()))
            fork.start()
            fork.join(self.limit)
            is_late = fork.exitcode is None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(fork.pid, signal.SIGKILL)  # and what it started, such as kernels
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
        return red or list(tests)  # without a line: it broke before the first test, or died


def load_once() -> None:
    """Import what all forks need, as `tests/conftest.py` has it: interpreted without a GPU."""
    # by the driver's library: a process that has asked CUDA itself can't be forked
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"
    for name in LOADED_ONCE:
        with contextlib.suppress(ImportError):  # without it, its tests are skipped
            importlib.import_module(name)


def run_pytest(folder: Path, asked: list[str], output: int) -> None:
    """What a fork does: it becomes the leader of a group, and ends with pytest's exit status."""
    import pytest

    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = sys.stderr = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    # Bytecode is not written: an edit within a second, of the same size, would not be seen.
    os.environ |= {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "1000"}
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(folder))
    os.chdir(folder)
    status = pytest.main(asked)
    sys.stdout.flush()
    os._exit(status)


_bench: Bench  # of a process of the pool


def make_bench(folder: Path) -> None:
    """At the start of a process of the pool: it edits files, so it has a copy for itself."""
    global _bench
    _bench = Bench(folder / str(os.getpid()))


def tried(mutant: Mutant) -> tuple[str, str, float]:
    """What became of a mutant, the test that is red, and the seconds that it took."""
    begin = time.monotonic()
    state, by = _bench.try_one(mutant)
    return state, by, time.monotonic() - begin


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
