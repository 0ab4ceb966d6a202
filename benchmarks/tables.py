"""The pages and tables that are made from records: `python -m benchmarks report`."""

import re
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from statistics import median

from benchmarks.case import COS_AND_SIN, LIMITS, ON_THE_FLY, OURS, ROTATION
from benchmarks.record import RESULTS, load
from rope_lab.records import origin, recorded

ROOT = Path(__file__).resolve().parent.parent
NOTHING = "–"
OF_THE_NOTEBOOKS = "09/rungs"  # The GPU of this record comes first.

Cells = dict[tuple[str, ...], dict[str, str]]  # first cells of a line -> column -> text


def fill(page: str, mark: str, text: str) -> str:
    """Replace the text between `<!-- mark: begin ... -->` and `<!-- mark: end -->` in a page.

    Raises:
        ValueError: one of these two lines is missing, or occurs twice.
    """
    begin, end = rf"^<!-- {mark}: begin\b.*-->\n", rf"^<!-- {mark}: end -->$"
    counts = [len(re.findall(line, page, re.MULTILINE)) for line in (begin, end)]
    if counts != [1, 1]:
        raise ValueError(f"the marks '{mark}: begin' and '{mark}: end' have to be there once")
    whole = re.compile(rf"({begin}).*({end})", re.MULTILINE | re.DOTALL)
    return whole.sub(lambda marks: f"{marks[1]}{text}{marks[2]}", page)


def cells(rows: list[dict], place: Callable, column: Callable, text: Callable) -> Cells:
    """The cells of a table, in the order of the rows."""
    found: Cells = {}
    for row in rows:
        found.setdefault(place(row), {})[column(row)] = text(row)
    return found


def table(head: Sequence[str], found: Cells, columns: Sequence[str] = ()) -> str:
    """A table with the columns of `head`, then those of the cells: `columns`, or all of them."""
    columns = columns or list(dict.fromkeys(name for line in found.values() for name in line))
    lines = [
        (*place, *(line.get(name, NOTHING) for name in columns)) for place, line in found.items()
    ]
    return markdown((*head, *columns), lines, numbers=len(columns))


def markdown(head: Sequence[object], lines: Iterable[Iterable[object]], numbers: int = 0) -> str:
    """A table in Markdown. The last `numbers` columns are aligned to the right."""
    aligned = "|" + "---|" * (len(head) - numbers) + "---:|" * numbers
    return "\n".join([_line(head), aligned, *map(_line, lines)])


def _line(texts: Iterable[object]) -> str:
    return "|" + "|".join(f" {text} " if text != "" else " " for text in texts) + "|"


# pages


def write() -> None:
    """Write all pages that show records."""
    for path, text in pages(records_in(RESULTS)).items():
        path.write_text(text, encoding="utf-8")


def records_in(folder: Path) -> list[dict]:
    """Records of complete runs. The notebooks' GPU comes first, others by name."""
    found = [load(path) | {"file": path.stem} for path in sorted(folder.glob("*.json"))]
    whole = [x for x in found if x["complete"] and x["rows"]]
    first = recorded(OF_THE_NOTEBOOKS).gpu
    return sorted(whole, key=lambda results: (results["gpu"] != first, results["gpu"]))


def pages(records: Sequence[dict]) -> dict[Path, str]:
    """The text of the records' own pages, and of pages with a table of a record.

    Such a table is of the first GPU. Other GPUs have pages of their own, or their tables follow,
    folded.
    """
    found = {RESULTS / f"{x['file']}.md": page(x) for x in records if x["benchmark"] in PAGES}
    for benchmark, (name, mark, made_of) in SHOWN_ON.items():
        if of_it := [x for x in records if x["benchmark"] == benchmark]:
            first, *others = of_it
            followed_by = [] if benchmark in PAGES else [folded(x, made_of(x)) for x in others]
            texts = [made_of(first), *followed_by]
            shown = (ROOT / name).read_text(encoding="utf-8")
            found[ROOT / name] = fill(shown, mark, "\n\n".join(texts) + "\n")
    return found


