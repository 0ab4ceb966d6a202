"""Reports of notebook 11's kernels, from what ncu would print."""

import pytest
import torch

import rope_lab as lab
from rope_kernels import RotaryPositionEmbedding, norm_rope
from rope_lab.profiling import ncu, record_norm
from rope_lab.steps.norm_backward import norm_rope_backward


def test_the_drafts_are_those_of_the_notebook():
    often, once = record_norm.functions_of_notebook("rounded_often", "rounded_once").values()
    x, weight = torch.randn(5, 2, 3, 16).bfloat16(), torch.randn(16).bfloat16()
    freqs = RotaryPositionEmbedding(16)(5)
    cos, sin = freqs.cos().bfloat16(), freqs.sin().bfloat16()
    like_model = norm_rope(x, weight, freqs, rounding="model", fused=False)
    assert torch.equal(often(x, weight, cos, sin), like_model)
    half = freqs[..., :8]
    rounded_once = norm_rope(x, weight, freqs, fused=False)
    torch.testing.assert_close(once(x, weight, half.cos(), half.sin()), rounded_once)


@pytest.mark.parametrize("atomic", (False, True), ids=("a program's sum", "atomic sums"))
def test_the_backward_that_is_measured_has_the_right_gradients(atomic, needs_triton):
    """At a head of 80, which no program of the sums divides."""
    grad, x = torch.randn(2, 5, 2, 3, 80, device=lab.device)
    weight = torch.randn(80, device=lab.device)
    freqs = RotaryPositionEmbedding(80).to(lab.device)(5)
    got = norm_rope_backward(grad, x, weight, freqs, programs=4, atomic=atomic)
    inputs = x.requires_grad_(), weight.requires_grad_()
    norm_rope(*inputs, freqs, fused=False).backward(grad)
    for ours, right in zip(got, inputs, strict=True):
        torch.testing.assert_close(ours, right.grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", record_norm.REPORTS)
def test_the_committed_reports_are_whole(name):
    report = ncu.read(record_norm.NOTEBOOK.parent / "records" / f"11_ncu_{name}.csv")
    assert {"kernel", "shape", "gpu", "versions", "date", "command"} <= set(report.about)
    assert record_norm.REPORTS[name][1] in report.about["kernel"]
    assert len(report.values) > 30 and len(report.stalls) > 8
