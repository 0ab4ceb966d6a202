"""The public functions. Those that rotate hand a `Call` to `routes.rotate_call`."""

from typing import Unpack

import torch
from torch import Tensor

from . import reference
from .call.arguments import (
    CacheCall,
    Call,
    Freqs,
    NormCall,
    NormRounding,
    OptionsOfNewMemory,
    OutputPairing,
    RopeOptions,
    Rounding,
    SharedOptions,
    refuse_unknown,
    shows_options,
)
from .call.checks import (
    bad,
    check_integer,
    check_lengths,
    check_rank,
    check_rotate_half,
    check_tensor,
)
from .call.formats import TensorFormat
from .call.packed_format import PackedFormat, Packing
from .call.positions import CpOrder, chunks_of, find_in_packed, positions_of_rank
from .routes import rotate_call, split_call, write_to_cache_call


def apply_rotary_pos_emb(
    t: Tensor,
    freqs: Freqs,
    tensor_format: TensorFormat = "sbhd",
    *,
    fused: bool = True,
    cu_seqlens: Tensor | None = None,
    start_positions: int | Tensor | None = None,
    position_ids: Tensor | None = None,
    interleaved: bool = False,
    inplace: bool = False,
    cp_size: int = 1,
    cp_rank: int = 0,
    cp_order: CpOrder = "zigzag",
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
    rounding: Rounding | None = None,
) -> Tensor:
    """Apply rotary position embedding to a query or key tensor.

    Element i of the rotary slice turns together with element i + d2/2 (half-split pairing), or
    element 2i with 2i + 1 (interleaved). Differentiable in `t` and `freqs`, as often as you like.
    Takes TransformerEngine's keyword calls as they are; only the default of `fused` differs.

    Args:
        t: (s, b, h, d), (b, s, h, d), (b, h, s, d) or (t, h, d), as `tensor_format` says; fp32,
            fp16, bf16 or fp64; any strides. Of DTensors docs/several_gpus.md shows `local_map`.
        freqs: on the device of `t`, one of
            - angles in radians, (s2, 1, 1, d2), fp32 (fp64 too with fp64 `t`), even d2 <= d;
            - (cos, sin), each (s2, d2) or (b, s2, d2), of any of the dtypes above;
            - a `RotaryPositionEmbedding`: angles are made on the fly, right to fp32's last digits.
            s2 >= s * cp_size. Column i belongs to element i of the rotary slice, so a pair's
            members may differ in angle. Or to pair i, in tables d2 / 2 wide: see `rotary_dim`.
        tensor_format: 'sbhd', 'bshd', 'bhsd' or 'thd' (packed sequences).
        fused: True: one kernel, fp32 math (fp64 for fp64 `t`), one rounding; cos and sin of angles
            up to 10^7 radians to 2e-7, and to 5e-7 for fp16 and bf16, where a GPU computes them.
            Where `freqs` requires a gradient: plain PyTorch that rounds where the kernel does.
            False: plain PyTorch that rounds cos and sin to `t.dtype` first, as TransformerEngine's
            unfused function; unless `rounding` says otherwise.
        cu_seqlens: for 'thd' alone, (sequences + 1,), int32 or int64: where each sequence starts,
            then where the last one ends. Positions restart at 0 in each. With `cp_size` > 1: of the
            whole, padded sequences.
        start_positions: (b,), or (sequences,) with `cu_seqlens`, int8 to int64 or uint8: the
            position of the first token of each sequence, if it is not 0. An int, () or (1,): that
            of all sequences.
        position_ids: (b, s) or (1, s), or (t,) with 'thd', int8 to int64 or uint8: the position of
            every token. Overrides `cp_rank`, and the starts in `cu_seqlens`. Positions on several
            axes, as M-RoPE has them, make a table instead: docs/kernels.md shows it.
        interleaved: neighbors are a pair; tables, cos and sin too, repeat as 0, 0, 1, 1, ... Some
            Hugging Face models (GLM, Ernie 4.5, Helium) hand over 0, 1, ..., 0, 1, ... instead.
        inplace: overwrite the rotary slice of `t` and return `t`. A view is fine, `q` in a packed
            qkv too, unless autograd forbids it: then an error says so.
        cp_size: number of ranks that share each sequence (context parallelism).
        cp_rank: which of these ranks this is.
        cp_order: what `t` holds of a sequence. 'zigzag': chunks number cp_rank and
            2 * cp_size - 1 - cp_rank of its 2 * cp_size. 'contiguous': chunk number cp_rank of its
            cp_size. 'round_robin': tokens cp_rank, cp_rank + cp_size, ... See `cp_positions`.
        rotary_dim: d2, an even number; None: the width of the table. With it, a table may be d2 / 2
            wide: column i then belongs to pair i, in both pairings. FlashAttention, flashinfer,
            vLLM, GPT-J and gpt_oss store such tables. Of cos and sin side by side in one tensor, as
            vLLM has them, pass the views `cache.chunk(2, dim=-1)`. A module knows its own.
        rotary_start: elements rotary_start to rotary_start + d2 - 1 turn. All others pass through;
            in place they are not touched.
        inverse: negate the sine and nothing else: turn by minus the angle. That undoes a rotation
            only where the members of each pair have the same angle. The transpose of this map is
            `rope_bw(..., inverse=True)`.
        output_pairing: 'same', or 'half': write half-split pairs, whatever is read, as DeepSeek V3
            does with interleaved ones. Gradients are permuted back. Not with `inplace`.
        rounding: where values are rounded to `t.dtype`. 'once', which None means to a kernel: fp32
            math with fused multiply-adds, one rounding. The others have the bits of models' own
            functions in PyTorch, given their (cos, sin); docs/kernels.md names the models. 'model':
            each product is rounded, and their sum; so are cos and sin of angles. 'upcast': as
            'once', but nothing is fused. 'promoted': forward as 'upcast', gradients as 'model'.
            'model' means 'promoted' where the dtype of (cos, sin) is not that of `t`, as in
            autocast.

    Returns:
        A contiguous tensor of the shape and dtype of `t`, or `t` itself with `inplace`. Tokens past
        `cu_seqlens[-1]` come out unrotated (and permuted, if `output_pairing` permutes). A module
        turns by negative positions too. In a table they are no more than those past its end: an
        error on the CPU, NaN where values are not read back, which is on a GPU, and in plain
        PyTorch under `torch.compile`.

    Raises:
        TypeError: a dtype that is not accepted, or not a tensor or bool where one is expected.
        ValueError: shapes, devices, values or options do not fit together.

    Example:
        >>> t = torch.ones(3, 1, 1, 4)  # (s, b, h, d)
        >>> apply_rotary_pos_emb(t, RotaryPositionEmbedding(4))[:, 0, 0]
        tensor([[ 1.0000,  1.0000,  1.0000,  1.0000],
                [-0.3012,  0.9900,  1.3818,  1.0099],
                [-1.3254,  0.9798,  0.4932,  1.0198]])

    Source: TransformerEngine's `apply_rotary_pos_emb`; RoFormer, equation (34).
    """
    call = Call(
        tensors=(t,),
        freqs=freqs,
        tensor_format=tensor_format,
        fused=fused,
        cu_seqlens=cu_seqlens,
        start_positions=start_positions,
        position_ids=position_ids,
        interleaved=interleaved,
        inplace=inplace,
        cp_size=cp_size,
        cp_rank=cp_rank,
        cp_order=cp_order,
        rotary_dim=rotary_dim,
        rotary_start=rotary_start,
        inverse=inverse,
        output_pairing=output_pairing,
        rounding=rounding,
    )
    return rotate_call(call)[0]


