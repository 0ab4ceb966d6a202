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
            "package/inside/b.sh": "1\n2\n3\n",
            "page.md": "1\n" * 50,
            "benchmarks/results/a.json": "1\n" * 50,
            "benchmarks/cases.json": "1\n",
            "notebooks/10_last.ipynb": notebook("no\nno", "x = 1\n\ny = 2"),
            "notebooks/solutions/10_last.ipynb": notebook("no", "1"),
        },
    )
    (counted / "package" / "unlisted.py").write_text("1\n")
    assert size.lines_by_room(counted) == {
        "top level": {".py": 3},
        "package": {".sh": 3},
        "benchmarks": {".json": 1},
    }
    assert size.lines_of_cells(counted) == {"core": 3, "solutions": 1}


def test_every_record_that_is_named_is_there():
    """Or its name would hide another file."""
    listed = [path.as_posix() for path in size.files(size.ROOT)]
    for record in size.RECORDS:
        assert any(path.startswith(record) for path in listed), record
