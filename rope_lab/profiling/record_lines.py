"""Record where the naive kernel's warps wait, line by line, where ncu is.

`python -m rope_lab.profiling.record_lines` samples the warps of one launch, with the clocks as they
are. The samples of each source line go into `notebooks/records/08_ncu_lines.csv`.
"""

import argparse
import csv
import subprocess
import sys
import tempfile
from pathlib import Path

from . import ncu
from .record_ncu import WARM_UP, about, kernel_of

NAME = "naive"
_STALL, _NOT_ISSUED = "stall_", "(Not Issued)"


def commands(report: str) -> tuple[list[str], list[str]]:
    """ncu's two command lines: take the samples, then print them by line of the source."""
    take = [
        *("ncu", "--export", report, "--section", "SourceCounters", "--import-source", "yes"),
        *("--clock-control", "none", "--cache-control", "all"),
        *("--launch-skip", str(WARM_UP), "--launch-count", "1"),
        *("--kernel-name-base", "function", "--kernel-name", f"regex:^{kernel_of(NAME)}$"),
        *(sys.executable, "-m", "rope_lab.profiling.record_ncu", "--launch", NAME),
    ]
    show = ["ncu", "--import", f"{report}.ncu-rep", "--page", "source", "--csv"]
    return take, [*show, "--print-source", "cuda,sass"]


def lines_of(page: str) -> list[ncu.Line]:
    """The kernel's lines in ncu's source page, those of the machine code left out."""
    rows = list(csv.reader(page.splitlines()))
    header = next(row for row in rows if row and row[0] == "Line No")
    found = []
    for row in rows:
        if not (row and row[0].isdigit() and len(row) == len(header)):
            continue
        cells = dict(zip(header[4:], row[4:], strict=True))  # both columns 1 and 3 are "Source"
        stalls = {
            name.removeprefix(_STALL): int(value)
            for name, value in cells.items()
            if name.startswith(_STALL) and not name.endswith(_NOT_ISSUED) and value.isdigit()
        }
        found.append(
            ncu.Line(
                line=int(row[0]),
                source=row[1],
                samples=int(cells["# Samples"]),
                instructions=int(cells["Instructions Executed"]),
                stalls=stalls,
            )
        )
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("notebooks/records"))
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        take, show = commands(str(Path(place, "report")))
        subprocess.run(take, check=True, capture_output=True, text=True)
        page = subprocess.run(show, check=True, capture_output=True, text=True).stdout
    path = chosen.out / "08_ncu_lines.csv"
    what = about() | {"command": "python -m rope_lab.profiling.record_lines"}
    ncu.write_lines(path, {"kernel": kernel_of(NAME)} | what, lines_of(page))
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
