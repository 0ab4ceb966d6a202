"""Compute how long each notebook takes, and write it where it is said: `make times` runs this.

A notebook's time is made of what is in it: a minute for 200 words, 1.5 seconds for a line of code,
half a minute for a displayed equation or a picture, 45 seconds for a prediction. An exercise takes
two minutes for each line that the reader writes, and five at least; where an edit has to be found,
its author may say more in the title. The reader writes the lines of the solution that its stub
doesn't have; a statement over several lines is one. Hints, answers and references are not counted,
nor is the time for which cells run.

The **core** are the sections that the first cell names, without optional exercises. `make times`
writes the minutes into first cells, titles of exercises, README and docs/index.md;
tests/notebooks/test_reading_times.py compares.
"""

import io
import math
import re
import tokenize
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path

import nbformat

from benchmarks.tables import fill

ROOT = Path(__file__).resolve().parent.parent
FOLDER, README, INDEX = ROOT / "notebooks", ROOT / "README.md", ROOT / "docs/index.md"

WORDS_A_MINUTE = 200
MINUTES_A_LINE = 1.5 / 60  # of code that is read
MINUTES_TO_LOOK = 30 / 60  # at an equation, or a picture
MINUTES_A_PREDICTION = 45 / 60
MINUTES_A_WRITTEN_LINE = 2
MINUTES_AN_EXERCISE = 5  # at least

TIME = re.compile(
    r"^\| Time \| (?P<minutes>\d+) minutes(?:.*? for the core[:,] "
    r"sections? (?P<core>\d[\d, -]*?))?(?:; \d+ with .*)? \|$",
    re.MULTILINE,
)
HEADING = re.compile(r"^(#{2,}) (.+)$")
EXERCISE = re.compile(
    r"^### (?P<name>Exercise \d: .+?) \((?P<minutes>\d+) minutes(?P<optional>, optional)?\)$",
    re.MULTILINE,
)
# The row of words is for looking up, later.
NOT_COUNTED = re.compile(r"<details>.*?</details>|<!--.*?-->|^\| Words \|[^\n]*", re.DOTALL | re.M)


def stated_time(first_cell: str) -> tuple[int, list[int]]:
    """What the table of a first cell says: minutes, and sections of the core; none if all count."""
    stated = TIME.search(first_cell)
    core = []
    for span in stated["core"].split(",") if stated["core"] else ():
        first, _, last = span.strip().partition("-")
        core += range(int(first), int(last or first) + 1)
    return int(stated["minutes"]), core


@dataclass
class Part:
    """A section, an exercise, or what is before, between and after them."""

    section: int | None  # None: of no numbered section
    optional: bool = False
    words: int = 0
    lines: int = 0  # of code
    looked_at: int = 0  # equations and pictures
    predictions: int = 0
    written: int = 0  # lines of an exercise, by the reader
    is_over: bool = False  # an exercise, with its code
    stated: int = 0  # minutes in the exercise's title
    name: str = ""  # of the exercise

    @property
    def exercise_minutes(self) -> int:
        """What its title should say: what it says, or more where that is too little."""
        return max(self.stated, MINUTES_AN_EXERCISE, MINUTES_A_WRITTEN_LINE * self.written)

    @property
    def minutes(self) -> float:
        return (
            self.words / WORDS_A_MINUTE
            + self.lines * MINUTES_A_LINE
            + self.looked_at * MINUTES_TO_LOOK
            + self.predictions * MINUTES_A_PREDICTION
            + (self.exercise_minutes if self.name else 0)
        )


