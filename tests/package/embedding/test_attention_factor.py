"""`attention_factor` multiplies cos and sin: where these are rounded, and what has no factor.

In `test_ops.py` every module has a factor.
"""

import copy

import pytest
import torch

import rope_lab as lab
from pairwise import cover
from rope_kernels import (
    RotaryPositionEmbedding,
    apply_rotary_pos_emb,
    rope_fw,
)

S, B, H, D = 5, 2, 3, 20
FACTOR = 1.2079441541679836  # YaRN's for a factor of 8


def module_of(device, dim=D, factor=FACTOR, **options):
    return RotaryPositionEmbedding(dim, attention_factor=factor, **options).to(device)


def rotated_and_gradient(t, freqs, grad, **options):
    leaf = t.detach().requires_grad_()
    out = apply_rotary_pos_emb(leaf, freqs, "sbhd", **options)
    return out.detach(), torch.autograd.grad(out, leaf, grad)[0]


# roundings


def table_of(module, positions, dtype):
    """cos and sin as Hugging Face's models make them: multiplied in fp32, then rounded."""
    cos, sin = module_with(module, 1.0).cos_sin(positions)
    return (cos * module.attention_factor).to(dtype), (sin * module.attention_factor).to(dtype)


def module_with(module, factor):
    other = copy.deepcopy(module)
    other.attention_factor = factor
    return other


@cover(
    rounding=("model", "upcast", "promoted"),
    dtype=(torch.float32, torch.float16),
    fused={"kernel": True, "PyTorch": False},
    angles=(False, True),
    triples=[("rounding", "dtype", "fused")],
)
def test_cos_and_sin_are_rounded_after_the_factor(rounding, dtype, fused, angles, device):
    """A model's functions get cos times the factor, rounded to its dtype. Angles have no factor."""
    module = module_of(device, factor=1.0 if angles else FACTOR)
    freqs, options = module(S) if angles else module, {"rounding": rounding, "fused": fused}
    t, grad = (torch.randn(S, B, H, D, device=device).to(dtype) for _ in "tg")
    known = dtype if rounding == "model" else torch.float32
    table = table_of(module, S, known)
    gots = rotated_and_gradient(t, freqs, grad, **options)
    wants = rotated_and_gradient(t, table, grad, rotary_dim=D, **options)
    for got, want in zip(gots, wants, strict=True):
        differs = (got != want).float().mean()  # cos of a kernel has other last bits than PyTorch's
        assert differs <= (0.4 if known == torch.float32 else 0.02), differs
        atol = 4 * torch.finfo(dtype).eps
        torch.testing.assert_close(got, want, rtol=2 * torch.finfo(dtype).eps, atol=atol)


# tables


def test_a_table_of_angles_is_refused():
    module = RotaryPositionEmbedding(D, attention_factor=FACTOR)
    message = (
        r"^attention_factor is 1\.2079\d*, which a table of angles can't hold; accepted: "
        rf"freqs\.cos_sin\(max_seq_len\), in a call with rotary_dim={D}$"
    )
    with pytest.raises(ValueError, match=message):
        module(S)
    module.attention_factor = 1
    assert torch.equal(module(S), RotaryPositionEmbedding(D)(S))


def test_a_factor_of_one_plans_what_no_factor_plans():
    modules = RotaryPositionEmbedding(D), *(module_of("cpu", factor=f) for f in (1, 2.0))
    t = torch.randn(S, B, H, D)
    without, one, two = [lab.plan_of(rope_fw, t, module).settings for module in modules]
    assert one == without
    assert two == without | {"attention_factor": 2.0} != without
