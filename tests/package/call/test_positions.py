"""Which position each token has: starts, ids, packed sequences, ranks of context parallelism.

Most cases are computed by the kernel and in plain PyTorch, forward and backward, and compared with
fp64. `test_ops.py` has positions with every other option; here are large ones, strides, numbers of
sequences, edges of a table, and what is not a number in memory.
"""

import re
from typing import get_args

import pytest
import torch

from inputs import angles, contiguous, shape_of, transposed
from pairwise import cover
from rope_kernels import (
    CpOrder,
    api,
    apply_rotary_pos_emb,
    autograd,
    cp_positions,
    rope_bw,
    rope_fw,
)
from yardstick import assert_near, gradient_fp64, positions_of_rank, rotate_fp64

S, B, H, D, D2 = 5, 3, 3, 9, 6  # no stride is divided by 16: formats share compiled kernels
S2 = 60  # positions in the tables
CP_ORDERS = get_args(CpOrder)

# every way to compute it: the options that choose it

WAYS = {"kernel": {}, "pytorch": {"fused": False, "rounding": "once"}}


def check(t, freqs, tensor_format, **options):
    """Forward and backward with a random gradient, in every way; the kernel's result is returned.

    `t` and the gradient are handed over with strides of which none is what the shape suggests.
    """
    t = t.detach().transpose(0, 1).contiguous().transpose(0, 1)
    grad = transposed(t.shape, t.dtype, t.device)
    want = rotate_fp64(t, freqs, tensor_format, **options)
    want_grad = gradient_fp64(t, freqs, tensor_format, grad, **options)
    outs = []
    for way in WAYS.values():
        leaf = t.detach().requires_grad_()
        out = apply_rotary_pos_emb(leaf, freqs, tensor_format, **way, **options)
        (grad_t,) = torch.autograd.grad(out, leaf, grad)
        assert out.dtype == grad_t.dtype == t.dtype and out.stride() == t.stride()
        assert_near(out.detach(), want)
        assert_near(grad_t, want_grad)
        outs.append(out.detach())
    assert_near(rope_bw(grad, freqs, tensor_format, **options), want_grad)
    return outs[0]


def tensor(tensor_format, device, dtype=torch.float32, s=S, b=B):
    return contiguous(shape_of(tensor_format, s, b, H, D), dtype, device)


def random_ids(shape, device, dtype=torch.int64):
    """Positions in no order, with repeats."""
    return torch.randint(0, S2, shape, device=device).to(dtype)


# starts and ids


@pytest.mark.parametrize("integer", (torch.uint8, torch.int16, torch.int32), ids=str)
def test_the_largest_positions_of_a_small_integer(integer, device):
    """200 is no negative number in uint8, and a position times a stride leaves int16 and int32."""
    largest = min(torch.iinfo(integer).max, 40_000)
    ids = torch.tensor([[largest, largest - 1, 3, largest - 55, 0]], device=device, dtype=integer)
    freqs = angles(largest + 1, D2, device)
    check(tensor("bshd", device), freqs, "bshd", position_ids=ids)


# packed sequences


def packed(lengths, padding, device, dtype=torch.int64):
    """t and cu_seqlens of sequences of these lengths, with tokens of no sequence behind them."""
    ends = torch.tensor([0, *lengths]).cumsum(0)
    t = contiguous((int(ends[-1]) + padding, H, D), torch.float32, device)
    return t, ends.to(device, dtype)


NUMBERS = {f"{n} sequences": [2, 0, 3, 1, 2][:n] if n <= 5 else [1] * n for n in (0, 1, 2, 5, 8, 9)}
NUMBERS["empty ones amid"] = [0] * 40 + [3] + [0] * 30 + [2] + [0] * 9
NUMBERS["empty ones alone"] = [0] * 31
NUMBERS["empty ones at both ends"] = [0, 0, 5, 0, 4, 0]


@pytest.mark.parametrize("lengths", NUMBERS.values(), ids=NUMBERS)
def test_any_number_of_sequences(lengths, device):
    """Around each power of two: a bisection that stops one step early is found out."""
    t, cu_seqlens = packed(lengths, 1, device, torch.int32)
    starts = torch.randint(0, 50, (len(lengths),), device=device)
    freqs = angles(S2, D2, device)
    check(t, freqs, "thd", cu_seqlens=cu_seqlens)
    check(t, freqs, "thd", cu_seqlens=cu_seqlens, start_positions=starts)


NOT_FINITE = (float("nan"), float("inf"), -0.0)


