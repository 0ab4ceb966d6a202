"""Norm and rotation: the page of a record."""

from collections.abc import Iterator
from operator import itemgetter

from benchmarks import sets
from benchmarks.kind import Kind, Measured
from benchmarks.providers import NORMS
from benchmarks.providers.norm import OURS
from benchmarks.results import NOTHING, crossed, head, line
from rope_lab.records import origin

UNITS = {"forward": 1.0, "backward": 1.5}  # copies of q and k that move as many bytes
NORM_OURS = tuple(provider.name for provider in OURS)


def facts(measured: Measured) -> dict:
    """The last fields of a row."""
    unit, error = measured.limit_us * UNITS[measured.direction], measured.checked.error
    share = {"per_cent": round(100 * unit / measured.timing.median_us, 1)}
    return share if error is None else share | {"error": error}


def page(results: dict) -> str:
    """A row for each provider in each format, the verdicts, who was left out; a record's `note`."""
    case = sets.NORM[0].cases[0]
    command = "benchmarks norm" if "format" in results else "benchmarks.norm"  # until 2026-11-22
    lines = [
        "# Normalize and rotate q and k",
        "",
        f"{origin(results['gpu'], results['versions'], results['date'])} "
        f"{case.s} tokens, {case.h} + {case.k_heads} heads, d = {case.d}, bf16, one weight (d,) "
        "each. Per cent: of `copy_` of q and k forward, of one and a half copies backward, with "
        f"the gradients of both weights. Written by `python -m {command}`, which says what "
        "each provider is.",
        "",
        *head(["format", "", "forward", "", "backward", "", "largest error"], 2),
        *_rows(results["rows"]),
    ]
    if "note" in results:
        lines += ["", results["note"]]
    lines += ["", *(f"- {verdict}" for verdict in verdict_lines(results)), *_left_out(results)]
    return "\n".join(lines) + "\n"


def verdict_lines(results: dict) -> list[str]:
    """Which bars are met, in words."""
    found = {(r["format"], r["direction"], r["provider"]): r["per_cent"] for r in results["rows"]}
    lines = []
    for tensor_format, direction, bar in _bars():
        for name in NORM_OURS:
            share = found.get((tensor_format, direction, name))
            if share is not None:
                verdict = "met" if share >= bar else f"**missed by {bar - share:.1f} points**"
                about = f"{name}, {tensor_format}, {direction}"
                lines.append(f"{about}: {share} %, at least {bar}: {verdict}")
    return lines


def _bars() -> Iterator[tuple[str, str, int]]:
    """Format, direction, per cent."""
    for group in sets.NORM:
        for case in group.cases:
            for direction, bar in group.bars:
                yield case.tensor_format, direction, round(100 * bar.at_least)


def _rows(rows: list[dict]) -> Iterator[str]:
    by_place = crossed(rows, itemgetter("format", "provider"), itemgetter("direction"))
    for place, found in by_place.items():
        cells = []
        for direction in UNITS:
            row = found.get(direction)
            cells += [f"{row['median_us']:.1f} µs", f"{row['per_cent']:.0f}%"] if row else ["", ""]
        errors = [row["error"] for row in found.values() if "error" in row]
        yield line([*place, *cells, f"{max(errors):.1e}" if errors else NOTHING])


def _left_out(results: dict) -> Iterator[str]:
    for name, about in results.get("providers", {}).items():
        if about["absent"]:
            yield f"- Left out: {name}: {about['absent']}"
    for left in results["left_out"]:
        place = ", ".join(filter(None, (left["format"], left.get("direction"))))
        yield f"- Left out: {left['provider']} ({place}): {left['why']}"


NORM = Kind(
    file="{gpu}-norm",
    sets={"norm": sets.NORM},
    record=("norm",),
    providers=NORMS,
    ours=NORM_OURS,
    place=lambda name, group, case: {"format": case.tensor_format},
    facts=facts,
    mark="per_cent",
    page=page,
    verdicts=verdict_lines,
)
