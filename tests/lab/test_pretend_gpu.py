"""Notebook 08's pretend GPU: what is right on it is right on a real one.

Wrong timers, and the verdict on each, are in `tests/support/wrong_answers.txt`.
"""

from functools import partial

import pytest
import torch

from exercise_form import exercises_in
from rope_lab.n08.pretend_gpu import PretendGPU, PretendMemory, check_timer
from rope_lab.timing import measure


@pytest.fixture(scope="module")
def timer():
    """The worked solution's."""
    names = {"check_timer": bool}  # there it shows a verdict
    exec(exercises_in("08").solutions["08-ex2"].source, names)
    return names["timer"]


def test_the_right_timer_needs_nothing_that_torch_cuda_lacks():
    for name in ("Event", "synchronize", "_sleep"):
        assert hasattr(torch.cuda, name) and hasattr(PretendGPU, name)
    for name in ("record", "synchronize", "elapsed_time"):
        assert hasattr(torch.cuda.Event, name)
    assert all(hasattr(torch.Tensor, name) for name in ("sum", "zero_"))


@pytest.mark.parametrize("wrap", [torch.tensor, float], ids=["a tensor", "a number"])
def test_one_number_of_any_kind_is_a_time(timer, wrap):
    assert check_timer(lambda *given: wrap(timer(*given)))


def test_a_timer_that_fails_is_told_where():
    verdict = check_timer(lambda call, cuda, flush: cuda.event())
    assert "GPU 1 of 9" in repr(verdict) and "'event'" in repr(verdict)


def test_an_event_counts_milliseconds_and_only_when_it_keeps_a_time():
    gpu = PretendGPU()
    begin, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    begin.record()
    gpu.kernel(4.2e9, compiled=True)()
    end.record()
    gpu.synchronize()
    assert begin.elapsed_time(end) == pytest.approx(1.0, rel=0.01)
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        gpu.Event().elapsed_time(end)


def test_only_a_flush_that_reads_empties_the_cache():
    gpu = PretendGPU()
    with pytest.raises(RuntimeError, match=r"write flush\.sum\(\)"):
        PretendMemory(gpu).zero_()


@pytest.mark.gpu
def test_the_right_timer_agrees_with_the_labs_on_a_real_gpu(timer):
    x = torch.zeros(2**26, dtype=torch.uint8, device="cuda")
    copy = partial(torch.empty_like(x).copy_, x)
    flush = torch.zeros(2**26, device="cuda")
    us = timer(copy, torch.cuda, flush)
    assert us == pytest.approx(measure({"copy": copy})["copy"].median_us, rel=0.15)
