"""Record Nsight Compute's reports of notebook 08: `python tools/ncu_reports.py`.

It needs a GPU and ncu. One process launches all calls under ncu, with unchanged clocks and flushed
caches.
"""

import csv
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from rope_lab.n08.ncu import IN_SHORT
from rope_lab.records import RECORD_SWITCH, observe

WARM_UP = 3  # launches of each call before the reported one
CALLS = {"naive": "naive_rope_kernel", "ours": "rope_kernel"}  # of `headline_cases`: its kernel


def launch() -> None:
    """Launch every call, in the process that ncu profiles."""
    from rope_lab.n08.kernels import headline_cases

    rotations = headline_cases(torch.bfloat16)
    calls = [rotations[name] for name in CALLS]
    for call in calls * WARM_UP:
        call()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for call in calls:
        call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def measured() -> str:
    """The CSV output of ncu for every launch between start and stop.

    Raises:
        RuntimeError: ncu failed. The message contains its output.
    """
    with tempfile.TemporaryDirectory() as place:
        log = Path(place, "log.csv")
        command = [
            *("ncu", "--clock-control", "none", "--cache-control", "all"),
            *("--profile-from-start", "off", "--target-processes", "application-only"),
            *("--kernel-name-base", "function", "--csv", "--page", "raw", "--print-units", "base"),
            *("--log-file", str(log), "--metrics", ",".join(IN_SHORT)),
            *(sys.executable, __file__, "--launch"),
        ]
        run = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        said = log.read_text(encoding="utf-8") if log.exists() else ""
    if '\n"ID"' not in f"\n{said}":
        raise RuntimeError(f"ncu reported no launch:\n{(said + run.stdout + run.stderr)[-3000:]}")
    return said


def reports_of(output: str) -> dict[str, dict]:
    """Call -> metric -> number; and the metrics' units.

    ncu's output has a column for each metric, and units in the line below the header. Lines before
    the header are messages of ncu and of the program.
    """
    lines = output.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith('"ID"'))
    header, units, *rows = csv.reader(line for line in lines[begin:] if not line.startswith("=="))
    metrics = {place: name for place, name in enumerate(header) if name in IN_SHORT}
    of_kernel = {row[header.index("Kernel Name")]: row for row in rows}
    found = {"units": {metric: units[place] for place, metric in metrics.items()}}
    for name, kernel in CALLS.items():
        numbers = {metric: number(of_kernel[kernel][place]) for place, metric in metrics.items()}
        found[name] = {metric: value for metric, value in numbers.items() if value is not None}
    return found


def number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def take() -> dict:
    said = subprocess.check_output(["ncu", "--version"], encoding="utf-8")
    return reports_of(measured()) | {"ncu": re.search(r"Version (\d+\.\d+\.\d+)", said)[1]}


if __name__ == "__main__":
    if sys.argv[1:] == ["--launch"]:
        launch()
    else:
        os.environ[RECORD_SWITCH] = "1"
        print(observe("08/ncu", take).source)
