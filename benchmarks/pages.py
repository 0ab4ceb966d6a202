"""What is made of a file of results: a page beside it, a table in another page.

python -m benchmarks report FILE ...
"""

import argparse
import re
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from statistics import median

from benchmarks.case import COS_AND_SIN, LIMITS, ON_THE_FLY, OURS, ROTATION
from benchmarks.tables import NOTHING, RESULTS, ROOT, Cells, Table, cells, load, markdown, table
from rope_lab.records import origin, recorded

README, HUGGING_FACE = ROOT / "README.md", ROOT / "docs/hugging_face.md"
OF_THE_BENCHMARK = ROOT / "benchmarks/README.md"
OF_THE_NOTEBOOKS = "09/rungs"  # a record of the GPU that comes first
PAGES = {  # title, and what per cent are of
    "calls": (
        "Every kind of call",
        "Per cent of the speed of a copy, and the time; host time is what the CPU needs to queue a "
        "call, and is compared with that of `x * 2`. The peers' record is the source where it has "
        "other times of their functions ([why](../README.md#the-record)).",
    ),
    "peers": ("Other projects' kernels", "Per cent of the speed of a copy, and the time."),
    "norm": (
        "Normalize and rotate q and k",
        "Per cent of the speed of a copy of q and k, backward of one and a half, and the time. "
        "The backward has the gradients of both weights. Notebook 11 is the source where it has "
        "other times of `torch.compile` ([why](../README.md#the-record)).",
    ),
}
_OF_LIMITS = (
    "A copy is `copy_` of the same q and k (for a cache q, k and v); a norm's backward is compared "
    "with one and a half. The limit is what is left of its speed when all bytes of a call count "
    "once: [own_limit.py](../own_limit.py)."
)
LIMITED = {
    "cache-limits": "Into a cache, beside each row's own limit",
    "norm-limits": "Normalize and rotate, beside each row's own limit",
    "rotation-limits": "Rotate, beside each row's own limit",
}


def write(path: Path, into_pages: bool) -> str:
    """Write everything that shows these results; in other pages, beside those of other GPUs.

    Returns:
        What was written, or the table that fills in no page, as text to print.
    """
    results, written = load(path), []
    if text := page(results):
        path.with_suffix(".md").write_text(text, encoding="utf-8")
        written.append(path.with_suffix(".md"))
    if into_pages:
        for one in tables(records_in(path.parent)):
            one.write()
            written.append(one.page)
    names = [p.relative_to(ROOT) if p.is_relative_to(ROOT) else p.name for p in written]
    said = ["Written: " + ", ".join(map(str, dict.fromkeys(names)))] if names else []
    printed = [] if into_pages else [one.text for one in tables_of_gpus([results])]
    return "\n\n".join([*said, *printed])


