"""Everybody from their sources: the page of a record, and README's six rows."""

import re
from operator import itemgetter

from benchmarks import sets
from benchmarks.case import COS_AND_SIN, LIMITS, ON_THE_FLY, OURS
from benchmarks.kind import Kind, Measured
from benchmarks.providers import FROM_SOURCES
from benchmarks.results import CALL, NOTHING, PROVIDER, ROOT, Table, crossed, head, line
from rope_lab.records import origin

README = ROOT / "README.md"
DIRECTIONS = ("forward", "backward")
_THEIRS = ("TransformerEngine", "TransformerEngine, bshd")
IN_README = "NVIDIA H200"
# README's columns; a project has a row, and of one that was timed in several ways, the fastest
IN_BRIEF = (
    ("sbhd (2048, 16, 8, 256) bf16", "forward"),
    ("sbhd (2048, 16, 8, 256) bf16", "backward"),
    ("sbhd (4096, 2, 32, 128) bf16", "forward"),
    ("sbhd (8192, 1, 64, 128) bf16", "forward"),
    ("sbhd (131072, 1, 8, 128) bf16", "forward"),
    ("thd (65536, 32, 128) bf16, 50 sequences", "forward"),
)
# names in these rows, if they are others than the project's; '' for those without a row
_IN_README = {
    **{OURS: "ours", ON_THE_FLY: "on the fly", COS_AND_SIN: "", "copy_": ""},
    **{"PyTorch eager": "", "torch.compile": "", "Hugging Face": ""},
    **{"Hugging Face, compiled": "HF, compiled", "Liger-Kernel": "Liger"},
}


def facts(measured: Measured) -> dict:
    """The last fields of a row: without host time, because launchers of ours call the kernels."""
    return {
        "error": measured.error,
        "how": measured.checked.run.how,
        "of_copy": round(measured.limit_us / measured.timing.median_us, 4),
        "bytes": measured.case.bytes_moved,
    }


def page(record: dict) -> str:
    """A table for each direction, ours against TransformerEngine's, who was measured, who was not.

    A provider has a row and a shape a column. A cell has per cent of the copy's speed and the
    median; the limit's cells have its median alone.
    """
    parts = [f"## {record['gpu']}", ""]
    for direction in DIRECTIONS:
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
    return "\n".join(parts).rstrip() + "\n\n"


def tables(record: dict) -> list[Table]:
    """For README.md, of one GPU: per cent of the copy's speed in six cases, and their source.

    A project has a row, and a case a column, so that every project is seen on a narrow page.
    """
    if record["gpu"] != IN_README:
        return []
    found = crossed(record["rows"], CALL, PROVIDER)
    times = [f"{found[case]['copy_']['median_us']:.1f} µs" for case in IN_BRIEF]
    lines = [*head(["", *(_in_brief(*case) for case in IN_BRIEF)], 1), line(["copy", *times])]
    ways: dict[str, list[str]] = {}
    for name in record["providers"]:
        project = _IN_README.get(name, name.partition(", ")[0])
        ways.setdefault(project, []).append(name)
    ways.pop("", None)
    for project, names in ways.items():
        cells = []
        for case in IN_BRIEF:
            shares = [found[case][name]["of_copy"] for name in names if name in found[case]]
            cells.append(f"{max(shares):.0%}" if shares else NOTHING)
        lines.append(line([project, *cells]))
    source = origin(record["gpu"], record["versions"], record["date"])
    return [Table(README, "peers", "\n".join([*lines, "", f"All in bf16. {source}"]))]


def _in_brief(shape: str, direction: str) -> str:
    """A column's head in short lines: 'sbhd', '2048, 16,', '8, 256', 'forward'."""
    tensor_format, sizes, dtype, more = re.fullmatch(
        r"(\w+) \((.*)\) (\w+)(?:, (.*))?", shape
    ).groups()
    assert dtype == "bf16", "README says that all of them are"
    sizes = sizes.split(", ")
    first, rest = ", ".join(sizes[:2]), ", ".join(sizes[2:])
    return "<br>".join(filter(None, [tensor_format, f"{first},", rest, more, direction]))


def _table(record: dict, direction: str) -> list[str]:
    rows = [row for row in record["rows"] if row["direction"] == direction]
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    lines = head([direction, *shapes, "largest error"], 1)
    for name, mine in crossed(rows, PROVIDER, itemgetter("shape")).items():
        errors = [row["error"] for row in mine.values() if row["error"] is not None]
        worst = f"{max(errors):.1e}" if errors else NOTHING
        lines.append(line([name, *(_cell(mine.get(shape)) for shape in shapes), worst]))
    return lines


def _cell(row: dict | None) -> str:
    if row is None:
        return NOTHING
    time = f"{row['median_us']:.1f} µs"
    return time if row["provider"] in LIMITS else f"{row['of_copy']:.0%} ({time})"


def _against_transformer_engine(record: dict) -> list[str]:
    """How many times as fast ours is, with the faster of their two layouts."""
    lines = head(["ours against TransformerEngine's", "", "theirs", "ours", "on the fly"], 2)
    for call, together in crossed(record["rows"], CALL, PROVIDER).items():
        times = {name: row["median_us"] for name, row in together.items()}
        theirs = min((times[name] for name in _THEIRS if name in times), default=None)
        if theirs is None:
            continue
        ours = [
            f"{theirs / times[name]:.2f}x ({times[name]:.1f} µs)" if name in times else NOTHING
            for name in (OURS, ON_THE_FLY)
        ]
        lines.append(line([*call, f"{theirs:.1f} µs", *ours]))
    return lines


def _who(record: dict) -> list[str]:
    lines = head(["", "source", "what is timed", "layout"], 4)
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
        layout = "; ".join(how) or NOTHING
        lines.append(line([name, source, about["measures"] + built, layout]))
    return lines


def _left_out(record: dict) -> list[str]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for left in record["left_out"]:
        place = f"{left['shape']} {left['direction']}".rstrip()
        reasons.setdefault((left["provider"], left["why"]), []).append(place)
    lines = [
        f"- {name}: {why} ({len(places)}: {places[0]}{', ...' if len(places) > 1 else ''})"
        for (name, why), places in reasons.items()
    ]
    return ["Left out:", "", *lines] if lines else []


PEERS = Kind(
    file="peers-{gpu}",
    sets={"peers": sets.PEERS},
    record=("peers",),
    providers=FROM_SOURCES,
    ours=(OURS, ON_THE_FLY, COS_AND_SIN),
    place=lambda name, group, case: {"shape": case.label},
    facts=facts,
    mark="of_copy",
    page=page,
    tables=tables,
    has_picture=True,
)
