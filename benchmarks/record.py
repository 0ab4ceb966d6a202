"""The form of a record: a JSON file for a benchmark on a GPU.

It has the GPU, versions and date, the providers, and a line for each row: shape, direction and
provider, the time, its share of the limit's speed, and the error. `complete` is false until the
last case was measured.
"""

import json
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"


def path_of(benchmark: str, gpu: str, folder: Path) -> Path:
    """The file of a record."""
    gpu = gpu.lower().replace(" ", "-")
    return folder / (f"peers-{gpu}.json" if benchmark == "peers" else f"{gpu}-{benchmark}.json")


def load(path: Path) -> dict:
    """Read a record."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def save(path: Path, results: dict) -> None:
    """Write a record, with a line for each row. The file is replaced at once."""
    fields = [f"  {json.dumps(key)}: {_by_line(value)}" for key, value in results.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.write_text("{\n" + ",\n".join(fields) + "\n}\n", encoding="utf-8")
    unfinished.replace(path)


def _by_line(value: object) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n    " + ",\n    ".join(map(json.dumps, value)) + "\n  ]"
    if isinstance(value, dict) and value:
        fields = (f"{json.dumps(key)}: {json.dumps(entry)}" for key, entry in value.items())
        return "{\n    " + ",\n    ".join(fields) + "\n  }"
    return json.dumps(value)
