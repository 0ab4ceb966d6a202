"""What a norm's backward allocates beyond gradients: partial sums of the weights' gradients.

At most 4 MiB, or 1 % of the inputs' gradients, whichever is more.
"""

import pytest
import torch

import ops
from counted import Operators, unseen
from inputs import FORMATS, shape_of
from pairwise import cover
from rope_kernels import RotaryPositionEmbedding
from rope_kernels.norms import qk_norm_rope
from test_norm_rope import QK_NORM_ROPE

pytest.importorskip("triton", reason="needs Triton")
D = 16
SHAPES = {  # s, b, heads of q and k
    "training": (4096, 2, (32, 8)),
    "decode of 4096 sequences": (1, 4096, (32, 8)),
    "decode of 65536, one key head": (1, 65536, (32, 1)),
    "one key head, 65536 tokens": (65536, 1, (32, 1)),
    "short sequences": (7, 5000, (40, 8)),
    "one token, many heads": (1, 1, (2**20, 1)),
    "many heads": (3, 2, (50000, 50000)),
    "one token": (1, 1, (1, 1)),
}


@cover(
    name=tuple(SHAPES),
    tensor_format=FORMATS,
    d_and_dtype=((128, torch.bfloat16), (64, torch.float32), (512, torch.float64)),
    starts={"shared angles": False, "own angles": True},
)
def test_partial_sums_are_small(name, tensor_format, d_and_dtype, starts, device, interpreter):
    s, b, heads = SHAPES[name]
    d, dtype = (128, torch.bfloat16) if device == "cuda" else d_and_dtype  # GiB of a GPU's memory
    if interpreter is not None:  # nothing runs, so this memory is never touched
        interpreter.runs = False
    leaves = [
        torch.empty(shape, dtype=dtype, device=device, requires_grad=True)
        for shape in (*[shape_of(tensor_format, s, b, h, d) for h in heads], (d,), (d,))
    ]
    options = {}
    if tensor_format == "thd":
        options["cu_seqlens"] = torch.arange(b + 1, device=device) * s
    elif starts:
        options["start_positions"] = torch.zeros(b, dtype=torch.int32, device=device)
    outs = qk_norm_rope(*leaves, RotaryPositionEmbedding(d).to(device), tensor_format, **options)
    grads = [torch.empty_like(out) for out in outs]
    with unseen(), Operators() as operators:
        found = torch.autograd.grad(outs, leaves, grads)
    gradients = sum(x.nbytes for x in found)
    assert operators.new_bytes - gradients <= max(2**22, gradients // 100)


def test_programs_that_go_through_everything(device, monkeypatch):
    """Partial sums of so long rows would take too much memory: programs share all rows."""
    monkeypatch.setattr(ops, "B", 1)
    case = {"d": 2**15, "dtype": torch.float64, "heads": (11, 7), "norm_after": True}
    QK_NORM_ROPE.sample(device, s=1, rotary=8, **case).check()
