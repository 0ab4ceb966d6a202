"""How long a notebook takes, counted honestly.

    python tools/reading_time.py            # a line per notebook, then the road
    python tools/reading_time.py 05         # that notebook, section by section

Minutes are

- the words of text cells / 150,
- the lines of code / 6: those of code cells, and those that a cell prints for the reader to read,
  by `lab.show_source` or as a diff (taken from the stored outputs),
- half a minute for each **Predict.**,
- the minutes in an exercise's heading, which include its text and its stub.

A cell that only imports counts nothing. Neither do the references: they are there to be looked up.

A section is what follows a heading `## 3. Title`. `core` in notebooks/index.toml names the sections
of the road; an exercise in one of them is on the road unless its heading says "optional". Cell 0
and the recap belong to every core; what else has no number and says "optional" does not.
"""

import ast
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import notebook_index

WORDS_A_MINUTE, LINES_A_MINUTE, MINUTES_A_PREDICTION = 150, 6, 0.5
_HEADING = re.compile(r"^## (?:(\d+)\. )?.*$", re.MULTILINE)
_EXERCISE = re.compile(r"^### Exercise \d+: .*?\((\d+) minutes(.*)\)$", re.MULTILINE)
_PREDICTION = re.compile(r"\*\*Predict[.*]")
# what `rope_lab.source` displays: the beginnings of a listing and of a diff
_LISTINGS = (("text/markdown", "```python\n"), ("text/html", "<pre>"))
# these lines of a first cell aren't there to be read either
_SETUP = {
    "print(lab.ENGINE)",
    "lab.need_triton()",
    "lab.draw.style()",
    "_ = torch.manual_seed(0)",
}


@dataclass
class Section:
    """What follows one heading; `number` is 0 before the first one and from the recap on."""

    number: int
    title: str
    words: int = 0
    lines: int = 0
    predictions: int = 0
    exercises: int = 0  # minutes
    optional: int = 0  # minutes of optional exercises, their text included

    def is_in(self, core: tuple[int, ...]) -> bool:
        """Whether it belongs to the road."""
        return self.number in (0, *core) and "(optional)" not in self.title

    @property
    def minutes(self) -> float:
        """Without what is optional."""
        reading = self.words / WORDS_A_MINUTE + self.lines / LINES_A_MINUTE
        return reading + self.predictions * MINUTES_A_PREDICTION + self.exercises


def sections(cells: list[dict]) -> list[Section]:
    """The sections of a notebook's cells, in order."""
    found, in_exercise = [Section(0, "before the first section")], False
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            if not in_exercise:  # else it is the stub
                found[-1].lines += _lines_of_code(source) + _lines_of_listings(cell)
            in_exercise = False
            continue
        for piece in _split(source):
            if heading := _HEADING.match(piece):
                found.append(Section(int(heading[1] or 0), heading[0].removeprefix("## ")))
                in_exercise = False
            if exercise := _EXERCISE.search(piece):
                if "optional" in exercise[2]:
                    found[-1].optional += int(exercise[1])
                else:
                    found[-1].exercises += int(exercise[1])
                piece = piece[: exercise.start()]
            if not in_exercise and found[-1].title != "References":
                found[-1].words += len(piece.split())
                found[-1].predictions += len(_PREDICTION.findall(piece))
            in_exercise = in_exercise or exercise is not None
    return found


def _split(source: str) -> list[str]:
    """The text of a cell, cut before each heading of a section."""
    places = [found.start() for found in _HEADING.finditer(source)]
    ends = [*places, len(source)]
    return [source[a:b] for a, b in zip([0, *places], ends, strict=True) if a != b]


def _lines_of_code(source: str) -> int:
    return 0 if _only_imports(source) else _lines_in(source)


def _only_imports(source: str) -> bool:
    try:
        statements = ast.parse(source).body
    except SyntaxError:  # a reader's own, or a magic
        return False
    return all(
        isinstance(statement, ast.Import | ast.ImportFrom) or ast.unparse(statement) in _SETUP
        for statement in statements
    )


def _lines_of_listings(cell: dict) -> int:
    """Lines of sources and diffs among a cell's stored outputs."""
    lines = 0
    for output in cell.get("outputs", []):
        shown = output.get("data", {})
        if any("".join(shown.get(kind, "")).startswith(begin) for kind, begin in _LISTINGS):
            lines += _lines_in("".join(shown["text/plain"]))
    return lines


def _lines_in(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip())


def core_minutes(cells: list[dict], core: tuple[int, ...]) -> int:
    """Minutes of cell 0, the core sections with their exercises, and the recap."""
    return round(sum(part.minutes for part in sections(cells) if part.is_in(core)))


def all_minutes(cells: list[dict]) -> int:
    """Minutes of everything, optional exercises included."""
    return round(sum(part.minutes + part.optional for part in sections(cells)))


def _cells(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def main() -> None:
    index, folder = notebook_index.read(), notebook_index.ROOT / "notebooks"
    total = 0
    for entry in index.entries():
        cells = _cells(folder / entry.file)
        core = core_minutes(cells, entry.core_sections)
        words = sum(
            len("".join(c["source"]).split()) for c in cells if c["cell_type"] == "markdown"
        )
        total += 0 if entry.is_deeper or entry.beyond else core
        if entry.number in sys.argv[1:]:
            for part in sections(cells):
                mark = "core" if part.is_in(entry.core_sections) else "    "
                print(f"  {mark} {part.minutes:5.1f} min  {part.title}")
        print(
            f"{entry.label:4}{entry.title:28} {words:5} words {len(cells):3} cells"
            f" {core:4} min core (index: {entry.minutes}), {all_minutes(cells)} in all"
        )
    print(f"the road: {total} minutes")


if __name__ == "__main__":
    main()