@dataclass
class Times:
    """A notebook's."""

    path: Path
    node: nbformat.NotebookNode
    core_sections: list[int]
    parts: list[Part] = field(default_factory=list)

    def _is_core(self, part: Part) -> bool:
        in_core = part.section in (None, *self.core_sections) or not self.core_sections
        return in_core and not part.optional

    @property
    def core(self) -> int:
        """Minutes without what is optional."""
        return math.ceil(sum(part.minutes for part in self.parts if self._is_core(part)))

    @property
    def whole(self) -> int:
        """Minutes with all of it."""
        return math.ceil(sum(part.minutes for part in self.parts))

    @property
    def words(self) -> int:
        return sum(part.words for part in self.parts)

    @property
    def row(self) -> str:
        """The line of the first cell."""
        minutes = f"{self.core} minutes"
        if self.core_sections:
            found = TIME.search(self.node.cells[0].source)["core"].strip()
            plural = "s" if len(self.core_sections) > 1 else ""
            minutes += f" for the core, section{plural} {found}"
        if self.whole > self.core:
            minutes += f"; {self.whole} with optional parts"
        return f"| Time | {minutes} |"

    def write(self) -> bool:
        """Put the minutes into the first cell and the titles of exercises; True if any changed."""
        before = nbformat.writes(self.node)
        first = self.node.cells[0]
        first.source = TIME.sub(lambda _: self.row, first.source)
        named = {part.name: part.exercise_minutes for part in self.parts if part.name}
        for cell in self.node.cells:
            if cell.cell_type == "markdown":
                cell.source = EXERCISE.sub(
                    lambda found: (
                        f"### {found['name']} ({named[found['name']]} minutes"
                        f"{found['optional'] or ''})"
                    ),
                    cell.source,
                )
        changed = nbformat.writes(self.node) != before
        if changed:
            nbformat.write(self.node, self.path)
        return changed


def times_of(path: Path) -> Times:
    """A notebook's, from its cells and those of its solutions."""
    node = nbformat.read(path, as_version=4)
    solutions = path.parent / f"solutions/{path.stem}_solutions.ipynb"
    solved = nbformat.read(solutions, as_version=4).cells if solutions.exists() else []
    solved_by_id = {cell.id: cell.source for cell in solved if cell.cell_type == "code"}
    times = Times(path, node, stated_time(node.cells[0].source)[1])
    part, shown = Part(section=None), ""  # a rung that a reader copies into the next cell
    times.parts.append(part)
    for cell in node.cells:
        if cell.cell_type == "code":
            part.lines += sum(bool(line.strip()) for line in cell.source.splitlines())
            part.looked_at += sum("image/png" in one.get("data", {}) for one in cell.outputs)
            if part.name and cell.id in solved_by_id:
                new = lines_written(shown + cell.source, solved_by_id[cell.id])
                part.written += new
                part.is_over = True
            copied = re.fullmatch(r"lab\.show_rung\((\d)\)", cell.source)
            shown = _rung_in(path.parent / "solutions", copied[1]) if copied else ""
            continue
        if part.is_over:
            part = Part(section=part.section)
            times.parts.append(part)
        for line in NOT_COUNTED.sub("", cell.source).splitlines():
            if heading := HEADING.match(line):
                part = _part_that_begins(heading, line, part.section)
                times.parts.append(part)
            if not TIME.match(line):  # else what is written would change what is computed
                part.words += words_in(line)
            part.looked_at += line.count("\\tag{") + len(re.findall(r"!\[[^]]+\]\(", line))
            part.predictions += line.count("**Predict.**")
    times.parts = [part for part in times.parts if part.section != REFERENCES]
    return times


def _rung_in(solutions: Path, number: str) -> str:
    """A rung's kernel and launcher, from the cell that has it judged."""
    check = f"lab.check_rung({number}, my_rope)"
    cells = (
        cell.source
        for path in sorted(solutions.glob("*.ipynb"))
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code"
    )
    return next(source.removesuffix(check) for source in cells if source.endswith(check))


REFERENCES = -1  # is looked up, not read


def _part_that_begins(heading: re.Match, line: str, section: int | None) -> Part:
    level, title = heading.groups()
    if exercise := EXERCISE.match(line):
        optional = bool(exercise["optional"])
        stated = int(exercise["minutes"])
        return Part(section, optional, name=exercise["name"], stated=stated)
    if len(level) > 2:
        return Part(section)
    if number := re.match(r"(\d+)\. ", title):
        return Part(int(number[1]))
    return Part(REFERENCES if title == "References" else None, optional="(optional)" in title)


def words_in(line: str) -> int:
    """What stands between spaces and has a letter or a digit; of a link its text alone."""
    shown = re.sub(r"\]\([^)]*\)", "]", line)
    return sum(any(map(str.isalnum, word)) for word in shown.split())


def lines_written(stub: str, solution: str) -> int:
    """Statements of the solution that the stub doesn't have."""
    before, after = statements(stub), statements(solution)
    same = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return sum(last - first for kind, _, _, first, last in same if kind != "equal")