@shows_options(RopeOptions)
def rope_qk(
    q: Tensor,
    k: Tensor,
    freqs: Freqs,
    tensor_format: TensorFormat = "sbhd",
    **options: Unpack[RopeOptions],
) -> tuple[Tensor, Tensor]:
    """Apply rotary position embedding to queries and keys, both in one launch.

    `rope_qk(q, k, rope, tensor_format="bshd", start_positions=past)` rotates q and k of shape
    (b, s, h, d), whose first token is number `past` of its sequence. All keywords are those of
    `apply_rotary_pos_emb`, which explains them. Positions come from `start_positions`,
    `position_ids`, `cu_seqlens`, or `cp_size`, `cp_rank` and `cp_order`. What turns is said by
    `interleaved`, `rotary_dim`, `rotary_start`, `inverse` and `output_pairing`, and how by
    `inplace`, `fused` and `rounding`.

    Args:
        q: queries, (s, b, h, d), (b, s, h, d), (b, h, s, d) or (t, h, d), as `tensor_format` says.
        k: keys, like `q` but for the number of heads and the strides.
        freqs: a `RotaryPositionEmbedding`, or a table: angles, or (cos, sin).
        tensor_format: 'sbhd', 'bshd', 'bhsd' or 'thd'. The default reads the first dimension as
            positions, silently where that is the batch.

    Returns:
        (q, k) rotated: each as `apply_rotary_pos_emb` returns it, bit for bit.

    Raises:
        TypeError, ValueError: as `apply_rotary_pos_emb`.

    Example:
        >>> q, k = torch.randn(1, 5, 8, 64), torch.randn(1, 5, 2, 64)  # (b, s, h, d)
        >>> rope, past = RotaryPositionEmbedding(64), 100
        >>> q1, k1 = rope_qk(q, k, rope, tensor_format="bshd", start_positions=past)
        >>> q1.shape, k1.shape
        (torch.Size([1, 5, 8, 64]), torch.Size([1, 5, 2, 64]))
    """
    refuse_unknown(rope_qk, options, RopeOptions)
    call = Call(tensors=(q, k), freqs=freqs, tensor_format=tensor_format, **options)
    q, k = rotate_call(call)
    return q, k


