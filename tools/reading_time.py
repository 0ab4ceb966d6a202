"""How long a notebook takes: words / 150 + lines of code / 6 + the minutes of its exercises.

    python tools/reading_time.py            # a line per notebook, then the road
    python tools/reading_time.py 05         # that notebook, section by section

Words are those of text cells, lines those of code cells that aren't blank. An exercise counts with
the minutes in its heading and nothing else: the reader spends them on its text and its stub.

A section is what stands under a heading `## 3. Title`. `core` in notebooks/index.toml names the
sections of the road; an exercise in one of them is on the road unless its heading says "optional".
"""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import notebook_index

WORDS_A_MINUTE, LINES_A_MINUTE = 150, 6
_HEADING = re.compile(r"^## (?:(\d+)\. )?.*$", re.MULTILINE)
_EXERCISE = re.compile(r"^### Exercise \d+: .*?\((\d+) minutes(.*)\)$", re.MULTILINE)


@dataclass
class Section:
    """What stands under one heading; `number` is 0 before the first one and under Recap."""

    number: int
    title: str
    words: int = 0
    lines: int = 0
    exercises: int = 0  # minutes
    optional: int = 0  # minutes of optional exercises, their text included

    @property
    def minutes(self) -> float:
        """Without what is optional."""
        return self.words / WORDS_A_MINUTE + self.lines / LINES_A_MINUTE + self.exercises


def sections(cells: list[dict]) -> list[Section]:
    """The sections of a notebook's cells, in order."""
    found, in_exercise = [Section(0, "before the first section")], False
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            if not in_exercise:  # else it is the stub
                found[-1].lines += sum(1 for line in source.splitlines() if line.strip())
            in_exercise = False
            continue
        in_exercise = False
        for piece in _split(source):
            if heading := _HEADING.match(piece):
                found.append(Section(int(heading[1] or 0), heading[0].removeprefix("## ")))
            if exercise := _EXERCISE.search(piece):
                in_exercise = True
                if "optional" in exercise[2]:
                    found[-1].optional += int(exercise[1])
                else:
                    found[-1].exercises += int(exercise[1])
                piece = piece[: exercise.start()]
            found[-1].words += len(piece.split())
    return found


def _split(source: str) -> list[str]:
    """The text of a cell, cut before each heading of a section."""
    places = [found.start() for found in _HEADING.finditer(source)]
    ends = [*places, len(source)]
    return [source[a:b] for a, b in zip([0, *places], ends, strict=True) if a != b]


def core_minutes(cells: list[dict], core: tuple[int, ...]) -> int:
    """Minutes of the core sections, their exercises included."""
    return round(sum(part.minutes for part in sections(cells) if part.number in core))


def all_minutes(cells: list[dict]) -> int:
    """Minutes of everything, optional exercises and the last cell included."""
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
                mark = "core" if part.number in entry.core_sections else "    "
                print(f"  {mark} {part.minutes:5.1f} min  {part.title}")
        print(
            f"{entry.label:4}{entry.title:28} {words:5} words {len(cells):3} cells"
            f" {core:4} min core (index: {entry.minutes}), {all_minutes(cells)} in all"
        )
    print(f"the road: {total} minutes")


if __name__ == "__main__":
    main()
