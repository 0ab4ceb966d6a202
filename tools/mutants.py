"""Deliberate bugs, one at a time, in a copy of the project: which test turns red?

    python tools/mutants.py                 the list, mutants.toml, then 100 drawn by a seed
    python tools/mutants.py listed          the list alone; or `drawn`
    python tools/mutants.py listed --list   what there is, and what is known of it
    python tools/mutants.py listed --in tests/test_x.py   is each red in these files?
    python tools/mutants.py listed --all-red              every red test, not only the first
    python tools/mutants.py --never-red tests/call        tests that were red for none so far

`--only TEXT` keeps mutants with that text in their file, edit or words. What the tests that the
list names don't find goes to all tests of its room, but with `--quick`. A mutant is killed by a
test that is red, and green without the edit. `--jobs` is the number of mutants at a time.

Results go to build/mutants/state.json after each mutant, so a run can be interrupted and continued.
A killed one is known until its file or those of its red tests change, any other until anything
does. Those with `--in` or `--all-red` are kept apart. `--again` runs what has a result.
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
from collections.abc import Iterator, Sequence
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
    "rope_kernels/kernel": ["tests/test_ops.py", "tests/kernels"],
    "rope_kernels/launch": ["tests/launch", "tests/test_ops_calls.py"],
    "rope_kernels/tiles": ["tests/launch", "tests/kernels"],
    "rope_kernels/norm": ["tests/norm", "tests/test_ops.py"],
    "rope_kernels/checks": ["tests/test_ops_refused.py", "tests/call"],
    "rope_kernels/rotation": ["tests/call", "tests/test_ops.py"],
    "rope_kernels/reference": ["tests/kernels", "tests/norm", "tests/call"],
    "rope_kernels/modes": ["tests/launch", "tests/autograd"],
    "rope_kernels/scaling": ["tests/embedding"],
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
    tests: tuple[str, ...] = ()  # what should find it: files, `FILE -k WORDS`, single tests

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
    red: tuple[str, ...] = ()  # with `--all-red` all of them


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


MADE = ".git", ".venv", "build", "my_notebooks", "__pycache__", ".pytest_cache", ".ruff_cache"


def tracked() -> list[str]:
    """The files that git doesn't ignore, new ones too; without it all that no tool has made."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        names = subprocess.check_output(command, cwd=ROOT, text=True).split("\0")
        return [name for name in names if name and (ROOT / name).exists()]
    names = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [x for x in folders if x not in MADE and not x.endswith(".egg-info")]
        names += [(Path(folder) / file).relative_to(ROOT).as_posix() for file in files]
    return sorted(names)


@dataclass(frozen=True)
class Copy:
    """The files of the project in a folder of their own."""

    folder: Path
    limit: float  # seconds
    threads: int = 0  # of a process; 0: as many as PyTorch takes by itself

    def pytest(self, tests: list[str], *options: str) -> Run:
        """Bytecode is not written: an edit within a second, of the same size, would not be seen."""
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE", *options]
        command += arguments_of(tests)
        path = os.pathsep.join(filter(None, (str(self.folder), os.environ.get("PYTHONPATH"))))
        here = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "1000"}
        if self.threads:
            here["OMP_NUM_THREADS"] = str(self.threads)
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


