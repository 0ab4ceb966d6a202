"""Rotations: the tables of benchmarks/README.md."""

from collections.abc import Iterable
from dataclasses import asdict

from benchmarks.case import LIMITS, OURS
from benchmarks.kind import Kind, Measured
from benchmarks.provider import FromSources, Provider
from benchmarks.providers import PROVIDERS
from benchmarks.results import NOTHING, ROOT, Table, comparisons, head, line, share
from benchmarks.sets import BARS
from benchmarks.verdicts import Verdict, verdicts
from rope_lab.records import origin

FULL = ROOT / "benchmarks" / "README.md"


def facts(measured: Measured) -> dict:
    """The last fields of a row. Of what comes from sources the host time says nothing."""
    group, case, checked = measured.group, measured.case, measured.checked
    bar = group.bar(measured.direction) if measured.provider == OURS else None
    by_a_launcher = isinstance(PROVIDERS.get(measured.provider), FromSources)
    return {
        "error": measured.error,
        "peak_bytes": checked.peak_bytes,
        "host_us": None if by_a_launcher else measured.host_us,
        "how": checked.run.how,
        "bytes": case.bytes_moved * (2 if measured.direction == "both" else 1),
        "bar": bar and asdict(bar),
        "in_readme": group.in_readme,
    } | case.fields()


def versions(providers: Iterable[Provider], absent: dict[str, str]) -> dict:
    """Who took part, for a record: versions, None where one is not there."""
    found = {p.name: None if p.name in absent else p.version() for p in providers}
    packages = {p.distribution or p.name: found[p.name] for p in providers if found[p.name]}
    return {"format": 2, "providers": found, "packages": packages}


def tables(results: dict) -> list[Table]:
    """The peers beside each other, the bars, the source."""
    parts = ["\n".join(_peers(results["rows"])), "\n".join(_bars(results["rows"]))]
    text = "\n\n".join([*parts, _caption(results)])
    return [Table(FULL, "results", text)]


def verdict_lines(results: dict) -> list[str]:
    """Which bars are met, in words."""
    return [f"{v.title}: {v.found}; {v.asked}: {_met(v)}" for v in verdicts(results["rows"])]


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
    on_host = row["clock"] == "host"
    part = f"{1 / share(row, limit):.1f}x" if on_host else f"{share(row, limit):.0%}"
    return f"{row['median_us']:.1f} µs ({part})" if row["provider"] == OURS else part


def _bars(rows: list[dict]) -> list[str]:
    lines = head(["asked of rope_kernels", "bar", "the worst case", ""], 4)
    for verdict in verdicts(rows):
        lines.append(line([verdict.title, verdict.asked, verdict.found, _met(verdict)]))
    return lines


def _met(verdict: Verdict) -> str:
    return f"met, by {verdict.by}" if verdict.met else f"**missed by {verdict.by}**"


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
    sets={"bars": BARS},
    record=("bars",),
    providers=PROVIDERS,
    ours=(OURS,),
    place=lambda name, group, case: {"set": name, "group": group.title, "shape": case.label},
    facts=facts,
    mark="set",
    about=versions,
    tables=tables,
    verdicts=verdict_lines,
)
