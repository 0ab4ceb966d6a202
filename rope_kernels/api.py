"""The public functions that only rotate, and the first steps of every call of the package."""

import torch
from torch import Tensor

from . import reference
from .autograd import rotate_by_path
from .check_call import check_call, check_lengths, check_rank, check_values
from .checks import (
    FLOATS,
    INTEGERS,
    MOST_START,
    bad,
    check_flag,
    check_integer,
    check_tensor,
    shown,
)
from .embedding import RotaryPositionEmbedding
from .inplace import check_inplace
from .launch import Known, checking, known_of
from .paths import is_eager, is_traced
from .rotation import (
    Call,
    CpOrder,
    Freqs,
    OutputPairing,
    Rotation,
    Rounding,
    TensorFormat,
    as_first_position,
    chunks_of,
    find_in_packed,
    one_for_each_sequence,
    options_of,
    positions_of_rank,
    seq_len_of,
)


def apply_rotary_pos_emb(
    t: Tensor,
    freqs: Freqs,
    tensor_format: TensorFormat | None = None,
    *,
    fused: bool = True,
    cu_seqlens: Tensor | None = None,
    start_positions: int | Tensor | None = None,
    position_ids: Tensor | None = None,
    interleaved: bool | None = None,
    inplace: bool = False,
    cp_size: int = 1,
    cp_rank: int | None = None,
    cp_order: CpOrder = "zigzag",
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
    rounding: Rounding | None = None,
) -> Tensor:
    """Apply rotary position embedding to a query or key tensor.

    Rotates `rotary_dim` (d2) elements of each head: the rotary slice. Element i of the slice forms
    a pair with element i + d2/2 (half-split), or element 2i with 2i + 1 (interleaved). The result
    is differentiable in `t` and `freqs` any number of times. TransformerEngine's keyword calls
    work, but `fused` defaults to True, `cu_seqlens` requires 'thd', and `cp_size` > 1 requires
    `cp_rank`. docs/other_calls.md lists calls of other libraries.

    Args:
        t: the tensor to rotate: (s, b, h, d), (b, s, h, d), (b, h, s, d) or (t, h, d), according to
            `tensor_format`, in fp32, fp16, bf16 or fp64, with any strides. DTensors are refused:
            docs/several_gpus.md shows how to rotate their local tensors with `local_map`.
        freqs: the angles, on the device of `t`. They are one of
            - a table of angles in radians, (s2, 1, 1, d2), fp32 (or fp64 if `t` is), d2 <= d;
            - two tables (cos, sin), each (s2, d2) or (b, s2, d2), in any of the dtypes above;
            - a `RotaryPositionEmbedding`: the kernel computes the angles, accurate to fp32.
            A table has s2 >= s * cp_size positions. Its column i belongs to element i of the rotary
            slice, so the two members of a pair may have different angles. A table may also be
            d2 / 2 wide, with one column per pair; it then requires `rotary_dim`.
        tensor_format: the dimensions of `t` in order: 'sbhd', 'bshd', 'bhsd', or 'thd' for packed
            sequences. None: 'sbhd', as in TransformerEngine. With (cos, sin), which
            TransformerEngine's function doesn't accept, it is required.
        fused: True: one kernel computes in fp32 (fp64 for fp64 `t`) and rounds once. On a GPU, cos
            and sin of angles up to 10^7 radians have errors of up to 2e-7, or 5e-7 for fp16 and
            bf16. If `freqs` requires a gradient, plain PyTorch computes the call, and rounds where
            the kernel does. False: plain PyTorch rounds cos and sin to `t.dtype` first, as
            TransformerEngine's unfused function does, unless `rounding` is set.
        cu_seqlens: (sequences + 1,), int32 or int64, only with 'thd': the start of each packed
            sequence, then the end of the last one. Positions restart at 0 in each sequence. With
            `cp_size` > 1, these are the bounds of whole, padded sequences on all ranks together,
            not those of a rank's own tokens. With several sequences, (cos, sin) that have one row
            per token are refused, unless `start_positions` says that rows belong to positions.
        start_positions: the position of each sequence's first token, if it isn't 0: (b,), or
            (sequences,) with `cu_seqlens`, int8 to int64 or uint8. An int, or a tensor of shape ()
            or (1,), applies to all sequences.
        position_ids: the position of every token: (b, s), (1, s) or (s,), or (t,) with 'thd', int8
            to int64 or uint8. They override the positions from `cu_seqlens`. They can't be combined
            with `start_positions`, with `cp_size` > 1, or with (cos, sin) that have a batch and one
            row per token: a model's rotary module returns those already indexed by position. For
            positions on several axes (M-RoPE), docs/positions.md shows how to make a table.
        interleaved: True: pairs are neighbors, and columns of tables repeat as 0, 0, 1, 1, ... The
            tables of some Hugging Face models (GLM, Ernie 4.5, Helium) repeat as 0, 1, ..., 0, 1,
            ... instead. False: pairs are half-split. None: as in the module; False for a table.
        inplace: True: overwrite the rotary slice of `t`, and return `t`. It may be a view, such as
            `q` in a packed qkv. If autograd forbids that, an error says why.
        cp_size: the number of ranks that share each sequence (context parallelism).
        cp_rank: this rank's number, from 0. `cp_size` > 1 requires it.
        cp_order: which tokens of a sequence `t` contains. 'zigzag': chunks cp_rank and
            2 * cp_size - 1 - cp_rank of 2 * cp_size. 'contiguous': chunk cp_rank of cp_size.
            'round_robin': tokens cp_rank, cp_rank + cp_size, ... `cp_positions` returns their
            positions.
        rotary_dim: d2, an even number. None: the width of the table. If it is set, a table may be
            d2 / 2 wide: its column i then belongs to pair i, in both pairings. FlashAttention,
            flashinfer, vLLM, GPT-J and gpt_oss store such tables. (cos, sin) narrower than d
            require it, because their shape doesn't tell the two apart. vLLM stores cos and sin in
            one tensor: pass its two views, `cache.chunk(2, dim=-1)`. A module has its own d2.
        rotary_start: the first rotated element: elements rotary_start to rotary_start + d2 - 1
            are the rotary slice. The others are copied, or with `inplace` not touched.
        inverse: True: negate the sine, which rotates by minus the angle. This undoes a rotation
            only if both members of each pair have the same angle, and `attention_factor` is 1.
            `rope_bw(..., inverse=True)` is the transpose of this map.
        output_pairing: 'same': pairs are written where they were read. 'half': they are written
            half-split, whatever was read, as DeepSeek V3 does with interleaved pairs; gradients are
            permuted back. 'half' can't be combined with `inplace`.
        rounding: where values are rounded to `t.dtype`. None: 'once', or what `fused=False` does.
            'once': fp32 with fused multiply-adds (FMA); only the result is rounded. The others
            return the bits of models' own PyTorch functions, from the models' (cos, sin);
            docs/rounding.md lists the models. 'model': each product is rounded, and then their sum.
            So are cos and sin if they are computed from angles. 'upcast': as 'once', without FMA.
            'promoted': forward as 'upcast', gradients as 'model'. If (cos, sin) has another dtype
            than `t`, as under autocast, 'model' means 'promoted'. Under `torch.compile`, the
            kernel keeps these bits. If the graph contains PyTorch's operators instead, as on a CPU,
            Inductor leaves out roundings between them: docs/compile.md.

    Returns:
        A new tensor with the shape and dtype of `t`, and its strides in the same order, as from
        PyTorch's pointwise operators; or `t` itself with `inplace`.
        Tokens past `cu_seqlens[-1]` are padding: they are not rotated (but permuted, if
        `output_pairing` permutes). A module also has angles for negative positions. A table has
        none, nor for positions past its end. On a CPU, such a position raises an error. If values
        are not read back, on a GPU or in plain PyTorch under `torch.compile`, the token's elements
        become NaN.

    Raises:
        TypeError: an argument has a type or dtype that is not accepted.
        ValueError: shapes, devices, values or options do not fit together.

    Example:
        >>> t = torch.ones(3, 1, 1, 4)  # (s, b, h, d)
        >>> apply_rotary_pos_emb(t, RotaryPositionEmbedding(4))[:, 0, 0]
        tensor([[ 1.0000,  1.0000,  1.0000,  1.0000],
                [-0.3012,  0.9900,  1.3818,  1.0099],
                [-1.3254,  0.9798,  0.4932,  1.0198]])

    Source: TransformerEngine's `apply_rotary_pos_emb`; RoFormer, equation (34).
    """
    call = Call.__new__(
        Call,
        freqs=freqs,
        tensor_format=_format_or_sbhd(tensor_format, freqs),
        cu_seqlens=cu_seqlens,
        start_positions=start_positions,
        position_ids=position_ids,
        rotary_dim=rotary_dim,
        rotary_start=rotary_start,
        interleaved=interleaved,
        output_pairing=output_pairing,
        cp_size=cp_size,
        cp_rank=cp_rank,
        cp_order=cp_order,
        inverse=inverse,
        rounding=rounding,
        fused=fused,
        inplace=inplace,
    )
    return check_and_rotate("apply_rotary_pos_emb", (t,), call)[0]