def report_command(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser("python -m benchmarks report", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    for path in (file.resolve() for file in parser.parse_args(arguments).files):
        is_record = path.parent == RESULTS and load(path)["record"]
        print(write(path, into_pages=is_record))
    return 0


def records_in(folder: Path) -> list[dict]:
    """What other pages show: whole runs. The GPU of the notebooks comes first, others by name."""
    found = [load(path) | {"file": path.stem} for path in sorted(folder.glob("*.json"))]
    whole = [x for x in found if x["record"] and x["complete"] and x["rows"]]
    first = recorded(OF_THE_NOTEBOOKS).gpu
    return sorted(whole, key=lambda results: (results["gpu"] != first, results["gpu"]))


def tables(records: Sequence[dict]) -> list[Table]:
    """All that other pages show of the records."""
    return [*tables_of_gpus(records), Table(OF_THE_BENCHMARK, "records", links(records))]


def tables_of_gpus(records: Sequence[dict]) -> list[Table]:
    """What other pages show of a benchmark: each GPU's table, those after the first one folded."""
    shown_on = {
        "calls": (OF_THE_BENCHMARK, "host times", host_times),
        "models": (HUGGING_FACE, "models", models),
        "peers": (README, "peers", in_brief),
    }
    found = []
    for name, (path, mark, made_of) in shown_on.items():
        parts = [(x, made_of(x)) for x in records if x["benchmark"] == name]
        texts = [folded(x, text) if number else text for number, (x, text) in enumerate(parts)]
        if texts:
            found.append(Table(path, mark, "\n\n".join(texts)))
    return found


def folded(results: dict, text: str) -> str:
    """Text that a reader opens by a click."""
    summary = f"{results['gpu']}, {results['date']}"
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def links(records: Sequence[dict]) -> str:
    """A line for each GPU: its records' dates, which lead to their pages."""
    found: Cells = {}
    for results in records:
        name, file = results["benchmark"], f"results/{results['file']}.md"
        target = file if name in PAGES or name in LIMITED else "../docs/hugging_face.md#Speed"
        found.setdefault((results["gpu"],), {})[name] = f"[{results['date']}]({target})"
    return table(["GPU"], found, ["calls", "peers", "norm", *LIMITED, "models"]).replace(
        "---:|", "---|"
    )


def page(results: dict) -> str:
    """A table for each direction, who was measured and who was not; '': these have no page.

    A cell has per cent of the limit's speed and the median; the limit's cells have its median
    alone. Where there are many shapes, each has a line, else each provider.
    """
    if results["benchmark"] in LIMITED:
        return page_of_limits(results)
    if (name := results["benchmark"]) not in PAGES:
        return ""
    title, about = PAGES[name]
    rows, parts = results["rows"], [f"# {title}", f"{results['gpu']}. {about}"]
    lines, columns = ("shape", "provider") if name == "calls" else ("provider", "shape")
    for direction in dict.fromkeys(row["direction"] for row in rows):
        shown = [row for row in rows if row["direction"] == direction]
        found = cells(shown, lambda row: (row[lines],), itemgetter(columns), _in_page)
        for (line,), texts in found.items():
            errors = [row["error"] for row in shown if row[lines] == line and row["error"]]
            texts["largest error"] = f"{max(errors):.1e}" if errors else NOTHING
        names = dict.fromkeys(row[columns] for row in shown)
        parts.append(table([direction], found, [*names, "largest error"]))
    return "\n\n".join([*parts, *_below_tables(results)]) + "\n"


def page_of_limits(results: dict) -> str:
    """A line for each row: its limit, how much of it ours has, and the fastest of the others."""
    by_label: dict[str, dict[str, dict]] = {}
    for row in results["rows"]:
        by_label.setdefault(row["shape"], {})[row["provider"]] = row
    found: Cells = {}
    for label, of_row in by_label.items():
        copy, ours, rotation = (of_row.pop(name, None) for name in ("copy_", OURS, ROTATION))
        line = found.setdefault((label,), {})
        if copy is not None:
            line |= {"limit": f"{copy['own_limit']:.1%}", "copy": f"{copy['median_us']:.1f} µs"}
        if ours is not None:
            line[OURS] = f"{ours['of_limit']:.1%} ({ours['median_us']:.1f} µs)"
            line["of its limit"] = f"{ours['of_limit'] / ours['own_limit']:.1%}"
            line["error"] = f"{ours['error']:.1e}"
        if ours is not None and rotation is not None:
            times = ours["median_us"] / rotation["median_us"]
            line[ROTATION] = f"{times:.2f} times {rotation['median_us']:.1f} µs"
        if others := sorted(of_row.values(), key=itemgetter("of_limit")):
            best = others[-1]
            line["best of the others"] = f"{best['provider']}: {best['of_limit']:.1%}"
            line["its error"] = f"{best['error']:.1e}"
    columns = ("limit", "copy", OURS, "of its limit", "error", "best of the others", "its error")
    if any(ROTATION in line for line in found.values()):
        columns = (*columns[:5], ROTATION, *columns[5:])
    title = LIMITED[results["benchmark"]]
    parts = [f"# {title}", f"{results['gpu']}. {_OF_LIMITS}", table(["row"], found, columns)]
    return "\n\n".join([*parts, *_below_tables(results)]) + "\n"


def _below_tables(results: dict) -> list[str]:
    """How it was measured, who was measured, and who was not."""
    most = max(results["rows"], key=itemgetter("spread"))
    place = ", ".join(most[name] for name in ("provider", "shape", "direction"))
    spread = f"The medians of rounds differ by up to {most['spread']:.1%} ({place})."
    how = f"{results['what']}. {_source(results)} {spread}"
    return [how, *filter(None, [_who(results), _left_out(results)])]


def _in_page(row: dict) -> str:
    time = f"{row['median_us']:.1f} µs"
    return time if row["provider"] in LIMITS else f"{row['of_limit']:.0%} ({time})"


def _who(results: dict) -> str:
    found: Cells = {}
    for name, about in results["providers"].items():
        how = dict.fromkeys(row["how"] for row in results["rows"] if row["provider"] == name)
        built = f" ({about['built_with']})" if about["built_with"] else ""
        found[name,] = {
            "source": f"absent: {about['absent']}" if about["absent"] else about["origin"],
            "what is timed": about["measures"] + built,
            "layout": "; ".join(filter(None, how)) or NOTHING,
        }
    return table([""], found).replace("---:|", "---|")


def _left_out(results: dict) -> str:
    reasons: dict[tuple[str, str], list[str]] = {}
    for left in results["left_out"]:
        place = f"{left['shape']} {left['direction']}".rstrip()
        reasons.setdefault((left["provider"], left["why"]), []).append(place)
    lines = [
        f"- {name}: {why} ({len(places)}: {places[0]}{', ...' if len(places) > 1 else ''})"
        for (name, why), places in reasons.items()
    ]
    return "\n".join(["Left out:", "", *lines]) if lines else ""


def _source(results: dict) -> str:
    return origin(results["gpu"], results["versions"], results["date"])


# The benchmark's page: host times

_WAYS = {"forward": "forward", "forward, grad": "forward, recorded", "both": "both ways"}


def host_times(results: dict) -> str:
    """Multiples of the host time of `x * 2`, from the least of all shapes to the most; its own
    times come first. q and k in one call, compared with `x * 2` of both, have columns of their own.
    """
    rows = [row for row in results["rows"] if "host time" in row["shape"]]
    rows.sort(key=lambda row: ("q + k" in row["shape"], row["provider"] not in LIMITS))
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        is_limit = row["provider"] in LIMITS
        column = ("q and k,<br>" if "q + k" in row["shape"] else "") + _WAYS[row["direction"]]
        value = row["median_us"] if is_limit else 1 / row["of_limit"]
        found.setdefault(row["provider"], {}).setdefault(column, []).append(value)
    texts: Cells = {}
    for name, line in found.items():
        digits, unit = (0, " µs") if name in LIMITS else (1, "")
        texts[name,] = {
            column: f"{min(values):.{digits}f} to {max(values):.{digits}f}{unit}"
            for column, values in line.items()
        }
    return f"{table([''], texts)}\n\n{_source(results)}"


# README's rows of the peers

IN_BRIEF = (
    ("sbhd (2048, 16, 8, 256) bf16", "forward"),
    ("sbhd (2048, 16, 8, 256) bf16", "backward"),
    ("sbhd (4096, 2, 32, 128) bf16", "forward"),
    ("sbhd (131072, 1, 8, 128) bf16", "forward"),
    ("thd (65536, 32, 128) bf16, 50 sequences", "forward"),
)
# names in these rows, if they are others than the project's; '' for those without a row
_IN_README = {
    **{OURS: "ours", ON_THE_FLY: "on the fly", COS_AND_SIN: "", "copy_": "copy"},
    **{"PyTorch eager": "", "torch.compile": "", "torch.compile, cos and sin": "torch.compile"},
    **{"Hugging Face": "", "Hugging Face, contiguous": "", "Liger-Kernel": "Liger"},
    # A line for each layout that a model has: a model can't choose the faster one.
    "Hugging Face, compiled": "HF, compiled,<br>transposed",
    "Hugging Face, compiled, contiguous": "HF, compiled,<br>contiguous",
}


def in_brief(results: dict) -> str:
    """Per cent of the copy's speed in five cases, and their source.

    A project has a line, so that every project is seen on a narrow page: of one that was timed in
    several ways, the fastest.
    """
    rows = [row for row in results["rows"] if (row["shape"], row["direction"]) in IN_BRIEF]
    rows.sort(key=itemgetter("of_limit"))  # of one cell's rows the last is shown
    found = cells(rows, lambda row: (_project(row["provider"]),), _case_in_brief, _cell_in_brief)
    order = dict.fromkeys((_project(name),) for name in results["providers"])
    lines = {place: found[place] for place in order if place in found and place != ("",)}
    columns = [_case_in_brief({"shape": shape, "direction": d}) for shape, d in IN_BRIEF]
    return f"{table([''], lines, columns)}\n\nAll in bf16. {_source(results)}"


def _project(provider: str) -> str:
    return _IN_README.get(provider, provider.partition(", ")[0])


def _case_in_brief(row: dict) -> str:
    """A column's head in short lines: 'sbhd', '2048, 16,', '8, 256', 'forward'."""
    said = re.fullmatch(r"(\w+) \((.*)\) bf16(?:, (.*))?", row["shape"])
    sizes = said[2].split(", ")
    first, rest = ", ".join(sizes[:2]), ", ".join(sizes[2:])
    return "<br>".join(filter(None, [said[1], f"{first},", rest, said[3], row["direction"]]))


def _cell_in_brief(row: dict) -> str:
    return f"{row['median_us']:.1f} µs" if row["provider"] in LIMITS else f"{row['of_limit']:.0%}"


def models(results: dict) -> str:
    """Medians of all turns: launches a layer, tokens a second."""
    head = ["", "differing tensors", "launches per layer", "tokens per second", "with norms"]
    lines = []
    for row in results["rows"]:
        if "launches" not in row:  # of a small model, the time alone
            continue
        rates = {way: f"{row['tokens'] / median(ms) * 1e3:,.0f}" for way, ms in row["ms"].items()}
        counts = {way: f"{x['before']:.0f}→{x['after']:.0f}" for way, x in row["launches"].items()}
        name = row["model"] + ("" if row["precision"] == "bf16" else f", {row['precision']}")
        norms = f"{counts['norms']}, {rates['norms']}" if "norms" in rates else NOTHING
        differing = f"{row['differ']}/{row['tensors']}"
        speed = f"{rates['unpatched']}→{rates['patched']}"
        lines.append([name, differing, counts["patched"], speed, norms])
    versions = {name: x for name, x in results["versions"].items() if name != "python"}
    source = origin(results["gpu"], versions, results["date"])
    return f"{markdown(head, lines)}\n\n{source}"