@shows_options(RopeOptions)
def rope_fw(
    t: Tensor, freqs: Freqs, tensor_format: TensorFormat = "sbhd", **options: Unpack[RopeOptions]
) -> Tensor:
    """Rotate `t`: the forward pass alone, not recorded by autograd and not for `torch.func`.

    Arguments, result and errors as in `apply_rotary_pos_emb`.

    Example:
        >>> t, rope = torch.randn(3, 1, 2, 8, requires_grad=True), RotaryPositionEmbedding(8)
        >>> rope_fw(t, rope).requires_grad
        False

    Source: the study's `rope_fw`; TransformerEngine's `fused_rope_forward`.
    """
    refuse_unknown(rope_fw, options, RopeOptions)
    call = Call(tensors=(t,), freqs=freqs, tensor_format=tensor_format, **options)
    with torch.no_grad():
        return rotate_call(call)[0]


@shows_options(RopeOptions)
def rope_bw(
    grad: Tensor, freqs: Freqs, tensor_format: TensorFormat = "sbhd", **options: Unpack[RopeOptions]
) -> Tensor:
    """Take the gradient of the rotated tensor to that of `t`: the backward pass alone.

    The transpose of the forward's linear map: the rotation by minus the angle where the members of
    a pair have the same angle, and still the exact gradient where they don't. `grad` has the
    shape of `rope_fw`'s output, and any strides, 0 in expanded gradients too; the other arguments,
    the result and the errors are as in `apply_rotary_pos_emb`.

    Example:
        >>> t, rope = torch.randn(3, 1, 2, 8, requires_grad=True), RotaryPositionEmbedding(8)
        >>> grad = torch.randn(3, 1, 2, 8)
        >>> apply_rotary_pos_emb(t, rope).backward(grad)
        >>> torch.allclose(rope_bw(grad, rope), t.grad)
        True

    Source: the study's `rope_bw`; TransformerEngine's `fused_rope_backward`.
    """
    refuse_unknown(rope_bw, options, RopeOptions)
    call = Call(
        tensors=(grad,), freqs=freqs, tensor_format=tensor_format, transpose=True, **options
    )
    with torch.no_grad():
        return rotate_call(call)[0]