def rope_qk(
    q: Tensor,
    k: Tensor,
    freqs: Freqs,
    tensor_format: TensorFormat | None = None,
    *,
    fused: bool = True,
    cu_seqlens: Tensor | None = None,
    start_positions: int | Tensor | None = None,
    position_ids: Tensor | None = None,
    interleaved: bool | None = None,
    inplace: bool = False,
    cp_size: int = 1,
    cp_rank: int | None = None,
    cp_order: CpOrder = "zigzag",
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
    rounding: Rounding | None = None,
) -> tuple[Tensor, Tensor]:
    """Apply rotary position embedding to queries and keys, both in one launch.

    `apply_rotary_pos_emb` explains all keywords in full. docs/other_calls.md lists calls of other
    libraries.

    Args:
        q: queries, (s, b, h, d), (b, s, h, d), (b, h, s, d) or (t, h, d): see `tensor_format`.
        k: keys, like `q`, with any number of heads and any strides.
        freqs: a `RotaryPositionEmbedding`, or a table: angles, or (cos, sin).
        tensor_format: 'sbhd', 'bshd', 'bhsd' or 'thd'. It is required, because a shape doesn't show
            which dimension is the batch.
        fused: False: plain PyTorch computes it, without a kernel.
        cu_seqlens: where packed sequences start and end ('thd').
        start_positions: the position of each sequence's first token, if it isn't 0.
        position_ids: the position of every token.
        interleaved: True: pairs are neighbors. False: pairs are half-split.
        inplace: True: overwrite q and k, and return them.
        cp_size, cp_rank: how many ranks share each sequence, and this rank's number.
        cp_order: which of a sequence's tokens a rank has.
        rotary_dim: how many elements of a head rotate; narrow (cos, sin) require it.
        rotary_start: the first rotated element.
        inverse: True: negate the sine, to rotate back.
        output_pairing: 'half': write half-split pairs, whatever was read.
        rounding: where values are rounded. 'model' returns a model's bits.

    Returns:
        (q, k), rotated: each as `apply_rotary_pos_emb` returns it, bit for bit.

    Raises:
        TypeError, ValueError: as `apply_rotary_pos_emb`.

    Example:
        >>> q, k = torch.randn(1, 5, 8, 64), torch.randn(1, 5, 2, 64)  # (b, s, h, d)
        >>> rope, past = RotaryPositionEmbedding(64), 100  # tokens before those of q and k
        >>> q1, k1 = rope_qk(q, k, rope, tensor_format="bshd", start_positions=past)
        >>> q1.shape, k1.shape
        (torch.Size([1, 5, 8, 64]), torch.Size([1, 5, 2, 64]))
    """
    call = Call.__new__(
        Call,
        freqs=freqs,
        tensor_format=tensor_format,
        cu_seqlens=cu_seqlens,
        start_positions=start_positions,
        position_ids=position_ids,
        rotary_dim=rotary_dim,
        rotary_start=rotary_start,
        interleaved=interleaved,
        output_pairing=output_pairing,
        cp_size=cp_size,
        cp_rank=cp_rank,
        cp_order=cp_order,
        inverse=inverse,
        rounding=rounding,
        fused=fused,
        inplace=inplace,
    )
    q, k = check_and_rotate("rope_qk", (q, k), call)
    return q, k


