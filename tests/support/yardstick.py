"""What the answer should be: fp64, written apart from the package, by the definition.

Positions are written down sequence by sequence; a context-parallel rank takes its two chunks out of
the whole sequence. Also the comparison, whose tolerances are one rounding of the dtype and no more.
"""

from itertools import pairwise

import torch

from inputs import SHAPES
from rope_kernels import RotaryPositionEmbedding

DIMS = {name: shape(*"sbhd") for name, shape in SHAPES.items() if name != "thd"}


def rotate_fp64(
    t,
    freqs,
    tensor_format,
    cu_seqlens=None,
    *,
    start_positions=None,
    position_ids=None,
    interleaved=None,
    cp_size=1,
    cp_rank=0,
    cp_order="zigzag",
    rotary_dim=None,
    rotary_start=0,
    inverse=False,
    output_pairing="same",
):
    """RoPE by its definition, in fp64, differentiable in `t` and in `freqs`."""
    x = in_format(t.double(), tensor_format, "bshd")
    b, s, _, _ = x.shape
    if interleaved is None:
        interleaved = isinstance(freqs, RotaryPositionEmbedding) and freqs.interleaved
    if position_ids is not None:
        positions = position_ids.long().reshape(-1, s).expand(b, s)
    elif tensor_format == "thd":
        lengths = [end - start for start, end in pairwise(cu_seqlens.tolist())]
        starts = [0] * len(lengths) if start_positions is None else start_positions.tolist()
        pieces = [
            start + positions_of_rank(length, cp_size, cp_rank, cp_order)
            for length, start in zip(lengths, starts, strict=True)
        ]
        positions = torch.cat([torch.zeros(0, dtype=torch.long), *pieces])
        positions = torch.cat([positions, torch.zeros(s - len(positions), dtype=torch.long)])[None]
    else:
        starts = [0] * b if start_positions is None else start_positions.tolist()
        mine = positions_of_rank(s * cp_size, cp_size, cp_rank, cp_order)
        pieces = [start + mine for start in starts]
        positions = torch.stack(pieces) if pieces else torch.zeros(0, s, dtype=torch.long)
    tokens = s if cu_seqlens is None else cu_seqlens.tolist()[-1] // cp_size
    cos, sin = cos_sin_fp64(freqs, positions.to(t.device), interleaved, rotary_dim)
    if inverse:  # minus the angle has the same cosine
        sin = -sin

    end = rotary_start + cos.shape[-1]
    rotary = x[..., rotary_start:end]
    quarter_turn = torch.empty_like(rotary)
    first, second = members(cos.shape[-1], interleaved)
    quarter_turn[..., first], quarter_turn[..., second] = -rotary[..., second], rotary[..., first]
    y = rotary * cos + quarter_turn * sin
    y = torch.cat([y[:, :tokens], rotary[:, tokens:]], dim=1)
    if output_pairing == "half":  # padding too: an element's place says nothing about its token
        y = torch.cat([y[..., first], y[..., second]], dim=-1)
    y = torch.cat([x[..., :rotary_start], y, x[..., end:]], dim=-1)
    return y[0] if tensor_format == "thd" else in_format(y, "bshd", tensor_format)


def positions_of_rank(length, cp_size, cp_rank, cp_order="zigzag"):
    """Positions in a sequence of `length` tokens that a rank holds, cut out of the whole one."""
    whole = torch.arange(length)
    if cp_size == 1:
        return whole
    if cp_order == "contiguous":
        return whole.view(cp_size, -1)[cp_rank]
    if cp_order == "round_robin":
        return whole.view(-1, cp_size)[:, cp_rank]
    chunks = whole.view(2 * cp_size, -1)
    return torch.cat([chunks[cp_rank], chunks[2 * cp_size - 1 - cp_rank]])


def cos_sin_fp64(freqs, positions, interleaved, rotary_dim=None):
    """cos and sin of each token, (b, s, 1, d2), in fp64; NaN past the table."""
    cos, sin = cos_sin_of_columns(freqs, positions, interleaved)
    if rotary_dim is None or cos.shape[-1] == rotary_dim:
        return cos, sin
    assert 2 * cos.shape[-1] == rotary_dim, "a column per pair, which both members take"
    pair = torch.arange(rotary_dim, device=positions.device)
    pair = pair // 2 if interleaved else pair % (rotary_dim // 2)
    return cos[..., pair], sin[..., pair]


