"""Packages that are not here, as far as the benchmark calls them: same names, signatures, layouts.

Each takes what the real function takes, insists on what that insists on, and computes in plain
PyTorch. They test the adapters, not the packages. Read in the sources of TransformerEngine 2.20.2,
FlashAttention 2.8.3.post2, flashinfer 0.7.2.post1 and Unsloth 2026.10.9.
"""

import sys
from types import ModuleType

import torch


def plant(monkeypatch, path, **functions):
    """Make `path` importable, with these functions."""
    names = path.split(".")
    for count in range(1, len(names) + 1):
        name = ".".join(names[:count])
        if name not in sys.modules:
            module = ModuleType(name)
            module.__path__ = []
            monkeypatch.setitem(sys.modules, name, module)
            if count > 1:
                monkeypatch.setattr(
                    sys.modules[".".join(names[: count - 1])], names[count - 1], module, False
                )
    for name, function in functions.items():
        monkeypatch.setattr(sys.modules[path], name, function, False)


def plant_all(monkeypatch):
    plant(
        monkeypatch,
        "transformer_engine.pytorch.attention.rope",
        apply_rotary_pos_emb=transformer_engine,
    )
    plant(monkeypatch, "flash_attn.layers.rotary", apply_rotary_emb=flash_attention)
    plant(
        monkeypatch,
        "flashinfer.rope",
        apply_rope_with_cos_sin_cache=flashinfer,
        apply_rope_with_cos_sin_cache_inplace=flashinfer_inplace,
    )
    plant(monkeypatch, "unsloth.kernels.rope_embedding", fast_rope_embedding=unsloth)


def turn(x, cos, sin, interleaved=False):
    """Rotate the first of the last dimension; cos and sin of each pair, broadcast to it."""
    d2 = 2 * cos.shape[-1]
    rotary, tail = x[..., :d2].float(), x[..., d2:]
    if interleaved:
        first, second = rotary[..., ::2], rotary[..., 1::2]
    else:
        first, second = rotary.chunk(2, dim=-1)
    turned = first * cos - second * sin, second * cos + first * sin
    turned = torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)
    return torch.cat([turned.to(x.dtype), tail], dim=-1)


def positions_in(cu_seqlens, tokens):
    token = torch.arange(tokens)
    cuts = cu_seqlens.long()
    return token - cuts[torch.searchsorted(cuts, token, right=True) - 1]


def transformer_engine(
    t,
    freqs,
    tensor_format="sbhd",
    start_positions=None,
    interleaved=False,
    fused=False,
    cu_seqlens=None,
    cp_size=1,
    cp_rank=0,
):
    assert fused and freqs.dtype == torch.float32 and freqs.shape[1:3] == (1, 1)
    assert tensor_format in ("sbhd", "bshd", "thd")
    assert all(x is None or x.dtype == torch.int32 for x in (start_positions, cu_seqlens))
    angles = freqs[:, 0, 0, ::2] if interleaved else freqs[:, 0, 0, : freqs.shape[-1] // 2]
    if tensor_format == "thd":
        angles = angles[positions_in(cu_seqlens, len(t))][:, None]
    else:
        x = t.transpose(0, 1) if tensor_format == "sbhd" else t
        starts = torch.zeros(1) if start_positions is None else start_positions
        index = starts.long()[:, None] + torch.arange(x.shape[1])
        angles = angles[index][:, :, None]  # (b, s, 1, d2 / 2)
        angles = angles.transpose(0, 1) if tensor_format == "sbhd" else angles
    return turn(t, angles.cos(), angles.sin(), interleaved).contiguous()


def flash_attention(
    x,
    cos,
    sin,
    interleaved=False,
    inplace=False,
    seqlen_offsets=0,
    cu_seqlens=None,
    max_seqlen=None,
):
    assert cos.dim() == 2 and cos.shape == sin.shape and cos.dtype == x.dtype
    if cu_seqlens is not None:
        assert isinstance(max_seqlen, int) and max_seqlen <= len(cos)
        index = positions_in(cu_seqlens, len(x))
    else:
        assert x.dim() == 4
        offsets = torch.as_tensor(seqlen_offsets)
        index = offsets.long().reshape(-1, 1) + torch.arange(x.shape[1])
    rows = (table[index].float().unsqueeze(-2) for table in (cos, sin))
    return _FlashAttention.apply(x, *rows, interleaved, inplace)


class _FlashAttention(torch.autograd.Function):
    """In place means the gradient too, and autograd is not told of either."""

    @staticmethod
    def forward(ctx, x, cos, sin, interleaved, inplace):
        ctx.save_for_backward(cos, sin)
        ctx.options = interleaved, inplace
        out = turn(x, cos, sin, interleaved)
        return x.copy_(out) if inplace else out

    @staticmethod
    def backward(ctx, grad):
        (cos, sin), (interleaved, inplace) = ctx.saved_tensors, ctx.options
        out = turn(grad, cos, -sin, interleaved)
        return grad.copy_(out) if inplace else out, None, None, None, None


def flashinfer(positions, query, key, head_size, cos_sin_cache, is_neox=True):
    assert cos_sin_cache.dtype == torch.float32 and positions.shape == query.shape[:1]
    assert query.dtype in (torch.float16, torch.bfloat16)
    cos, sin = (x[:, None] for x in cos_sin_cache[positions.long()].chunk(2, dim=-1))

    def rotate(x):
        heads = x.view(len(x), -1, head_size)
        return turn(heads, cos, sin, not is_neox).view(x.shape)

    return rotate(query), rotate(key)


def flashinfer_inplace(positions, query, key, head_size, cos_sin_cache, is_neox=True):
    results = flashinfer(positions, query, key, head_size, cos_sin_cache, is_neox)
    query.copy_(results[0])
    key.copy_(results[1])


class _Unsloth(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, cos, sin, indices):
        b, _, s, d = q.shape
        index = torch.arange(s).expand(b, s) if indices is None else indices.view(b, s).long()
        cos, sin = (x[index][:, None, :, : d // 2].float() for x in (cos, sin))
        ctx.save_for_backward(cos, sin)
        outs = []
        for x in (q, k):
            memory = x.transpose(1, 2) if indices is None else x
            out = turn(x, cos, sin)
            outs.append(x.copy_(out).view_as(x) if memory.is_contiguous() else out)
        return tuple(outs)

    @staticmethod
    def backward(ctx, *grads):
        cos, sin = ctx.saved_tensors
        return (*(turn(g, cos, -sin) for g in grads), None, None, None)


def unsloth(Q, K, cos, sin, rope_embedding_indices=None):
    assert cos.dim() == 2 and cos.shape[1] == Q.shape[3] and Q.shape[2] <= len(cos)
    indices = rope_embedding_indices
    assert indices is None or (indices.dtype == torch.int32 and indices.dim() == 1)
    return _Unsloth.apply(Q, K, cos, sin, indices)
