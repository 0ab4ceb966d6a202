"""Files of results: where they are, how they are written, how rows are found in them."""

import json
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
LIMITS = ("copy_", "x * 2")
OURS = "rope_kernels"


def load(path: Path) -> dict:
    """A file of results."""
    return json.loads(Path(path).read_text())


def save(path: Path, results: dict) -> None:
    """Write a file of results, a row a line; never half of it."""
    rows = {key: results[key] for key in ("rows", "left_out")}
    text = json.dumps(results | {key: [] for key in rows}, indent=2)
    for key, value in rows.items():
        lines = ",\n".join("    " + json.dumps(row) for row in value)
        text = text.replace(
            f'"{key}": []', f'"{key}": [\n{lines}\n  ]' if value else f'"{key}": []'
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(text + "\n")
    unfinished.replace(path)


def comparisons(rows: list[dict]) -> Iterator[tuple[dict[str, dict], dict]]:
    """Rows measured in turns: provider -> row, and the limit's row; in the order of measuring."""
    by_key: dict[tuple, dict[str, dict]] = {}
    for row in rows:
        key = row.get("set"), row["shape"], row["direction"]
        by_key.setdefault(key, {})[row["provider"]] = row
    for together in by_key.values():
        limit = next((together[name] for name in LIMITS if name in together), None)
        if limit is not None:
            yield together, limit


def share(row: dict, limit: dict) -> float:
    """Of the limit's speed."""
    return limit["median_us"] / row["median_us"]
