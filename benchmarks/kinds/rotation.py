"""Rotations: the tables of benchmarks/README.md."""

from collections.abc import Iterable

from benchmarks.case import LIMITS, OURS
from benchmarks.kind import Kind, Measured
from benchmarks.provider import FromSources, Provider
from benchmarks.providers import PROVIDERS
from benchmarks.results import NOTHING, ROOT, Table, comparisons, head, line, share
from benchmarks.sets import CALLS
from rope_lab.records import origin

FULL = ROOT / "benchmarks" / "README.md"


def facts(measured: Measured) -> dict:
    """The last fields of a row. Of what comes from sources the host time says nothing."""
    case, checked = measured.case, measured.checked
    by_a_launcher = isinstance(PROVIDERS.get(measured.provider), FromSources)
    return {
        "error": measured.error,
        "peak_bytes": checked.peak_bytes,
        "host_us": None if by_a_launcher else measured.host_us,
        "how": checked.run.how,
        "bytes": case.bytes_moved * (2 if measured.direction == "both" else 1),
        "in_readme": measured.group.in_readme,
    } | case.fields()


def versions(providers: Iterable[Provider], absent: dict[str, str]) -> dict:
    """Who took part, for a record: versions, None where one is not there."""
    found = {p.name: None if p.name in absent else p.version() for p in providers}
    packages = {p.distribution or p.name: found[p.name] for p in providers if found[p.name]}
    return {"format": 2, "providers": found, "packages": packages}


def tables(results: dict) -> list[Table]:
    """The peers beside each other, ours in all other calls, the source."""
    parts = ["\n".join(_peers(results["rows"])), "\n".join(_slowest(results["rows"]))]
    text = "\n\n".join([*parts, _caption(results)])
    return [Table(FULL, "results", text)]


def _peers(rows: list[dict]) -> list[str]:
    rows = [
        r for r in rows if r["in_readme"] and (r["direction"], r["clock"]) != ("both", "device")
    ]
    # in the order of their columns, which no single case need have
    found = {row["provider"] for row in rows}
    providers = [name for name in PROVIDERS if name in found and name not in LIMITS]
    lines = head(["", "", "limit", *providers], 2)
    for together, limit in comparisons(rows):
        cells = [_cell(together.get(name), limit) for name in providers]
        time = f"{limit['provider']} {limit['median_us']:.1f} µs"
        lines.append(line([limit["shape"], limit["direction"], time, *cells]))
    return lines


def _cell(row: dict | None, limit: dict) -> str:
    if row is None:
        return NOTHING
    part = _part(row, limit)
    return f"{row['median_us']:.1f} µs ({part})" if row["provider"] == OURS else part


def _part(row: dict, limit: dict) -> str:
    on_host = row["clock"] == "host"
    return f"{1 / share(row, limit):.1f}x" if on_host else f"{share(row, limit):.0%}"


def _slowest(rows: list[dict]) -> list[str]:
    """Ours in the groups that the table above leaves out, each where it is slowest."""
    found: dict[str, dict[str, list[tuple[float, str]]]] = {}
    for together, limit in comparisons([row for row in rows if not row["in_readme"]]):
        if OURS in together:
            of_group = found.setdefault(limit["group"], {})
            cell = share(together[OURS], limit), _part(together[OURS], limit)
            of_group.setdefault(limit["direction"], []).append(cell)
    directions = dict.fromkeys(direction for cells in found.values() for direction in cells)
    lines = head(["rope_kernels in other calls, the slowest of each", *directions], 1)
    for group, cells in found.items():
        slowest = [min(cells[d])[1] if d in cells else NOTHING for d in directions]
        lines.append(line([group, *slowest]))
    return lines


def _caption(results: dict) -> str:
    spread = max(results["rows"], key=lambda row: row["spread"])
    ours = max((r for r in results["rows"] if r["provider"] == OURS), key=lambda r: r["spread"])
    clocks = ", ".join(f"{name} {value}" for name, value in results["clocks"].items())
    absent = [name for name, version in results["providers"].items() if version is None]
    others = ", ".join(f"{name} {version}" for name, version in results["packages"].items())
    sentences = [
        f"{results['what']}. {origin(results['gpu'], results['versions'], results['date'])}",
        "Host time: median of rounds of 200 calls, the GPU's work left out.",
        f"Medians of rounds differ by up to {ours['spread']:.1%} for rope_kernels "
        f"({ours['shape']}, {ours['direction']}), {spread['spread']:.1%} for any provider "
        f"({spread['provider']}, {spread['shape']}, {spread['direction']}).",
        f"Others: {others}." if others else "",
        f"Not installed there, so not measured: {', '.join(absent)}." if absent else "",
        f"Clocks before the run: {clocks}." if clocks else "",
    ]
    return " ".join(filter(None, sentences))


ROTATION = Kind(
    file="{gpu}",
    sets={"calls": CALLS},
    record=("calls",),
    providers=PROVIDERS,
    ours=(OURS,),
    place=lambda name, group, case: {"set": name, "group": group.title, "shape": case.label},
    facts=facts,
    mark="set",
    about=versions,
    tables=tables,
)