def rope_fw(
    t: Tensor,
    freqs: Freqs,
    tensor_format: TensorFormat | None = None,
    *,
    fused: bool = True,
    cu_seqlens: Tensor | None = None,
    start_positions: int | Tensor | None = None,
    position_ids: Tensor | None = None,
    interleaved: bool | None = None,
    inplace: bool = False,
    cp_size: int = 1,
    cp_rank: int | None = None,
    cp_order: CpOrder = "zigzag",
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
    rounding: Rounding | None = None,
) -> Tensor:
    """Rotate `t`: the forward pass only, without autograd.

    No gradient flows through it, not in `torch.func.grad` either. `torch.func.jvp` returns the
    tangent, because forward mode doesn't need autograd.

    `apply_rotary_pos_emb` explains all arguments, the result and the errors.

    Example:
        >>> t, rope = torch.randn(3, 1, 2, 8, requires_grad=True), RotaryPositionEmbedding(8)
        >>> rope_fw(t, rope).requires_grad
        False

    Source: TransformerEngine's `fused_rope_forward`.
    """
    call = Call.__new__(
        Call,
        freqs=freqs,
        tensor_format=_format_or_sbhd(tensor_format, freqs),
        cu_seqlens=cu_seqlens,
        start_positions=start_positions,
        position_ids=position_ids,
        rotary_dim=rotary_dim,
        rotary_start=rotary_start,
        interleaved=interleaved,
        output_pairing=output_pairing,
        cp_size=cp_size,
        cp_rank=cp_rank,
        cp_order=cp_order,
        inverse=inverse,
        rounding=rounding,
        fused=fused,
        inplace=inplace,
    )
    with torch.no_grad():
        return check_and_rotate("rope_fw", (t,), call)[0]