def cos_sin_of_columns(freqs, positions, interleaved):
    """cos and sin of each token, (b, s, 1, columns of the table), in fp64; NaN past the table."""
    if isinstance(freqs, RotaryPositionEmbedding):
        angle = positions[:, :, None] * freqs.inv_freq.double()
        angle = angle.repeat_interleave(2, -1) if interleaved else angle.repeat(1, 1, 2)
        return [freqs.attention_factor * x[:, :, None] for x in (angle.cos(), angle.sin())]
    if isinstance(freqs, torch.Tensor):
        angles = freqs.double().reshape(freqs.shape[0], freqs.shape[-1])
        freqs = angles.cos(), angles.sin()
    rows = []
    for table in freqs:
        table = table.double()
        table = (table if table.dim() == 3 else table[None]).expand(len(positions), -1, -1)
        nan = table.new_full((len(table), 1, table.shape[2]), float("nan"))
        past = (positions < 0) | (positions >= table.shape[1])
        index = torch.where(past, table.shape[1], positions)
        entry = torch.arange(len(table), device=table.device)[:, None]
        rows.append(torch.cat([table, nan], dim=1)[entry, index][:, :, None])
    return rows


def members(d2, interleaved):
    """Where the first and where the second members of the pairs are."""
    if interleaved:
        return slice(0, d2, 2), slice(1, d2, 2)
    return slice(0, d2 // 2), slice(d2 // 2, d2)


def gradient_fp64(t, freqs, tensor_format, grad, cu_seqlens=None, **options):
    """Gradient of `rotate_fp64` with respect to `t`, by PyTorch's own autograd."""
    leaf = t.detach().double().requires_grad_()
    out = rotate_fp64(leaf, freqs, tensor_format, cu_seqlens, **options)
    (result,) = torch.autograd.grad(out, leaf, grad.double())
    return result


def assert_near(got, want, scale=1.0, slack=0.0, name="a result"):
    """`got` is `want` but for fp32 arithmetic at `scale`, and one rounding to its dtype.

    It is NaN where `want` is. `slack` is how far an angle may be off.
    """
    assert got.shape == want.shape, name
    fp64 = got.dtype == torch.float64
    rtol = 1e-13 if fp64 else max(1.01 * torch.finfo(got.dtype).eps / 2, 1e-6)
    bound = rtol * want.abs() + ((1e-14 if fp64 else 2e-6) + slack) * scale
    if got.dtype == torch.float16:
        bound = bound + 2.0**-25  # half of the least number
    bound = bound + torch.finfo(torch.float32).tiny * (not fp64)
    off = (got.detach().double() - want).abs()
    bad = ~(off <= bound) & ~(got.isnan() & want.isnan())
    worst = off.div(bound)[bad].nan_to_num(float("inf"))
    count = f"{int(bad.sum())} of {bad.numel()}"
    assert not bad.any(), f"{name}: {count} elements differ, at most by {worst.max()} bounds"


# a packed projection


def heads_of(qkv, packing, d, heads, kv_heads):
    """q, k and v in the projection's format, head by head as the definition has them."""
    rows = list(qkv.split(d, dim=-1))
    if packing == "qkv":
        q, k, v = rows[:heads], rows[heads : heads + kv_heads], rows[heads + kv_heads :]
    else:
        q, k, v = [], [], []
        while rows:
            for _ in range(heads // kv_heads):
                q.append(rows.pop(0))
            k.append(rows.pop(0))
            v.append(rows.pop(0))
    return tuple(torch.stack(x, dim=-2) for x in (q, k, v))


def in_format(x, tensor_format, output_format):
    """The same rows in another format; packed tokens are a batch of one."""
    if tensor_format == output_format:
        return x
    x, dims = (x[None], DIMS["bshd"]) if tensor_format == "thd" else (x, DIMS[tensor_format])
    return x.permute([dims.index(dim) for dim in DIMS[output_format]])
