"""`make size` counts every line that the project has to keep, and nothing else."""

import json
import subprocess

import size


def test_what_counts_and_where(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["no\n", "no"]},
        {"cell_type": "code", "source": ["x = 1\n", "\n", "y = 2"]},
        {"cell_type": "code", "source": ["z = 3"]},
    ]
    for name, text in {
        "setup.py": "a\n\nb\n",
        "package/inside/deeper/b.sh": "1\n2\n3\n",
        "package/c.py": "1\n",
        "page.md": "1\n" * 50,
        "benchmarks/results/a.json": "1\n" * 50,
        "benchmarks/cases.json": "1\n",
        "notebooks/10_last.ipynb": json.dumps({"cells": cells}),
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "--all"], cwd=tmp_path, check=True)
    (tmp_path / "package" / "unlisted.py").write_text("1\n", encoding="utf-8")
    found = size.lines_by_folder(tmp_path)
    assert found == {
        ("top level",): {".py": 3},
        ("package",): {".sh": 3, ".py": 1},
        ("package", "inside"): {".sh": 3},
        ("benchmarks",): {".json": 1},
        ("notebooks",): {"cells": 4},
    }
    assert size.table(found).splitlines()[-1].split() == ["sum", "4", "3", "1", "8", "4"]


def test_every_record_that_is_named_is_there():
    """Or its name would hide another file."""
    listed = [path.as_posix() for path in size.files(size.ROOT)]
    for record in size.RECORDS:
        assert any(path.startswith(record) for path in listed), record
