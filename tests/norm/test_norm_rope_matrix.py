"""Every option of `norm_rope` with every other, forward and backward.

Built as `test_superset_matrix.py`: every value of every axis occurs, and every pair of values of
two axes that can go together. Values and every gradient are compared with fp64.
"""

import math

import pytest
import torch

from norm_yardstick import assert_as_in_new_memory, check
from ops import all_equal, bits_of, memory_of
from pairwise import all_pairs, with_axis
from rope_kernels import norm_rope, qk_norm_rope
from test_superset_matrix import AXES as ROTATION_AXES
from test_superset_matrix import LENGTHS, Problem, name_of
from test_superset_matrix import is_legal as is_legal_rotation

AXES = ROTATION_AXES | {
    "weights": ("none", "row", "fp32", "strided", "none_and_row"),
    "order": ("norm_first", "norm_after"),
    "offset_of_weight": (0.0, 1.0, -0.25),
    "eps": (1e-6, 1e-5, 1.0),
    "size": ("one", "tiny", "mixed"),  # of the rows: about 1, 2^-9, and from 0 to 4
}
SMALL_AXES = AXES | {
    "d": (20, 32, 64, 30),
    "heads": ("1", "3", "4/2", "2/5"),
    "s": (1, 2, 3),
}
FEW_LENGTHS = LENGTHS[:9]


def is_legal(case):
    """Can this case, or this part of a case, be asked for?"""
    if not is_legal_rotation(case):
        return False
    two = "/" in case.get("heads", "/")
    if case.get("weights") == "none_and_row" and not two:
        return False
    # fp64 takes fp32 weights as well; it is in `test_norm_rope.py`
    return case.get("dtype") not in ("fp32", "fp64") or "fp32" not in case.get("weights", "")


KERNELS = all_pairs(AXES, is_legal)
CASES = with_axis(KERNELS, "s", FEW_LENGTHS, is_legal, each=4)
MEET = [  # in one line of a kernel
    ("order", "pairing", "output"),
    ("order", "angle", "weights"),
]
SMALL_CASES = all_pairs(SMALL_AXES, is_legal, triples=MEET)


# from a case to a call


class NormProblem(Problem):
    """The tensors of a case, their weights, and the arguments of its call."""

    def __init__(self, case, device):
        super().__init__(case, device)
        self.change_sizes()
        self.weights = [self.weight(i, t) for i, t in enumerate(self.tensors)]
        self.norm_options = {
            "eps": case["eps"],
            "norm_after": case["order"] == "norm_after",
            "weight_offset": case["offset_of_weight"],
        }

    def change_sizes(self):
        """Rows so small that eps decides, or of many sizes."""
        for t in self.tensors:
            if self.case["size"] == "tiny":
                alone = self.case["layout"] == "expanded_heads"
                (memory_of(t) if alone else t).mul_(2.0**-9)
            elif self.case["size"] == "mixed" and self.case["layout"] != "expanded_heads":
                rows = torch.rand(t.shape[:-1], device=t.device)[..., None]
                t.mul_((8 * rows - 4).clamp_min(0).to(t.dtype))

    def weight(self, index, t):
        """(d,), from 2 to 3 and of both signs."""
        kind = self.case["weights"]
        if kind == "none" or (kind == "none_and_row" and index == 0):
            return None
        size = 2.0 + torch.rand(t.shape[-1], device=self.device, dtype=torch.float64)
        size = size * torch.randn_like(size).sign()
        weight = size.to(torch.float32 if kind == "fp32" else self.dtype)
        return torch.stack([weight, weight], -1)[..., 0] if kind == "strided" else weight

    def normalize(self, **more):
        options = {**self.options, **self.norm_options, **more}
        given = *self.tensors, *self.weights, self.freqs, self.format
        if len(self.tensors) == 2:
            return qk_norm_rope(*given, **options)
        return (norm_rope(*given, **options),)

    def angle_error(self):
        """Up to 3 units of 2^-64 turns a position are lost on the fly."""
        return 3 * 2 * math.pi * 2.0**-64 * self.positions if self.dtype == torch.float64 else 0

    def gradient(self, shape, dtype, device):
        return self.gradient_like(torch.empty(shape, dtype=dtype, device="meta"))


def check_case(case, device):
    problem = NormProblem(case, device)
    before = bits_of(problem.tensors)
    results = check(
        *(problem.tensors, problem.weights, problem.freqs, problem.format),
        gradient=problem.gradient,
        slack=problem.angle_error(),
        **problem.options,
        **problem.norm_options,
    )
    assert all_equal(bits_of(problem.tensors), before), "the caller's memory was written to"
    if case["place"] == "in_place":
        check_in_place(problem, [result["out"] for result in results], before)


def check_in_place(problem, wants, before):
    """The same as in new memory, and nothing beside it."""
    values = [t.clone() for t in problem.tensors]
    with torch.no_grad():
        outs = problem.normalize(inplace=True)
    for t, out, want in zip(problem.tensors, outs, wants, strict=True):
        assert out is t
        assert_as_in_new_memory(t, want)
    for t, value in zip(problem.tensors, values, strict=True):
        t.copy_(value)
    assert all_equal(bits_of(problem.tensors), before), "more than the rows was written to"


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_matrix(case):
    check_case(case, "cuda")


@pytest.mark.parametrize("case", SMALL_CASES, ids=name_of)
def test_small_matrix(case, device):
    check_case(case, device)
