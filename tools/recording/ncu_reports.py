"""Record Nsight Compute's reports of notebook 08, on a GPU with ncu.

    python tools/recording/ncu_reports.py

One process launches all calls under ncu, with the clocks as they are and empty caches, and a mark
after each. The reports of `REPORTS` are written to `notebooks/records/NAME.csv`.
"""

import argparse
import csv
import io
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from rope_lab.profiling.ncu import Report
from rope_lab.records import circumstances
from rope_lab.rungs import SHAPE

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
WARM_UP = 3  # launches of each call before the one that is reported
MARK = "spin_kernel"  # torch.cuda._sleep launches it between two calls
NAIVE = "naive_rope_kernel"
STALLS = "barrier", "long_scoreboard"  # what a warp waits for
METRICS = (
    "gpu__time_duration.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_sector_hit_rate.pct",
    "l1tex__t_sector_hit_rate.pct",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "smsp__inst_executed.sum",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "smsp__cycles_elapsed.avg.per_second",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__maximum_warps_per_active_cycle_pct",
    "launch__grid_size",
    "launch__block_size",
    "launch__registers_per_thread",
    "launch__waves_per_multiprocessor",
    "launch__occupancy_limit_blocks",
    "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem",
    "launch__occupancy_limit_warps",
    *(f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio" for reason in STALLS),
)
_MISSING = re.compile(r"Failed to find metric\s+(?:regex:)?([\w.]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Wanted:
    """A report: of which call, of which of its kernels, and what its first lines say of both."""

    call: str
    part: str  # of the kernel's name
    shape: str


REPORTS = {  # name of the file -> what is in it
    "08_ncu_naive": Wanted("naive", NAIVE, f"{SHAPE}, bf16"),
    "08_ncu_final": Wanted("final", "rope_kernel", f"{SHAPE}, bf16"),
}


# the process that ncu watches


def calls() -> dict[str, Callable[[], object]]:
    """What is launched, by name."""
    from rope_lab.steps import headline

    rotations = headline.cases(torch.bfloat16)
    return {"naive": rotations["naive"], "final": rotations["ours"]}


def launch() -> None:
    """Launch every call, with a mark after each."""
    wanted = calls()
    for call in wanted.values():
        for _ in range(WARM_UP):
            call()
    torch.cuda._sleep(1000)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for call in wanted.values():
        call()
        torch.cuda._sleep(1000)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


# ncu, and what it prints


def ncu_watches(*options: str) -> list[str]:
    """ncu's command line for what `launch` launches between start and stop."""
    return [
        *("ncu", "--clock-control", "none", "--cache-control", "all"),
        *("--profile-from-start", "off", "--target-processes", "application-only"),
        *("--kernel-name-base", "function", *options),
        *(sys.executable, __file__, "--launch"),
    ]


def measured(metrics: tuple[str, ...] = METRICS) -> str:
    """What ncu says of every launch, without the metrics that it does not know.

    Raises:
        RuntimeError: ncu could not report; its own words are in the message.
    """
    with tempfile.TemporaryDirectory() as place:
        log = Path(place, "log.csv")
        pages = "--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)
        command = ncu_watches(*pages, "--metrics", ",".join(metrics))
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        said = log.read_text() if log.exists() else ""
    missing = set(_MISSING.findall(said + run.stdout + run.stderr)) & set(metrics)
    if missing:
        return measured(tuple(metric for metric in metrics if metric not in missing))
    if '\n"ID"' not in f"\n{said}":
        raise RuntimeError(f"ncu reported no launch:\n{(said + run.stdout + run.stderr)[-3000:]}")
    return said


def launches(output: str) -> list[dict[str, Report]]:
    """Of each call, up to its mark: a report for each kernel's name, still about nothing.

    ncu's page has a column for each metric, and units in the line below the header. Lines before
    the header are ncu's and the program's own.
    """
    lines = output.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith('"ID"'))
    header, units, *rows = csv.reader(line for line in lines[begin:] if not line.startswith("=="))
    found = [{}]
    for row in rows:
        kernel = row[header.index("Kernel Name")]
        if MARK in kernel:
            found.append({})
            continue
        values, units_of = {}, {}
        for metric, text, unit in zip(header, row, units, strict=True):
            if metric in METRICS and (value := number(text)) is not None:
                values[metric], units_of[metric] = value, unit
        found[-1][kernel] = Report({}, values, units_of)
    return found[:-1]


def number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


# the records


def about() -> dict[str, str]:
    """GPU, versions (ncu's too), date and command, as a report's first lines say them."""
    found = circumstances()
    version = subprocess.run(["ncu", "--version"], capture_output=True, text=True, check=False)
    numbers = re.search(r"Version (\d+\.\d+\.\d+)", version.stdout)
    versions = found["versions"] | {"ncu": numbers[1] if numbers else "unknown"}
    return {
        "gpu": found["gpu"],
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "date": found["date"],
        "command": "python tools/recording/ncu_reports.py",
    }


def reports_of(output: str, where: dict[str, str]) -> Iterator[tuple[str, Report]]:
    """Each report that is wanted, by its name."""
    in_order = dict.fromkeys(wanted.call for wanted in REPORTS.values())
    found = dict(zip(in_order, launches(output), strict=True))
    for name, wanted in REPORTS.items():
        (kernel,) = (kernel for kernel in found[wanted.call] if wanted.part in kernel)
        which = {"kernel": kernel, "shape": wanted.shape}
        yield name, replace(found[wanted.call][kernel], about=which | where)


def write(path: Path, report: Report) -> None:
    """Comment lines of what is known, then metric, value and unit, a line each."""
    rows = []
    for metric in METRICS:
        if metric in report.values:
            value = f"{report[metric]:.6g}" if report[metric] < 1e6 else f"{report[metric]:.0f}"
            rows.append([metric, value, report.units.get(metric, "")])
    text = io.StringIO()
    for name, said in report.about.items():
        text.write(f"# {name}: {said}\n")
    csv.writer(text, lineterminator="\n").writerows([["metric", "value", "unit"], *rows])
    path.write_text(text.getvalue())
    print(path, flush=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launch", action="store_true", help="only launch, for ncu to watch")
    parser.add_argument("--out", type=Path, default=NOTEBOOKS / "records")
    chosen = parser.parse_args(arguments)
    if chosen.launch:
        launch()
        return 0
    if shutil.which("ncu") is None:
        print("There is no ncu here: it comes with NVIDIA's CUDA toolkit, and needs a GPU.")
        return 1
    where = about()
    for name, report in reports_of(measured(), where):
        write(chosen.out / f"{name}.csv", report)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
