"""What Nsight Compute (ncu) said of two launches.

`tools/recording/ncu_reports.py`, in git at 76342f69, recorded it; notebook 08 shows it anywhere.
"""

from ..records import Observation

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


def table(report: Observation, calls: tuple[str, ...] = ("naive", "ours")) -> str:
    """The metrics of the calls side by side; not a number where ncu had none."""
    width = max(map(len, IN_SHORT))
    lines = [f"{'':{width}}" + "".join(f"{name:>12}" for name in calls)]
    for metric in IN_SHORT:
        numbers = (report[name].get(metric, float("nan")) for name in calls)
        cells = "".join(f"{_shown(number):>12}" for number in numbers)
        lines.append(f"{metric:{width}}{cells}  {report['units'][metric]}")
    return "\n".join(lines)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