@shows_options(SharedOptions)
def norm_rope(
    t: Tensor,
    weight: Tensor | None,
    freqs: Freqs,
    tensor_format: TensorFormat = "sbhd",
    *,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
    norm_after: bool = False,
    rounding: NormRounding | None = None,
    **options: Unpack[SharedOptions],
) -> Tensor:
    """Normalize each row by its root mean square, multiply it by a weight, and rotate it.

    y = rope(x / sqrt(mean(x^2) + eps) * (weight_offset + weight)), in one kernel: x is read once,
    y is written once. The mean is over the whole head dimension, elements that do not turn too.
    Differentiable once in `t`, `weight` and `freqs`; with `fused=False` as often as you
    like. Gradients of weights are summed in fp32 in a fixed order: the bits are the same in every
    run on the same GPU. Under a trace, as of `torch.compile`, it is plain PyTorch.

    Args:
        t: as in `apply_rotary_pos_emb`; what is not named here is as there.
        weight: (d,), the dtype of `t`, or fp32. None: no product.
        freqs: as there. With one that requires a gradient all is computed in plain PyTorch.
        eps: is added to the mean of squares.
        weight_offset: is added to the weight: 1 for Gemma 3, Qwen 3.5 and Qwen 3 Next.
        norm_after: rotate first, then normalize and multiply, as HunYuan, Llama 4 and NanoChat do.
        rounding: 'once', or None: fp32 math (fp64 for fp64 `t`), one rounding. The others round to
            the dtype of `t` where PyTorch's operators do in a model; docs/kernels.md names the
            models. 'model': the normalized row and its product with the weight, then as in
            `apply_rotary_pos_emb`. 'model_cast_last', and 'model' with a `weight_offset`: the
            product alone. As in PyTorch, a weight in fp32 (with 'model') and (cos, sin) of another
            dtype than `t` promote what they meet to fp32, which is rounded at the end. Squares are
            added in another order than PyTorch's: of 10 000 elements 1 may differ in bf16, 3 in
            fp16, by one unit. Gradients are computed in fp32 with the same cos and sin, and rounded
            once. `fused=False` has the model's bits; its gradients go back through all roundings.
        fused: False: plain PyTorch.
        inplace: overwrite `t`, all of it, and return it. Without gradients.

    Returns:
        A contiguous tensor of the shape and dtype of `t`, or `t` itself with `inplace`. Tokens past
        `cu_seqlens[-1]` come out normalized, but unrotated. They count in the weight's gradient, so
        a NaN in one of them reaches it.

    Raises:
        TypeError: a dtype that is not accepted, or not a tensor, number or bool where one is.
        ValueError: shapes, devices, values or options do not fit together.

    Example:
        >>> t, weight = 100 * torch.randn(2, 1, 1, 8), torch.ones(8)
        >>> y = norm_rope(t, weight, RotaryPositionEmbedding(8))
        >>> torch.allclose(y.square().mean(-1), torch.ones(2, 1, 1))
        True

    Source: RMSNorm, https://arxiv.org/abs/1910.07467; on queries and keys, Qwen 3,
    https://arxiv.org/abs/2505.09388.
    """
    refuse_unknown(norm_rope, options, SharedOptions)
    norm = NormCall(
        weights=(weight,),
        eps=eps,
        weight_offset=weight_offset,
        norm_after=norm_after,
    )
    call = Call(
        tensors=(t,),
        freqs=freqs,
        tensor_format=tensor_format,
        rounding=rounding,
        norm=norm,
        **options,
    )
    return rotate_call(call)[0]


