"""From a file of results to its page, its pictures and README's tables: nothing is typed."""

import argparse
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.kinds import KINDS, Kind
from benchmarks.rows import RESULTS, ROOT, load


def kind_of(results: dict) -> Kind:
    """Of which kind these results are.

    Raises:
        ValueError: they have no rows, or rows of no known kind.
    """
    first = results["rows"][0] if results["rows"] else {}
    found = [kind for kind in KINDS if kind.mark in first]
    if not found:
        raise ValueError("results have no rows; accepted: what `python -m benchmarks` writes")
    return found[0]


def write_report(path: Path, into_readme: bool) -> str:
    """Draw the pictures and write the page beside a file of results, fill in README's tables.

    Returns what was written, and the verdicts on the bars, as text to print.
    """
    results = load(path)
    kind, written = kind_of(results), []
    if kind.pictures:
        from benchmarks.reports.pictures import draw_all  # matplotlib

        pictures = import_module(f"benchmarks.reports.{kind.pictures}").PICTURES
        written += draw_all(results, pictures, path)
    path.with_suffix(".md").write_text(kind.page(results))
    written.append(path.with_suffix(".md"))
    for table in kind.tables(results) if into_readme else ():
        table.file.write_text(table.filled_in(table.file.read_text()))
        written.append(table.file)
    verdicts = [f"  {line}" for line in kind.verdicts(results)]
    return "\n".join(["Written: " + ", ".join(_name(p) for p in written), *verdicts])


def main(arguments: Sequence[str]) -> int:
    """The command: everything that is made of files of results."""
    parser = argparse.ArgumentParser("python -m benchmarks report", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    for path in (file.resolve() for file in parser.parse_args(arguments).files):
        is_record = path.parent == RESULTS and load(path).get("record", False)
        print(write_report(path, into_readme=is_record))
    return 0


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
