"""What the benchmarks with one table of their own share: a command that prints and keeps it."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path


def run(
    arguments: list[str],
    about: str,
    measured: Callable[[], dict],
    table_of: Callable[[dict], str],
) -> int:
    """Measure, print the table, and write the record to `--out`, if that is given.

    `about` begins with the command's description, and `table_of` takes a whole record: what was
    measured, and under which circumstances.
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--out", type=Path)
    out = parser.parse_args(arguments).out
    from rope_lab.records import circumstances

    record = circumstances() | measured()
    print(table_of(record))
    if out:
        out.write_text(json.dumps(record, indent=1) + "\n")
    return 0