def folded(results: dict, text: str) -> str:
    """Text that a click unfolds."""
    summary = f"{results['gpu']}, {results['date']}"
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def page(results: dict) -> str:
    """A record's page: tables, how it was measured, the providers, and what was left out."""
    title, per_cent = PAGES[results["benchmark"]]
    tables = _with_own_limits if results["benchmark"].endswith("-limits") else _by_direction
    most = max(results["rows"], key=itemgetter("spread"))
    place = ", ".join(most[name] for name in ("provider", "shape", "direction"))
    spread = f"The medians of rounds differ by up to {most['spread']:.1%} ({place})."
    parts = [
        f"# {title}",
        f"{results['gpu']}. {per_cent}",
        *tables(results),
        f"{results['what']}. {_source(results)} {spread}",
        _who(results),
        _left_out(results),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _by_direction(results: dict) -> list[str]:
    """A table for each direction.

    A cell has the per cent of the limit's speed and the median; the limit's cells have only the
    median. Lines are shapes, or providers for `peers`, which has few shapes.
    """
    parts, is_long = [], results["benchmark"] != "peers"
    lines, columns = ("shape", "provider") if is_long else ("provider", "shape")
    for direction in dict.fromkeys(row["direction"] for row in results["rows"]):
        shown = [row for row in results["rows"] if row["direction"] == direction]
        found = cells(shown, lambda row: (row[lines],), itemgetter(columns), _in_page)
        for (line,), texts in found.items():
            errors = [row["error"] for row in shown if row[lines] == line and row["error"]]
            texts["largest error"] = f"{max(errors):.1e}" if errors else NOTHING
        names = dict.fromkeys(row[columns] for row in shown)
        parts.append(table([direction], found, [*names, "largest error"]))
    return parts


def _with_own_limits(results: dict) -> list[str]:
    """A line for each row: its limit, the share of it that ours reaches, and the fastest other."""
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
            line["fastest other"] = f"{best['provider']}: {best['of_limit']:.1%}"
            line["its error"] = f"{best['error']:.1e}"
    columns = ("limit", "copy", OURS, "of its limit", "error", "fastest other", "its error")
    if any(ROTATION in line for line in found.values()):
        columns = (*columns[:5], ROTATION, *columns[5:])
    return [table(["row"], found, columns)]


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


# README's rows of the peers

IN_BRIEF = (
    ("sbhd (2048, 16, 8, 256) bf16", "forward"),
    ("sbhd (2048, 16, 8, 256) bf16", "backward"),
    ("sbhd (4096, 2, 32, 128) bf16", "forward"),
    ("sbhd (131072, 1, 8, 128) bf16", "forward"),
    ("thd (65536, 32, 128) bf16, 50 sequences", "forward"),
)
# Provider -> its name in README, if it isn't the project's; '': it is not shown.
_IN_README = {
    OURS: "rope_kernels,<br>table of angles",
    ON_THE_FLY: "rope_kernels,<br>angles in the kernel",
    **{COS_AND_SIN: "", "copy_": "copy"},
    **{"PyTorch eager": "", "torch.compile": "", "torch.compile, cos and sin": "torch.compile"},
    **{"Hugging Face": "", "Hugging Face, contiguous": "", "Liger-Kernel": "Liger"},
    # A line for each layout of models, because a model can't choose the faster one.
    "Hugging Face, compiled": "HF, compiled,<br>transposed",
    "Hugging Face, compiled, contiguous": "HF, compiled,<br>contiguous",
}


def in_brief(results: dict) -> str:
    """Per cent of the copy's speed in five cases, with their source.

    Each project has one line. If it was measured in several ways, the fastest is shown.
    """
    rows = [row for row in results["rows"] if (row["shape"], row["direction"]) in IN_BRIEF]
    rows.sort(key=itemgetter("of_limit"))  # A later row replaces an earlier one in the same cell.
    found = cells(rows, lambda row: (_project(row["provider"]),), _case_in_brief, _cell_in_brief)
    order = dict.fromkeys((_project(name),) for name in results["providers"])
    lines = {place: found[place] for place in order if place in found and place != ("",)}
    columns = [_case_in_brief({"shape": shape, "direction": d}) for shape, d in IN_BRIEF]
    return f"{table([''], lines, columns)}\n\nAll in bf16. {_source(results)}"


def _project(provider: str) -> str:
    return _IN_README.get(provider, provider.partition(", ")[0])


def _case_in_brief(row: dict) -> str:
    """A column's title in short lines: 'sbhd', '2048, 16,', '8, 256', 'forward'."""
    said = re.fullmatch(r"(\w+) \((.*)\) bf16(?:, (.*))?", row["shape"])
    sizes = said[2].split(", ")
    first, rest = ", ".join(sizes[:2]), ", ".join(sizes[2:])
    return "<br>".join(filter(None, [said[1], f"{first},", rest, said[3], row["direction"]]))


def _cell_in_brief(row: dict) -> str:
    return f"{row['median_us']:.1f} µs" if row["provider"] in LIMITS else f"{row['of_limit']:.0%}"


def models(results: dict) -> str:
    """Launches per layer, and tokens per second from medians of all turns."""
    head = ["", "differing tensors", "launches per layer", "tokens per second", "with norms"]
    lines = []
    for row in results["rows"]:
        if "launches" not in row:  # Only times were measured for small models.
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


# the pages of the records

_TIMES = "Per cent of copy bandwidth, and the time."
_LIMITS = (
    "Per cent of copy bandwidth: of a `copy_` of the same q and k, for a cache also v, in a norm's "
    "backward of one and a half copies. The limit is the per cent that a call can reach if each of "
    "its bytes moves once ([case.py](../case.py))."
)
# Benchmark -> the title of its page, and what per cent mean there.
PAGES = {
    "calls": (
        "All calls",
        f"{_TIMES} Host time is what the CPU needs to queue a call, compared with that of `x * 2`. "
        "Where the peers' record has other times of their functions, use that record "
        "([why](../README.md#the-record)).",
    ),
    "peers": ("Other projects' kernels", _TIMES),
    "norm": (
        "RMSNorm and RoPE of q and k",
        "Per cent of the bandwidth of a copy of q and k (backward: of one and a half copies), and "
        "the time. The backward includes the gradients of both weights. Where notebook 11 has "
        "other times of `torch.compile`, use those ([why](../README.md#the-record)).",
    ),
    "cache-limits": ("Writing to a KV cache, compared with each row's limit", _LIMITS),
    "norm-limits": ("RMSNorm and RoPE, compared with each row's limit", _LIMITS),
    "rotation-limits": ("RoPE, compared with each row's limit", _LIMITS),
}
# Benchmark -> another page, the mark of a table in it, and the function that returns the table.
SHOWN_ON = {
    "peers": ("README.md", "peers", in_brief),
    "models": ("docs/hugging_face.md", "models", models),
}
