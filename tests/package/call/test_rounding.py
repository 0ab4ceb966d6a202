"""`rounding`: the bits of the functions that models have, values and gradients.

The functions are written here as transformers 5.17 has them, each for its kind: in the dtype of the
tensors, in fp32 and cast back, and promoted by the table.
"""

import re
from functools import partial

import pytest
import torch

from inputs import shape_of
from ops import all_equal
from pairwise import cover
from rope_kernels import (
    rope_bw,
    rope_fw,
    rope_qk,
    rotate_half,
)
from rope_kernels.rotation import ROUNDINGS
from rope_lab.compiler.plans import plans_of

S, B, H, K = 7, 2, 3, 1
BF16, FP16, FP32, FP64 = torch.bfloat16, torch.float16, torch.float32, torch.float64


def as_llama(t, cos, sin, interleaved):
    """Llama, Qwen 3, Gemma 3, GLM: every operator rounds; or promotes, with a table in fp32."""
    return (t * cos) + (rotate_half(t, interleaved) * sin)


def as_cohere(t, cos, sin, interleaved):
    """Cohere, HunYuan-VL, the vision towers: cast once, and back."""
    x = t.to(torch.promote_types(t.dtype, FP32))
    return ((x * cos) + (rotate_half(x, interleaved) * sin)).to(t.dtype)


def as_modern_bert(t, cos, sin, interleaved):
    """ModernBERT, ESM: cast twice, and back."""
    exact = torch.promote_types(t.dtype, FP32)
    turned = (t.to(exact) * cos) + (rotate_half(t.to(exact), interleaved) * sin)
    return turned.to(t.dtype)


def as_olmo(t, cos, sin, interleaved):
    """OLMo, Ernie 4.5: promoted by a table in fp32, and cast back."""
    return as_llama(t, cos, sin, interleaved).to(t.dtype)


FAMILIES = {  # the function, its rounding, and whether its table stays in fp32
    "llama": (as_llama, "model", False),
    "llama in autocast": (as_olmo, "model", True),
    "cohere": (as_cohere, "upcast", False),
    "lightglue": (as_cohere, "upcast", True),
    "modernbert": (as_modern_bert, "promoted", False),
    "olmo": (as_olmo, "promoted", True),
}
assert {"once", *(rounding for _, rounding, _ in FAMILIES.values())} == {*ROUNDINGS}
SHAPES = {  # format, d, d2, the first element that turns, and whether neighbors are a pair
    "sbhd": ("sbhd", 16, 16, 0, False),
    "bhsd, interleaved": ("bhsd", 12, 12, 0, True),
    "bshd, the first 6 of 13": ("bshd", 13, 6, 0, False),
    "bhsd, 10 of 17 from 5, interleaved": ("bhsd", 17, 10, 5, True),
    "sbhd, whole rows": ("sbhd", 72, 72, 0, False),
    "bhsd, whole rows, 36 of 72": ("bhsd", 72, 36, 1, False),
    "thd": ("thd", 20, 20, 0, False),
}
DTYPES, WAYS = (BF16, FP16, FP32, FP64), {"kernel": True, "PyTorch": False}


class Problem:
    """q, k, the gradients that come back, a table whose halves differ, and what the model gets."""

    def __init__(self, family, shape, dtype, device):
        self.function, self.rounding, in_fp32 = FAMILIES[family]
        self.format, d, self.d2, self.start, self.interleaved = SHAPES[shape]
        random = partial(torch.randn, device=device)
        tokens = S * B if self.format == "thd" else S
        angle = 3 * random(tokens, self.d2)
        self.table = tuple(x.to(FP32 if in_fp32 else dtype) for x in (angle.cos(), angle.sin()))
        shapes = [shape_of(self.format, S, B, heads, d) for heads in (H, K)]
        self.tensors = [random(x).to(dtype).requires_grad_() for x in shapes]
        self.grads = [random(x).to(dtype) for x in shapes]
        self.options = {"rounding": self.rounding, "interleaved": self.interleaved}
        self.options |= {"rotary_dim": self.d2, "rotary_start": self.start}
        if self.format == "thd":
            self.options["cu_seqlens"] = torch.tensor([0, tokens], device=device)

    def call(self, function=rope_qk, **options):
        arguments = self.tensors if function is rope_qk else self.tensors[:1]
        return function(*arguments, self.table, self.format, **(self.options | options))

    def wanted(self, function=None):
        """What the model's function returns."""
        function = self.function if function is None else function
        shape = [1] * len(self.format)
        shape[self.format.find("s") if "s" in self.format else 0] = len(self.table[0])
        cos, sin = (x.view(*shape[:-1], self.d2) for x in self.table)
        found = []
        for t in self.tensors:
            before, x, after = t.split(
                (self.start, self.d2, t.shape[-1] - self.start - self.d2), -1
            )
            out = function(x, cos, sin, self.interleaved)
            found.append(torch.cat((before, out, after), -1))
        return tuple(found)

    def with_gradients(self, outs):
        return *outs, *torch.autograd.grad(outs, self.tensors, self.grads)


@cover(
    family=tuple(FAMILIES),
    shape=tuple(SHAPES),
    dtype=DTYPES,
    fused=WAYS,
    triples=[("family", "shape", "fused")],
)
def test_a_call_has_the_bits_of_the_function(family, shape, dtype, fused, device):
    problem = Problem(family, shape, dtype, device)
    got = problem.with_gradients(problem.call(fused=fused))
    assert all_equal(got, problem.with_gradients(problem.wanted()))


@cover(
    family=tuple(FAMILIES),
    shape=("bhsd, 10 of 17 from 5, interleaved", "sbhd, whole rows"),
    dtype=DTYPES,
)
def test_in_place_and_one_direction_alone(family, shape, dtype, device):
    problem = Problem(family, shape, dtype, device)
    q, _, grad, _ = (x.detach() for x in problem.with_gradients(problem.wanted()))
    for tensors, function, want in ((problem.tensors, rope_fw, q), (problem.grads, rope_bw, grad)):
        problem.tensors = [x.detach().clone() for x in tensors]
        got = [problem.call(function), problem.call(function, fused=False)]
        assert all_equal(got, [want, want])
        out = problem.call(function, inplace=True)
        assert out is problem.tensors[0] and torch.equal(out, want)


# In machine code


@pytest.mark.needs_compiler
@pytest.mark.parametrize(
    "function,dtype,d", ((rope_fw, BF16, 128), (rope_bw, FP16, 72), (rope_bw, FP32, 128))
)
def test_no_multiply_add_is_fused_but_by_default(function, dtype, d, needs_triton):
    t, cos = torch.randn(64, 2, 8, d).to(dtype), torch.randn(64, d)
    for rounding in ROUNDINGS:
        table = (cos, cos) if rounding == "promoted" else (cos.to(dtype), cos.to(dtype))
        (plan,) = plans_of(function, t, table, "sbhd", rounding=rounding)
        code = plan.compiled()
        fused = re.findall(r"\bfma\.\S+", code.stages["ptx"])
        assert bool(fused) is (rounding == "once"), (rounding, set(fused))
        assert not code.spilled
