"""The public functions that only rotate, and what all calls that rotate go through."""

from contextlib import nullcontext

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
from .launch import Known, known_of
from .modes import is_eager, is_traced, is_watched, unwatched
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
    cp_rank: int = 0,
    cp_order: CpOrder = "zigzag",
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
    rounding: Rounding | None = None,
) -> Tensor:
    """Apply rotary position embedding to a query or key tensor.

    Of each head, d2 elements turn: the rotary slice. Element i of the slice turns together with
    element i + d2/2 (half-split pairing), or element 2i with 2i + 1 (interleaved). The result is
    differentiable in `t` and `freqs`, as often as you like. TransformerEngine's keyword calls work
    as they are, but for `cu_seqlens` that it ignores, beside another format than 'thd', which are
    refused. The default of `fused` differs. docs/other_calls.md has the calls of other libraries.

    Args:
        t: the tensor to rotate: (s, b, h, d), (b, s, h, d), (b, h, s, d) or (t, h, d), as
            `tensor_format` says, of fp32, fp16, bf16 or fp64, with any strides. DTensors are
            refused: docs/several_gpus.md shows how `local_map` hands over their shards.
        freqs: the angles, on the device of `t`. They are one of
            - a table of angles in radians, (s2, 1, 1, d2), fp32 (with fp64 `t` also fp64), d2 <= d;
            - two tables (cos, sin), each (s2, d2) or (b, s2, d2), of any of the dtypes above;
            - a `RotaryPositionEmbedding`: angles are made on the fly, right to fp32's last digits.
            A table has s2 >= s * cp_size positions. Its column i belongs to element i of the rotary
            slice, so the two members of a pair may have different angles. A table may also be
            d2 / 2 wide, with a column for each pair: then `rotary_dim` has to say so.
        tensor_format: the dimensions of `t` in their order: 'sbhd', 'bshd', 'bhsd', or 'thd' for
            packed sequences. None: 'sbhd', as in TransformerEngine. Beside (cos, sin), which its
            function doesn't take, you have to say it.
        fused: True: one kernel computes in fp32 (fp64 for fp64 `t`) and rounds once. Where it runs
            on a GPU, cos and sin of angles up to 10^7 radians are right to 2e-7, and to 5e-7 for
            fp16 and bf16. Where `freqs` requires a gradient, plain PyTorch does it, and rounds
            where the kernel does. False: plain PyTorch rounds cos and sin to `t.dtype` first, as
            TransformerEngine's unfused function does, unless `rounding` says otherwise.
        cu_seqlens: (sequences + 1,), int32 or int64, for 'thd' alone: where each packed sequence
            starts, then where the last one ends. Positions restart at 0 in each sequence. With
            `cp_size` > 1 these are the bounds of whole, padded sequences, on all ranks together.
            They are not those of a rank's own tokens. As `position_ids`, several sequences can't
            come with (cos, sin) that have a batch and a row for each token.
        start_positions: the position of the first token of each sequence, if it is not 0: (b,), or
            (sequences,) with `cu_seqlens`, int8 to int64 or uint8. An int, or a tensor of shape ()
            or (1,), is the position that all sequences start at.
        position_ids: the position of every token: (b, s), (1, s) or (s,), or (t,) with 'thd', int8
            to int64 or uint8. They override the positions that `cu_seqlens` gives. They can't come
            with `start_positions`, nor with `cp_size` > 1, nor with (cos, sin) that have a batch
            and a row for each token: a model's rotary module made those of its positions already.
            Positions on several axes, as in M-RoPE, make a table instead: docs/kernels.md shows
            how.
        interleaved: True: neighbors are a pair, and columns of tables repeat as 0, 0, 1, 1, ... The
            tables of some Hugging Face models (GLM, Ernie 4.5, Helium) repeat as 0, 1, ..., 0, 1,
            ... instead. False: halves are pairs. None: what a module says, and False for a table.
        inplace: True: overwrite the rotary slice of `t`, and return `t`. It may be a view, such as
            `q` in a packed qkv. Where autograd forbids that, an error says so.
        cp_size: the number of ranks that share each sequence (context parallelism).
        cp_rank: which of these ranks this is, from 0.
        cp_order: which tokens of a sequence `t` holds. 'zigzag': of 2 * cp_size chunks it holds
            number cp_rank and number 2 * cp_size - 1 - cp_rank. 'contiguous': of cp_size chunks it
            holds number cp_rank. 'round_robin': it holds tokens cp_rank, cp_rank + cp_size, ...
            `cp_positions` returns their positions.
        rotary_dim: d2, an even number. None: the width of the table. If you say it, a table may be
            d2 / 2 wide: its column i then belongs to pair i, in both pairings. FlashAttention,
            flashinfer, vLLM, GPT-J and gpt_oss store such tables. (cos, sin) that are narrower than
            d need it, because no shape tells which of the two they are. vLLM keeps cos and sin side
            by side in one tensor: pass its two views, `cache.chunk(2, dim=-1)`. A module knows its
            own d2.
        rotary_start: the first element that turns: elements rotary_start to rotary_start + d2 - 1
            are the rotary slice. All others are copied; in place they are not touched.
        inverse: True: negate the sine and nothing else, which turns by minus the angle. That undoes
            a rotation only where both members of each pair have the same angle, and
            `attention_factor` is 1. `rope_bw(..., inverse=True)` is the transpose of this map.
        output_pairing: 'same': pairs are written as they are read. 'half': they are written
            half-split, whatever is read, as DeepSeek V3 does with interleaved ones; gradients are
            permuted back. 'half' can't come with `inplace`.
        rounding: where values are rounded to `t.dtype`. None: 'once', or what `fused=False` does.
            'once': math is in fp32 with fused multiply-adds, and the result alone is rounded. The
            others give the bits of models' own functions in PyTorch, from the models' (cos, sin);
            docs/kernels.md names the models. 'model': each product is rounded, and then their sum.
            So are cos and sin, if they are computed from angles. 'upcast': as 'once', but no
            multiply-add is fused. 'promoted': forward as 'upcast', gradients as 'model'. 'model'
            means 'promoted' where the dtype of (cos, sin) is not that of `t`, as in autocast. Under
            `torch.compile` the kernel keeps these bits. Where a graph has PyTorch's operators
            instead, as on a CPU, Inductor leaves out roundings between them: docs/compile.md.

    Returns:
        A new, contiguous tensor of the shape and dtype of `t`; or `t` itself with `inplace`. Tokens
        past `cu_seqlens[-1]` are padding: they come out unrotated (and permuted, if
        `output_pairing` permutes). A module also has angles for negative positions. A table has
        none, nor for positions past its end. On the CPU, such a position is an error. Where values
        are not read back, its elements come out as NaN: on a GPU, and in plain PyTorch under
        `torch.compile`.

    Raises:
        TypeError: a dtype is not accepted, or something else came where a tensor or a bool is
            expected.
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
        tensor_format=_said_or_sbhd(tensor_format, freqs),
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
    cp_rank: int = 0,
    cp_order: CpOrder = "zigzag",
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
    rounding: Rounding | None = None,
) -> tuple[Tensor, Tensor]:
    """Apply rotary position embedding to queries and keys, both in one launch.

    All keywords are those of `apply_rotary_pos_emb`, which explains them in full.
    docs/other_calls.md has the calls of other libraries.

    Args:
        q: queries, (s, b, h, d), (b, s, h, d), (b, h, s, d) or (t, h, d), as `tensor_format` says.
        k: keys, like `q` but for the number of heads and the strides.
        freqs: a `RotaryPositionEmbedding`, or a table: angles, or (cos, sin).
        tensor_format: 'sbhd', 'bshd', 'bhsd' or 'thd'. You have to say it, because no shape tells a
            batch from positions.
        fused: False: plain PyTorch computes it, without a kernel.
        cu_seqlens: where packed sequences start and end ('thd').
        start_positions: the position of each sequence's first token, if it is not 0.
        position_ids: the position of every token.
        interleaved: True: neighbors are a pair, not halves.
        inplace: True: overwrite q and k, and return them.
        cp_size, cp_rank: how many ranks share each sequence, and which of them this is.
        cp_order: which of a sequence's tokens a rank has.
        rotary_dim: how many elements of a head turn; narrow (cos, sin) need it.
        rotary_start: the first element that turns.
        inverse: True: negate the sine, to turn back.
        output_pairing: 'half': write half-split pairs, whatever is read.
        rounding: where values are rounded. 'model' gives a model's bits.

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
    cp_rank: int = 0,
    cp_order: CpOrder = "zigzag",
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
    rounding: Rounding | None = None,
) -> Tensor:
    """Rotate `t`: the forward pass alone, of which autograd records nothing.

    No gradient flows through it, not in `torch.func.grad` either. Forward mode needs no record, so
    `torch.func.jvp` returns the tangent.

    All arguments, the result and the errors are those of `apply_rotary_pos_emb`, which explains
    them.

    Example:
        >>> t, rope = torch.randn(3, 1, 2, 8, requires_grad=True), RotaryPositionEmbedding(8)
        >>> rope_fw(t, rope).requires_grad
        False

    Source: TransformerEngine's `fused_rope_forward`.
    """
    call = Call.__new__(
        Call,
        freqs=freqs,
        tensor_format=_said_or_sbhd(tensor_format, freqs),
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
    cp_rank: int = 0,
    cp_order: CpOrder = "zigzag",
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
    rounding: Rounding | None = None,
) -> Tensor:
    """Take the gradient of the rotated tensor to that of `t`: the backward pass alone.

    This is the transpose of the forward's linear map. Where both members of each pair have the same
    angle, it is the rotation by minus the angle. Where they don't, it still is the exact gradient.

    Pass the arguments that the forward was given, with `grad` in the place of `t`. They, the result
    and the errors are those of `apply_rotary_pos_emb`, which explains them.

    Args:
        grad: the gradient of `rope_fw`'s output, of its shape and dtype, with any strides. They may
            be 0, as in expanded gradients.

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
        tensor_format=_said_or_sbhd(tensor_format, freqs),
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


def _said_or_sbhd(tensor_format: TensorFormat | None, freqs: Freqs) -> TensorFormat | None:
    """The format that came, or TransformerEngine's in a call that could be TransformerEngine's.

    Its function takes angles alone. Cosines and sines come from projects whose batch comes first.
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
    """The rotation that a call means, checked, and what is remembered of calls that look like it.

    Whether tensors may be overwritten is not checked here.

    Args:
        call: as it came.
        tensors: those that turn.
        shared: other tensors and options of a function, in which calls that look alike agree.
    """
    freqs, cu_seqlens, starts, ids, *options_that_came = call
    first_position: int | None = None
    if not (starts is None or isinstance(starts, Tensor)):
        first_position = as_first_position(starts)
        starts = None
    may_know = call.fused is True and is_eager()
    module, filled = None, None
    looks: object = type(freqs)
    if isinstance(freqs, RotaryPositionEmbedding):
        module, table, sin = freqs, None, None
        filled = module.filled() if may_know else None
        # Nothing is remembered of calls by a module whose frequencies are refused, or that has a
        # `forward` of its own: then `turns`, below, raises, or makes them for this call.
        may_know = filled is not None
        if filled is not None:
            looks = module.rotary_dim, module.interleaved, module.attention_factor, filled.looks
    else:
        table, sin = call.tables
    known = None
    if may_know:
        of_call = *tensors, *shared, table, sin, cu_seqlens, starts, ids
        known = known_of(of_call, first_position, looks, *options_that_came)
    options = None if known is None else known.options
    t = tensors[0]
    if options is None:
        # Modes that watch operators should see the same in a first call and in later ones.
        with unwatched() if is_watched() else nullcontext():
            check_call(tensors, call)
        options = options_of(call, t)
        if known is not None:
            known.options = options
    if module is not None:
        table = module.turns() if filled is None else filled.turns
    assert table is not None, "a module has turns"
    if starts is not None:
        starts = one_for_each_sequence(starts, cu_seqlens, t, options.tensor_format)
    rotation = Rotation(
        table, sin, cu_seqlens, starts, ids, first_position, call.transpose, options
    )  # fmt: skip
    has_places = not (cu_seqlens is None and starts is None and ids is None)
    has_values_to_check = has_places and table.is_cpu
    if (first_position is not None or has_values_to_check) and not is_traced():
        # Values on a GPU are never read. Those of a traced call are checked by its operator.
        check_values(rotation, seq_len_of(t, options.tensor_format))
    return rotation, known


