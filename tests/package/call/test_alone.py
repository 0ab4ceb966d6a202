"""A sequence gets the bits alone that it gets in a batch, so a model serves what it was trained on.

Its tile, warps and alignment may be others: in sbhd, the rows of all batch entries count as heads.
A weight's gradient is a sum over the batch, and not asked here.
"""

from itertools import pairwise

import pytest
import torch

from ops import BF16, FP32
from pairwise import cover
from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, rope_qk
from rope_kernels.norms import norm_rope, qk_norm_rope

pytest.importorskip("triton", reason="needs Triton")

LENGTHS = 7, 33, 1, 128, 40  # of packed sequences
BATCH, LENGTH = 6, 33  # of the other formats
FUNCTIONS = {
    "apply_rotary_pos_emb": lambda q, _, weights, *args, **options: (
        apply_rotary_pos_emb(q, *args, **options),
    ),
    "rope_qk": lambda q, k, weights, *args, **options: rope_qk(q, k, *args, **options),
    "norm_rope": lambda q, _, weights, *args, **options: (
        norm_rope(q, weights[0], *args, **options),
    ),
    "qk_norm_rope": lambda q, k, weights, *args, **options: qk_norm_rope(
        q, k, *weights, *args, **options
    ),
}


def sequences_of(tensor_format, device):
    """The sizes before heads, the batch's options, and each sequence's place and options alone."""
    if tensor_format == "thd":
        bounds = torch.tensor((0, *LENGTHS)).cumsum(0).tolist()
        for_all = {"cu_seqlens": torch.tensor(bounds, device=device)}
        alone = [{"cu_seqlens": torch.tensor((0, n), device=device)} for n in LENGTHS]
        wheres = [(slice(*ends),) for ends in pairwise(bounds)]
        return (sum(LENGTHS),), for_all, zip(wheres, alone, strict=True)
    axis = tensor_format.index("b")
    sizes = (LENGTH, BATCH) if axis else (BATCH, LENGTH)
    wheres = [(slice(None),) * axis + (slice(i, i + 1),) for i in range(BATCH)]
    return sizes, {}, ((where, {}) for where in wheres)


@pytest.mark.slow  # minutes in the interpreter, whose sums don't depend on a tile
@cover(
    function=FUNCTIONS,
    tensor_format=("sbhd", "bshd", "thd"),
    heads=((3, 1), (1, 1), (32, 8)),
    d=(128, 72),
    dtype=(BF16, FP32),
    freqs=("on the fly", "angles"),
    rounding=(None, "model"),
)
def test_a_sequence_alone_and_in_a_batch(
    function, tensor_format, heads, d, dtype, freqs, rounding, device
):
    def randn(*sizes):
        return torch.randn(sizes, device=device).to(dtype)

    def results(tensors, grads, **of_call):
        leaves = [t.detach().requires_grad_() for t in tensors]
        outs = function(
            *leaves, weights, table, tensor_format=tensor_format, rounding=rounding, **of_call
        )
        used = len(outs)
        return *outs, *torch.autograd.grad(outs, leaves[:used], grads[:used])

    module = RotaryPositionEmbedding(d).to(device)
    table = module if freqs == "on the fly" else module(max(LENGTHS))
    weights = [randn(d), randn(d)]
    sizes, for_all, sequences = sequences_of(tensor_format, device)
    tensors, grads = ([randn(*sizes, h, d) for h in heads] for _ in range(2))
    in_batch = results(tensors, grads, **for_all)
    # On an H200 the bits of these norms depend on the batch. docs/rounding.md says so.
    depends_on_the_batch = (
        device == "cuda"
        and function in (FUNCTIONS["norm_rope"], FUNCTIONS["qk_norm_rope"])
        and (tensor_format, heads, dtype, freqs) == ("sbhd", (1, 1), FP32, "angles")
    )
    for where, of_one in sequences:
        for copied in (True, False):  # what is a view may be less aligned
            parts = (
                [t[where].clone() if copied else t[where] for t in given]
                for given in (tensors, grads)
            )
            alone = results(*parts, **of_one)
            for got, expected in zip(alone, in_batch, strict=True):
                if not depends_on_the_batch:
                    assert torch.equal(got, expected[where])
                torch.testing.assert_close(got, expected[where], rtol=1e-5, atol=1e-5)
