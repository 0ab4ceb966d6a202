"""Write what notebooks/index.toml says into README and the notebooks: `make index`.

The index is the one source of titles, questions, minutes, hardware, prerequisites and order. They
are shown in README's table, and in the first and last cell of every notebook.
tests/notebooks/test_notebook_index.py holds all of these places equal to the index.
The link "Solution" of an exercise gets the place of its solution.

`repository` in it, as "owner/name", brings badges, links that open a notebook on GitHub or in
Colab, and lines in each first code cell that fetch both packages there. The site's own address
follows from it, which its pages name for search engines and for pages that link to them. While it
is empty there is none of that.
"""

import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pages

ROOT = Path(__file__).resolve().parent.parent
INDEX = "notebooks/index.toml"
NBSP = "\u00a0"  # in README's narrow column a line must not break before 'min'

README_HEAD = "| | question | afterwards you can | core |\n|---|---|---|---|\n"
CELL_HEAD = "| | |\n|---|---|\n"
COLAB = "https://colab.research.google.com/github"
RAW = "https://raw.githubusercontent.com"
FETCH = """\
import sys

if "google.colab" in sys.modules:  # there, fetch both packages first
    import subprocess

    source, folder = "https://github.com/{repository}", "/content/rope"
    subprocess.run(["git", "clone", "-q", "--depth", "1", source, folder], check=True)
    sys.path.insert(0, folder)

"""


@dataclass(frozen=True)
class Entry:
    """One notebook; its table in index.toml has these keys, which are explained there."""

    number: str
    file: str
    title: str
    question: str
    minutes: int
    you_need: str
    hardware: str
    core: str = ""
    afterwards: str = ""
    announcement: str = ""
    beyond: bool = False
    # from the name of the table, not a key
    is_deeper: bool = False

    @property
    def label(self) -> str:
        return f"{self.number}+" if self.is_deeper else self.number

    @property
    def core_sections(self) -> tuple[int, ...]:
        """The numbers in `core`; of a detour, every section."""
        if not self.core:
            return tuple(range(1, 100))
        found = []
        for span in self.core.split(","):
            first, _, last = span.strip().partition("-")
            found += range(int(first), int(last or first) + 1)
        return tuple(found)

    @property
    def time(self) -> str:
        """The row in cell 0."""
        if self.is_deeper or not self.core:
            return f"{self.minutes} minutes"
        which = f"section{'s' if len(self.core_sections) > 1 else ''} {self.core}"
        return f"{self.minutes} minutes, exercises included, for the core: {which}"

    def link(self, folder: str = "") -> str:
        """Its number and title, linked; `folder` leads from the reader's page to notebooks/."""
        return f"[{self.label} {self.title}]({folder}{self.file})"

    def row_of_readme(self) -> str:
        """Its line in README's table."""
        afterwards = "*beyond the road*" if self.beyond else self.afterwards
        cells = (self.link("notebooks/"), self.question, afterwards, f"{self.minutes}{NBSP}min")
        return f"| {' | '.join(cells)} |\n"

    def announced(self) -> str:
        """What the "Next" line of the notebook before says after the link."""
        return self.announcement or self.question[0].lower() + self.question[1:]


@dataclass(frozen=True)
class Ends:
    """What the first and the last notebook say in place of a neighbor."""

    previous: str
    next: str
    farewell: str


@dataclass(frozen=True)
class Site:
    """Where the project is to be found; nowhere while `repository` is empty."""

    repository: str

    @property
    def address(self) -> str:
        """Of the site: where GitHub Pages publishes what .github/workflows/site.yml builds."""
        owner, _, name = self.repository.partition("/")
        return f"https://{owner.lower()}.github.io/{name}/" if owner else ""

    def open_in(self, file: str) -> str:
        """Links that open a notebook."""
        path = f"{self.repository}/blob/main/notebooks/{file}"
        raw = f"{RAW}/{self.repository}/main/notebooks/{file}"
        github = f"https://github.com/{path}"
        return f"[Colab]({COLAB}/{path}) · [GitHub]({github}) · [raw notebook]({raw})"

    def badges(self, first: str) -> str:
        """README's badges: the tests, and the first notebook in Colab."""
        if not self.repository:
            return ""
        tests = f"https://github.com/{self.repository}/actions/workflows/ci.yml"
        start = f"{COLAB}/{self.repository}/blob/main/notebooks/{first}"
        image = "https://colab.research.google.com/assets/colab-badge.svg"
        return f"[![Tests]({tests}/badge.svg)]({tests}) [![Open in Colab]({image})]({start})\n"


@dataclass(frozen=True)
class Index:
    """The road in its order, and the detours from it."""

    road: tuple[Entry, ...]
    deeper: tuple[Entry, ...]
    ends: Ends
    site: Site

    def entries(self) -> Iterator[Entry]:
        """Every notebook, each detour right after the notebook that it belongs to."""
        for entry in self.road:
            yield entry
            yield from (detour for detour in self.deeper if detour.number == entry.number)

    @property
    def minutes_of_the_road(self) -> int:
        """Without what is beyond it."""
        return sum(entry.minutes for entry in self.road if not entry.beyond)

    def neighbor(self, entry: Entry, step: int) -> Entry | None:
        """The notebook `step` places further along the road; None past its ends."""
        numbers = [other.number for other in self.road]
        place = numbers.index(entry.number) + step
        return self.road[place] if 0 <= place < len(self.road) else None


