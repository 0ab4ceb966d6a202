"""The table in README.md and its picture, made from a file of results: nothing is typed."""

import json
import sys
from pathlib import Path

from benchmarks.cases import DIRECTIONS, LIMIT
from rope_kernels.lab.bench import origin

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def table(results: dict) -> str:
    """Markdown: a line for each shape and direction, a column for each provider."""
    rows = results["rows"]
    providers = list(dict.fromkeys(row["provider"] for row in rows))
    lines = [
        "| (s, b, h, d) | | " + " | ".join(providers) + " |",
        "|---|---|" + "---:|" * len(providers),
    ]
    for shape in dict.fromkeys(row["shape"] for row in rows):
        for direction in DIRECTIONS:
            times = {
                row["provider"]: row["median_us"]
                for row in rows
                if (row["shape"], row["direction"]) == (shape, direction)
            }
            cells = [_cell(times[name], times[LIMIT], name) for name in providers]
            lines.append(f"| {shape} | {direction} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", f"{results['what']}. {source(results)}"])


def source(results: dict) -> str:
    """Where and when the results were measured, in one line."""
    return origin(results["gpu"], results["versions"], results["date"])


def filled_in(readme: str, results: dict) -> str:
    """README's text with the table between its two marks made anew."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(results)}\n{END}{after}"


def draw(results: dict, path: Path) -> None:
    """What RoPE does, beside how long it takes."""
    import matplotlib.pyplot as plt
    import numpy as np

    from rope_kernels.lab import draw

    draw.style()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.3), width_ratios=(1, 1.5))
    draw.plane(left, title="what it does: turn each pair by its position")
    left.set(xlabel="element i", ylabel="element i + d/2")
    for position in range(8):
        turn = np.radians(8 + 20 * position)
        fading = (*plt.matplotlib.colors.to_rgb(draw.BLUE), 1.0 - 0.09 * position)
        draw.arrow(left, (np.cos(turn), np.sin(turn)), fading)
        left.text(1.14 * np.cos(turn), 1.14 * np.sin(turn), position, ha="center", va="center")

    shape = results["rows"][0]["shape"]
    rows = [r for r in results["rows"] if (r["shape"], r["direction"]) == (shape, "forward")]
    times = {row["provider"]: row["median_us"] for row in rows}
    special = {LIMIT: draw.INK, "rope_kernels": draw.GREEN}
    draw.bars_on(right, times, [special.get(name, draw.BLUE) for name in times])
    right.set(xlabel="microseconds on the GPU (shorter is better)")
    right.set(title=f"how long it takes: {shape}")
    draw.cite(figure, source(results))
    figure.savefig(path, dpi=160, metadata={"Software": None})
    plt.close(figure)


def write_report(path: Path) -> None:
    """Draw the picture beside a file of results and fill in README.md."""
    results = json.loads(path.read_text())
    draw(results, path.with_suffix(".png"))
    README.write_text(filled_in(README.read_text(), results))


def _cell(time: float, limit: float, name: str) -> str:
    if name == LIMIT:
        return f"{time:.1f} µs"
    return f"{time:.1f} µs ({limit / time:.0%})"


if __name__ == "__main__":
    write_report(Path(sys.argv[1]))
