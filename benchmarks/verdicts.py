"""Which bars are met and which are missed, and by how much, from the rows of a file of results."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from benchmarks.case import OURS
from benchmarks.results import comparisons, share


@dataclass(frozen=True)
class Verdict:
    """A bar, and how near or far the worst of the cases under it is."""

    title: str
    asked: str
    found: str
    met: bool
    by: str  # how far on the right or the wrong side


def verdicts(rows: list[dict]) -> list[Verdict]:
    """One for each group and bar."""
    barred = [
        (together[OURS], limit)
        for together, limit in comparisons(rows)
        if OURS in together and together[OURS].get("bar")
    ]

    def title_and_bar(pair: tuple[dict, dict]) -> tuple:
        return pair[0]["group"], tuple(pair[0]["bar"].items())

    found = []
    for (title, _), group in groupby(barred, title_and_bar):
        found += _of_one_bar(title, list(group))
    return found


def _of_one_bar(title: str, pairs: list[tuple[dict, dict]]) -> Iterator[Verdict]:
    bar, limit = pairs[0][0]["bar"], pairs[0][1]["provider"]
    by_direction: dict[str, list[tuple[dict, dict]]] = {}
    for pair in pairs:
        by_direction.setdefault(pair[0]["direction"], []).append(pair)
    worst = {d: min(share(*pair) for pair in found) for d, found in by_direction.items()}
    if bar["at_least"] is not None:
        margin = 100 * (min(worst.values()) - bar["at_least"])
        asked, found = f"≥ {bar['at_least']:.0%} of {limit}", _listed(worst, "{:.1%}")
        yield Verdict(title, asked, found, margin >= 0, f"{abs(margin):.1f} points")
    if bar["at_most"] is not None:
        slowest = {direction: 1 / least for direction, least in worst.items()}
        margin = bar["at_most"] - max(slowest.values())
        asked, found = f"≤ {bar['at_most']:g} times {limit}", _listed(slowest, "{:.2f} times")
        yield Verdict(title, asked, found, margin >= 0, f"{abs(margin):.2f} times")
    if bar["even"] is not None:
        title = f"{title}: slowest over fastest of {len(pairs) // len(by_direction)}"
        uneven = {}
        for direction, of_direction in by_direction.items():
            times = [ours["median_us"] for ours, _ in of_direction]
            uneven[direction] = max(times) / min(times) - 1
        margin = 100 * (bar["even"] - max(uneven.values()))
        asked, found = f"< {bar['even']:.0%} apart", _listed(uneven, "{:.1%}")
        yield Verdict(title, asked, found, margin >= 0, f"{abs(margin):.1f} points")


def _listed(values: dict[str, float], form: str) -> str:
    return ", ".join(f"{direction} {form.format(value)}" for direction, value in values.items())
