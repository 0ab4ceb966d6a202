"""What tests of records share."""

import shutil

import pytest

from benchmarks import pages, record
from benchmarks.tables import RESULTS
from rope_lab.records import records_folder


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A folder with all records, and copies of the pages that show them: runs write there."""
    for name in ("README", "HUGGING_FACE", "OF_THE_BENCHMARK"):
        copy = tmp_path / f"{name}.md"
        shutil.copy(getattr(pages, name), copy)
        monkeypatch.setattr(pages, name, copy)
    shutil.copytree(RESULTS, tmp_path / "results")
    shutil.copytree(records_folder(), tmp_path / "records")
    monkeypatch.setattr(record, "RESULTS", tmp_path / "results")
    monkeypatch.chdir(tmp_path)  # where `records_folder` looks first
    return tmp_path