def rotate_half(x: Tensor, interleaved: bool = False) -> Tensor:
    """Turn every pair (x1, x2) of the last dimension by a quarter, to (-x2, x1).

    Args:
        x: any shape (..., d2) with even d2; any dtype that has negative numbers, but for fp8.
        interleaved: x1 and x2 are neighbors, elements 2i and 2i + 1, instead of i and i + d2/2.

    Returns:
        A new tensor like `x`. Applied twice, the function returns -x.

    Raises:
        TypeError: `x` is not a tensor, or of another dtype, or `interleaved` is not a bool.
        ValueError: the last dimension is odd, or there is none.

    Example:
        >>> rotate_half(torch.arange(4)), rotate_half(torch.arange(4), interleaved=True)
        (tensor([-2, -3,  0,  1]), tensor([-1,  0, -3,  2]))

    Source: TransformerEngine's `_rotate_half`; the quarter turn in RoFormer, equation (34).
    """
    check_tensor("x", x, (*FLOATS, *INTEGERS[:4], torch.complex64, torch.complex128))
    check_flag("interleaved", interleaved)
    if x.dim() == 0 or x.shape[-1] % 2:
        raise bad(f"x has shape {tuple(x.shape)}", "an even last dimension, to have two halves")
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

    A call with `cp_size`, `cp_rank` and `cp_order` has its kernel compute these positions. A call
    with these as `position_ids` does the same. Of a whole sequence x, a rank holds `x[positions]`.

    Args:
        seq_len: tokens of the whole sequence. 2 * cp_size ('zigzag') or cp_size divides it.
        cp_size, cp_rank, cp_order: as in `apply_rotary_pos_emb`.
        cu_seqlens: the bounds of packed sequences, instead of `seq_len`: (sequences + 1,), int32 or
            int64, as in `apply_rotary_pos_emb`. Its values are read, so the CPU waits for a GPU
            that has them.
        device: where the result is. None: on the device of `cu_seqlens`, or PyTorch's default.

    Returns:
        int64, (seq_len / cp_size,), or (tokens / cp_size,) with `cu_seqlens`; each position counts
        from 0 in its sequence.

    Raises:
        TypeError: a bool where an integer is expected, `cu_seqlens` has another dtype, or `device`
            is none.
        ValueError: the order or the device is not known, or the ranks cannot share the sequences.

    Example:
        >>> cp_positions(8, cp_size=2, cp_rank=0), cp_positions(8, cp_size=2, cp_rank=1)
        (tensor([0, 1, 6, 7]), tensor([2, 3, 4, 5]))
    """
    check_rank(cp_size, cp_rank, cp_order)
    if (seq_len is None) == (cu_seqlens is None):
        came = f"seq_len is {shown(seq_len)}" + ("" if seq_len is None else " with cu_seqlens")
        raise bad(came, "one of seq_len and cu_seqlens")
    try:
        device = None if device is None else torch.device(device)
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        accepted = "a torch.device, or the name of one, such as 'cuda:0'"
        kind = ValueError if isinstance(device, str) else TypeError
        raise bad(f"device is {shown(device)}", accepted, kind) from error
    chunks = chunks_of(cp_size, cp_order)
    if cu_seqlens is None:
        accepted = f"an integer from 0 that {chunks} divides"
        if isinstance(seq_len, Tensor):
            by_name = "the bounds of packed sequences go by name, cu_seqlens=..."
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