@shows_options(SharedOptions)
def qk_norm_rope(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None,
    k_weight: Tensor | None,
    freqs: Freqs,
    tensor_format: TensorFormat = "sbhd",
    *,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
    norm_after: bool = False,
    rounding: NormRounding | None = None,
    **options: Unpack[SharedOptions],
) -> tuple[Tensor, Tensor]:
    """Normalize and rotate queries and keys: one launch forward, two backward.

    Backward q and k take launches of their own where autograd wants other gradients of q than of k.

    Args:
        q: queries, as `t` in `norm_rope`; what is not named here is as there.
        k: keys, like `q` but for the number of heads and the strides.
        q_weight, k_weight: as `weight` there. If they differ in dtype, or one is None, q and k take
            a launch each.

    Returns:
        (q, k), each as `norm_rope` returns it, but for the order in which squares are added: a tile
        depends on the number of heads. So the last bits of a row may differ.

    Raises:
        TypeError, ValueError: as `norm_rope`.

    Example:
        >>> q, k, weight = torch.randn(3, 1, 8, 64), torch.randn(3, 1, 2, 64), torch.ones(64)
        >>> q1, k1 = qk_norm_rope(q, k, weight, weight, RotaryPositionEmbedding(64))
        >>> q1.shape, k1.shape
        (torch.Size([3, 1, 8, 64]), torch.Size([3, 1, 2, 64]))
    """
    refuse_unknown(qk_norm_rope, options, SharedOptions)
    norm = NormCall(
        weights=(q_weight, k_weight),
        eps=eps,
        weight_offset=weight_offset,
        norm_after=norm_after,
    )
    call = Call(
        tensors=(q, k),
        freqs=freqs,
        tensor_format=tensor_format,
        rounding=rounding,
        norm=norm,
        **options,
    )
    q, k = rotate_call(call)
    return q, k


@shows_options(OptionsOfNewMemory)
def split_qkv_rope(
    qkv: Tensor,
    freqs: Freqs,
    num_heads: int,
    num_kv_heads: int,
    *,
    packing: Packing = "qkv",
    tensor_format: TensorFormat = "sbhd",
    output_format: TensorFormat | None = None,
    rounding: Rounding | None = None,
    **options: Unpack[OptionsOfNewMemory],
) -> tuple[Tensor, Tensor, Tensor]:
    """Split a packed projection into q, k and v, and rotate q and k, in one launch.

    v is copied. Differentiable in `qkv` and `freqs`, as often as you like; the gradient of `qkv` is
    one tensor, which the backward writes directly: nothing is concatenated. All keywords that are
    not named here are those of `apply_rotary_pos_emb`, but for `inplace`.

    Args:
        qkv: what one linear layer returns, fp32, fp16, bf16 or fp64; any strides. (s, b, n * d),
            (b, s, n * d), or (t, n * d) of packed sequences, as `tensor_format` says, with
            n = num_heads + 2 * num_kv_heads.
        freqs: as in `apply_rotary_pos_emb`.
        num_heads: heads of q.
        num_kv_heads: heads of k, and of v.
        tensor_format: 'sbhd', 'bshd' or 'thd', whose last two dimensions `qkv` has as one.
        packing: the order of heads in it. 'qkv': all of q, then of k, then of v, as in Phi 3 and
            vLLM. 'grouped': for each head of k the heads of q that share it, it, and its head of v,
            as in Megatron-LM, whose (s, b, groups, heads of a group * d) is `qkv.flatten(2)` here,
            and in GPT-NeoX, whose heads are all groups of one.
        output_format: of q, k and v: 'sbhd', 'bshd' or 'bhsd', which attention in PyTorch takes;
            from 'thd' also that, and elsewhere b is 1. None: `tensor_format`.
        rounding: as in `rope_qk`.

    Returns:
        (q, k, v), new and contiguous. The values are those of `rope_qk` bit for bit.

    Raises:
        TypeError: a dtype that is not accepted, or not a tensor, number or bool where one is.
        ValueError: shapes, devices, values or options do not fit together.

    Example:
        >>> layer = torch.nn.Linear(256, (8 + 2 + 2) * 32)
        >>> qkv, rope = layer(torch.randn(1, 5, 256)), RotaryPositionEmbedding(32)
        >>> q, k, v = split_qkv_rope(
        ...     qkv, rope, 8, 2, tensor_format="bshd", output_format="bhsd"
        ... )
        >>> q.shape, k.shape, v.shape
        (torch.Size([1, 8, 5, 32]), torch.Size([1, 2, 5, 32]), torch.Size([1, 2, 5, 32]))

    Source: TransformerEngine's `apply_fused_qkv_rotary_pos_emb`.
    """
    refuse_unknown(split_qkv_rope, options, OptionsOfNewMemory)
    out = tensor_format if output_format is None else output_format
    packed = PackedFormat(num_heads, num_kv_heads, packing, tensor_format, out)
    call = Call(
        tensors=(qkv,),
        freqs=freqs,
        tensor_format=tensor_format,
        rounding=rounding,
        packed=packed,
        **options,
    )
    return split_call(call)


