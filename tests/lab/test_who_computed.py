"""A right result is not enough: the kernel has to compute it, so what PyTorch does is told."""

import pytest
import torch

import kernels_beside_pytorch as beside
import rope_lab as lab
from rope_lab.judge import definitions
from rope_lab.judge.spec import STRIDED, spec

pytest.importorskip("triton", reason="needs Triton")
pytestmark = pytest.mark.usefixtures("kept_here")

judge = lab.check_exercise


@spec(leave_out=(*STRIDED, "bfloat16"), kernel=True)  # whose atomics aren't interpreted
def waves(x: "(n,)", w: "(n,)"):  # noqa: F821
    return w * torch.sin(x)


@spec(leave_out=STRIDED, kernel=True, overwrites=("x",))
def doubled(x: "(n,)"):  # noqa: F821
    return 2 * x


doubled_in_place = spec(doubled.function, kernel=True, overwrites=("x",))


PART = "a part of the work is done outside the kernel: PyTorch runs "
NOT_BY_THE_KERNEL = "PyTorch wrote the result: your kernel ran, and stored nothing in it"
LEFT_TO_PYTORCH = {
    beside.sines_in_pytorch: f"{PART}sin; let the kernel do it",
    beside.all_in_pytorch: f"{PART}sin",
    beside.put_into_a_buffer: f"{PART}sin",
    beside.doubled_between: f"{PART}mul",
    beside.doubled_afterwards: f"{PART}mul",
    beside.put_elsewhere: NOT_BY_THE_KERNEL,
}


@pytest.mark.parametrize("candidate", LEFT_TO_PYTORCH, ids=lambda candidate: candidate.__name__)
def test_work_that_is_left_to_pytorch_is_wrong_and_named(candidate):
    verdict = judge(candidate, waves)
    assert verdict.state == "wrong" and verdict.cases.wrong == "small and plain", verdict
    assert LEFT_TO_PYTORCH[candidate] in verdict.reason, verdict


def test_a_result_that_pytorch_converts_is_wrong():
    verdict = judge(beside.converted, waves)
    assert verdict.state == "wrong" and verdict.cases.wrong == "half precision", verdict
    assert verdict.reason.startswith(NOT_BY_THE_KERNEL)


def test_what_pytorch_computes_in_a_later_case_is_seen():
    verdict = judge(beside.sines_of_many_in_pytorch, waves)
    assert verdict.state == "wrong" and f"{PART}sin" in verdict.reason, verdict
    assert verdict.cases.wrong == "sizes that no block divides"


def test_an_input_that_pytorch_overwrites_is_not_the_kernels():
    verdict = judge(beside.in_place_by_pytorch, doubled)
    assert verdict.state == "wrong" and f"{PART}mul" in verdict.reason, verdict


def test_memory_around_what_is_overwritten_has_to_stay():
    verdict = judge(beside.in_place_with_its_neighbor, doubled_in_place)
    assert verdict.state == "wrong" and verdict.cases.wrong == "a slice of wider rows", verdict
    assert verdict.reason == "an input is overwritten: x, between its elements or around them"


COPIES = {
    beside.of_a_copy: f"{PART}clone or contiguous",
    beside.reversed_by_pytorch: f"{PART}flip",
    beside.of_wide_elements: f"{PART}to or float",
}


@pytest.mark.parametrize("candidate", COPIES, ids=lambda candidate: candidate.__name__)
def test_a_copy_is_work_too(candidate):
    verdict = judge(candidate, waves)
    assert verdict.state == "wrong" and COPIES[candidate] in verdict.reason, verdict


FREE = (
    beside.right,
    beside.of_views,
    beside.by_atomics,
    beside.with_an_assertion,
    beside.with_a_computed_grid,
)


@pytest.mark.parametrize("candidate", FREE, ids=lambda candidate: candidate.__name__)
def test_views_allocations_and_constants_need_no_word(candidate):
    verdict = judge(candidate, waves)
    assert verdict and not verdict.remark, verdict


# on a rung


def test_no_time_is_credited_to_pytorchs_work():
    def all_in_pytorch(t, freqs, out=None):
        return beside.by(beside.copying_kernel, definitions.rope.function(t, freqs), out=out)

    verdict = lab.check_rung(1, all_in_pytorch)
    assert verdict.state == "wrong" and not verdict.climb.speed and PART in repr(verdict), verdict
