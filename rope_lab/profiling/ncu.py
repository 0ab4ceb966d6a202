"""Reports of Nsight Compute (ncu) about one launch.

`tools/recording/ncu_reports.py` writes them on a GPU; notebooks 08 and 11 read them anywhere.
"""

import csv
from collections.abc import Iterable
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
OF_A_LINE = ("line", "samples", "instructions")


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
    """Comment lines about the launch, then metric, value and unit, a line each."""
    about, rows = _about_and_rows(path)
    values = {row["metric"]: float(row["value"]) for row in rows}
    return Report(about, values, {row["metric"]: row["unit"] for row in rows})


def read_lines(path: Path | str) -> tuple[dict[str, str], list[Line]]:
    """About the launch, and a row for each line of its kernel."""
    about, rows = _about_and_rows(path)
    found = []
    for row in rows:
        fields = {name: int(row.pop(name)) for name in OF_A_LINE}
        source = row.pop("source")
        stalls = {name: int(value) for name, value in row.items()}
        found.append(Line(**fields, source=source, stalls=stalls))
    return about, found


def _about_and_rows(path: Path | str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """What the comment lines of a file say, and its other lines by column."""
    lines = Path(path).read_text().splitlines()
    about = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    return about, list(csv.DictReader(line for line in lines if not line.startswith("# ")))


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
