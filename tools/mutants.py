"""Deliberate bugs, one at a time, in a copy of the project: which test turns red?

    python tools/mutants.py                 the list, mutants.toml, then 100 drawn by a seed
    python tools/mutants.py listed          the list alone; or `drawn`
    python tools/mutants.py listed --list   what there is, and what is known of it

`--only TEXT` keeps mutants with that text in their file, edit or words. What the tests that the
list names don't find goes to all tests of its room, but with `--quick`. A mutant is killed by a
test that is red, and green without the edit.

Results go to build/mutants/state.json after each mutant, so a run can be interrupted and continued.
A killed one is known until its file or that of its red test changes, any other until anything does.
`--again` runs what has a result.
"""

import argparse
import ast
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tokenize
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice, zip_longest
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tools/mutants.toml"
OWN = "tools/mutants", "tests/project/test_mutants"
DRAWN, SEED = 100, 20
SWAPPED = {  # a number becomes the next one; `|` stays, for most are in annotations
    **{"+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "%": "//", "<<": ">>", ">>": "<<"},
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&": "|"},
    **{"and": "or", "or": "and", "not": "", "True": "False", "False": "True"},
}
# Tests of a room, where they are not in a folder of its name.
ROOMS = {
    "rope_kernels/api": ["tests/call"],
    "rope_kernels/launch": ["tests/launch", "tests/norm"],
    "rope_kernels/kernels/norm": ["tests/norm"],
    "rope_kernels/autograd/norm": ["tests/norm", "tests/autograd"],
    "rope_kernels/reference": ["tests/kernels", "tests/norm", "tests/call"],
    "rope_kernels/machine": ["tests/launch", "tests/autograd"],
    "rope_kernels/__init__": ["tests/project"],
    "rope_lab/": ["tests/lab", "tests/notebooks", "notebooks"],
    "notebooks/": ["tests/notebooks"],
    "benchmarks/": ["tests/benchmarks"],
}


@dataclass(frozen=True)
class Mutant:
    """An edit that makes something wrong."""

    file: str
    old: str  # occurs once in the file
    new: str
    wrong: str
    tests: tuple[str, ...] = ()  # files, notebooks or single tests that should find it

    def applied(self, text: str) -> str:
        if self.old == self.new or (count := text.count(self.old)) != 1:
            found = "equals the new one" if self.old == self.new else f"occurs {count} times"
            raise ValueError(f"the old text {found} in {self.file}; accepted: once: {self.old!r}")
        return text.replace(self.old, self.new)

    @property
    def key(self) -> str:
        return digest(self.file, self.old, self.new)

    @property
    def title(self) -> str:
        return f"{self.file}: {self.wrong}"


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant."""

    mutant: str
    state: str  # "killed", "survived", "unfinished"; "no verdict": its test is red anyway
    by: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Run:
    """What pytest said."""

    red: tuple[str, ...] = ()  # tests
    ended: bool = True


def digest(*parts: str | bytes) -> str:
    parts = [part.encode() if isinstance(part, str) else part for part in parts]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def listed() -> list[Mutant]:
    by_file = tomllib.loads(LIST.read_text())
    edits = [(file, edit) for file, edits in by_file.items() for edit in edits]
    return [Mutant(file, **edit | {"tests": tuple(edit["tests"])}) for file, edit in edits]


def drawn(count: int = DRAWN, seed: int = SEED) -> list[Mutant]:
    """As many of each room, by a hash: a change in one file leaves those of the others."""
    files = [x for x in tracked() if re.fullmatch(r"rope_(kernels|lab)/.*\.py", x)]
    rooms: dict[str, list[Mutant]] = {}
    for file in files:
        room = rooms.setdefault("/".join(file.split("/")[:-1][:2]), [])
        room += edits_of(file, (ROOT / file).read_text())
    for room in rooms.values():
        room.sort(key=lambda m: digest(str(seed), m.key))
    in_turn = (m for turn in zip_longest(*rooms.values()) for m in turn if m)
    return list(islice((m for m in in_turn if is_python(m, (ROOT / m.file).read_text())), count))


def edits_of(file: str, text: str) -> Iterator[Mutant]:
    """One for each word that has another one."""
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        word, (row, column) = token.string, token.start
        new = SWAPPED.get(word)
        if token.type == tokenize.NUMBER and word.isdigit():
            new = str(int(word) + 1)
        if new is None:
            continue
        line = lines[row - 1]
        changed = line[:column] + new + line[column + len(word) :]
        first = row - 1  # with so many lines before it that they occur once
        while first and text.count("".join(lines[first:row])) > 1:
            first -= 1
        before = "".join(lines[first : row - 1])
        words = f"{word} -> {new or 'nothing'}, in {line.strip()}"
        yield Mutant(file, before + line, before + changed, words)


def is_python(mutant: Mutant, text: str) -> bool:
    """Not where the star of `*arguments` was another one."""
    try:
        ast.parse(mutant.applied(text))
    except (SyntaxError, ValueError):
        return False
    return True


# Copies, and what runs in them.


def tracked() -> list[str]:
    names = subprocess.check_output(("git", "ls-files", "-z"), cwd=ROOT, text=True).split("\0")
    return [name for name in names if name and (ROOT / name).exists()]


@dataclass(frozen=True)
class Copy:
    """The tracked files in a folder of their own."""

    folder: Path
    limit: float  # seconds

    def pytest(self, tests: list[str], *options: str) -> Run:
        """Bytecode is not written: an edit within a second, of the same size, would not be seen."""
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE", *options, *tests]
        path = os.pathsep.join(filter(None, (str(self.folder), os.environ.get("PYTHONPATH"))))
        here = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "1000"}
        process = subprocess.Popen(
            [*command, "-p", "no:cacheprovider"],
            cwd=self.folder,
            env=os.environ | here,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
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

    def first_red(self, tests: list[str]) -> Run:
        """Of tests, then of notebooks; none if all are green."""
        for options in (["-x"], ["-x", "--nbval"]):
            some = [
                test for test in tests if ("--nbval" in options) == test.startswith("notebooks")
            ]
            if some and (run := self.pytest(some, *options)) != Run():
                return run
        return Run()


class Bench:
    """Runs mutants and remembers what came out."""

    def __init__(self, folder: Path, limit: float, quick: bool, jobs: int) -> None:
        self.state, self.quick = folder / "state.json", quick
        self.lock, self.free, self.green = Lock(), SimpleQueue(), set()
        folder.mkdir(parents=True, exist_ok=True)
        self.known = json.loads(self.state.read_text()) if self.state.exists() else {}
        self.scratch = tempfile.TemporaryDirectory(prefix="mutants-")
        for number in range(jobs):
            place = Path(self.scratch.name) / str(number)
            for name in tracked():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, place / name)
            self.free.put(Copy(place, limit))

    @cached_property
    def tree(self) -> str:
        """All files but this tool's own."""
        return self.digest_of(*(name for name in tracked() if not name.startswith(OWN)))

    def digest_of(self, *names: str) -> str:
        return digest(*(part for name in names for part in (name, (ROOT / name).read_bytes())))

    def basis(self, mutant: Mutant, outcome: Outcome) -> str:
        """What an outcome hangs on."""
        file = outcome.by.split("::")[0]
        alone = outcome.state == "killed" and (ROOT / file).is_file()
        return self.digest_of(mutant.file, file) if alone else self.tree

    def recall(self, mutant: Mutant) -> Outcome | None:
        if not (found := self.known.get(mutant.key)):
            return None
        outcome = Outcome(**found["outcome"])
        return outcome if found["basis"] == self.basis(mutant, outcome) else None

    def remember(self, mutant: Mutant, outcome: Outcome) -> None:
        found = {"outcome": asdict(outcome), "basis": self.basis(mutant, outcome)}
        with self.lock:
            self.known[mutant.key] = found
            unfinished = self.state.with_suffix(".new")
            unfinished.write_text(json.dumps(self.known, indent=1))
            unfinished.replace(self.state)

    def try_one(self, mutant: Mutant) -> Outcome:
        place = self.free.get()
        try:
            outcome = self.outcome(place, mutant)
        finally:
            self.free.put(place)
        self.remember(mutant, outcome)
        print(f"{outcome.state:10} {outcome.seconds:6.1f} s  {mutant.title}  {outcome.by}")
        return outcome

    def outcome(self, place: Copy, mutant: Mutant) -> Outcome:
        path, begin = place.folder / mutant.file, time.monotonic()
        right, found = path.read_text(), Run()
        path.write_text(mutant.applied(right))
        try:
            for tests in (list(mutant.tests), [] if self.quick else room_of(mutant.file)):
                if tests and found == Run():
                    found = place.first_red(tests)
        finally:
            path.write_text(right)
        seconds, by = round(time.monotonic() - begin, 1), "".join(found.red[:1])
        state = "unfinished" if not found.ended else "killed" if found.red else "survived"
        if state == "killed" and not self.is_green(place, by):
            state = "no verdict"
        return Outcome(mutant.title, state, by, seconds)

    def is_green(self, place: Copy, test: str) -> bool:
        """Without an edit; of a notebook all cells, for one needs those before."""
        test = test.split("::")[0] if ".ipynb" in test else test
        if test not in self.green and place.first_red([test]) == Run():
            self.green.add(test)
        return test in self.green


def room_of(file: str) -> list[str]:
    """Folders of tests: what `ROOMS` says, or that of its room's name."""
    named = (tests for name, tests in ROOMS.items() if file.startswith(name))
    own = f"tests/{file.split('/')[1]}"
    return next(named, [own] if (ROOT / own).is_dir() else ["tests"])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", nargs="?", default="all", choices=("all", "listed", "drawn"))
    parser.add_argument("--only", action="append", default=[], metavar="TEXT")
    parser.add_argument("--list", action="store_true", help="run nothing")
    parser.add_argument("--again", action="store_true", help="run what has a result")
    parser.add_argument("--quick", action="store_true", help="only the tests that the list names")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600, help="seconds of one run of pytest")
    parser.add_argument("--state", type=Path, default=ROOT / "build/mutants")
    options = parser.parse_args()
    bench = Bench(options.state, options.limit, options.quick, 0 if options.list else options.jobs)
    mutants = listed() if options.what in ("all", "listed") else []
    mutants += drawn() if options.what in ("all", "drawn") else []
    for mutant in mutants:
        mutant.applied((ROOT / mutant.file).read_text())
    if options.only:
        mutants = [m for m in mutants if any(x in f"{m.title}{m.old}" for x in options.only)]
    if options.list:
        for mutant in mutants:
            known = bench.recall(mutant)
            print(f"{known.state if known else '-':10} {mutant.title}")
        return 0
    waiting = [m for m in mutants if options.again or not bench.recall(m)]
    with ThreadPoolExecutor(options.jobs) as pool:
        running = [pool.submit(bench.try_one, m) for m in waiting]
        try:
            for one in running:
                one.result()
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)  # after those that run
            raise
    outcomes = [bench.recall(m) or Outcome(m.title, "file changed") for m in mutants]
    alive = [x for x in outcomes if x.state != "killed"]
    print(f"{len(outcomes) - len(alive)} of {len(outcomes)} killed")
    for outcome in alive:
        print(f"{outcome.state:10} {outcome.mutant}  {outcome.by}")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
