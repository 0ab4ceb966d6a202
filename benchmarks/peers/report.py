"""Markdown tables of records, their pictures, and README's six rows.

python -m benchmarks.peers.report RECORD.json ...    prints the tables
python -m benchmarks.peers.report                    writes a page and a picture beside each record
                                                     of the repository, and README's table
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bars import ON_THE_FLY
from benchmarks.peers.cases import FORWARD_AND_BACKWARD
from benchmarks.providers import LIMITS, OURS
from benchmarks.report import filled_in
from benchmarks.rows import RESULTS, ROOT, load
from rope_lab.records import origin

README = ROOT / "README.md"
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"
_NOTHING = "–"
_THEIRS = ("TransformerEngine", "TransformerEngine, bshd")
# README's rows, and its columns: of a project that was timed in several ways, the fastest
IN_BRIEF = (
    ("sbhd (2048, 16, 8, 256) bf16", "forward"),
    ("sbhd (2048, 16, 8, 256) bf16", "backward"),
    ("sbhd (4096, 2, 32, 128) bf16", "forward"),
    ("sbhd (8192, 1, 64, 128) bf16", "forward"),
    ("sbhd (131072, 1, 8, 128) bf16", "forward"),
    ("thd (65536, 32, 128) bf16, 50 sequences", "forward"),
)
BESIDE = {
    "ours": (OURS,),
    "on the fly": (ON_THE_FLY,),
    "TransformerEngine": _THEIRS,
    "FlashAttention": ("FlashAttention",),
    "flashinfer": ("flashinfer", "flashinfer, in place", "flashinfer, on the fly"),
    "vLLM": ("vLLM", "vLLM, q and k"),
    "Unsloth": ("Unsloth",),
    "Liger": ("Liger-Kernel",),
    "HF, compiled": ("Hugging Face, compiled",),
}


def report(record: dict) -> str:
    """A table for each direction, ours against TransformerEngine's, who was measured, who was not.

    A provider has a row and a shape a column. A cell has per cent of the copy's speed and the
    median; the limit's cells have its median alone.

    Raises:
        ValueError: the record has no rows.
    """
    if not record["rows"]:
        raise ValueError("record has no rows; accepted: what `python -m benchmarks.peers` writes")
    parts = [f"## {record['gpu']}", ""]
    for direction in FORWARD_AND_BACKWARD:
        parts += [*_table(record, direction), ""]
    spread = max(record["rows"], key=lambda row: row["spread"])
    parts += [
        *_against_transformer_engine(record),
        "",
        f"{record['what']}. {origin(record['gpu'], record['versions'], record['date'])} "
        f"The medians of rounds differ by up to {spread['spread']:.1%} "
        f"({spread['provider']}, {spread['shape']}, {spread['direction']}).",
        "",
        *_who(record),
        "",
        *_left_out(record),
    ]
    return "\n".join(parts).rstrip() + "\n"


def brief(record: dict) -> str:
    """Markdown for README.md: six rows, per cent of the copy's speed, and their source."""
    lines = [
        f"| | | copy | {' | '.join(BESIDE)} |",
        "|---|---|---:|" + "---:|" * len(BESIDE),
    ]
    for shape, direction in IN_BRIEF:
        found = {
            row["provider"]: row
            for row in record["rows"]
            if (row["shape"], row["direction"]) == (shape, direction)
        }
        cells = [f"{found['copy_']['median_us']:.1f} µs"]
        for names in BESIDE.values():
            shares = [found[name]["of_copy"] for name in names if name in found]
            cells.append(f"{max(shares):.0%}" if shares else _NOTHING)
        lines.append(f"| {shape} | {direction} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", origin(record["gpu"], record["versions"], record["date"])])


def _table(record: dict, direction: str) -> list[str]:
    rows = [row for row in record["rows"] if row["direction"] == direction]
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    by_place = {(row["provider"], row["shape"]): row for row in rows}
    lines = [
        f"| {direction} | {' | '.join(shapes)} | largest error |",
        f"|---|{'---:|' * len(shapes)}---:|",
    ]
    for name in dict.fromkeys(row["provider"] for row in rows):
        mine = [by_place.get((name, shape)) for shape in shapes]
        errors = [row["error"] for row in mine if row and row["error"] is not None]
        worst = f"{max(errors):.1e}" if errors else _NOTHING
        lines.append(f"| {name} | {' | '.join(map(_cell, mine))} | {worst} |")
    return lines


def _cell(row: dict | None) -> str:
    if row is None:
        return _NOTHING
    time = f"{row['median_us']:.1f} µs"
    return time if row["provider"] in LIMITS else f"{row['of_copy']:.0%} ({time})"


def _against_transformer_engine(record: dict) -> list[str]:
    """How many times as fast ours is, with the faster of their two layouts."""
    by_place: dict[tuple[str, str], dict[str, float]] = {}
    for row in record["rows"]:
        place = row["shape"], row["direction"]
        by_place.setdefault(place, {})[row["provider"]] = row["median_us"]
    lines = [
        "| ours against TransformerEngine's | | theirs | ours | on the fly |",
        "|---|---|---:|---:|---:|",
    ]
    for (shape, direction), times in by_place.items():
        theirs = min((times[name] for name in _THEIRS if name in times), default=None)
        if theirs is None:
            continue
        ours = [
            f"{theirs / times[name]:.2f}x ({times[name]:.1f} µs)" if name in times else _NOTHING
            for name in (OURS, ON_THE_FLY)
        ]
        lines.append(f"| {shape} | {direction} | {theirs:.1f} µs | {' | '.join(ours)} |")
    return lines


def _who(record: dict) -> list[str]:
    lines = ["| | source | what is timed | layout |", "|---|---|---|---|"]
    for name, about in record["providers"].items():
        if about["absent"]:
            source = f"absent: {about['absent']}"
        elif "revision" in about:
            source = f"[{about['revision']}]({about['repository']})"
        else:
            source = about["version"] or "this repository"
        how = dict.fromkeys(
            row["how"] for row in record["rows"] if row["provider"] == name and row["how"]
        )
        built = f" ({about['built_with']})" if about.get("built_with") else ""
        layout = "; ".join(how) or _NOTHING
        lines.append(f"| {name} | {source} | {about['measures']}{built} | {layout} |")
    return lines


def _left_out(record: dict) -> list[str]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for left in record["left_out"]:
        place = f"{left['shape']} {left['direction']}"
        reasons.setdefault((left["provider"], left["why"]), []).append(place)
    lines = [
        f"- {name}: {why} ({len(places)}: {places[0]}{', ...' if len(places) > 1 else ''})"
        for (name, why), places in reasons.items()
    ]
    return ["Left out:", "", *lines] if lines else []


def records() -> list[Path]:
    """The repository's records of peers, one for each GPU."""
    return sorted(RESULTS.glob("peers-*.json"))


def write() -> list[Path]:
    """Write the page and the picture of every record, and README's table; where they are."""
    from benchmarks.peers.picture import save

    written = []
    for path in records():
        record = load(path)
        path.with_suffix(".md").write_text(report(record) + "\n")
        written += [path.with_suffix(".md"), save(record, path.with_suffix(".png"))]
    record = load(RESULTS / "peers-nvidia-h200.json")
    README.write_text(filled_in(README.read_text(), brief(record), BEGIN, END))
    return [*written, README]


def main(arguments: Sequence[str]) -> int:
    """The command: print the tables of each record; without one, write all pages."""
    if not arguments:
        print("Written: " + ", ".join(path.relative_to(ROOT).as_posix() for path in write()))
        return 0
    for path in arguments:
        print(report(load(Path(path))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