def statements(code: str) -> list[str]:
    """A line each, without comments and docstrings; a decorator or a `def` is one, too."""
    found = [""]
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.NEWLINE:
            found.append("")
        elif token.type != tokenize.COMMENT:
            found[-1] += token.string.strip()
    return [one.replace(",)", ")") for one in found if one and not one.startswith('"""')]


# Pages


def of_the_road() -> list[Times]:
    return [times_of(path) for path in sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))]


def of_detours() -> list[Times]:
    return [times_of(path) for path in sorted(FOLDER.glob("deeper/[0-9][0-9]_*.ipynb"))]


def _head(times: Times) -> tuple[str, str, str]:
    """Number, title and question of a notebook."""
    first = times.node.cells[0].source
    return re.match(r"# (\d\d\+?) · (.+)\n\n\*\*(.+\?)\*\*\n", first).groups()


def _minutes(number: int) -> str:
    return f"{number}\u00a0min"


def _hours(minutes: int) -> str:
    """To half an hour."""
    hours = round(minutes / 30) / 2
    whole, half = int(hours), "½" if hours % 1 else ""
    return f"{whole}{half} hour{'s' if hours != 1 else ''}"


def readme(page: str) -> str:
    """README with the times of now; its column of what one can do afterwards stays."""
    road, detours = of_the_road(), of_detours()
    core = [times for times in road if times.core_sections]
    beyond = [times for times in road if not times.core_sections]
    afterwards = dict(re.findall(r"^\| \[(\d\d) [^|]+ \| [^|]+ \| ([^|]+) \| ", page, re.MULTILINE))
    lines = [
        "| | question | afterwards you can | minutes | with optional<br>sections |",
        "|---|---|---|--:|--:|",
    ]
    for times in road:
        number, title, question = _head(times)
        if times is beyond[0]:
            lines.append(_sum_of("notebooks 00 to 10", core))
        link = f"[{number} {title}](notebooks/{times.path.name})"
        minutes = f"{_minutes(times.core)} | {_minutes(times.whole)}"
        lines.append(f"| {link} | {question} | {afterwards[number]} | {minutes} |")
    lines.append(_sum_of("notebooks 11 to 14", beyond))
    page = fill(page, "road", "\n".join(lines) + "\n")
    whole = _hours(sum(times.whole for times in core))
    time = (
        f"Notebooks 00 to 10 take {_hours(sum(times.core for times in core))} with their "
        f"exercises, and {whole} with optional sections. If Triton is new to you, plan for half as "
        "long again. Notebooks 11 to 14 are optional and add "
        f"{_hours(sum(times.core for times in beyond))}. "
        "[Four more](docs/index.md#Detours) explain details in "
        f"{_hours(sum(times.core for times in detours))}. The minutes are "
        "[computed](tools/reading_times.py) from words, lines of code and exercises.\n"
    )
    return fill(page, "time", time)


def _sum_of(what: str, some: list[Times]) -> str:
    core, whole = (sum(minutes) for minutes in zip(*((x.core, x.whole) for x in some), strict=True))
    return f"| | | *{what}* | {_minutes(core)} | {_minutes(whole)} |"


def index(page: str) -> str:
    """docs/index.md with the current times of the detours."""
    titles = {_head(times)[0]: times for times in of_the_road()}
    lines = ["| notebook | question | read after | time |", "|---|---|---|---|"]
    found = of_detours()
    for times in found:
        number, title, question = _head(times)
        after = titles[number.rstrip("+")]
        back = f"[{number.rstrip('+')} {_head(after)[1]}](../notebooks/{after.path.name})"
        link = f"[{number} {title}](../notebooks/deeper/{times.path.name})"
        lines.append(f"| {link} | {question} | {back} | {times.core} min |")
    lines.append(f"| | | total | {sum(times.core for times in found)} min |")
    return fill(page, "times", "\n".join(lines) + "\n")


PAGES = {README: readme, INDEX: index}


def main() -> None:
    """Write all times, and print them with the words of each notebook."""
    for times in (*of_the_road(), *of_detours()):
        changed = "written" if times.write() else ""
        name = times.path.relative_to(FOLDER).as_posix()
        print(f"{name:42} {times.words:5} words {times.core:4} {times.whole:4} min  {changed}")
    for page, filled in PAGES.items():
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
