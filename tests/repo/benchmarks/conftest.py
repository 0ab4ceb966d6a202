"""What tests of records share."""

import shutil

import pytest

from benchmarks import __main__ as command
from benchmarks import record, tables
from rope_lab.records import records_folder


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A folder with all records, and copies of the pages that show them: runs write there."""
    for name, _, _ in tables.SHOWN_ON.values():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(tables.ROOT / name, tmp_path / name)
    results = tmp_path / "benchmarks/results"
    shutil.copytree(record.RESULTS, results)
    shutil.copytree(records_folder(), tmp_path / "records")
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    for module in (command, tables):
        monkeypatch.setattr(module, "RESULTS", results)
    monkeypatch.chdir(tmp_path)  # where `records_folder` looks first
    return tmp_path