def rope_bw(
    grad: Tensor,
    freqs: Freqs,
    tensor_format: TensorFormat | None = None,
    *,
    fused: bool = True,
    cu_seqlens: Tensor | None = None,
    start_positions: int | Tensor | None = None,
    position_ids: Tensor | None = None,
    interleaved: bool | None = None,
    inplace: bool = False,
    cp_size: int = 1,
    cp_rank: int | None = None,
    cp_order: CpOrder = "zigzag",
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
    rounding: Rounding | None = None,
) -> Tensor:
    """Compute the gradient of `t` from that of the rotated tensor: the backward pass only.

    This is the transpose of the forward's linear map. If both members of each pair have the same
    angle, it rotates by minus the angle. Otherwise it is still the exact gradient.

    Pass the arguments of the forward, with `grad` instead of `t`. `apply_rotary_pos_emb` explains
    them, the result and the errors.

    Args:
        grad: the gradient of `rope_fw`'s output, with its shape and dtype, and any strides. They
            may be 0, as in expanded gradients.

    Example:
        >>> t, rope = torch.randn(3, 1, 2, 8, requires_grad=True), RotaryPositionEmbedding(8)
        >>> grad = torch.randn(3, 1, 2, 8)
        >>> apply_rotary_pos_emb(t, rope).backward(grad)
        >>> torch.allclose(rope_bw(grad, rope), t.grad)
        True

    Source: TransformerEngine's `fused_rope_backward`.
    """
    call = Call.__new__(
        Call,
        freqs=freqs,
        tensor_format=_format_or_sbhd(tensor_format, freqs),
        cu_seqlens=cu_seqlens,
        start_positions=start_positions,
        position_ids=position_ids,
        rotary_dim=rotary_dim,
        rotary_start=rotary_start,
        interleaved=interleaved,
        output_pairing=output_pairing,
        cp_size=cp_size,
        cp_rank=cp_rank,
        cp_order=cp_order,
        inverse=inverse,
        rounding=rounding,
        fused=fused,
        inplace=inplace,
        transpose=True,
    )
    with torch.no_grad():
        return check_and_rotate("rope_bw", (grad,), call)[0]


