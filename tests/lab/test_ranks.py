"""Ranks that the notebooks start: what they say, how they fail, and what they would measure."""

import os
import subprocess
import time

import pytest
import torch
import torch.distributed as dist

pytest.importorskip("triton", reason="needs Triton")

import rope_lab as lab
from processes import is_running
from rope_lab.child import Child
from rope_lab.profiling import record_ranks
from rope_lab.steps import on_ranks
from rope_lab.steps import torchrun as torchrun_module
from rope_lab.steps.qwen3 import SMALL, new_qwen3
from rope_lab.steps.qwen3_on_ranks import WAYS, patched
from rope_lab.steps.torchrun import parts_of, said_by_ranks, torchrun
from rope_lab.timing import Timing

lab.need_triton()


def run_once(cases):
    """In place of a measurement: the results have to come, and nothing is timed."""
    assert all(call() is not None for call in cases.values())
    return {name: Timing(0.0, 0.0, 0.0, 0.0, 1) for name in cases}


def test_what_ranks_say_has_parts():
    assert parts_of("== one\n1\n  2\n== two\n3 == 3\n") == {"one": "1\n  2", "two": "3 == 3"}


@pytest.mark.parametrize("gpus", (1, 2))
def test_ranks_say_the_same_with_any_number_of_gpus(gpus, monkeypatch):
    """With one they have to leave it alone."""
    if gpus > max(1, torch.cuda.device_count()):
        pytest.skip("needs two GPUs")
    monkeypatch.setattr("rope_lab.steps.torchrun.device", "cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    found = said_by_ranks()["parts"]
    assert found.pop("where") == ("2 ranks, cpu, gloo" if gpus == 1 else "2 ranks, cuda, nccl")
    recorded = dict(lab.recorded("13/said")["parts"])
    del recorded["where"]
    assert found == recorded


@pytest.mark.parametrize("gpus", (0, 1, 2))
def test_a_rank_takes_a_gpu_if_each_of_its_host_has_one(gpus, monkeypatch):
    done = []
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("TRITON_INTERPRET", "as it was")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", done.append)
    monkeypatch.setattr(dist, "init_process_group", lambda name, timeout: done.append(name))
    on = on_ranks.join()
    wanted = ("cuda", [1, "nccl"], "as it was") if gpus == 2 else ("cpu", ["gloo"], "0")
    assert (on, done, os.environ["TRITON_INTERPRET"]) == wanted


def test_your_kernel_finds_the_bits_of_the_whole(monkeypatch):
    assert on_ranks.your_kernel(4, lab.device)
    monkeypatch.setattr(on_ranks, "mine_or_ours", lambda: lambda t, table: t + table[:1])
    assert not on_ranks.your_kernel(4, lab.device)


def test_ranks_that_fail_are_replayed_with_the_reason(monkeypatch):
    """First they find no network, then the launcher does not start; and no rank sees a GPU."""
    visible = []

    def refuse(command, env, **_):
        visible.append(env["CUDA_VISIBLE_DEVICES"])
        raise OSError("no process is left")

    monkeypatch.setattr("rope_lab.steps.torchrun.device", "cpu")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setitem(torchrun_module._ON_THE_CPU, "GLOO_SOCKET_IFNAME", "nowhere")
    failed = lab.observe("13/said", said_by_ranks, gpus=0)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    not_started = lab.observe("13/said", said_by_ranks, gpus=0)
    recorded = lab.recorded("13/said")
    assert recorded.values == failed.values == not_started.values
    before = f"{recorded.source} 2 ranks of rope_lab.steps.on_ranks "
    words = "failed with exit code 1. They said: RuntimeError: "
    assert failed.source.startswith(before + words) and failed.source.endswith(": nowhere")
    assert not_started.source == before + "did not start: no process is left"
    assert visible == [""]


def test_ranks_that_take_too_long_are_ended(tmp_path, monkeypatch):
    """They are processes of the launcher, in groups of their own."""
    source = "import os, sys, time\nopen(f'{sys.argv[1]}/{os.getpid()}', 'w')\ntime.sleep(300)"
    (tmp_path / "sleeps.py").write_text(source)
    (tmp_path / "ranks").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    line = Child._line

    def late_once_there_are_ranks(launcher, late):
        for _ in range(600):
            if len(list((tmp_path / "ranks").iterdir())) == 2:
                break
            time.sleep(0.1)
        return line(launcher, time.monotonic())

    monkeypatch.setattr(Child, "_line", late_once_there_are_ranks)
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
def test_a_rank_trains_a_model():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        found = record_ranks.steps_of_a_rank(SMALL, tokens=8, turns=1)
    finally:
        dist.destroy_process_group()
    assert list(found) == list(WAYS) and all(ms > 0 for ms in found.values())


@pytest.mark.parametrize("way", WAYS)
def test_a_way_puts_in_what_it_says_for_a_while(way):
    """Otherwise all would have the same bits, and notebooks 12 and 13 would prove little."""
    from transformers.models.qwen3 import modeling_qwen3

    def in_the_module():
        attention = modeling_qwen3.Qwen3Attention
        return modeling_qwen3.apply_rotary_pos_emb, attention.forward

    before = in_the_module()
    with patched(new_qwen3("cpu"), WAYS[way]):
        changed = [x is not y for x, y in zip(in_the_module(), before, strict=True)]
    assert changed == [way != "unpatched", way == "with norms"]
    assert in_the_module() == before
