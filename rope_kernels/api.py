"""The public functions that only rotate, and what all calls that rotate go through."""

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor

from . import autograd, reference
from .check_call import check_call, check_lengths, check_rank, check_values
from .checks import MOST_START, Named, bad, check_flag, check_integer, check_tensor
from .embedding import RotaryPositionEmbedding
from .launch import Known, known_of
from .modes import is_traced, is_watched, unwatched
from .overwritten import check_inplace
from .rotation import (
    TENSORS_OF_GIVEN,
    CpOrder,
    Freqs,
    Given,
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
from .ways import Way


def apply_rotary_pos_emb(
    t: Tensor,
    freqs: Freqs,
    tensor_format: TensorFormat = "sbhd",
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
            members may differ in angle. Or to pair i, in tables d2 / 2 wide: see `rotary_dim`,
            which (cos, sin) need where they are narrower than d.
        tensor_format: 'sbhd', 'bshd', 'bhsd' or 'thd' (packed sequences).
        fused: True: one kernel, fp32 math (fp64 for fp64 `t`), one rounding; cos and sin of angles
            up to 10^7 radians to 2e-7, and to 5e-7 for fp16 and bf16, where a GPU computes them.
            Where `freqs` requires a gradient: plain PyTorch that rounds where the kernel does.
            False: plain PyTorch that rounds cos and sin to `t.dtype` first, as TransformerEngine's
            unfused function; unless `rounding` says otherwise.
        cu_seqlens: for 'thd' alone, (sequences + 1,), int32 or int64: where each sequence starts,
            then where the last one ends. Positions restart at 0 in each. With `cp_size` > 1 they
            are those of all ranks together, of whole, padded sequences; not a rank's own.
        start_positions: (b,), or (sequences,) with `cu_seqlens`, int8 to int64 or uint8: the
            position of the first token of each sequence, if it is not 0. An int, () or (1,): that
            of all sequences.
        position_ids: (b, s), (1, s) or (s,), or (t,) with 'thd', int8 to int64 or uint8: the
            position of every token. Overrides the starts in `cu_seqlens`; not with `cp_size`.
            Positions on several axes, as M-RoPE has them, make a table instead: docs/kernels.md
            shows it.
        interleaved: neighbors are a pair; tables, cos and sin too, repeat as 0, 0, 1, 1, ... Some
            Hugging Face models (GLM, Ernie 4.5, Helium) hand over 0, 1, ..., 0, 1, ... instead.
            None: what a module says; of a table False.
        inplace: overwrite the rotary slice of `t` and return `t`. A view is fine, `q` in a packed
            qkv too, unless autograd forbids it: then an error says so.
        cp_size: number of ranks that share each sequence (context parallelism).
        cp_rank: which of these ranks this is.
        cp_order: what `t` holds of a sequence. 'zigzag': chunks number cp_rank and
            2 * cp_size - 1 - cp_rank of its 2 * cp_size. 'contiguous': chunk number cp_rank of its
            cp_size. 'round_robin': tokens cp_rank, cp_rank + cp_size, ... See `cp_positions`.
        rotary_dim: d2, an even number; None: the width of the table. With it, a table may be d2 / 2
            wide: column i then belongs to pair i, in both pairings. FlashAttention, flashinfer,
            vLLM, GPT-J and gpt_oss store such tables. (cos, sin) that are narrower than d need it:
            no shape tells which of the two they are. Of cos and sin side by side in one tensor, as
            vLLM has them, pass the views `cache.chunk(2, dim=-1)`. A module knows its own.
        rotary_start: elements rotary_start to rotary_start + d2 - 1 turn. All others pass through;
            in place they are not touched.
        inverse: negate the sine and nothing else: turn by minus the angle. That undoes a rotation
            only where the members of each pair have the same angle, and `attention_factor` is 1.
            The transpose of this map is `rope_bw(..., inverse=True)`.
        output_pairing: 'same', or 'half': write half-split pairs, whatever is read, as DeepSeek V3
            does with interleaved ones. Gradients are permuted back. Not with `inplace`.
        rounding: where values are rounded to `t.dtype`. 'once', which None means to a kernel: fp32
            math with fused multiply-adds, one rounding. The others have the bits of models' own
            functions in PyTorch, given their (cos, sin); docs/kernels.md names the models. 'model':
            each product is rounded, and their sum; so are cos and sin of angles. 'upcast': as
            'once', but nothing is fused. 'promoted': forward as 'upcast', gradients as 'model'.
            'model' means 'promoted' where the dtype of (cos, sin) is not that of `t`, as in
            autocast. Compiled, the kernel keeps these bits. Where a graph has PyTorch's operators,
            as on a CPU, Inductor leaves out the roundings between them: docs/compile.md.

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
    given = Given(
        freqs=freqs,
        cu_seqlens=cu_seqlens,
        start_positions=start_positions,
        position_ids=position_ids,
        tensor_format=tensor_format,
        rotary_dim=rotary_dim,
        rotary_start=rotary_start,
        interleaved=interleaved,
        output_pairing=output_pairing,
        cp_size=cp_size,
        cp_rank=cp_rank,
        cp_order=cp_order,
        inverse=inverse,
        rounding=rounding,
    )
    return rotate((t,), given, fused, inplace)[0]


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

    Args:
        q: queries, (s, b, h, d), (b, s, h, d), (b, h, s, d) or (t, h, d), as `tensor_format` says.
        k: keys, like `q` but for the number of heads and the strides.
        freqs: a `RotaryPositionEmbedding`, or a table: angles, or (cos, sin).
        tensor_format: 'sbhd', 'bshd', 'bhsd' or 'thd'. It has to be said: no shape tells a batch
            from positions.
        fused: False: plain PyTorch, no kernel.
        cu_seqlens: where packed sequences start and end ('thd').
        start_positions: of each sequence's first token, if not 0.
        position_ids: the position of every token.
        interleaved: neighbors are a pair, not halves.
        inplace: overwrite q and k, and return them.
        cp_size, cp_rank: how many ranks share each sequence, which this is.
        cp_order: which of a sequence's tokens a rank has.
        rotary_dim: how many elements of a head turn; narrow (cos, sin) need it.
        rotary_start: the first element that turns.
        inverse: negate the sine: turn back.
        output_pairing: 'half': write half-split pairs, whatever is read.
        rounding: where values are rounded; 'model' for a model's bits.

    Returns:
        (q, k) rotated: each as `apply_rotary_pos_emb` returns it, bit for bit.

    Raises:
        TypeError, ValueError: as `apply_rotary_pos_emb`.

    Example:
        >>> q, k = torch.randn(1, 5, 8, 64), torch.randn(1, 5, 2, 64)  # (b, s, h, d)
        >>> rope, past = RotaryPositionEmbedding(64), 100  # tokens before those of q and k
        >>> q1, k1 = rope_qk(q, k, rope, tensor_format="bshd", start_positions=past)
        >>> q1.shape, k1.shape
        (torch.Size([1, 5, 8, 64]), torch.Size([1, 5, 2, 64]))
    """
    given = Given(
        freqs=freqs,
        cu_seqlens=cu_seqlens,
        start_positions=start_positions,
        position_ids=position_ids,
        tensor_format=tensor_format,
        rotary_dim=rotary_dim,
        rotary_start=rotary_start,
        interleaved=interleaved,
        output_pairing=output_pairing,
        cp_size=cp_size,
        cp_rank=cp_rank,
        cp_order=cp_order,
        inverse=inverse,
        rounding=rounding,
    )
    q, k = rotate((q, k), given, fused, inplace)
    return q, k


def rope_fw(
    t: Tensor,
    freqs: Freqs,
    tensor_format: TensorFormat = "sbhd",
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
    """Rotate `t`: the forward pass alone, not recorded by autograd and not for `torch.func`.

    All arguments, the result and the errors are those of `apply_rotary_pos_emb`, which explains
    them.

    Example:
        >>> t, rope = torch.randn(3, 1, 2, 8, requires_grad=True), RotaryPositionEmbedding(8)
        >>> rope_fw(t, rope).requires_grad
        False

    Source: TransformerEngine's `fused_rope_forward`.
    """
    given = Given(
        freqs=freqs,
        cu_seqlens=cu_seqlens,
        start_positions=start_positions,
        position_ids=position_ids,
        tensor_format=tensor_format,
        rotary_dim=rotary_dim,
        rotary_start=rotary_start,
        interleaved=interleaved,
        output_pairing=output_pairing,
        cp_size=cp_size,
        cp_rank=cp_rank,
        cp_order=cp_order,
        inverse=inverse,
        rounding=rounding,
    )
    with torch.no_grad():
        return rotate((t,), given, fused, inplace)[0]


def rope_bw(
    grad: Tensor,
    freqs: Freqs,
    tensor_format: TensorFormat = "sbhd",
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

    The transpose of the forward's linear map: the rotation by minus the angle where the members of
    a pair have the same angle, and still the exact gradient where they don't. All arguments but
    `grad`, the result and the errors are those of `apply_rotary_pos_emb`, which explains them. They
    are what the forward was given.

    Args:
        grad: of the shape of `rope_fw`'s output; any strides, 0 in expanded gradients too.

    Example:
        >>> t, rope = torch.randn(3, 1, 2, 8, requires_grad=True), RotaryPositionEmbedding(8)
        >>> grad = torch.randn(3, 1, 2, 8)
        >>> apply_rotary_pos_emb(t, rope).backward(grad)
        >>> torch.allclose(rope_bw(grad, rope), t.grad)
        True

    Source: TransformerEngine's `fused_rope_backward`.
    """
    given = Given(
        freqs=freqs,
        cu_seqlens=cu_seqlens,
        start_positions=start_positions,
        position_ids=position_ids,
        tensor_format=tensor_format,
        rotary_dim=rotary_dim,
        rotary_start=rotary_start,
        interleaved=interleaved,
        output_pairing=output_pairing,
        cp_size=cp_size,
        cp_rank=cp_rank,
        cp_order=cp_order,
        inverse=inverse,
        rounding=rounding,
        transpose=True,
    )
    with torch.no_grad():
        return rotate((grad,), given, fused, inplace)[0]


def rotate(
    tensors: tuple[Tensor, ...],
    given: Given,
    fused: bool = True,
    inplace: bool = False,
    ways: Counter[Way] | None = None,
) -> tuple[Tensor, ...]:
    """Check a call, and rotate one or two tensors; `ways` counts the way."""
    rotation, known = prepare(tensors, given, fused, inplace)
    return autograd.rotate(tensors, rotation, fused=fused, inplace=inplace, known=known, ways=ways)


def prepare(
    tensors: tuple[Tensor, ...],
    given: Given,
    fused: bool,
    inplace: bool,
    *,
    others: tuple[Tensor | None, ...] = (),
    key: tuple[object, ...] = (),
    check: Callable[[], None] | None = None,
    named: Named = (),
) -> tuple[Rotation, Known | None]:
    """The rotation that a call means, checked, and what is known of calls that look like it.

    Args:
        tensors: those that turn.
        given, fused, inplace: as they came.
        others: more tensors of the call.
        key: more of its options, by which calls differ.
        check: checks all of these, in place of `check_call`.
        named: what a call in place reads besides its rotation.
    """
    freqs, (table, sin) = given.freqs, given.tables
    module = freqs if isinstance(freqs, RotaryPositionEmbedding) else None
    first_position: int | None = None
    starts = given.start_positions
    if not (starts is None or isinstance(starts, Tensor)):
        first_position = as_first_position(starts)
        starts = None
    known = None
    if fused is True:
        of_module: tuple[object, ...] = ()
        if module is not None:
            is_trained = table.requires_grad and torch.is_grad_enabled()
            of_module = module.rotary_dim, module.interleaved, module.attention_factor, is_trained
        known = known_of(
            (*tensors, *others, table, sin, given.cu_seqlens, starts, given.position_ids),
            first_position,
            *key,
            inplace,
            type(given.freqs),
            *of_module,
            *given[TENSORS_OF_GIVEN:],
        )
    options = None if known is None else known.options
    if options is None:
        # Modes that watch operators should see the same in a first call and in later ones.
        with unwatched() if is_watched() else nullcontext():
            if check is None:
                check_call(tensors, given, fused, inplace)
            else:
                check()
        options = options_of(given, tensors[0], fused)
        if known is not None:
            known.options = options
    t = tensors[0]
    if module is not None:
        table = module.turns(is_eager=known is not None)
        if known is not None and table.data_ptr() % 16:
            known = None  # its signature has the address of the frequencies, not of their turns
    if starts is not None:
        starts = one_for_each_sequence(starts, given.cu_seqlens, t, options.tensor_format)
    rotation = Rotation(
        table=table,
        sin=sin,
        cu_seqlens=given.cu_seqlens,
        start_positions=starts,
        position_ids=given.position_ids,
        first_position=first_position,
        options=options,
    )
    has_values_to_check = rotation.looks_up_positions and table.is_cpu
    if (first_position is not None or has_values_to_check) and not is_traced():
        # on a GPU values are not read; if traced, the operator checks them when it runs
        check_values(rotation, seq_len_of(t, options.tensor_format))
    if inplace:
        check_inplace(tensors, rotation, named)
    return rotation, known


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
    check_tensor("x", x)
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
    chunks = chunks_of(cp_size, cp_order)
    if cu_seqlens is None:
        accepted = f"an integer from 0 that {chunks} divides"
        seq_len = check_integer("seq_len", seq_len, 0, MOST_START, accepted)
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
