"""Markdown tables of records: `python -m benchmarks.peers.report RECORD.json ...`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bars import ON_THE_FLY
from benchmarks.peers.cases import FORWARD_AND_BACKWARD
from benchmarks.providers import LIMITS, OURS
from benchmarks.rows import load
from rope_lab.records import origin

_NOTHING = "–"
_THEIRS = ("TransformerEngine", "TransformerEngine, bshd")


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


def main(arguments: Sequence[str]) -> int:
    """The command: print the tables of each record."""
    if not arguments:
        print("python -m benchmarks.peers.report RECORD.json ...", file=sys.stderr)
        return 1
    for path in arguments:
        print(report(load(Path(path))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