@cover(dtype=(torch.float32, torch.bfloat16), others=("none", "starts", "ids", "ranks"))
def test_tokens_of_no_sequence_come_out_bit_for_bit(others, dtype, device):
    """Also backward, where they hand on the gradient as it is."""
    cu_seqlens, freqs = torch.tensor([0, 4, 4, 8], device=device), angles(S2, D2, device)
    options = {
        "none": {},
        "starts": {"start_positions": torch.tensor([3, 1, 9], device=device)},
        "ids": {"position_ids": torch.arange(12, device=device) * 3},
        "ranks": {"cp_size": 2, "cp_rank": 1},
    }[others]
    inside = 8 // options.get("cp_size", 1)
    options |= {"cu_seqlens": cu_seqlens, "interleaved": dtype == torch.bfloat16}
    t = contiguous((12, H, D), dtype, device)
    for i, value in enumerate(NOT_FINITE):
        t[inside + i, :, : 3 + i] = value
    integer = torch.int32 if dtype == torch.float32 else torch.int16
    for rotate in (rope_fw, rope_bw):
        for fused in (True, False):
            out = rotate(t, freqs, "thd", fused=fused, **options)
            assert torch.equal(out[inside:].view(integer), t[inside:].view(integer))
            assert (out[1:inside, :, :D2] != t[1:inside, :, :D2]).any(dim=-1).all()


# ranks of context parallelism


def tokens_of_rank(lengths, cp_size, cp_rank, cp_order="zigzag"):
    """Which tokens of the whole batch a rank holds."""
    index, start = [torch.zeros(0, dtype=torch.int64)], 0
    for length in lengths:
        index.append(start + positions_of_rank(length, cp_size, cp_rank, cp_order))
        start += length
    return torch.cat(index)


