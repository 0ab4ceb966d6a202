"""How long a notebook takes, counted honestly.

    python tools/reading_time.py            # a line per notebook, then the road
    python tools/reading_time.py 05         # that notebook, section by section

Minutes are

- the words of text cells / 150,
- the lines of code / 6: those of code cells, and those that a cell prints for the reader to read,
  by `lab.show_source`, as a diff or in two columns, a row each (taken from the stored outputs),
- half a minute for each **Predict.**,
- the minutes in an exercise's heading, which include its text and its stub.

A cell that only imports counts nothing. Neither do the references: they are there to be looked up.

A section is what follows a heading `## 3. Title`. The row "Time" of cell 0 names the sections of
the road; where it names none, all count. An exercise in one of them is on the road unless its
heading says "optional". Cell 0 and the recap belong to every core; what else has no number and says
"optional" does not.
"""

import ast
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORDS_A_MINUTE, LINES_A_MINUTE, MINUTES_A_PREDICTION = 150, 6, 0.5
SECTION = re.compile(r"^(?=## )", re.MULTILINE)
HEADING = re.compile(r"## (?:(\d+)\. )?.*")
EXERCISE = re.compile(r"^### Exercise \d+: .*?\((\d+) minutes(.*)\)$", re.MULTILINE)
TIME = re.compile(r"^\| Time \| (\d+) minutes(?:,.* for the core: sections? ([\d, -]+))? \|$", re.M)
PREDICTION = re.compile(r"\*\*Predict[.*]")
# what `rope_lab.source` displays: the beginnings of a listing, of a diff and of two columns
LISTINGS = {"text/markdown": ("```python\n",), "text/html": ("<pre>", '<table class="source">')}
# these lines of a first cell aren't there to be read either
SETUP = {
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
    minutes: float = 0.0  # without what is optional
    optional: int = 0  # minutes of optional exercises, their text included

    def is_in(self, core: tuple[int, ...]) -> bool:
        """Whether it counts; without a core, all that is not optional does."""
        return (not core or self.number in (0, *core)) and "(optional)" not in self.title


def stated_time(first_cell: str) -> tuple[int, tuple[int, ...]]:
    """What the table of cell 0 says: minutes, and the sections of the road; none where all count.

    Raises:
        ValueError: it has no such row.
    """
    row = TIME.search(first_cell)
    if row is None:
        raise ValueError("the table of cell 0 has no row like '| Time | 20 minutes |'")
    core = []
    for span in row[2].split(",") if row[2] else ():
        first, _, last = span.strip().partition("-")
        core += range(int(first), int(last or first) + 1)
    return int(row[1]), tuple(core)


def sections(cells: list[dict]) -> list[Section]:
    """The sections of a notebook's cells, in order."""
    found, in_exercise = [Section(0, "before the first section")], False
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            if not in_exercise:  # else it is the stub
                lines = _lines_of_code(source) + _lines_of_listings(cell)
                found[-1].minutes += lines / LINES_A_MINUTE
            in_exercise = False
            continue
        for piece in filter(None, SECTION.split(source)):
            if heading := HEADING.match(piece):
                found.append(Section(int(heading[1] or 0), heading[0].removeprefix("## ")))
                in_exercise = False
            exercise = EXERCISE.search(piece)
            if exercise and "optional" in exercise[2]:
                found[-1].optional += int(exercise[1])
            elif exercise:
                found[-1].minutes += int(exercise[1])
            text = piece[: exercise.start()] if exercise else piece
            if not in_exercise and found[-1].title != "References":
                found[-1].minutes += len(text.split()) / WORDS_A_MINUTE
                found[-1].minutes += len(PREDICTION.findall(text)) * MINUTES_A_PREDICTION
            in_exercise = in_exercise or exercise is not None
    return found


def _lines_of_code(source: str) -> int:
    try:
        statements = ast.parse(source).body
    except SyntaxError:  # a reader's own, or a magic
        return _lines_in(source)
    only_sets_up = all(
        isinstance(statement, ast.Import | ast.ImportFrom) or ast.unparse(statement) in SETUP
        for statement in statements
    )
    return 0 if only_sets_up else _lines_in(source)


def _lines_of_listings(cell: dict) -> int:
    """Lines of sources and diffs among a cell's stored outputs."""
    lines = 0
    for output in cell.get("outputs", []):
        shown = output.get("data", {})
        if any("".join(shown.get(kind, "")).startswith(x) for kind, x in LISTINGS.items()):
            lines += _lines_in("".join(shown["text/plain"]))
    return lines


def _lines_in(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip())


def main() -> None:
    total = 0
    for path in sorted(
        [*ROOT.glob("notebooks/[0-9]*.ipynb"), *ROOT.glob("notebooks/deeper/[0-9]*.ipynb")],
        key=lambda path: (path.name[:2], path.parent.name == "deeper", path.name),
    ):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts = ["".join(c["source"]) for c in cells if c["cell_type"] == "markdown"]
        words, parts = len(" ".join(texts).split()), sections(cells)
        stated, core = stated_time(texts[0])
        counted = round(sum(part.minutes for part in parts if part.is_in(core)))
        whole = round(sum(part.minutes + part.optional for part in parts))
        total += counted if core else 0
        for part in parts if path.name[:2] in sys.argv[1:] else ():
            mark = "core" if part.is_in(core) else "    "
            print(f"  {mark} {part.minutes:5.1f} min  {part.title}")
        print(
            f"{texts[0].splitlines()[0].removeprefix('# '):32} {words:5} words {len(cells):3} cells"
            f" {counted:4} min core (cell 0: {stated}), {whole} in all"
        )
    print(f"the road: {total} minutes")


if __name__ == "__main__":
    main()