def read(root: Path = ROOT) -> Index:
    """Read and check the index.

    Raises:
        ValueError: the index is not as its first lines describe it; the message says where.
    """
    tables = tomllib.loads((root / INDEX).read_text(encoding="utf-8"))
    if strange := set(tables) - {"ends", "site", "notebook", "deeper"}:
        raise ValueError(
            f"{INDEX} has {min(strange)!r}; it may have [ends], [site], [[notebook]] and "
            "[[deeper]]."
        )
    road = tuple(_entry(table) for table in tables["notebook"])
    deeper = tuple(_entry(table, is_deeper=True) for table in tables["deeper"])
    numbers = [entry.number for entry in road]
    if numbers != sorted(set(numbers)):
        raise ValueError(f"{INDEX} numbers the notebooks {numbers}; each has to be above the last.")
    for detour in deeper:
        if detour.number not in numbers:
            raise ValueError(
                f"{detour.file} belongs to notebook {detour.number}, which is not there."
            )
    site = _from_table(Site, tables["site"], "[site]")
    if not re.fullmatch(r"([\w.-]+/[\w.-]+)?", site.repository):
        raise ValueError(f"{INDEX}: repository is {site.repository!r}; it has to be owner/name.")
    return Index(road, deeper, _from_table(Ends, tables["ends"], "[ends]"), site)


def _entry(table: dict, is_deeper: bool = False) -> Entry:
    entry = _from_table(Entry, table | {"is_deeper": is_deeper}, table.get("file", "a notebook"))
    start = "deeper/" if is_deeper else f"{entry.number}_"
    checks = {
        f"is named {start}....ipynb": re.fullmatch(rf"{start}.+\.ipynb", entry.file),
        "has a question with a question mark": entry.question.endswith("?"),
        "has a core like '1-4, 6'": re.fullmatch(
            r"(\d+(-\d+)?(, \d+(-\d+)?)*)?",
            entry.core,
        ),
        "has minutes, a number above 0": isinstance(entry.minutes, int) and entry.minutes > 0,
    }
    for wanted, holds in checks.items():
        if not holds:
            raise ValueError(f"{INDEX}: {entry.file} is not a notebook that {wanted}.")
    return entry


def _from_table(kind: type, table: dict, name: str):
    """A table of the index as a dataclass whose fields are the keys that it may have."""
    for key, value in table.items():
        if re.search(r"[|\n]", str(value)):
            raise ValueError(f"{name} in {INDEX}: {key} has a | or a line break: it is a cell.")
    try:
        return kind(**table)
    except TypeError as error:  # a key too many, or one that is missing
        raise ValueError(f"{name} in {INDEX}: {error}") from error


# What each place has to say


def anchor(heading: str) -> str:
    """What JupyterLab, GitHub and the site call the place of a heading in a notebook."""
    return heading.strip().replace(" ", "-")


def table_of_readme(index: Index) -> str:
    """The notebooks of the road, the sum of their minutes, and what is beyond it."""
    rows = [entry.row_of_readme() for entry in index.road if not entry.beyond]
    beyond = [entry.row_of_readme() for entry in index.road if entry.beyond]
    total = f"| | | all of it | {index.minutes_of_the_road} min |\n"
    return README_HEAD + "".join([*rows, total, *beyond])


def with_links(text: str, index: Index, folder: str) -> str:
    """Replace each {05} by a link to notebook 05."""

    def link(found: re.Match) -> str:
        for entry in index.road:
            if entry.number == found[1]:
                return entry.link(folder)
        raise ValueError(f"{found[0]} in {INDEX}: there is no notebook {found[1]}")

    return re.sub(r"\{(\d\d)\}", link, text)


def first_cell(source: str, entry: Entry, index: Index) -> str:
    """Cell 0 with the heading, the question and the table that the index wants."""
    folder = "../" * entry.file.count("/")
    previous, following = index.neighbor(entry, -1), index.neighbor(entry, 1)
    if entry.is_deeper:
        ways = ("Back to", index.neighbor(entry, 0).link(folder))
    else:
        before = previous.link() if previous else index.ends.previous
        after = following.link() if following else index.ends.next
        ways = ("Previous · next", f"{before} · {after}")
    rows = {
        "You need": with_links(entry.you_need, index, folder),
        "Time": entry.time,
        "Hardware": entry.hardware,
        ways[0]: ways[1],
    }
    if index.site.repository:
        rows["Open in"] = index.site.open_in(entry.file)
    heading = f"# {entry.label} · {entry.title}\n\n**{entry.question}**\n"
    lines = "".join(f"| {name} | {text} |\n" for name, text in rows.items())
    source = _replace(source, r"\A# .*\n\n\*\*.*\*\*\n", heading, "title and question")
    return _replace(source, _pattern_of_table(CELL_HEAD), CELL_HEAD + lines, "table")