def _format_or_sbhd(tensor_format: TensorFormat | None, freqs: Freqs) -> TensorFormat | None:
    """The format of the call, or TransformerEngine's default if `freqs` suits its function.

    (cos, sin) doesn't: it is used by projects whose batch comes first, so there is no safe default.
    """
    if tensor_format is None and not isinstance(freqs, (tuple, list)):
        return "sbhd"
    return tensor_format


def check_and_rotate(
    function: str | None, tensors: tuple[Tensor, ...], call: Call
) -> tuple[Tensor, ...]:
    """Check a call, and rotate one or two tensors. The log names the `function`."""
    rotation, known = rotation_of(call, tensors)
    if call.inplace:
        check_inplace(tensors, rotation)
    return rotate_by_path(
        tensors,
        rotation,
        fused=call.fused,
        inplace=call.inplace,
        known=known,
        function=function,
    )


def rotation_of(
    call: Call, tensors: tuple[Tensor, ...], *shared: object
) -> tuple[Rotation, Known | None]:
    """Check a call, and return its `Rotation` and its cache entry; None: it can't be cached.

    It doesn't check whether tensors may be overwritten.

    Args:
        call: the arguments as the caller passed them.
        tensors: the tensors to rotate.
        shared: a function's other tensors and options, which are part of the call signature.
    """
    freqs, cu_seqlens, starts, ids, *options_that_came = call
    first_position: int | None = None
    if not (starts is None or isinstance(starts, Tensor)):
        first_position = as_first_position(starts)
        starts = None
    may_know = call.fused is True and is_eager()
    of_freqs: object = type(freqs)
    if isinstance(freqs, RotaryPositionEmbedding):
        # Other calls are checked each time, and refused.
        may_know = may_know and not freqs.runs_other_code()
        of_freqs = freqs.rotary_dim, freqs.interleaved, freqs.attention_factor
    table, sin = call.tables
    known = None
    if may_know:
        of_call = *tensors, *shared, table, sin, cu_seqlens, starts, ids
        known = known_of(of_call, first_position, of_freqs, *options_that_came)
    options = None if known is None else known.options
    t = tensors[0]
    if options is None:
        with checking():
            check_call(tensors, call)
        options = options_of(call, t)
        if known is not None:
            known.options = options
    if starts is not None:
        starts = one_for_each_sequence(starts, cu_seqlens, t, options.tensor_format)
    rotation = Rotation(
        table, sin, cu_seqlens, starts, ids, first_position, call.transpose, options
    )  # fmt: skip
    has_places = not (cu_seqlens is None and starts is None and ids is None)
    has_values_to_check = has_places and table.is_cpu
    if (first_position is not None or has_values_to_check) and not is_traced():
        # Values on a GPU are never read. In a traced call, the operator checks values when it runs.
        check_values(rotation, seq_len_of(t, options.tensor_format))
    return rotation, known


