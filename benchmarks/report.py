"""The tables made from results, and the page with every row: nothing in them is typed.

python -m benchmarks.report FILE    draws the pictures and writes the page beside a file of
                                    results; if it is the record, fills in the table of
                                    benchmarks/README.md, too
"""

import sys
from pathlib import Path

from benchmarks.rows import LIMITS, OURS, RESULTS, ROOT, comparisons, is_old, load, share
from benchmarks.verdicts import verdicts
from rope_lab.records import origin

FULL = ROOT / "benchmarks" / "README.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def table(results: dict) -> str:
    """Markdown for benchmarks/README.md: the peers beside each other, the bars, the source."""
    if is_old(results):
        return "\n".join([*_old_table(results["rows"]), "", _caption(results)])
    parts = ["\n".join(_peers(results["rows"])), "\n".join(_bars(results["rows"]))]
    return "\n\n".join([*parts, _caption(results), _also(results)])


def source(results: dict) -> str:
    """Where and when the results were measured, in one line."""
    return origin(results["gpu"], results["versions"], results["date"])


def filled_in(text: str, made: str, begin: str = BEGIN, end: str = END) -> str:
    """A file's text with `made` between its two marks."""
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{made}\n{end}{after}"


def page(results: dict) -> str:
    """Markdown with every row: times, their spread, memory, errors; who was left out, and why."""
    lines = [f"# Rotary position embedding on {results['gpu']}", "", _caption(results), ""]
    if not results["complete"] or results["quick"]:
        lines += [f"**No record: {'a quick run' if results['quick'] else 'unfinished'}.**", ""]
    lines += ["## Bars", "", *_bars(results["rows"]), ""]
    for name in dict.fromkeys(row["set"] for row in results["rows"]):
        rows = [row for row in results["rows"] if row["set"] == name]
        lines += [f"## Shapes: {name}", "", *_every_row(rows), ""]
    lines += ["## Left out", "", *_left_out(results), ""]
    return "\n".join(lines)


def write_report(path: Path, into_readme: bool = True) -> str:
    """Draw the pictures and write the page beside a file of results, fill in the table.

    Returns what was written, and the verdicts on the bars, as text to print.
    """
    from benchmarks import plots

    results = load(path)
    written = plots.draw_all(results, path)
    if not is_old(results):
        path.with_suffix(".md").write_text(page(results))
        written.append(path.with_suffix(".md"))
    if into_readme:
        FULL.write_text(filled_in(FULL.read_text(), table(results)))
        written.append(FULL)
    said = [f"  {v.title}: {v.found}; {v.asked}: {_met(v)}" for v in verdicts(results["rows"])]
    return "\n".join(["Written: " + ", ".join(_name(p) for p in written), *said])


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


# the tables


def _old_table(rows: list[dict]) -> list[str]:
    providers = list(dict.fromkeys(row["provider"] for row in rows))
    lines = _head(["(s, b, h, d)", "", *providers], 2)
    for together, limit in comparisons(rows):
        cells = [_old_cell(together[name], limit) for name in providers]
        lines.append(_line([limit["shape"], limit["direction"], *cells]))
    return lines


def _old_cell(row: dict, limit: dict) -> str:
    time = f"{row['median_us']:.1f} µs"
    return time if row is limit else f"{time} ({share(row, limit):.0%})"


def _peers(rows: list[dict]) -> list[str]:
    rows = [
        r for r in rows if r["in_readme"] and (r["direction"], r["clock"]) != ("both", "device")
    ]
    peers = [name for name in _providers(rows) if name not in LIMITS]
    mine = [name for name in reversed(peers) if name.startswith(OURS)]
    # ours first: a narrow page cuts a table off on the right
    providers = mine + [name for name in peers if name not in mine]
    lines = _head(["", "", "limit", *providers], 2)
    for together, limit in comparisons(rows):
        cells = [_cell(together.get(name), limit) for name in providers]
        time = f"{limit['provider']} {limit['median_us']:.1f} µs"
        lines.append(_line([limit["shape"], limit["direction"], time, *cells]))
    return lines


def _cell(row: dict | None, limit: dict) -> str:
    if row is None:
        return "–"
    if not row["right"]:
        return "wrong"
    on_host = row["clock"] == "host"
    part = f"{1 / share(row, limit):.1f}x" if on_host else f"{share(row, limit):.0%}"
    return f"{row['median_us']:.1f} µs ({part})" if row["provider"] == OURS else part


