"""`rounding="model"`: given 1 / rms, a kernel has the bits of PyTorch's operators in turn.

These are a model's: `test_norm_rope_families.py`.
"""

import pytest
import torch

from inputs import FORMATS, angles, sequence_starts, shape_of
from norm_yardstick import answers_fp64, outs_and_grads
from pairwise import each_pair
from rope_kernels import reference
from rope_kernels.call.rotation import Normalization, Rotation
from rope_kernels.launch import launch
from test_norm_rope import Sample, each_order, each_pairing
from yardstick import assert_near

EACH_DTYPE = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


# bit for bit, given 1 / rms


def model_norm(**changes):
    """A `Normalization` that rounds as a model does."""
    fields = {"eps": 1e-6, "weight_offset": 0.0, "after": False, "casts_last": False}
    return Normalization(like_model=True, **fields | changes)


@each_pair
@pytest.mark.parametrize("dtype", EACH_DTYPE, ids=str)
@pytest.mark.parametrize("inverse", (False, True), ids=("plus", "inverse"))
@each_order
@each_pairing
@pytest.mark.parametrize("tensor_format", FORMATS)
@pytest.mark.usefixtures("needs_triton")
def test_given_rstd_the_references_bits(
    tensor_format, interleaved, norm_after, inverse, dtype, device, monkeypatch
):
    """In every format, packed sequences with tokens past the last one too, and of every order."""
    t = torch.randn(shape_of(tensor_format, 3, 2, 3, 20), device=device).to(dtype)
    weight = torch.randn(20, device=device).to(dtype)
    angle = angles(6, 12, device).view(6, 12)
    table = angle.cos().to(dtype), angle.sin().to(dtype)
    cu_seqlens = sequence_starts(tensor_format, 3, 2, device)
    options = {"interleaved": interleaved, "inverse": inverse, "to_half_split": interleaved}
    options["norm"] = model_norm(after=norm_after, weight_offset=1.0, casts_last=True)
    rotation = Rotation(
        *table, cu_seqlens=cu_seqlens, tensor_format=tensor_format, rotary_start=4, **options
    )
    given = [t], [weight], rotation
    (got,), (rstd,), _ = launch.norm_rope(*given, inplace=False, for_backward=True)
    monkeypatch.setattr(torch, "rsqrt", lambda mean: rstd[..., None])
    (want,) = reference.norm_rope(*given)
    assert torch.equal(got, want)


@each_pair
@pytest.mark.parametrize("casts_last", (False, True), ids=("cast first", "cast last"))
@pytest.mark.parametrize("weight_dtype", (torch.float16, torch.float32), ids=str)
@pytest.mark.parametrize("promoted", (False, True), ids=("table as x", "fp32 table"))
@each_order
@pytest.mark.usefixtures("needs_triton")
def test_given_rstd_what_is_promoted_stays_in_fp32(
    norm_after, promoted, weight_dtype, casts_last, device, monkeypatch
):
    """Packed, with a tail, and tokens past the last sequence."""
    t = torch.randn(6, 3, 20, device=device).half()
    weight = torch.randn(20, device=device).to(weight_dtype)
    angle, rounding = angles(6, 12, device).view(6, 12), "promoted" if promoted else "model"
    table = [x if promoted else x.half() for x in (angle.cos(), angle.sin())]
    cu_seqlens = torch.tensor([0, 2, 5], device=device)
    norm = model_norm(after=norm_after, casts_last=casts_last)
    options = {"rounding": rounding, "norm": norm}
    rotation = Rotation(*table, cu_seqlens=cu_seqlens, tensor_format="thd", **options)
    given = [t], [weight], rotation
    (got,), (rstd,), _ = launch.norm_rope(*given, inplace=False, for_backward=True)
    monkeypatch.setattr(torch, "rsqrt", lambda mean: rstd[..., None])
    (want,) = reference.norm_rope(*given)
    assert torch.equal(got, want)
    rotation.table, rotation.sin = (x.half() for x in table)
    (other,) = reference.norm_rope(*given)
    assert torch.equal(other, want) is not promoted, "a table in fp32 is not rounded"


# gradients, and the compiler


@each_order
@pytest.mark.parametrize("kind", ("angles", "cos and sin"))
@pytest.mark.usefixtures("needs_triton")
def test_gradients_are_those_of_the_rounded_table(kind, norm_after, device):
    """In fp32, with the cos and sin that the forward used, and rounded once."""
    sample = Sample(device, "bshd", dtype=torch.float16)
    angle = sample.freqs.flatten(1)
    table = angle.cos().half(), angle.sin().half()
    freqs = sample.freqs if kind == "angles" else table
    grads = [torch.randn_like(t) for t in sample.tensors]
    options = {"norm_after": norm_after, "rounding": "model"}
    given = sample.tensors, sample.weights
    found = outs_and_grads(*given, freqs, "bshd", grads, **options)
    for t, weight, grad, got in zip(*given, grads, found, strict=True):
        wants = answers_fp64(t, weight, table, "bshd", grad, options)
        for name in ("t", "weight"):
            want, scale = wants[name]
            if norm_after:  # the row whose mean is taken was rounded, too
                assert (got[name] - want).norm() <= 1e-3 * want.norm()
            else:
                assert_near(got[name], want, scale)
        want, scale = wants["out"]
        assert ((got["out"].double() - want).abs() <= 8 * 2.0**-11 * scale).all()
