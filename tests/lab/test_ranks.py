"""Ranks that the notebooks start: what they say, how they fail, and what they would measure."""

import subprocess
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

pytest.importorskip("triton", reason="needs Triton")

import rope_lab as lab
from rope_lab.profiling import record_ranks
from rope_lab.steps.torchrun import Said, torchrun
from rope_lab.timing import Timing

lab.need_triton()


def run_once(cases):
    """In place of a measurement: the results have to come, and nothing is timed."""
    assert all(call() is not None for call in cases.values())
    return {name: Timing(0.0, 0.0, 0.0, 0.0, 1) for name in cases}


def test_what_ranks_say_has_parts():
    said = Said("== one\n1\n  2\n== two\n3 == 3\n", "here")
    assert (said.part("one"), said.part("two")) == ("1\n  2", "3 == 3")


def test_a_rank_that_fails_is_named_with_its_last_words():
    with pytest.raises(RuntimeError, match="2 ranks of gone failed with exit code 1") as e:
        torchrun("gone")
    assert "No module named gone" in str(e.value)


def is_running(process):
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_ranks_that_take_too_long_are_ended(tmp_path, monkeypatch):
    """They are processes of the launcher, in groups of their own."""
    source = "import os, sys, time\nopen(f'{sys.argv[1]}/{os.getpid()}', 'w')\ntime.sleep(300)"
    (tmp_path / "sleeps.py").write_text(source)
    (tmp_path / "ranks").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    wait = subprocess.Popen.wait

    def wait_for_ranks(process, timeout=None):
        if timeout != 12:
            return wait(process, timeout)
        for _ in range(600):
            if len(list((tmp_path / "ranks").iterdir())) == 2:
                break
            time.sleep(0.1)
        raise subprocess.TimeoutExpired("torchrun", timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", wait_for_ranks)
    with pytest.raises(RuntimeError, match=r"2 ranks of sleeps did not end within 12 s\."):
        torchrun("sleeps", str(tmp_path / "ranks"), seconds=12)
    ranks = [int(file.name) for file in (tmp_path / "ranks").iterdir()]
    assert len(ranks) == 2 and not any(map(is_running, ranks))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there it is measured")
def test_a_rank_has_something_to_measure():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        found = record_ranks.of_a_rank(2, run_once, run_once)
    finally:
        dist.destroy_process_group()
    assert found == dict.fromkeys(("collectives", "copy", "rope", "host", "host, DTensor"), 0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there it is measured")
def test_every_rank_has_heads_in_every_format(monkeypatch):
    formats = {"sbhd": (2, 1), "bshd": (1, 2), "bhsd": (1, 2), "thd": (2,)}
    monkeypatch.setattr(record_ranks, "_FORMATS", formats)
    monkeypatch.setattr(record_ranks, "SIZES", (4, 8))
    found = record_ranks.few_heads(run_once)
    assert list(found) == ["16 + 2 heads", "8 + 1 heads"]
    assert all(list(of_one) == list(formats) for of_one in found.values())
