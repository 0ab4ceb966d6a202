"""The benchmark's results, as notebook 09 and its detour look at them."""

import json
from pathlib import Path

_FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


class Results:
    """What `benchmarks/results` has for one GPU; for `peers-` and its name, of all peers.

    Attributes:
        rows: each measured call, as a dict; `clock` says which time it is.
        providers: name -> version, None where one was not installed; of peers, what was timed.
        source: one line: which GPU, and when.
    """

    def __init__(self, gpu: str = "nvidia-h200") -> None:
        found = json.loads((_FOLDER / f"{gpu}.json").read_text(encoding="utf-8"))
        self.rows: list[dict] = found["rows"]
        self.providers: dict[str, str | dict | None] = found["providers"]
        self.source = f"benchmarks/results: {found['gpu']}, {found['date']}"

    def of(self, provider: str, clock: str = "device") -> dict[tuple[str, str], dict]:
        """(shape, direction) -> row, for the calls that one provider was measured in."""
        return {
            (row["shape"], row["direction"]): row
            for row in self.rows
            if (row["provider"], row.get("clock", "device")) == (provider, clock)
        }

    def us(self, shape: str, provider: str, direction: str = "forward") -> float:
        """Median device time in microseconds."""
        return self.of(provider)[shape, direction]["median_us"]

    def share(self, shape: str, provider: str, direction: str = "forward") -> float:
        """Of copy bandwidth: 1 for a call that takes as long as a copy of the same tensors."""
        return self.us(shape, "copy_", direction) / self.us(shape, provider, direction)
