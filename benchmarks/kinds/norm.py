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
    """A row for each provider in each format, a record's `note`, who was left out."""
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
    return "\n".join([*lines, "", *_left_out(results)]).rstrip() + "\n"


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
)
