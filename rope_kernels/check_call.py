"""Checks of a whole call: whether its arguments fit together.

A message about a shape also says how `tensor_format` reads the tensor that it must fit. All checks
run before a launch. Tensors on a GPU are checked by shape, dtype and device only: reading their
values would stall the GPU and make CUDA graphs impossible.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .checks import (
    EXACT,
    FLOATS,
    INTEGERS,
    MOST_START,
    STARTS,
    bad,
    check_choice,
    check_flag,
    check_format,
    check_integer,
    check_tensor,
    is_integer,
    names_of,
    short,
    shown,
)
from .embedding import RotaryPositionEmbedding, options_beside_table
from .paths import check_in_run, has_hooks, has_values, is_known
from .reference import positions
from .rotation import (
    CP_ORDERS,
    FORMATS,
    OUTPUT_PAIRINGS,
    ROUNDINGS,
    Call,
    Rotation,
    chunks_of,
    len_of_table,
    seq_len_of,
)

_FREQS = (
    "a torch.Tensor of angles, (s2, 1, 1, d2); a pair of torch.Tensors (cos, sin); "
    "or a RotaryPositionEmbedding"
)

Shape = tuple[int | str, ...]  # A name stands for any size; "b + 1" for any except 0.


@dataclass(slots=True)
class Like:
    """The first tensor to rotate, which decides the shapes and the device of the others."""

    name: str
    t: Tensor
    tensor_format: str

    @property
    def in_words(self) -> str:
        """How the format reads the sizes. Use it only in errors: see `check_integer`."""
        sizes = zip(self.tensor_format, self.t.shape, strict=True)
        read = ", ".join(f"{x} = {size}" for x, size in sizes)
        shape = tuple(self.t.shape)
        return f"{self.name} of shape {shape} in format {self.tensor_format!r} has {read}"

    def check(
        self,
        name: str,
        x: object,
        dtypes: Sequence[torch.dtype],
        shapes: Sequence[Shape],
        when: str = "",
    ) -> Tensor:
        """Return `x` if it has one of the dtypes and shapes. `when` says what these depend on."""
        x = check_tensor(name, x, dtypes, when=when)
        for shape in shapes:  # `any` would ask for more sizes, which a trace may not know.
            if _fits(x.shape, shape):
                break
        else:
            accepted = " or ".join(dict.fromkeys(map(str, shapes))).replace("'", "")
            came = f"{name} has shape {tuple(x.shape)}"
            raise ValueError(f"{came}; accepted{when}: {accepted}; {self.in_words}")
        if x.device != self.t.device:
            needs = f"it must be on {self.name}'s device, {self.t.device}"
            raise ValueError(f"{name} is on {x.device}; {needs}")
        return x


def _fits(shape: torch.Size, accepted: Shape) -> bool:
    if len(shape) != len(accepted):
        return False
    for x, y in zip(shape, accepted, strict=True):
        differs = is_known(x == 0) if y == "b + 1" else not isinstance(y, str) and x != y
        if differs:
            return False
    return True


def check_rank(size: object, rank: object, order: object) -> None:
    """Check `cp_size`, `cp_rank` and `cp_order`."""
    check_choice("cp_order", order, CP_ORDERS)
    accepted = "an integer from 1, below 2^31"
    size = check_integer("cp_size", size, least=1, most=2**31 - 1, accepted=accepted)
    accepted = "an integer from 0 to cp_size - 1 = {most}"
    if size > 1 or rank is not None:  # A default would silently be the same on all ranks.
        check_integer("cp_rank", rank, least=0, most=size - 1, accepted=accepted)


def check_call(tensors: tuple[Tensor, ...], call: Call) -> None:
    """Check the arguments of a call as they were passed, except values of tensors."""
    _refuse_what_others_pass(call.freqs)
    names = names_of(tensors, call.transpose)
    tensor_format = check_format(call.tensor_format, FORMATS)
    flags = {"inverse": call.inverse, "fused": call.fused, "inplace": call.inplace}
    if call.interleaved is not None:
        flags = {"interleaved": call.interleaved, **flags}
    for name, flag in flags.items():
        check_flag(name, flag)
    check_choice("output_pairing", call.output_pairing, OUTPUT_PAIRINGS)
    if call.output_pairing == "half" and call.inplace:
        raise bad("output_pairing is 'half' with inplace=True", "'same'")
    check_rank(call.cp_size, call.cp_rank, call.cp_order)
    check_choice("rounding", call.rounding, (None, *ROUNDINGS))

    for name, x in zip(names, tensors, strict=True):
        check_tensor(name, x, FLOATS)
        if x.dim() != len(tensor_format):
            came = f"{name} has shape {tuple(x.shape)}, {x.dim()} dimensions"
            dims = f"({', '.join(tensor_format)})"
            raise bad(came, f"{len(tensor_format)} in format {tensor_format!r}: {dims}")
    t, heads = tensors[0], tensor_format.index("h")
    like = Like(names[0], t, tensor_format)
    for name, x in zip(names[1:], tensors[1:], strict=True):
        shape = (*t.shape[:heads], x.shape[heads], *t.shape[heads + 1 :])
        like.check(name, x, (t.dtype,), [shape], when=f" with {names[0]}")
    seq_len, head_dim = seq_len_of(t, tensor_format), t.shape[-1]
    batch = 1 if tensor_format == "thd" else t.shape[tensor_format.index("b")]

    by_table = tensor_format != "thd" and call.position_ids is None
    in_two = chunks_of(call.cp_size, call.cp_order) > call.cp_size
    if by_table and in_two and seq_len % 2:
        came = f"cp_size is {call.cp_size}, and {like.in_words}"
        raise bad(came, "an even s, for two chunks of equal length")
    table, _ = call.tables
    by_module = isinstance(call.freqs, RotaryPositionEmbedding)
    if isinstance(call.freqs, RotaryPositionEmbedding):
        _check_module(call.freqs, call, like)
    else:
        _check_tables(call.freqs, like, batch)
        _refuse_rows_of_entries(call, seq_len, batch)
    _check_slice(call, like, head_dim)
    needed = seq_len * call.cp_size
    if by_table and not by_module:
        if is_known(len_of_table(table) < needed):
            came = f"freqs has angles for s2 = {len_of_table(table)} positions"
            reads = f"{names[0]} of shape {tuple(t.shape)} in format {tensor_format!r}"
            raise ValueError(f"{came}; {reads} needs at least s = {needed}")
        check_in_run(len_of_table(table) >= needed)
    _check_where(call, like, seq_len, batch)


def _refuse_what_others_pass(freqs: object) -> None:
    """Raise `TypeError` for what calls written for other functions pass in the place of `freqs`."""
    if isinstance(freqs, str):  # It is probably `tensor_format`, one place too early.
        accepted = f"{_FREQS}; is an argument before freqs missing?"
        raise bad(f"freqs is {freqs!r}", accepted, TypeError)
    if isinstance(freqs, Tensor) and not freqs.dtype.is_floating_point:
        instead = "pass positions by name, position_ids=..."
        if freqs.is_complex():  # As in Llama's own code, whose pairs are interleaved.
            instead = "pass complex numbers as (freqs.real, freqs.imag), with "
            instead += "rotary_dim=2 * freqs.shape[-1], interleaved=True"
        raise bad(f"freqs has dtype {short(freqs.dtype)}", f"{_FREQS}; {instead}", TypeError)


def _refuse_other_code(freqs: RotaryPositionEmbedding) -> None:
    """Raise for a module if calling it runs code that a kernel, which reads `inv_freq`, doesn't."""
    came, instead = f"freqs is a {type(freqs).__name__}", ""
    error: type[Exception] = TypeError
    if freqs.overrides_forward():
        came += " that overrides forward"
    elif freqs.is_offloaded():
        came += " that accelerate has offloaded: inv_freq is on meta"
        instead, error = ", or a model that was offloaded with offload_buffers=False", ValueError
    elif has_hooks(freqs):
        came += " with a hook, which this call would not run"
        instead = ", or a module without hooks"
    else:
        return
    options = options_beside_table(freqs.interleaved)
    table = "its table, freqs(max_seq_len)" + (f", with {options}" if options else "")
    raise bad(came, table + instead, error)


