"""Words, cells and minutes of each notebook, as advice: no test limits them.

Minutes are the words of text cells / 150, the lines of code / 6, and the minutes in the headings of
exercises, without those that are optional. Stubs and cell 0's import count, listings of sources
don't. Beside them stands what the table of cell 0 says, which names the sections of the core.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORDS_A_MINUTE, LINES_A_MINUTE = 150, 6
EXERCISE = re.compile(r"^### Exercise \d+: .*?\((\d+) minutes\)$", re.MULTILINE)
TIME = re.compile(r"^\| Time \| (\d+) minutes(?:,.* for the core: sections? ([\d, -]+))? \|$", re.M)


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


def main() -> None:
    for path in sorted(ROOT.glob("notebooks/**/[0-9]*.ipynb")):
        if path.parent.name == "solutions":
            continue
        sources = {"markdown": [], "code": []}
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            sources[cell["cell_type"]].append("".join(cell["source"]))
        text, code = ("\n".join(sources[kind]) for kind in ("markdown", "code"))
        words, lines = len(text.split()), len(list(filter(str.strip, code.splitlines())))
        minutes = words / WORDS_A_MINUTE + lines / LINES_A_MINUTE
        minutes += sum(map(int, EXERCISE.findall(text)))
        stated, _ = stated_time(sources["markdown"][0])
        cells = sum(map(len, sources.values()))
        print(
            f"{path.stem:32} {words:5} words {cells:3} cells {lines:4} lines of code"
            f" {minutes:4.0f} min in all (cell 0: {stated})"
        )


if __name__ == "__main__":
    main()
