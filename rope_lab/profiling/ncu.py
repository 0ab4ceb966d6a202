"""Reports of Nsight Compute (ncu) about one launch.

`tools/recording/ncu_reports.py` writes them on a GPU; notebook 08 reads them anywhere.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

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


@dataclass(frozen=True)
class Report:
    """Metrics of one launch."""

    about: dict[str, str]  # kernel, shape, gpu, versions, date, command
    values: dict[str, float]
    units: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, metric: str) -> float:
        return self.values[metric]


def read(path: Path | str) -> Report:
    """Comment lines about the launch, then metric, value and unit, a line each."""
    lines = Path(path).read_text().splitlines()
    about = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    rows = list(csv.DictReader(line for line in lines if not line.startswith("# ")))
    values = {row["metric"]: float(row["value"]) for row in rows}
    return Report(about, values, {row["metric"]: row["unit"] for row in rows})


def table(metrics: Sequence[str], **reports: Report) -> str:
    """Metrics of several reports side by side; not a number where ncu had none."""
    width = max(len(metric) for metric in metrics)
    lines = [f"{'':{width}}" + "".join(f"{name:>12}" for name in reports)]
    for metric in metrics:
        unit = next(iter(reports.values())).units.get(metric, "")
        numbers = (report.values.get(metric, float("nan")) for report in reports.values())
        cells = "".join(f"{_shown(number):>12}" for number in numbers)
        lines.append(f"{metric:{width}}{cells}  {unit}".rstrip())
    return "\n".join(lines)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