class Bench:
    """Runs mutants and remembers what came out."""

    def __init__(
        self,
        folder: Path,
        limit: float,
        quick: bool,
        jobs: int,
        within: Sequence[str] = (),
        all_red: bool = False,
    ) -> None:
        self.state, self.quick = folder / "state.json", quick
        self.within, self.all_red = list(within), all_red
        self.lock, self.free, self.anyway = Lock(), SimpleQueue(), {}
        folder.mkdir(parents=True, exist_ok=True)
        self.known = json.loads(self.state.read_text()) if self.state.exists() else {}
        self.scratch = tempfile.TemporaryDirectory(prefix="mutants-")
        for number in range(jobs):
            place = Path(self.scratch.name) / str(number)
            for name in tracked():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, place / name)
            threads = max(1, (os.cpu_count() or 1) // jobs) if jobs > 1 else 0
            self.free.put(Copy(place, limit, threads))

    @cached_property
    def tree(self) -> str:
        """All files but this tool's own."""
        return self.digest_of(*(name for name in tracked() if not name.startswith(OWN)))

    def digest_of(self, *names: str) -> str:
        return digest(*(part for name in names for part in (name, (ROOT / name).read_bytes())))

    def basis(self, mutant: Mutant, outcome: Outcome) -> str:
        """What an outcome hangs on."""
        files = sorted({test.split("::")[0] for test in (outcome.by, *outcome.red)})
        alone = outcome.state == "killed" and all((ROOT / file).is_file() for file in files)
        return self.digest_of(mutant.file, *files) if alone else self.tree

    def key(self, mutant: Mutant) -> str:
        """Of an outcome: other tests, or all instead of the first, are another question."""
        asked = [*self.within, *(["all red"] if self.all_red else [])]
        return digest(mutant.key, *asked) if asked else mutant.key

    def recall(self, mutant: Mutant) -> Outcome | None:
        if not (found := self.known.get(self.key(mutant))):
            return None
        outcome = Outcome(**found["outcome"])
        return outcome if found["basis"] == self.basis(mutant, outcome) else None

    def remember(self, mutant: Mutant, outcome: Outcome) -> None:
        found = {"outcome": asdict(outcome), "basis": self.basis(mutant, outcome)}
        with self.lock:
            self.known[self.key(mutant)] = found
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
        more = f" and {len(outcome.red) - 1} more" if outcome.red[1:] else ""
        print(f"{outcome.state:10} {outcome.seconds:6.1f} s  {mutant.title}  {outcome.by}{more}")
        return outcome

    def outcome(self, place: Copy, mutant: Mutant) -> Outcome:
        path, begin = place.folder / mutant.file, time.monotonic()
        right, found, ran = path.read_text(), Run(), []
        path.write_text(mutant.applied(right))
        try:
            for tests in self.tests_of(mutant):
                if tests and found == Run():
                    ran, found = tests, place.red(tests, self.all_red)
        finally:
            path.write_text(right)
        seconds, red = round(time.monotonic() - begin, 1), found.red
        state = "unfinished" if not found.ended else "no verdict" if red else "survived"
        if state == "no verdict":
            asked = ran if self.all_red else [of_its_own(red[0])]
            if new := [test for test in red if test not in self.red_anyway(place, asked)]:
                state, red = "killed", tuple(new)
        return Outcome(mutant.title, state, "".join(red[:1]), seconds, red)

    def tests_of(self, mutant: Mutant) -> list[list[str]]:
        """What is run, in turn, until something is red."""
        own = list(mutant.tests)
        if self.within or self.quick:
            return [self.within or own]
        room = room_of(mutant.file)
        if self.all_red:  # together, each once
            return [[*room, *[test for test in own if not test.startswith(tuple(room))]]]
        return [own, room]

    def red_anyway(self, place: Copy, tests: list[str]) -> set[str]:
        """What is red without an edit; all of them, if they don't come to an end."""
        asked = tuple(tests)
        if asked not in self.anyway:
            run = place.red(tests, every=True)
            self.anyway[asked] = set(run.red if run.ended else tests)
        return self.anyway[asked]

    def never_red(self, paths: list[str]) -> list[str]:
        """The test functions there that no mutant is known to have made red."""
        noted = [x["outcome"].get("red", ()) for x in self.known.values()]
        red = {test.split("[")[0] for tests in noted for test in tests}
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *paths]
        said = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
        there = dict.fromkeys(x.split("[")[0] for x in said.splitlines() if "::" in x)
        return [test for test in there if test not in red]


def arguments_of(tests: list[str]) -> list[str]:
    """As pytest takes them. `FILE -k WORDS` are cases of a file; the words hold for all files."""
    files, words = [x.split(" -k ")[0] for x in tests], [x.split(" -k ")[1:] for x in tests]
    found = " or ".join(dict.fromkeys(word for some in words for word in some))
    return [*dict.fromkeys(files), *(["-k", found] if found else [])]


def of_its_own(test: str) -> str:
    """What runs a test alone: of a notebook all cells, for one needs those before."""
    return test.split("::")[0] if ".ipynb" in test else test


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
    parser.add_argument("--in", nargs="+", default=[], dest="within", metavar="PATH")
    parser.add_argument("--all-red", action="store_true", help="run on after the first red test")
    parser.add_argument("--never-red", nargs="+", metavar="PATH", help="run nothing")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600, help="seconds of one run of pytest")
    parser.add_argument("--state", type=Path, default=ROOT / "build/mutants")
    options = parser.parse_args()
    jobs = 0 if options.list or options.never_red else options.jobs
    asked = {"within": options.within, "all_red": options.all_red}
    bench = Bench(options.state, options.limit, options.quick, jobs, **asked)
    if options.never_red:
        print("\n".join(bench.never_red(options.never_red)))
        return 0
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
