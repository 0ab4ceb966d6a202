"""`make size` counts every line that the project has to keep, and nothing else."""

import json
import subprocess

import size


def checkout(folder, files):
    """A repository whose index has these files."""
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    subprocess.run(["git", "add", "--all"], cwd=folder, check=True)
    return folder


def notebook(*sources):
    """Text and code in turns."""
    cells = [
        {"cell_type": ("markdown", "code")[i % 2], "source": source.splitlines(keepends=True)}
        for i, source in enumerate(sources)
    ]
    return json.dumps({"cells": cells}, indent=1)


def test_what_counts_and_where(tmp_path):
    counted = checkout(
        tmp_path,
        {
            "setup.py": "a\n\nb\n",
            "package/a.py": "1\n2\n",
            "package/inside/b.sh": "1\n2\n3\n",
            "package/cases.json": "[\n1]\n",
            "page.md": "1\n" * 50,
            "benchmarks/results/a.json": "1\n" * 50,
            "benchmarks/cases.json": "1\n",
            "notebooks/records/08.json": "1\n" * 50,
            "notebooks/10_last.ipynb": notebook("no\nno", "x = 1\n\ny = 2"),
            "notebooks/11_after.ipynb": notebook("no", "1", "no", "2"),
            "notebooks/solutions/10_last.ipynb": notebook("no", "1"),
        },
    )
    (counted / "package" / "unlisted.py").write_text("1\n")
    assert size.lines_by_room(counted) == {
        "top level": {".py": 3},
        "package": {".py": 2, ".sh": 3, ".json": 2},
        "benchmarks": {".json": 1},
    }
    assert size.lines_of_cells(counted) == {"core": 3, "beyond": 2, "solutions": 1}
    total, python, cells = (list(size.report(counted))[i] for i in (-3, -2, -1))
    assert total.split() == ["sum", "5", "0", "3", "0", "3", "11"]
    assert "all Python: 5 lines" in python
    assert cells == "code cells: 6 lines: beyond 2, core 3, solutions 1"


def test_every_record_that_is_named_is_there():
    """Or its name would hide another file."""
    listed = [path.as_posix() for path in size.files(size.ROOT)]
    for record in size.RECORDS:
        assert any(path.startswith(record) for path in listed), record
