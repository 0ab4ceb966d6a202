"""A GPU with made-up times, and a folder where runs write."""

import shutil

import pytest

from benchmarks import __main__ as command
from benchmarks import record, run, tables
from rope_lab.profiling import machines
from rope_lab.records import records_folder
from rope_lab.timing import Timing

SHARES = {"copy_": 1.0, "x * 2": 1.0, "rope_kernels": 0.985}  # of the limit's speed; others: a half


class FakeGPU(run.GPU):
    """The real one, but for the clocks."""

    def in_turns(self, calls, clock):
        of_limit = 6.6 if clock == "host" else 10
        return {name: self._timing(of_limit / SHARES.get(name, 0.5)) for name in calls}

    def _timing(self, us):
        return Timing(round(us, 2), round(0.98 * us, 2), round(1.02 * us, 2), 0.01, 250)

    def machine(self):
        return machines.read(records_folder() / "machines.json")["NVIDIA H200"].values

    def free(self):
        pass

    def circumstances(self):
        versions = {"torch": "2.11.0", "triton": "3.6.0", "driver": "1.2", "python": "3.12.3"}
        return {"gpu": "Made Up", "versions": versions, "date": "2026-11-20"}


@pytest.fixture
def fake_gpu():
    return FakeGPU(device="cpu")


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
