"""Write the tables of `rope_kernels/launch/tuning.py` into docs/tiles.md: `make tiles`.

What a row asks is shown as it is written there. Where it was measured is here.
tests/launch/test_tuning.py compares.
"""

import ast
import inspect
import sys
from pathlib import Path

from pages import fill, table
from rope_kernels.launch import tuning
from rope_kernels.launch.tile_facts import Facts
from rope_kernels.launch.tuning import ANY, Kind, Row

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/tiles.md"
FIRST_RUN = (
    "2026-11-20: the first complete run of that kernel on an H200, and the variants measured"
)
HEAD_DIMS = "2026-11-21: every head dimension"
PACKED = "2026-11-21: packed sequences wait once"
NORM = "2026-11-21: normalize and rotate in one kernel"
LANES = "2026-11-22: which way lanes run over a tile"
SHARED_LAUNCH = "2026-11-23: q and k with few heads in one launch"
ALL_HEADS = "2026-11-23: all heads of a position in one program"
PADDED = [HEAD_DIMS, FIRST_RUN, SHARED_LAUNCH, SHARED_LAUNCH, FIRST_RUN]
MEASURED = {  # the section of benchmarks/NOTES.md that compares each row's tile with others
    "ROTATION": [
        *[PACKED, PACKED, PACKED, HEAD_DIMS, HEAD_DIMS, PACKED, PACKED, HEAD_DIMS, PACKED],
        *[HEAD_DIMS, SHARED_LAUNCH, ALL_HEADS, *PADDED],
    ],
    "NORM_FORWARD": [*[NORM] * 5, *[LANES] * 6, NORM],
    "NORM_BACKWARD": [NORM, NORM],
}
TABLES = {  # names in `tuning`: the class of its tiles, and the title on the page
    "ROTATION": (tuning.RotationTile, "The rotation"),
    "NORM_FORWARD": (tuning.ForwardTile, "The norm, forward"),
    "NORM_BACKWARD": (tuning.BackwardTile, "The norm, backward"),
}


def as_page(page: str) -> str:
    """The page with all tables between its marks."""
    sections = [section(name) for name in TABLES]
    facts = table(["fact", "what it says"], words_of(Facts).items())
    return fill(page, "tables", "\n" + "\n\n".join([*sections, f"## Facts\n\n{facts}", ""]))


def section(name: str) -> str:
    """A table, after the words for what its tiles are built from."""
    tile, title = TABLES[name]
    rows = getattr(tuning, name)
    head = ["row", "lanes", "when", "tile", "why", "measured"]
    lines = [
        (number, row.lanes, f"`{when}`", tile_of(row), row.why, measured)
        for number, (row, when, measured) in enumerate(
            zip(rows, conditions(name), MEASURED[name], strict=True), 1
        )
    ]
    if all(row.lanes == ANY for row in rows):
        head, *lines = [(*line[:1], *line[2:]) for line in (head, *lines)]
    words = table(["in a tile", "what it says"], words_of(tile).items())
    return f"## {title}\n\n{words}\n\n{table(head, lines)}"


def conditions(name: str) -> list[str]:
    """What each row of a table in `tuning` asks, as its source has it."""
    found = []
    for row in _assigned(name).elts:
        if isinstance(row, ast.Starred):
            found += conditions(row.value.id)
        else:
            [when] = [word.value for word in row.keywords if word.arg == "when"]
            text = ast.get_source_segment(inspect.getsource(tuning), when.body)
            found.append(" ".join(text.split()).replace("facts.", ""))
    return found


def _assigned(name: str) -> ast.Tuple:
    for node in ast.parse(inspect.getsource(tuning)).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return node.value
    raise KeyError(name)


def tile_of(row: Row) -> str:
    """What a tile says beyond the defaults of its class."""
    defaults, words = row.tile._field_defaults, []
    for name, value in row.tile._asdict().items():
        if name not in defaults or value != defaults[name]:
            shown = f"{value:.3g}" if isinstance(value, float) else value
            words.append(value.value if isinstance(value, Kind) else f"`{name}={shown}`")
    return ", ".join(words) or "the defaults"


def words_of(of: type) -> dict[str, str]:
    """What each field and each property of a class says: its comment or its docstring."""
    source = inspect.getsource(of)
    found = {}
    for node in ast.parse(source).body[0].body:
        if isinstance(node, ast.AnnAssign):
            line = source.splitlines()[node.end_lineno - 1]
            found[node.target.id] = line.partition("  # ")[2]
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            found[node.name] = ast.get_docstring(node)
    return found


def main(root: Path = ROOT) -> int:
    """Write the page; 0."""
    page = root / PAGE
    page.write_text(as_page(page.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