def _check_module(freqs: RotaryPositionEmbedding, call: Call, like: Like) -> None:
    _refuse_other_code(freqs)
    if freqs.interleaved != call.pairs_are_interleaved:
        came = f"interleaved is {call.interleaved}, but freqs has {freqs.interleaved}"
        made = f"a freqs made with interleaved={call.interleaved}"
        raise bad(came, f"interleaved=None, or {made}")
    like.check("freqs.inv_freq", freqs.inv_freq, EXACT, [(freqs.rotary_dim // 2,)])


def _check_tables(freqs: object, like: Like, batch: int) -> None:
    """Check a table of angles, or (cos, sin)."""
    if isinstance(freqs, Tensor):
        dtypes = EXACT if like.t.dtype == torch.float64 else EXACT[:1]
        when = f" for angles, with {like.name} of {short(like.t.dtype)}"
        like.check("freqs", freqs, dtypes, [("s2", 1, 1, "d2")], when=when)
        return
    if not isinstance(freqs, (tuple, list)):
        raise bad(f"freqs is of type {type(freqs).__name__}", _FREQS, TypeError)
    if len(freqs) != 2:
        raise bad(f"freqs has {len(freqs)} entries", _FREQS)
    cos, sin = freqs
    like.check("freqs[0]", cos, FLOATS, [("s2", "d2"), (batch, "s2", "d2"), (1, "s2", "d2")])
    like.check("freqs[1]", sin, (cos.dtype,), [tuple(cos.shape)], when=" with freqs[0]")


def _refuse_rows_of_entries(call: Call, seq_len: int, batch: int) -> None:
    """Raise `ValueError` for (cos, sin) with as many rows as batch entries, of one token each.

    They may come from a decoding step that has already looked up each entry's row. Read as a table
    of positions, all tokens would silently use row 0.
    """
    cos, sin = call.tables
    if sin is None or cos.dim() != 2 or not is_known(seq_len == 1):
        return
    if not (is_known(batch > 1) and is_known(batch == cos.shape[0])):
        return
    places = call.cu_seqlens, call.start_positions, call.position_ids
    if call.cp_size > 1 or any([x is not None for x in places]):
        return
    came = f"freqs has {batch} rows for {batch} batch entries of one token each"
    of_entries = "cos[:, None] and sin[:, None] if each entry has a row of its own"
    raise bad(came, f"{of_entries}, or start_positions=0 if all tokens are at position 0")


def _check_slice(call: Call, like: Like, head_dim: int) -> None:
    """Check which elements rotate, after the table or module itself."""
    (table, sin), of_module = call.tables, isinstance(call.freqs, RotaryPositionEmbedding)
    width = table.shape[-1] * (2 if of_module else 1)
    named = {"t": like.name, "d": head_dim}
    rotary_dim, came = width, "freqs has last dimension d2 ="
    accepted = "an even number from 2 to {t}'s head dimension d = {d}"
    if call.rotary_dim is None and sin is not None and 0 < width < head_dim:
        _refuse_two_meanings(width, call.rotary_start, like.name, head_dim)
    if call.rotary_dim is not None:
        rotary_dim, came = call.rotary_dim, "rotary_dim is"
        check_integer(
            "rotary_dim",
            value=rotary_dim,
            least=-math.inf,
            most=math.inf,
            accepted=accepted,
            **named,
        )
    if rotary_dim % 2 or not 2 <= rotary_dim <= head_dim:
        raise bad(f"{came} {shown(rotary_dim)}", f"{accepted.format(**named)}; {like.in_words}")
    accepted = "an integer from 0 to {most}, for {n} elements within {t}'s head dimension d = {d}"
    start, last = call.rotary_start, head_dim - rotary_dim
    check_integer(
        "rotary_start", start, least=0, most=last, accepted=accepted, n=rotary_dim, **named
    )
    if of_module and rotary_dim != width:
        came = f"{came} {rotary_dim}, but freqs rotates {width} elements"
        raise bad(came, f"rotary_dim=None, or freqs=RotaryPositionEmbedding({rotary_dim})")
    if rotary_dim != width and rotary_dim != 2 * width:
        wide = f"{rotary_dim} columns, or {rotary_dim // 2}, one per pair"
        raise bad(f"freqs has last dimension {width} with rotary_dim = {rotary_dim}", wide)


def _refuse_two_meanings(width: int, rotary_start: int, name: str, head_dim: int) -> None:
    """Raise `ValueError` for (cos, sin) narrower than a head, without `rotary_dim`.

    They may have a column for each rotated element, or for each pair, so that twice as many
    elements rotate. The error lists the readings that fit into a head.
    """
    available = head_dim - rotary_start if is_integer(rotary_start) else head_dim
    meanings = []
    if width % 2 == 0 and width <= available:
        meanings.append(f"rotary_dim={width} if there is one column per element")
    if 2 * width <= available:
        per_pair = f"rotary_dim={2 * width} if there is one column per pair, as in "
        meanings.append(f"{per_pair}FlashAttention, flashinfer, vLLM and GPT-J")
    if meanings:
        came = f"rotary_dim is missing: freqs has {width} columns, and {name} has d = {head_dim}"
        raise bad(came, ", or ".join(meanings))


def _check_where(call: Call, like: Like, seq_len: int, batch: int) -> None:
    """Check the arguments that determine positions."""
    packed = call.tensor_format == "thd"
    cu_seqlens, starts, ids = call.cu_seqlens, call.start_positions, call.position_ids
    if cu_seqlens is not None and not packed:
        came = f"cu_seqlens was passed with tensor_format {call.tensor_format!r}"
        raise bad(came, "cu_seqlens only with 'thd'; TransformerEngine ignores it elsewhere")
    if packed and cu_seqlens is None and ids is None:
        accepted = "cumulative sequence lengths, int32 or int64 of shape (b + 1,)"
        accepted += ", or position_ids"
        cos, sin = call.tables
        if sin is not None and cos.dim() == 2 and is_known(cos.shape[0] == seq_len):
            # They may be one row per token. Indexing them again would silently pick wrong rows.
            accepted += f": torch.arange({seq_len}) if row i of cos and sin belongs to token i"
        raise bad("cu_seqlens is None for packed sequences ('thd')", accepted)
    if starts is not None and ids is not None:
        raise bad("position_ids and start_positions were both passed", "one of them")
    if is_integer(ids):
        accepted = f"torch.Tensor, or start_positions={ids} for the first position of all sequences"
        raise bad(f"position_ids is {ids}", accepted, TypeError)
    if ids is not None and call.cp_size > 1:
        came = f"position_ids requires cp_size=1, but cp_size is {call.cp_size}"
        raise bad(came, "cp_size and cp_rank, or position_ids=cp_positions(...) alone")
    if cu_seqlens is not None:
        like.check("cu_seqlens", cu_seqlens, INTEGERS[:2], [("b + 1",)])
    _refuse_rows_of_positions(call, seq_len)
    if isinstance(starts, Tensor):
        sequences = batch if cu_seqlens is None else cu_seqlens.numel() - 1
        when = " with cu_seqlens" if packed else ""
        like.check("start_positions", starts, INTEGERS, [(sequences,), (1,), ()], when=when)
    if ids is not None:
        _refuse_several_axes(ids, packed)
        shapes = [(seq_len,)] if packed else [(batch, seq_len), (1, seq_len), (seq_len,)]
        like.check("position_ids", ids, INTEGERS, shapes)


def _refuse_several_axes(ids: object, packed: bool) -> None:
    """Raise `ValueError` for positions with a dimension of axes before the others, as in M-RoPE."""
    if isinstance(ids, Tensor) and ids.dim() == (2 if packed else 3) and is_known(ids.shape[0] > 1):
        came = f"position_ids has shape {tuple(ids.shape)}, with several axes (M-RoPE)"
        made = "made by RotaryPositionEmbedding.cos_sin(position_ids): docs/positions.md, M-RoPE"
        raise bad(came, f"a table as freqs instead, {made}")


def _refuse_rows_of_positions(call: Call, seq_len: int) -> None:
    """Raise `ValueError` for positions with (cos, sin) that have one row per token.

    A model's rotary module returns such tables, already indexed by position. Indexing them again
    would silently pick wrong rows after left padding, or from the second packed sequence on. Tables
    without a batch may also be meant by position. `position_ids` or `start_positions` say so.
    """
    cos, sin = call.tables
    if sin is None:
        return
    has_ids, has_batch = call.position_ids is not None, cos.dim() == 3
    starts, cu_seqlens = call.start_positions, call.cu_seqlens
    # The first sequence gets the same rows in either reading.
    has_second = cu_seqlens is not None and not is_known(cu_seqlens.shape[0] <= 2)
    is_by_position = has_ids or starts is not None or call.cp_size > 1
    if not (has_ids or has_second) or (is_by_position and not has_batch):
        return
    if not is_known(len_of_table(cos) == seq_len):
        return
    came = f"with freqs of shape {tuple(cos.shape)}, one row per token"
    tables = "cos[0] and sin[0]" if has_batch else "cos and sin"
    by_token = f"{tables} with position_ids=torch.arange(t)"  # 'thd' requires positions
    if has_ids:
        accepted = by_token if call.tensor_format == "thd" else "(cos, sin) alone"
        accepted += " if a model's rotary module returned them for these positions"
        accepted += ", or tables of shape (s2, d2), whose rows position_ids select"
        raise bad(f"position_ids was passed {came}", accepted)
    by_position = tables if starts is not None else f"{tables} with start_positions=0"
    accepted = f"{by_token} and without cu_seqlens if row i belongs to token i, as from a model's "
    accepted += f"rotary module, or {by_position} if row i belongs to position i of each sequence"
    raise bad(f"cu_seqlens was passed {came}", accepted)


# Values, if they can be read without waiting


def check_values(rotation: Rotation, seq_len: int) -> None:
    """Check the first position, and the values of tensors on the CPU."""
    if rotation.first_position is not None:
        _check_first_position(rotation, rotation.first_position, seq_len)
    options, places = rotation.options, rotation.places
    if not (rotation.table.is_cpu and all([x is None or has_values(x) for x in places])):
        return
    if rotation.cu_seqlens is not None:
        tokens = seq_len * options.cp_size
        check_lengths(rotation.cu_seqlens, tokens, options.cp_size, options.cp_order)
    if rotation.options.on_the_fly or not rotation.looks_up_positions:
        return
    # Check the ranks that hold the first and the last position, so that all ranks raise or none.
    ends = {0, 0 if options.cp_order == "zigzag" else options.cp_size - 1}
    shares = [positions(rotation.of_rank(rank), seq_len) for rank in ends]
    used = torch.cat([x if held is None else x[:, held] for x, held in shares], 1)
    if not used.numel():
        return
    first, last = (int(x) for x in used.aminmax())
    if first < 0:
        came = f"position_ids has {first}"
        starts = rotation.start_positions
        if starts is not None:
            came = f"start_positions is {_head(starts)}"
        raise bad(came, _FROM_0)
    if last >= len_of_table(rotation.table):
        raise _too_short(rotation, last)


_FROM_0 = "values from 0 with a table"


def _too_short(rotation: Rotation, last: int) -> Exception:
    """The error for a table that ends before the last position."""
    came = f"freqs has angles for s2 = {len_of_table(rotation.table)} positions"
    instead = ""
    if rotation.sin is not None and rotation.start_positions is not None:
        instead = ". Leave out start_positions if the rows were already looked up"
    return ValueError(f"{came}; the last position in use needs {last + 1}{instead}")


def _check_first_position(rotation: Rotation, first: int, seq_len: int) -> None:
    """Check the first position. It isn't part of the signature, so this runs in every call."""
    if not -MOST_START <= first <= MOST_START:
        raise bad(f"start_positions is {shown(first)}", STARTS)
    if rotation.options.on_the_fly or not seq_len:
        return
    if first < 0:
        raise bad(f"start_positions is {first}", _FROM_0)
    # The last position of packed sequences depends on their lengths, which are read only on a CPU.
    packed = rotation.cu_seqlens is not None
    last = first if packed else first + seq_len * rotation.options.cp_size - 1
    if last >= len_of_table(rotation.table) and not (packed and rotation.table.is_cpu):
        raise _too_short(rotation, last)


def check_lengths(cu_seqlens: Tensor, tokens: int, cp_size: int, cp_order: str) -> None:
    """Check the values of `cu_seqlens`, if all ranks together have `tokens` tokens."""
    lengths = cu_seqlens.long().diff()
    chunks = chunks_of(cp_size, cp_order)
    accepted = None
    if cu_seqlens[0] != 0 or (lengths < 0).any():
        accepted = "values that start at 0 and never decrease"
    elif cu_seqlens[-1] > tokens:
        accepted = f"values up to {tokens}, the number of tokens on all ranks"
    elif cp_size > 1 and tokens and cu_seqlens[-1] * cp_size == tokens:
        own = tokens // cp_size
        came = f"cu_seqlens ends at {own}, the number of tokens of one of {cp_size} ranks"
        accepted = (
            "cu_seqlens * cp_size, if it describes this rank's part of each sequence; tensors with "
            "this rank's tokens only, if yours contain those of all ranks; or tensors without "
            f"padding, if {tokens - own} of the {tokens} tokens of all ranks are padding"
        )
        raise bad(came, accepted)
    elif (lengths % chunks).any():
        name = "2 * cp_size" if chunks > cp_size else "cp_size"
        accepted = f"lengths that are multiples of {name} = {chunks}"
    if accepted is not None:  # torch.func of torch 2.9 can't list elements, so only an error does.
        raise bad(f"cu_seqlens is {_head(cu_seqlens)}", accepted)


def _head(values: Tensor) -> str:
    first = ", ".join(str(value) for value in values[:6].tolist())
    return f"[{first}{', ...' if values.numel() > 6 else ''}]"