def _bars(rows: list[dict]) -> list[str]:
    lines = _head(["asked of rope_kernels", "bar", "the worst case", ""], 4)
    for verdict in verdicts(rows):
        lines.append(_line([verdict.title, verdict.asked, verdict.found, _met(verdict)]))
    return lines


def _met(verdict) -> str:
    return f"met, by {verdict.by}" if verdict.met else f"**missed by {verdict.by}**"


def _caption(results: dict) -> str:
    caption = f"{results['what']}. {source(results)}"
    if is_old(results):
        return caption
    spread = max(results["rows"], key=lambda row: row["spread"])
    ours = max((r for r in results["rows"] if r["provider"] == OURS), key=lambda r: r["spread"])
    clocks = ", ".join(f"{name} {value}" for name, value in results["clocks"].items())
    absent = [name for name, version in results["providers"].items() if version is None]
    others = ", ".join(f"{name} {version}" for name, version in results["packages"].items())
    sentences = [
        caption,
        "Host time: median of rounds of 200 calls, the GPU's work left out.",
        f"Medians of rounds differ by up to {ours['spread']:.1%} for rope_kernels "
        f"({ours['shape']}, {ours['direction']}), {spread['spread']:.1%} for any provider "
        f"({spread['provider']}, {spread['shape']}, {spread['direction']}).",
        f"Others: {others}." if others else "",
        f"Not installed there, so not measured: {', '.join(absent)}." if absent else "",
        f"Clocks before the run: {clocks}." if clocks else "",
    ]
    return " ".join(filter(None, sentences))


def _also(results: dict) -> str:
    name = results["gpu"].lower().replace(" ", "-")
    pictures = {
        "every row": f"{name}.md",
        "bandwidth against sequence length": f"{name}-bandwidth.png",
        "each shape against the copy": f"{name}-shapes.png",
        "host time": f"{name}-host.png",
    }
    links = [f"[{what}](results/{file})" for what, file in pictures.items()]
    return f"Also: {', '.join(links)}."


# the page


def _every_row(rows: list[dict]) -> list[str]:
    head = ["shape", "", "provider", "µs", "20 to 80 %", "spread", "of limit", "GB/s"]
    lines = _head([*head, "host µs", "peak MiB", "error", "how"], 3)
    for together, limit in comparisons(rows):
        for row in together.values():
            lines.append(_line(_full(row, limit)))
    return lines


def _full(row: dict, limit: dict) -> list[str]:
    peak = row["peak_bytes"]
    on_gpu = row["clock"] != "host"
    return [
        row["shape"],
        row["direction"],
        row["provider"],
        f"{row['median_us']:.1f}",
        f"{row['low_us']:.1f} to {row['high_us']:.1f}",
        f"{row['spread']:.1%}",
        f"{share(row, limit):.1%}" if on_gpu else f"{1 / share(row, limit):.2f}x",
        f"{bandwidth(row):.0f}" if on_gpu else "",
        f"{row['host_us']:.1f}",
        "" if peak is None else f"{peak / 2**20:.1f}",
        "" if row["error"] is None else f"{row['error']:.1e}" + ("" if row["right"] else " WRONG"),
        row["how"],
    ]


def bandwidth(row: dict) -> float:
    """GB/s: each element read and written once, over the time taken."""
    return row["bytes"] / row["median_us"] / 1e3


def _left_out(results: dict) -> list[str]:
    lines = _head(["provider", "why", "how often", "for example"], 4)
    by_reason: dict[tuple, list[dict]] = {}
    for left in results["left_out"]:
        by_reason.setdefault((left["provider"], left["why"]), []).append(left)
    for (provider, why), cases in by_reason.items():
        example = ", ".join(filter(None, (cases[0]["shape"], cases[0]["direction"])))
        lines.append(_line([provider, why.replace("|", "/"), str(len(cases)), example]))
    return lines


# Markdown


def _providers(rows: list[dict]) -> list[str]:
    """In the order of their columns, which no single case need have."""
    from benchmarks.providers import PROVIDERS

    return [name for name in PROVIDERS if any(row["provider"] == name for row in rows)]


def _head(columns: list[str], left: int) -> list[str]:
    numbers = len(columns) - left
    return [_line(columns), "|" + "---|" * left + "---:|" * numbers]


def _line(cells: list[str]) -> str:
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


if __name__ == "__main__":
    file = Path(sys.argv[1]).resolve()
    print(write_report(file, file.parent == RESULTS))
