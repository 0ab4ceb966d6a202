"""Record Nsight Compute's reports of notebook 08: `python tools/recording/ncu_reports.py`.

Needs a GPU and ncu. One process launches all calls under ncu, with the clocks as they are and empty
caches. The reports of `REPORTS` go to `notebooks/records/NAME.csv`.
"""

import csv
import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from rope_lab.profiling.ncu import IN_SHORT, Report
from rope_lab.records import circumstances
from rope_lab.rungs import SHAPE

RECORDS = Path(__file__).resolve().parents[2] / "notebooks" / "records"
COMMAND = "python tools/recording/ncu_reports.py"
WARM_UP = 3  # launches of each call before the one that is reported
# name of the file -> the call of `headline.cases`, and its kernel
REPORTS = {
    "08_ncu_naive": ("naive", "naive_rope_kernel"),
    "08_ncu_final": ("ours", "rope_kernel"),
}


def launch() -> None:
    """In the process that ncu watches: launch every call."""
    from rope_lab.steps import headline

    rotations = headline.cases(torch.bfloat16)
    calls = [rotations[call] for call, _ in REPORTS.values()]
    for call in calls * WARM_UP:
        call()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for call in calls:
        call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def measured() -> str:
    """What ncu says of every launch between start and stop.

    Raises:
        RuntimeError: ncu could not report; its own words are in the message.
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
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        said = log.read_text() if log.exists() else ""
    if '\n"ID"' not in f"\n{said}":
        raise RuntimeError(f"ncu reported no launch:\n{(said + run.stdout + run.stderr)[-3000:]}")
    return said


def launches(output: str) -> dict[str, Report]:
    """By its kernel's name, a report of each launch that is still about nothing.

    ncu's page has a column for each metric, and units in the line below the header. Lines before
    the header are ncu's and the program's own.
    """
    lines = output.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith('"ID"'))
    header, units, *rows = csv.reader(line for line in lines[begin:] if not line.startswith("=="))
    found = {}
    for row in rows:
        values, units_of = {}, {}
        for metric, text, unit in zip(header, row, units, strict=True):
            if metric in IN_SHORT and (value := number(text)) is not None:
                values[metric], units_of[metric] = value, unit
        found[row[header.index("Kernel Name")]] = Report({}, values, units_of)
    return found


def number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def reports_of(output: str, where: dict[str, str]) -> Iterator[tuple[str, Report]]:
    """Each report that is wanted, by its name."""
    found = launches(output)
    for name, (_, kernel) in REPORTS.items():
        about = {"kernel": kernel, "shape": f"{SHAPE}, bf16"} | where
        yield name, replace(found[kernel], about=about)


def text_of(report: Report) -> str:
    """Comment lines of what is known, then metric, value and unit, a line each."""
    text = io.StringIO()
    text.writelines(f"# {name}: {said}\n" for name, said in report.about.items())
    rows = [["metric", "value", "unit"]]
    for metric in filter(report.values.__contains__, IN_SHORT):
        value = f"{report[metric]:.6g}" if report[metric] < 1e6 else f"{report[metric]:.0f}"
        rows.append([metric, value, report.units.get(metric, "")])
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def main() -> None:
    found, said = circumstances(), subprocess.check_output(["ncu", "--version"], text=True)
    of_ncu = re.search(r"Version (\d+\.\d+\.\d+)", said)
    all_of_them = found["versions"] | {"ncu": of_ncu[1] if of_ncu else "unknown"}
    versions = ", ".join(f"{name} {number}" for name, number in all_of_them.items())
    where = {"gpu": found["gpu"], "versions": versions, "date": found["date"], "command": COMMAND}
    for name, report in reports_of(measured(), where):
        (RECORDS / f"{name}.csv").write_text(text_of(report))


if __name__ == "__main__":
    launch() if sys.argv[1:] == ["--launch"] else main()
