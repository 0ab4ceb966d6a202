"""What a rank of many rotates, on one GPU: few heads, or its part of a long sequence."""

from collections.abc import Callable
from operator import itemgetter

from benchmarks import sets
from benchmarks.case import Case
from benchmarks.kind import Kind, Measured
from benchmarks.kinds.norm import UNITS
from benchmarks.providers import NORM_AND_ROTATION, ROTATION, ROTATION_BY_TABLE, SHARES
from benchmarks.results import ROOT, Table, crossed, head, line
from rope_lab.records import origin

PAGE = ROOT / "docs" / "kernels.md"
SHOWN = {  # provider and direction -> title of the column
    (ROTATION, "forward"): "forward",
    (ROTATION, "backward"): "backward",
    (ROTATION_BY_TABLE, "forward"): "forward, cos and sin",
    (NORM_AND_ROTATION, "forward"): "norm and rotation, forward",
    (NORM_AND_ROTATION, "backward"): "norm and rotation, backward",
}


def place(name: str, group: object, case: Case) -> dict:
    """The first fields of a row."""
    share = {"format": case.tensor_format, "tokens": case.s, "cp_size": case.cp_size}
    return share | {"heads": case.h, "k_heads": case.k_heads, "head_dim": case.d}


def facts(measured: Measured) -> dict:
    """The last fields of a row. A norm's backward moves one and a half copies of q and k."""
    copies = UNITS[measured.direction] if measured.provider == NORM_AND_ROTATION else 1.0
    return {
        "copy_us": measured.limit_us,
        "copies": copies,
        "of_copy": round(copies * measured.limit_us / measured.timing.median_us, 4),
        "error": measured.error,
    }


def tables(results: dict) -> list[Table]:
    """For docs/kernels.md: few heads, and parts of a sequence."""
    few = [row for row in results["rows"] if row["tokens"] == 8192 and row["cp_size"] == 1]
    parts = [row for row in results["rows"] if row not in few]
    said = (
        "Microseconds, in brackets per cent of a copy of the same bytes (backward with a norm: of "
        "one and a half). bf16, head dimension 128, 8192 tokens above, heads 8 + 1 below."
    )
    source = origin(results["gpu"], results["versions"], results["date"])
    lines = [
        *_lines(few, ["heads", "format"], _heads),
        "",
        *_lines(parts, ["ranks", "tokens of one", "format"], _part),
        *["", f"{said} {source}"],
    ]
    return [Table(PAGE, "shards", "\n".join(lines))]


def _heads(row: dict) -> tuple[str, ...]:
    return f"{row['heads']} + {row['k_heads']}", row["format"]


def _part(row: dict) -> tuple[str, ...]:
    return str(row["cp_size"]), f"{row['tokens']:,}", row["format"]


def _lines(rows: list[dict], titles: list[str], place_of: Callable) -> list[str]:
    """A table with a line for each place and a column for each kind of call."""
    by_place = crossed(rows, place_of, itemgetter("provider", "direction"))
    shown = [call for call in SHOWN if any(call in found for found in by_place.values())]
    lines = head([*titles, *(SHOWN[call] for call in shown)], len(titles))
    for where, found in by_place.items():
        lines.append(line([*where, *(_cell(found[call]) for call in shown)]))
    return lines


def _cell(row: dict) -> str:
    return f"{row['median_us']:.1f} ({100 * row['of_copy']:.0f})"


SHARDS = Kind(
    file="{gpu}-shards",
    sets={"shards": sets.SHARDS},
    record=("shards",),
    providers=SHARES,
    ours=(ROTATION, ROTATION_BY_TABLE, NORM_AND_ROTATION),
    place=place,
    facts=facts,
    mark="cp_size",
    tables=tables,
)
