"""Reports of Nsight Compute (ncu) about one launch: metrics to ask for, and a small file of them.

`record_ncu.py` writes such files on a GPU; notebook 08 reads them anywhere.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
REASONS = (
    "long_scoreboard",
    "lg_throttle",
    "short_scoreboard",
    "mio_throttle",
    "math_pipe_throttle",
    "wait",
    "not_selected",
    "selected",
    "branch_resolving",
    "no_instruction",
    "barrier",
    "dispatch_stall",
    "drain",
    "imc_miss",
    "tex_throttle",
    "membar",
    "misc",
    "sleeping",
)
IN_SHORT = (  # bytes, sectors, instructions, and how busy each side is: notebook 08's table
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "l1tex__t_sector_hit_rate.pct",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
    "smsp__inst_executed.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
)
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
    *(STALLED.format(reason) for reason in REASONS),
)
_OF_A_LINE = ("line", "samples", "instructions")


@dataclass(frozen=True)
class Report:
    """Metrics of one launch."""

    about: dict[str, str]  # kernel, shape, gpu, versions, date, command
    values: dict[str, float]
    units: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, metric: str) -> float:
        return self.values[metric]

    def get(self, metric: str) -> float:
        """The metric; not a number where ncu had none."""
        return self.values.get(metric, float("nan"))

    @property
    def instructions(self) -> float:
        """Executed by all lanes together: one is issued for a warp of 32."""
        return 32 * self["smsp__inst_executed.sum"]

    @property
    def stalls(self) -> dict[str, float]:
        """Reason -> warps that waited for it, for each instruction issued; the largest first."""
        found = {reason: self.get(STALLED.format(reason)) for reason in REASONS}
        known = {reason: value for reason, value in found.items() if value == value}
        return dict(sorted(known.items(), key=lambda item: -item[1]))


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of a kernel's source, and what ncu saw of the warps that were at it."""

    line: int
    source: str
    samples: int  # how often a warp was seen there
    instructions: int  # executed there, counted once for each warp
    stalls: dict[str, int]  # state of the warp -> how many of the samples

    @property
    def state(self) -> str:
        """The state that its warps were seen in most often."""
        return max(self.stalls, key=lambda name: self.stalls[name])


def source(about: dict[str, str]) -> str:
    """One line: on which GPU, with what, and when. A notebook never runs ncu itself."""
    return f"Replayed from a report: {about['gpu']}, {about['versions']}, {about['date']}."


def read(path: Path | str) -> Report:
    """A file as `write` leaves it."""
    about, rows = _about_and_rows(path)
    values = {row["metric"]: float(row["value"]) for row in rows}
    return Report(about, values, {row["metric"]: row["unit"] for row in rows})


def write(path: Path | str, report: Report) -> None:
    """Comment lines of what is known, then metric, value and unit, a line each."""
    text = io.StringIO()
    for name, said in report.about.items():
        text.write(f"# {name}: {said}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["metric", "value", "unit"])
    for metric in METRICS:
        if metric in report.values:
            value = f"{report[metric]:.6g}" if report[metric] < 1e6 else f"{report[metric]:.0f}"
            writer.writerow([metric, value, report.units.get(metric, "")])
    Path(path).write_text(text.getvalue())


def read_lines(path: Path | str) -> tuple[dict[str, str], list[Line]]:
    """What `write_lines` wrote: about the launch, and its lines."""
    about, rows = _about_and_rows(path)
    found = []
    for row in rows:
        line, samples, instructions = (int(row.pop(name)) for name in _OF_A_LINE)
        source = row.pop("source")
        stalls = {name: int(value) for name, value in row.items()}
        found.append(
            Line(
                line=line, source=source, samples=samples, instructions=instructions, stalls=stalls
            )
        )
    return about, found


def write_lines(path: Path | str, about: dict[str, str], lines: list[Line]) -> None:
    """Comment lines of what is known, then a row for each line of the kernel."""
    text = io.StringIO()
    for name, said in about.items():
        text.write(f"# {name}: {said}\n")
    states = list(lines[0].stalls)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_OF_A_LINE, "source", *states])
    for line in lines:
        numbers = line.line, line.samples, line.instructions
        writer.writerow([*numbers, line.source, *(line.stalls[state] for state in states)])
    Path(path).write_text(text.getvalue())


def _about_and_rows(path: Path | str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """What the comment lines of a file say, and its other lines by column."""
    lines = Path(path).read_text().splitlines()
    about = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    return about, list(csv.DictReader(line for line in lines if not line.startswith("# ")))


def parse(output: str) -> tuple[dict[str, float], dict[str, str]]:
    """Values and units of the first launch in what `ncu --csv` prints, in either of its forms.

    Page 'details' has a metric a line; page 'raw' a metric a column, and units in a line below the
    header. Lines before the header are ncu's and the program's own.

    Raises:
        ValueError: there is no launch in it.
    """
    rows = list(csv.reader(_from_the_header_on(output)))
    if len(rows) < 2:
        raise ValueError("ncu reported no launch")
    header, first = rows[0], rows[1]
    if "Metric Name" in header:
        places = [header.index(f"Metric {column}") for column in ("Name", "Value", "Unit")]
        cells = [[row[place] for place in places] for row in rows[1:] if row[0] == first[0]]
    else:
        if len(rows) < 3:
            raise ValueError("ncu reported no launch")
        cells = list(zip(header, rows[2], first, strict=True))
    numbers = {name: (_number(value), unit) for name, value, unit in cells}
    known = {name: pair for name, pair in numbers.items() if pair[0] is not None}
    values = {name: value for name, (value, _) in known.items()}
    return values, {name: unit for name, (_, unit) in known.items()}


def _from_the_header_on(output: str) -> Iterator[str]:
    started = False
    for line in output.splitlines():
        started = started or line.startswith('"ID"')
        if started and not line.startswith("=="):
            yield line


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def table(metrics: Iterable[str], **reports: Report) -> str:
    """Metrics of several reports side by side."""
    metrics = list(metrics)
    width = max(len(metric) for metric in metrics)
    lines = [f"{'':{width}}" + "".join(f"{name:>12}" for name in reports)]
    for metric in metrics:
        unit = next(iter(reports.values())).units.get(metric, "")
        cells = "".join(f"{_shown(report.get(metric)):>12}" for report in reports.values())
        lines.append(f"{metric:{width}}{cells}  {unit}".rstrip())
    return "\n".join(lines)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