def rotate_half(x: Tensor, interleaved: bool = False) -> Tensor:
    """Map every pair (x1, x2) of the last dimension to (-x2, x1).

    Args:
        x: any shape (..., d2) with even d2; any dtype with negative numbers, except fp8
            and complex32.
        interleaved: x1 and x2 are neighbors, elements 2i and 2i + 1, instead of i and i + d2/2.

    Returns:
        A new tensor like `x`. Applied twice, the function returns -x.

    Raises:
        TypeError: `x` is not a tensor or has another dtype, or `interleaved` is not a bool.
        ValueError: the last dimension is odd or missing.

    Example:
        >>> rotate_half(torch.arange(4)), rotate_half(torch.arange(4), interleaved=True)
        (tensor([-2, -3,  0,  1]), tensor([-1,  0, -3,  2]))

    Source: TransformerEngine's `_rotate_half`; RoFormer, equation (34).
    """
    check_tensor("x", x, (*FLOATS, *INTEGERS[:4], torch.complex64, torch.complex128))
    check_flag("interleaved", interleaved)
    if x.dim() == 0 or x.shape[-1] % 2:
        raise bad(f"x has shape {tuple(x.shape)}", "an even last dimension")
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
    """Positions of the tokens that a rank holds in context parallelism, in the rank's order.

    In a call with `cp_size`, `cp_rank` and `cp_order`, the kernel computes these positions. Passing
    them as `position_ids` gives the same result. Of a whole sequence x, a rank holds
    `x[positions]`.

    Args:
        seq_len: tokens of the whole sequence, a multiple of 2 * cp_size ('zigzag') or of cp_size.
        cp_size, cp_rank, cp_order: as in `apply_rotary_pos_emb`.
        cu_seqlens: the bounds of packed sequences, instead of `seq_len`: (sequences + 1,), int32 or
            int64, as in `apply_rotary_pos_emb`. Its values are read, so the CPU waits if they are
            on a GPU.
        device: the device of the result. None: that of `cu_seqlens`, or PyTorch's default.

    Returns:
        int64, (seq_len / cp_size,), or (tokens / cp_size,) with `cu_seqlens`. Each sequence starts
        at position 0.

    Raises:
        TypeError: a bool where an integer is expected, another dtype of `cu_seqlens`, or a `device`
            that is not a device.
        ValueError: an unknown order or device, or lengths that the ranks can't share equally.

    Example:
        >>> cp_positions(8, cp_size=2, cp_rank=0), cp_positions(8, cp_size=2, cp_rank=1)
        (tensor([0, 1, 6, 7]), tensor([2, 3, 4, 5]))
    """
    check_rank(cp_size, cp_rank, cp_order)
    if (seq_len is None) == (cu_seqlens is None):
        came = f"seq_len is {shown(seq_len)}, and cu_seqlens is {shown(cu_seqlens)}"
        raise bad(came, "one of them")
    try:
        device = None if device is None else torch.device(device)
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        accepted = "a torch.device, or the name of one, such as 'cuda:0'"
        kind = ValueError if isinstance(device, str) else TypeError
        raise bad(f"device is {shown(device)}", accepted, kind) from error
    chunks = chunks_of(cp_size, cp_order)
    if cu_seqlens is None:
        accepted = f"a multiple of {chunks}, from 0"
        if isinstance(seq_len, Tensor):
            by_name = "pass the bounds of packed sequences by name, cu_seqlens=..."
            raise bad(f"seq_len is {shown(seq_len)}", f"{accepted}; {by_name}", TypeError)
        seq_len = check_integer("seq_len", seq_len, least=0, most=MOST_START, accepted=accepted)
        if seq_len % chunks:
            raise bad(f"seq_len is {seq_len}", accepted)
        index = torch.arange(seq_len // cp_size, device=device)
        return positions_of_rank(
            index, seq_len // cp_size, cp_size=cp_size, cp_rank=cp_rank, cp_order=cp_order
        )
    bounds = check_tensor("cu_seqlens", cu_seqlens, (torch.int32, torch.int64)).long()
    if bounds.dim() != 1 or not len(bounds):
        raise bad(f"cu_seqlens has shape {tuple(cu_seqlens.shape)}", "(b + 1,)")
    tokens = int(bounds[-1])
    check_lengths(cu_seqlens, tokens, cp_size, cp_order)
    token = torch.arange(tokens // cp_size, device=bounds.device)
    _, index, length = find_in_packed(bounds // cp_size, token)
    position = positions_of_rank(index, length, cp_size=cp_size, cp_rank=cp_rank, cp_order=cp_order)
    return position.to(device)