def without_fetch(source: str) -> str:
    """The first code cell as it is where `repository` is empty."""
    pattern = re.escape(FETCH).replace(re.escape("{repository}"), r"[\w./-]+")
    return re.sub(rf"\A{pattern}", "", source)


def first_code_cell(source: str, index: Index) -> str:
    """The first code cell with or without the lines that fetch both packages in Colab."""
    repository = index.site.repository
    fetch = FETCH.replace("{repository}", repository) if repository else ""
    return fetch + without_fetch(source)


def last_cell(source: str, entry: Entry, index: Index) -> str:
    """The last cell with the "Next" line that the index wants."""
    following = index.neighbor(entry, 1)
    way_on = f"{following.link()}: {following.announced()}" if following else index.ends.farewell
    return _replace(source, r"^\*\*Next:\*\* .*\n", f"**Next:** {way_on}\n", '"Next" line')


def task_of_exercise(source: str) -> str:
    """The task of an exercise, whose link "Solution" leads to its own solution."""
    heading = re.search(r"^### (Exercise \d+: .+?)(?: \(\d+ minutes.*\))?$", source, re.MULTILINE)
    if heading is None:
        return source
    place = r"(\[Solution\]\([^()\s#]+\.ipynb)(?:#[^()\s]*)?\)"
    return re.sub(place, lambda found: f"{found[1]}#{anchor(heading[1])})", source)


def _pattern_of_table(head: str) -> str:
    return rf"^{re.escape(head)}(?:\|.*\n)*"


def _replace(text: str, pattern: str, wanted: str, what: str) -> str:
    """Replace the one place that matches. A cell ends without a newline, so lend it one."""
    whole = text + "\n"
    if len(re.findall(pattern, whole, re.MULTILINE)) != 1:
        raise ValueError(f"the {what} has to be there exactly once")
    return re.sub(pattern, lambda found: wanted, whole, flags=re.MULTILINE).removesuffix("\n")


# Files


def readme(text: str, index: Index) -> str:
    text = pages.fill(text, "notebooks", table_of_readme(index))
    return pages.fill(text, "badges", index.site.badges(index.road[0].file))


def citation(text: str, index: Index) -> str:
    """CITATION.cff with the repository's address, if it has one."""
    text = re.sub(r"^repository-code: .*\n", "", text, flags=re.MULTILINE)
    if not index.site.repository:
        return text
    address = f"repository-code: https://github.com/{index.site.repository}\n"
    return re.sub(r"^license: .*\n", lambda found: found[0] + address, text, flags=re.MULTILINE)


def notebook(text: str, entry: Entry, index: Index) -> str:
    """The notebook's file with what the index wants; no other line of it changes."""
    node = json.loads(text)
    cells = node["cells"]
    edited = [_edit(cells[0], lambda source: first_cell(source, entry, index))]
    for cell in [cell for cell in cells if cell.get("cell_type") == "code"][:1]:
        edited.append(_edit(cell, lambda source: first_code_cell(source, index)))
    for cell in [cell for cell in cells if cell.get("cell_type") == "markdown"]:
        edited.append(_edit(cell, task_of_exercise))
    if not entry.is_deeper:
        edited.append(_edit(cells[-1], lambda source: last_cell(source, entry, index)))
    if not any(edited):
        return text
    end = "\n" if text.endswith("\n") else ""
    return json.dumps(node, indent=1, ensure_ascii=False) + end


def _edit(cell: dict, change: Callable[[str], str]) -> bool:
    """Change a cell's source in the form in which nbformat stores it. Did it change?"""
    source = "".join(cell["source"])
    wanted = change(source)
    if wanted != source:
        cell["source"] = wanted.splitlines(keepends=True)
    return wanted != source


def stale(root: Path = ROOT) -> dict[Path, str]:
    """The files that don't say what the index says, and what they have to say.

    Raises:
        ValueError: a file lacks the place to write to; the message names the file and the place.
    """
    index, found = read(root), {}
    changes = {root / "README.md": readme, root / "CITATION.cff": citation}
    for entry in index.entries():
        path = root / "notebooks" / entry.file
        changes[path] = lambda text, index, entry=entry: notebook(text, entry, index)
    for path, change in changes.items():
        try:
            text = path.read_text(encoding="utf-8")
            wanted = change(text, index)
        except FileNotFoundError as error:
            raise ValueError(
                f"{path.relative_to(root)} is in {INDEX} and does not exist."
            ) from error
        except ValueError as error:
            raise ValueError(f"{path.relative_to(root)}: {error}.") from error
        if text != wanted:
            found[path] = wanted
    return found


def write(root: Path = ROOT) -> list[str]:
    """Bring every file in line with the index; the names of those that changed."""
    changed = stale(root)
    for path, wanted in changed.items():
        path.write_text(wanted, encoding="utf-8")
    return [path.relative_to(root).as_posix() for path in changed]


def main() -> None:
    try:
        changed = write()
    except ValueError as error:
        sys.exit(f"error: {error}")
    said = [f"wrote {name}" for name in changed] or ["Everything says what the index says."]
    print(*said, sep="\n")


if __name__ == "__main__":
    main()