def rope_to_cache(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    freqs: Freqs,
    k_cache: Tensor,
    v_cache: Tensor,
    slot_mapping: Tensor,
    *,
    position_ids: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    start_positions: int | Tensor | None = None,
    inplace: bool = False,
    return_k: bool = False,
    rounding: Rounding | None = None,
    interleaved: bool = False,
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    fused: bool = True,
) -> Tensor | tuple[Tensor, Tensor]:
    """Rotate queries and keys, and write keys and values to their slots of a cache, in one launch.

    Without a gradient. Nothing on the GPU is read back, so the call may be in a CUDA graph.

    A cache is addressed by its strides, so each common layout is a view (blocks, page, h, d):

    - vLLM: `kv_cache[0]` and `kv_cache[1]` of (2, blocks, page, h, d), in any order of memory; of
      (blocks, h, page, 2 d) `kv_cache.transpose(1, 2).chunk(2, dim=-1)`;
    - SGLang: (slots, h, d), `k_cache.unsqueeze(1)`: pages of one position;
    - transformers' static cache: (b, h, s, d), `k_cache.transpose(1, 2)`: slot b * s + position.

    Args:
        q: (tokens, h, d), fp32, fp16, bf16 or fp64; any strides, as k and v: slices of one
            projection are fine.
        k: (tokens, kv heads, d).
        v: like `k`. It is copied.
        freqs: as in `apply_rotary_pos_emb`; what is not named here is as there.
        k_cache: (blocks, page, kv heads, d), the dtype of `k`.
        v_cache: like `k_cache` but for its strides. Both may be slices of one tensor.
        slot_mapping: (n,), n <= tokens, int32 or int64: the slot of each of the first n tokens,
            block * page + position within it. A negative slot: the token is rotated, and not
            written, nor are those after the first n. What a slot holds that occurs twice is
            undefined. One outside the cache is an error on the CPU, and is not written on a GPU.
        position_ids: (tokens,). One of it and `cu_seqlens` is needed, the latter with
            `start_positions` or without.
        inplace: overwrite q and return it. k and v are never overwritten.
        return_k: return the rotated keys too.
        rounding: as in `rope_qk`.

    Returns:
        q rotated, new and contiguous, or itself with `inplace`; with `return_k` (q, k).

    Raises:
        TypeError: a dtype that is not accepted, or not a tensor, number or bool where one is.
        ValueError: shapes, devices, values or options do not fit together, memory that is written
            is shared, or a gradient is wanted.

    Example:
        >>> q, k, v = torch.randn(3, 8, 64), torch.randn(3, 2, 64), torch.randn(3, 2, 64)
        >>> k_cache, v_cache = torch.zeros(2, 4, 16, 2, 64)  # 4 blocks of 16 positions
        >>> ids, slots = torch.tensor([7, 0, 1]), torch.tensor([23, 32, 33])
        >>> rope = RotaryPositionEmbedding(64)
        >>> q1 = rope_to_cache(q, k, v, rope, k_cache, v_cache, slots, position_ids=ids)
        >>> torch.equal(v_cache[1, 7], v[0]), torch.equal(v_cache[2, :2], v[1:])
        (True, True)

    Source: vLLM's `reshape_and_cache_flash` for slots; flashinfer and SGLang fuse a
    rotation with it.
    """
    cache = CacheCall(
        v=v,
        k_cache=k_cache,
        v_cache=v_cache,
        slot_mapping=slot_mapping,
        return_k=return_k,
    )
    call = Call(
        tensors=(q, k),
        freqs=freqs,
        tensor_format="thd",
        fused=fused,
        cu_seqlens=cu_seqlens,
        start_positions=start_positions,
        position_ids=position_ids,
        interleaved=interleaved,
        inplace=inplace,
        rotary_dim=rotary_dim,
        rotary_start=rotary_start,
        inverse=inverse,
        rounding=rounding,
        cache=cache,
    )
    outs = write_to_cache_call(call)
    return outs if return_k else outs[0]


