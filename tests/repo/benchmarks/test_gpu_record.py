"""`make record` with made-up times: a GPU that had no record has all of them."""

import subprocess
from dataclasses import replace

import pytest
from made_up_benchmark import FakeGPU

from benchmarks import __main__ as command
from benchmarks import gpu_record
from benchmarks.case import OURS, Case, Group
from benchmarks.peers import sources
from benchmarks.providers import PROVIDERS
from benchmarks.tables import BENCHMARKS
from rope_lab.judge.inspect.limits import gpu_of

OURS_AND_A_COPY = tuple(PROVIDERS[name] for name in ("copy_", "x * 2", OURS))
TINY = Group((Case(5, 2, 2, 8, dtype="float32"),), ("forward",))
CALLS, PEERS = (
    replace(benchmark, groups=(TINY,), providers=OURS_AND_A_COPY) for benchmark in BENCHMARKS[:2]
)
GPU_OF_TESTS = FakeGPU(device="cpu")


@pytest.fixture(autouse=True)
def committed(monkeypatch):
    monkeypatch.setattr(gpu_record, "uncommitted", list)


def test_a_new_gpu_has_all_records_and_is_shown(copied, capsys):
    assert gpu_of("Made Up").machine is None
    assert command.main(["record"], GPU_OF_TESTS, [CALLS, PEERS]) == 0
    said = capsys.readouterr().out
    assert gpu_of("Made Up").machine == gpu_of("NVIDIA H200").machine
    assert "<summary>Made Up, 2026-11-20</summary>" in (copied / "README.md").read_text("utf-8")
    listed = (copied / "benchmarks/README.md").read_text(encoding="utf-8")
    assert (
        "| Made Up | [2026-11-20](results/made-up-calls.md) | [2026-11-20](results/peers" in listed
    )
    minutes = {"machine": 1, "calls": CALLS.minutes, "peers": PEERS.minutes}
    for part, of_it in minutes.items():
        assert f"{part:7} {of_it:2} min  " in said
    assert f"In all about {sum(minutes.values())} minutes" in said and "git commit" in said
    assert said.index("== machine") < said.index("== calls") < said.index("== peers")


def test_a_part_that_fails_keeps_no_other_from_being_taken(copied, capsys, monkeypatch):
    def fails(self):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(FakeGPU, "machine", fails)
    assert command.main(["record", "machine", "calls"], GPU_OF_TESTS, [CALLS, PEERS]) == 1
    said = capsys.readouterr().out
    assert "machine FAILED: RuntimeError: out of memory, after 0 s" in said
    assert "calls   taken, after" in said
    assert (copied / "benchmarks/results/made-up-calls.md").is_file()
    assert not (copied / "benchmarks/results/peers-made-up.json").exists()  # nobody asked for it


def test_what_would_spoil_a_record_is_said_before_anything_is_measured(copied, capsys, monkeypatch):
    monkeypatch.setattr(gpu_record, "uncommitted", lambda: ["a.py", "b.py", "c.py", "d.py"])
    monkeypatch.setattr(FakeGPU, "bytes_used", lambda self: 3 * 2**30)
    monkeypatch.setattr(sources, "PEERS", copied / "nothing")
    peers = replace(PEERS, providers=(*OURS_AND_A_COPY, PROVIDERS["Unsloth"]))
    assert command.main(["record", "peers"], GPU_OF_TESTS, [CALLS, peers]) == 1
    said = capsys.readouterr().out
    assert "so nobody could tell what was measured: a.py, b.py, c.py, ..." in said
    assert "Other programs use 3.0 GiB" in said
    assert "Unsloth is absent: not unpacked: " in said and "sources --clone" in said
    assert not (copied / "benchmarks/results/peers-made-up.json").exists()
    assert command.main(["record", "peers", "--anyway"], GPU_OF_TESTS, [CALLS, peers]) == 0
    assert (copied / "benchmarks/results/peers-made-up.json").exists()


def test_what_a_record_writes_may_differ_from_the_commit_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(gpu_record, "ROOT", tmp_path)
    assert gpu_record.uncommitted() == []  # without a repository, too
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    for name in ("README.md", "benchmarks/results/made-up-calls.json", "rope_kernels/api.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n", encoding="utf-8")
    subprocess.run(["git", "add", "--all"], cwd=tmp_path, check=True)
    assert gpu_record.uncommitted() == ["rope_kernels/api.py"]


def test_every_benchmark_says_what_it_measures_and_how_long_it_takes():
    assert all(one.minutes and one.about for one in BENCHMARKS)
