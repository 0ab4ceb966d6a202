"""Deliberate bugs, each alone in a copy of the project: does a test turn red?

    python tools/mutants.py                     all of tests/mutants.toml
    python tools/mutants.py --only "a sign"     those with these words in their file, edit or title
    python tools/mutants.py --draw 20 --seed 7  20 of them, the same ones for the same seed

The list names the tests that have to find a bug. It is killed by one that is red, and green without
the bug.
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


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


def drawn(mutants: list[Mutant], number: int, seed: int) -> list[Mutant]:
    """So many different ones (all, if there are fewer), in the order of the list."""
    places = random.Random(seed).sample(range(len(mutants)), min(number, len(mutants)))
    return [mutants[place] for place in sorted(places)]


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

        Bytecode is not written: an edit within a second, of the same size, would not be seen.

        Raises:
            TimeoutError: they didn't end.
            LookupError: one isn't there.
        """
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE", *options]
        command += [*arguments_of(tests), "-p", "no:cacheprovider"]
        path = os.pathsep.join(filter(None, (str(self.folder), os.environ.get("PYTHONPATH"))))
        here = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "1000"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8"}
        process = subprocess.Popen(
            command, cwd=self.folder, env=os.environ | here, start_new_session=True, **pipes
        )
        try:
            said, _ = process.communicate(timeout=self.limit)
        except subprocess.TimeoutExpired as error:
            os.killpg(process.pid, signal.SIGKILL)  # kernels of notebooks too
            process.communicate()
            raise TimeoutError from error
        if re.search("^ERROR: (file or directory )?not found:", said, re.MULTILINE):
            raise LookupError(said)
        if process.returncode in (0, 5):  # 5: all were deselected
            return []
        red = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", said, re.MULTILINE)
        return red or list(tests)  # without a line: it broke before the first test, or died


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
    parser.add_argument("--draw", type=int, metavar="NUMBER")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    only = asked.only or [""]
    mutants = [m for m in listed() if any(x in f"{m.title}{m.old}" for x in only)]
    if asked.draw is not None:
        print(f"{asked.draw} of {len(mutants)}, drawn by --seed {asked.seed}", flush=True)
        mutants = drawn(mutants, asked.draw, asked.seed)
    alive = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        bench = Bench(Path(folder))
        for mutant in mutants:
            begin = time.monotonic()
            state, by = bench.try_one(mutant)
            line = f"{state:10} {time.monotonic() - begin:6.1f} s  {mutant.title}  {by}"
            print(line, flush=True)
            alive += [] if state == "killed" else [line]
    print(f"{len(mutants) - len(alive)} of {len(mutants)} killed", *alive, sep="\n")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
