"""Measure, write `benchmarks/results/<gpu>.json`, then draw and fill in what is made from it."""

import json
import sys
from dataclasses import asdict

import torch

from benchmarks.cases import DIRECTIONS, HEADLINE, LIMIT, Workload, relative_error
from benchmarks.report import RESULTS, write_report
from rope_kernels.lab.bench import circumstances, measure


def main() -> int:
    if not torch.cuda.is_available():
        print("There is no CUDA GPU here to measure on.", file=sys.stderr)
        return 1
    rows = []
    for shape in HEADLINE:
        workload = Workload(shape)
        for direction in DIRECTIONS:
            print(f"{shape.name}, {direction} ...", flush=True)
            rows += _measure(shape.name, workload, direction)
    results = circumstances() | {
        "what": "Device time in microseconds, L2 flushed, median of five interleaved rounds",
        "rows": rows,
    }
    path = RESULTS / f"{results['gpu'].lower().replace(' ', '-')}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")
    write_report(path)
    print(f"Written: {path.name}, the picture beside it, and the table in README.md.")
    return 0


def _measure(shape_name: str, workload: Workload, direction: str) -> list[dict]:
    providers = workload.providers(direction)
    expected = workload.expected(direction)
    errors = {
        name: None if name == LIMIT else relative_error(rotate(), expected)
        for name, rotate in providers.items()
    }
    del expected
    rows = []
    for name, timing in measure(providers).items():
        print(f"  {name:14} {timing.median_us:8.1f} us", flush=True)
        row = {"shape": shape_name, "direction": direction, "provider": name}
        rows.append(row | asdict(timing) | {"error": errors[name]})
    return rows


if __name__ == "__main__":
    sys.exit(main())