def rotate_half(x: Tensor, interleaved: bool = False) -> Tensor:
    """Turn every pair (x1, x2) of the last dimension by a quarter, to (-x2, x1).

    Args:
        x: any shape (..., d2) with even d2; any dtype that has negative numbers.
        interleaved: x1 and x2 are neighbors, elements 2i and 2i + 1, instead of i and i + d2/2.

    Returns:
        A new tensor like `x`. Applied twice it gives -x.

    Raises:
        TypeError: `x` is not a tensor, or `interleaved` is not a bool.
        ValueError: the last dimension is odd.

    Example:
        >>> rotate_half(torch.arange(4)), rotate_half(torch.arange(4), interleaved=True)
        (tensor([-2, -3,  0,  1]), tensor([-1,  0, -3,  2]))

    Source: TransformerEngine's `_rotate_half`; the quarter turn in RoFormer, equation (34).
    """
    check_rotate_half(x, interleaved)
    return reference.rotate_half(x, interleaved)


def cp_positions(
    seq_len: int | None = None,
    *,
    cp_size: int,
    cp_rank: int,
    cp_order: CpOrder = "zigzag",
    cu_seqlens: Tensor | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Positions of the tokens that a rank of context parallelism holds, in the order it holds them.

    `cp_size`, `cp_rank` and `cp_order` of a call make a kernel compute these. As `position_ids`
    they do the same. Of a whole sequence `x[positions]` is what the rank holds.

    Args:
        seq_len: tokens of the whole sequence, which 2 * cp_size ('zigzag') or cp_size divides.
        cp_size, cp_rank, cp_order: as in `apply_rotary_pos_emb`.
        cu_seqlens: instead of `seq_len`, of packed sequences: (sequences + 1,), int32 or int64, as
            in `apply_rotary_pos_emb`. Its values are read, so the CPU waits for a GPU that has it.
        device: of the result; None: that of `cu_seqlens`, or PyTorch's default.

    Returns:
        int64, (seq_len / cp_size,), or (tokens / cp_size,) with `cu_seqlens`; each position counts
        from 0 in its sequence.

    Raises:
        TypeError: a bool where an integer is expected, or `cu_seqlens` has another dtype.
        ValueError: the order is not known, or the ranks cannot share the sequences.

    Example:
        >>> cp_positions(8, cp_size=2, cp_rank=0), cp_positions(8, cp_size=2, cp_rank=1)
        (tensor([0, 1, 6, 7]), tensor([2, 3, 4, 5]))
    """
    check_rank(cp_size, cp_rank, cp_order)
    if (seq_len is None) == (cu_seqlens is None):
        came = "seq_len is None" if seq_len is None else f"seq_len is {seq_len} with cu_seqlens"
        raise bad(came, "one of seq_len and cu_seqlens")
    chunks, most = chunks_of(cp_size, cp_order), 2**62
    if cu_seqlens is None:
        accepted = f"an integer from 0 that {chunks} divides"
        check_integer("seq_len", seq_len, 0, most, accepted)
        if seq_len % chunks:
            raise bad(f"seq_len is {seq_len}", accepted)
        index = torch.arange(seq_len // cp_size, device=device)
        return positions_of_rank(index, seq_len // cp_size, cp_size, cp_rank, cp_order)
    bounds = check_tensor("cu_seqlens", cu_seqlens, (torch.int32, torch.int64)).long()
    if bounds.dim() != 1 or not len(bounds):
        raise bad(f"cu_seqlens has shape {tuple(cu_seqlens.shape)}", "(b + 1,)")
    tokens = int(bounds[-1])
    check_lengths(cu_seqlens, tokens, cp_size, cp_order)
    token = torch.arange(tokens // cp_size, device=bounds.device)
    _, index, length = find_in_packed(bounds // cp_size, token)
    return positions_of_rank(index, length, cp_size, cp_rank, cp_order).to(device)