@pytest.mark.parametrize("cp_order", CP_ORDERS)
def test_sequences_of_all_ranks_may_end_in_padding(cp_order, device):
    """Where it fills half of the ranks, they look like a rank's own, which attention takes."""
    t, freqs = tensor("thd", device, s=16, b=1), angles(S2, D2, device)
    lengths_8_16_8 = torch.tensor([0, 8, 24, 32], device=device)
    for cp_rank in range(2):
        rank = {"cp_size": 2, "cp_rank": cp_rank, "cp_order": cp_order}
        for count in (4, 2, 3):  # the other tokens are padding
            check(t, freqs, "thd", cu_seqlens=lengths_8_16_8[:count], **rank)
        check(t[:8], freqs, "thd", cu_seqlens=lengths_8_16_8 // 2, **rank)


@pytest.mark.parametrize("cp_order", CP_ORDERS)
@pytest.mark.parametrize("cp_size", (1, 3))
def test_the_positions_of_a_rank_as_a_tensor(cp_order, cp_size):
    """With the start of each token's sequence its index, as docs/several_gpus.md has it."""
    lengths = [24, 0, 12]
    for cp_rank in range(cp_size):
        rank = {"cp_size": cp_size, "cp_rank": cp_rank, "cp_order": cp_order}
        want = [positions_of_rank(length, cp_size, cp_rank, cp_order) for length in lengths]
        alone = cp_positions(24, **rank)
        assert alone.dtype == torch.int64 and torch.equal(alone, want[0])
        for dtype in (torch.int32, torch.int64):
            cu_seqlens = torch.tensor([0, 24, 24, 36], dtype=dtype)
            packed = cp_positions(cu_seqlens=cu_seqlens, **rank)
            assert packed.dtype == torch.int64 and torch.equal(packed, torch.cat(want))
            starts = cu_seqlens[:-1].repeat_interleave(cu_seqlens.diff() // cp_size)
            tokens = tokens_of_rank(lengths, cp_size, cp_rank, cp_order)
            assert torch.equal(starts + packed, tokens)


ALONE = {"seq_len": 6}
PACKED = {"cu_seqlens": torch.tensor([0, 6])}
BOUNDS = torch.tensor([0, 6, 12])  # in the place of a length, whose name is told
A_DEVICE = "; accepted: a torch.device, or the name "


@pytest.mark.parametrize(
    "given,said",
    (
        ({"seq_len": 9}, "seq_len is 9; accepted: a multiple of 6, from 0"),
        ({"seq_len": 10, "cp_order": "contiguous"}, "accepted: a multiple of 3, from 0"),
        ({"seq_len": -6}, "seq_len is -6; accepted"),
        ({"seq_len": BOUNDS}, "seq_len is a tensor of shape (3,); accepted: a multiple of 6, from"),
        ({"seq_len": BOUNDS}, ", cu_seqlens="),
        (ALONE | {"cp_order": "ring"}, "cp_order is 'ring'; accepted: zigzag, "),
        ({}, "seq_len is None, and cu_seqlens is None; accepted: one of them"),
        (ALONE | PACKED, "seq_len is 6, and cu_seqlens is a tensor"),
        ({"cu_seqlens": torch.tensor([0, 6, 10])}, "[0, 6, 10]; accepted: lengths that are mult"),
        ({"cu_seqlens": torch.zeros(1, 2).long()}, "cu_seqlens has shape (1, 2)"),
        *(
            (of | {"device": device}, f"device is {device!r}{A_DEVICE}")
            for device in ("gpu", "", 1.5)
            for of in (ALONE, PACKED)
        ),
    ),
    ids=str,
)
def test_positions_that_no_rank_has(given, said):
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        cp_positions(**given, cp_size=3, cp_rank=1)


# positions past the table


PAST = {
    "starts": ("sbhd", {"start_positions": [0, S2 - 2, S2 + 9]}),
    "a start below 0": ("bshd", {"start_positions": [0, -2, 3]}),
    "ids": ("bhsd", {"position_ids": [[0, S2 - 1, S2, 3, 10**12]]}),
    "ids below 0": ("bshd", {"position_ids": [[0, -1, 2, -(2**40), 4]]}),
    "a packed start": ("thd", {"cu_seqlens": [0, 4, 4, 15], "start_positions": [S2 - 1, 3, 5]}),
    "packed ids": ("thd", {"position_ids": [S2, *range(12), -1, S2 + 1]}),
    "a long sequence": ("thd", {"cu_seqlens": [0, 2, 15]}),
    "a rank": ("thd", {"cu_seqlens": [0, 24], "cp_size": 2, "cp_rank": 0}),
}


def past_the_table(which, device):
    tensor_format, options = PAST[which]
    options = {
        name: torch.tensor(value, device=device) if isinstance(value, list) else value
        for name, value in options.items()
    }
    positions = 9 if which in ("a long sequence", "a rank") else S2
    return tensor_format, options, angles(positions, D2, device)


@pytest.fixture
def values_are_not_read(monkeypatch, device):
    """As on a GPU, where it would cost: so the kernel's answer can be seen on a CPU too."""
    if device == "cpu":
        for module in (api, autograd):
            monkeypatch.setattr(module, "check_values", lambda *_: None)


@cover(which=tuple(PAST), kind=("angles", "cos and sin"), interleaved=(False, True), start=(0, 2))
def test_a_position_past_the_table_gives_nan_where_values_are_not_read(
    which, kind, interleaved, start, values_are_not_read, device
):
    """In what turns alone. A table that starts past 0 here has one column a pair."""
    tensor_format, options, freqs = past_the_table(which, device)
    options |= {"rotary_dim": D2, "rotary_start": start}
    if start:
        freqs = freqs[..., : D2 // 2]
    if kind != "angles":
        freqs = freqs[:, 0, 0], freqs[:, 0, 0]
    t = tensor(tensor_format, device)
    out = check(t, freqs, tensor_format, interleaved=interleaved, **options)
    turned, others = out[..., start : start + D2], (slice(start), slice(start + D2, None))
    row_is_nan = turned.isnan()
    assert torch.equal(row_is_nan.all(-1), row_is_nan.any(-1))
    assert row_is_nan.any() and not row_is_nan.all()
    assert all(torch.equal(out[..., part], t[..., part]) for part in others)


def test_ids_of_tokens_in_no_sequence_are_not_used(values_are_not_read, device):
    t, freqs = tensor("thd", device), angles(S2, D2, device)
    cu_seqlens = torch.tensor([0, 1, 13], device=device)
    ids = random_ids((15,), device)
    ids[13:] = 0
    out = check(t, freqs, "thd", cu_seqlens=cu_seqlens, position_ids=ids)
    ids[13], ids[14] = -1, S2
    for way in WAYS.values():
        leaf = t.clone().requires_grad_()
        where = {"cu_seqlens": cu_seqlens, "position_ids": ids}
        got = apply_rotary_pos_emb(leaf, freqs, "thd", **where, **way)
        torch.testing.assert_close(got.detach(), out)
        got.sum().backward()
        assert leaf.grad.isfinite().all()
