"""Bugs found in other people's RoPE kernels, one test for each: they are not in ours.

A name says where the bug was (with the number of the issue or pull request there is), a docstring
what went wrong and what happens here. Races in place (Megatron-LM 5963) are in
`tests/package/kernels/test_races.py`. What the matrix of `test_ops.py` holds in every case is
not tested again: one head (Liger-Kernel 342), gradients of stride 0 (Unsloth 3781), slices of a
packed projection (vLLM 17091), int64 cu_seqlens (TransformerEngine) and random upstream gradients.
Nor are offsets past the table (FlashAttention), which `test_positions.py` has, those past 2^31
elements (Liger-Kernel 804), in `test_ops_calls.py`, and more columns than a head has (flashinfer
4349), in `bad_arguments.py`.
"""

from contextlib import contextmanager

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from inputs import angles
from ops import OPS, all_equal, memory_of
from pairwise import cover
from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, rope_fw
from yardstick import assert_rounded_once, rotate_fp64

S, B, H, D, D2 = 5, 2, 3, 10, 6


(ROPE_QK,) = (op for op in OPS if op.name == "rope_qk")


# strides and shapes


def check_both_ways(sample):
    """In new memory and in place; the NaN around a tensor is all that there is beside it."""
    outs = sample.check()
    with torch.no_grad():
        assert all_equal(sample.call(inplace=True), outs)
    for t in sample.given.values():
        assert (~memory_of(t).isnan()).sum() == t.numel()


def test_sglang_20598_k_addressed_with_the_strides_of_q(device):
    """One stride of heads served both; here k, with any strides, is rotated with its own."""
    strides = {"layout": "sliced_with_offset", "layout_of_k": "head_dim_strided"}
    check_both_ways(ROPE_QK.sample(device, tensor_format="thd", **strides))


@pytest.mark.parametrize("positions", ("in order", "starts"))
@pytest.mark.parametrize("heads", (12, 40))
def test_megatron_lm_7103_heads_that_no_block_divides(heads, positions, device):
    """The mask of the last block of heads let all lanes pass; here NaN behind the heads stays."""
    case = {"heads": (heads, heads // 4), "d": 64, "layout": "sliced_with_offset"}
    check_both_ways(ROPE_QK.sample(device, **case, positions=positions))


# in place


@pytest.mark.parametrize("use_reentrant", (False, True))
def test_unsloth_5001_in_place_corrupts_what_checkpointing_saved(use_reentrant, device):
    """Gradients were silently those of turned inputs; here what was saved turns into an error."""
    t = torch.randn(S, B, H, D, device=device, requires_grad=True) * 1
    out = checkpoint(torch.sin, t, use_reentrant=use_reentrant)
    apply_rotary_pos_emb(t, angles(S, D2, device), inplace=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@contextmanager
def watched(device):
    """Within, what every program stores is noted, where kernels are interpreted."""
    if device == "cuda":
        yield None
    else:
        from rope_lab.judge.trace import Trace  # loads Triton

        with Trace() as trace:
            yield trace


@cover(rotary_dim=(80, 112), inplace=(False, True), interleaved=(False, True))
def test_triton_10743_two_stores_of_one_element(
    rotary_dim, inplace, interleaved, needs_triton, device
):
    """Of two stores in one program either could stay; here an element is stored once."""
    options = {"interleaved": interleaved}
    for d in (rotary_dim, rotary_dim + 24):
        t, freqs = torch.randn(S, B, H, d, device=device), angles(S, rotary_dim, device)
        want = rotate_fp64(t, freqs, "sbhd", **options)
        with watched(device) as trace:
            got = rope_fw(t.clone(), freqs, inplace=inplace, **options)
        assert_rounded_once(got, want)
        if trace is not None:
            assert trace.launches and not trace.stored_twice


def test_lion_pytorch_36_the_first_call_in_place(needs_triton, device):
    """Autotune ran an in-place kernel many times on the caller's tensor; here it runs once."""
    t, freqs = torch.randn(3, 1, 7, 34, device=device), angles(3, 26, device)  # new to the process
    first, second = t.clone(), t.clone()
    with watched(device) as trace:
        rope_fw(first, freqs, inplace=True)
    rope_fw(second, freqs, inplace=True)
    assert_rounded_once(first, rotate_fp64(t, freqs, "sbhd"))
    assert torch.equal(first, second)
    assert trace is None or trace.launches == 1


# positions


@pytest.mark.parametrize("positions", ((255, 256, 257, 258), (4001, 65_537, 131_071, 1_000_000)))
def test_transformers_29285_bf16_positions(positions, device):
    """A model cast to bf16 turned 256 and 257 alike; here angles stay exact, in autocast too."""
    freqs = RotaryPositionEmbedding(64).to(device).bfloat16()
    assert freqs.inv_freq.dtype == torch.float32
    t = torch.randn(1, 1, H, 64, device=device, dtype=torch.bfloat16).expand(4, 1, H, 64)
    ids = torch.tensor([positions], device=device)
    out = apply_rotary_pos_emb(t, freqs, position_ids=ids)
    assert_rounded_once(out, rotate_fp64(t, freqs, "sbhd", position_ids=ids))
    assert not torch.equal(out[1], out[2])
    with torch.autocast(device, torch.bfloat16):
        assert torch.equal(apply_rotary_pos_emb(t, freqs, position_ids=ids), out)
        table = freqs(259)
    assert table.dtype == torch.float32
    assert_rounded_once(
        table[256:, 0, 0, :32],
        (torch.arange(256, 259).to(device)[:, None] * freqs.inv_freq.double()),
    )
