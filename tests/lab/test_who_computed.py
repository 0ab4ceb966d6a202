"""A right result is not enough: the kernel has to compute it, in every call.

So what PyTorch, NumPy and Python do beside a kernel is told, and a second call has other values.
"""

import pytest

import kernels_beside_pytorch as beside
import rope_lab as lab
from rope_lab.grading import exercises
from rope_lab.grading.spec import STRIDED, spec
from rope_lab.rungs import kept

pytest.importorskip("triton", reason="needs Triton")

judge = lab.check_exercise


@spec(leave_out=(*STRIDED, "part of the head rotated"), kernel=True, loads=2)
def whole_rows(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):  # noqa: F821
    """By as many as it takes."""
    return exercises.rope.function(t, freqs)


PART = "a part of the work is done outside the kernel, before the launch: "
AFTER = PART.replace("before the", "after a")
NOT_BY_THE_KERNEL = "PyTorch computed the result: your kernel ran, and stored nothing in it"
LEFT_TO_PYTORCH = {
    beside.as_llama_does: f"{PART}neg and cat of t; let the kernel do it",
    beside.all_in_pytorch: f"{PART}cat, cos, mul, neg, sin and add of t and freqs",
    beside.all_in_pytorch_and_a_count: f"{PART}cat, cos, mul, neg, sin and add of t and freqs",
    beside.zeros_added_to_pytorchs: f"{PART}cat, cos, mul, neg, sin and add of t and freqs",
    beside.a_count_beside_pytorchs: f"{NOT_BY_THE_KERNEL}: cat, cos, mul, neg, sin and add of t",
    beside.tables_in_pytorch: f"{PART}cos of freqs",
    beside.by_an_index: f"{PART}index and neg_ of t",
    beside.by_roll: f"{PART}roll and mul of t",
    beside.put_into_a_buffer: f"{PART}index, neg and index_put_ of t",
    beside.negated_out: f"{PART}neg and copy_ of t",
    beside.by_numpy: f"{PART}numpy of t",
    beside.by_numpys_functions: f"{PART}numpy of freqs",
    beside.by_numpy_into_a_buffer: f"{PART}numpy of t",
    beside.by_a_list: f"{PART}tolist of freqs",
    beside.by_items: f"{PART}item",
    beside.scaled_back: f"{AFTER}mul_ and div_ of what your kernel stored",
    beside.turned_between: f"{AFTER}neg and cat of what your kernel stored; let the kernel do it",
    beside.put_elsewhere: "a second tensor with the elements that your kernel stored; return what",
}


@pytest.mark.parametrize("candidate", LEFT_TO_PYTORCH, ids=lambda candidate: candidate.__name__)
def test_work_that_is_left_to_pytorch_is_wrong_and_named(candidate):
    verdict = judge(candidate, whole_rows)
    assert verdict.state == "wrong" and verdict.case == "small and plain", verdict
    assert LEFT_TO_PYTORCH[candidate] in verdict.reason, verdict


def test_numbers_that_python_computes_are_not_the_kernels():
    verdict = judge(beside.by_numbers, whole_rows)
    assert verdict.state == "wrong" and f"{PART}tolist of freqs" in verdict.reason, verdict


NOT_IN_MEMORY = beside.in_a_sparse_tensor, beside.in_a_nested_tensor, beside.on_no_device


@pytest.mark.parametrize("candidate", NOT_IN_MEMORY, ids=lambda candidate: candidate.__name__)
def test_a_result_that_no_memory_holds_is_told(candidate):
    verdict = judge(candidate, whole_rows)
    assert verdict.state == "wrong" and verdict.case == "small and plain", verdict
    assert verdict.reason == "the result is no tensor with all its elements in memory"


def test_a_result_that_pytorch_converts_is_wrong():
    verdict = judge(beside.converted, whole_rows)
    assert verdict.state == "wrong" and verdict.case == "half precision", verdict
    assert verdict.reason.startswith("PyTorch wrote the result out of what your kernel stored")
    assert verdict.reason.endswith("to of what your kernel stored")


def test_an_input_that_pytorch_overwrites_is_not_the_kernels():
    verdict = judge(beside.in_place_by_pytorch, exercises.rope_of_whole_rows_in_place)
    assert verdict.state == "wrong" and f"{PART}cat, cos, mul" in verdict.reason


TOLD = {
    beside.of_a_copy: "it copies t by clone before the launch, which moves 512 bytes more",
    beside.of_wide_elements: "it copies t by to before the launch, which moves 4320 bytes more",
    beside.of_a_buffer: "it copies t by copy_ before the launch, which moves 512 bytes more",
    beside.asks_first: "PyTorch runs abs, max and item of freqs, too, of which the kernel takes",
}


@pytest.mark.parametrize("candidate", TOLD, ids=lambda candidate: candidate.__name__)
def test_a_copy_is_said_and_so_is_what_nothing_takes(candidate):
    verdict = judge(candidate, whole_rows)
    assert verdict and verdict.remark.startswith(TOLD[candidate]), verdict


FREE = (
    *(beside.right, beside.of_views, beside.by_atomics, beside.by_a_table_of_partners),
    *(beside.prints_its_input, beside.keeps_partners),
)


@pytest.mark.parametrize("candidate", FREE, ids=lambda candidate: candidate.__name__)
def test_views_allocations_and_constants_need_no_word(candidate):
    verdict = judge(candidate, whole_rows)
    assert verdict and not verdict.remark, verdict


# on a rung


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch, tmp_path):
    monkeypatch.setenv(kept.FOLDER, str(tmp_path / "kept"))


ON_A_RUNG = ("as_llama_does", "all_in_pytorch", "all_in_pytorch_and_a_count")


@pytest.mark.parametrize("name", ON_A_RUNG)
def test_no_time_is_credited_to_pytorchs_work(name):
    verdict = lab.check_rung(1, getattr(beside, name))
    assert verdict.state == "wrong" and not verdict.speed and PART in repr(verdict), verdict


# from one call to the next

SECOND = "a second call, with other values in the same tensors, "
KEPT = {
    beside.keeps_its_table: f"{SECOND}takes freqs from the first",
    beside.keeps_its_result: f"{SECOND}gives the result of the first",
    beside.adds_to_what_it_kept: f"{SECOND}goes wrong: what does the function keep from one call",
    beside.stores_in_what_it_kept: "a second call writes over the result of the first",
    beside.fails_the_second_time: "a second call fails: it raises AssertionError: once",
}


@pytest.mark.parametrize("candidate", KEPT, ids=lambda candidate: candidate.__name__)
def test_what_is_kept_from_one_call_to_the_next_is_told(candidate):
    verdict = judge(candidate, whole_rows)
    assert verdict.state == "wrong" and KEPT[candidate] in verdict.reason, verdict
    assert verdict.case == "small and plain"
