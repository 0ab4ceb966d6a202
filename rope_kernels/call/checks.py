"""What the public functions accept, and the errors for everything else.

Every message names the argument, what came and what is accepted. One about a shape also says how
`tensor_format` reads the tensor that it has to fit. All checks run before a kernel is launched.
Values on a GPU are not read back, which would stall it and forbid CUDA graphs: of tensors there,
only shapes, dtypes and devices are checked.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import NoneType
from typing import NamedTuple

import torch
from torch import Tensor

from ..embedding import RotaryPositionEmbedding
from ..embedding.arguments import EXACT, FLOATS, short
from ..machine.modes import (
    has_values,
    is_differentiated,
    is_dtensor,
    is_traced,
    wants_grad,
)
from .arguments import OUTPUT_PAIRINGS, ROUNDINGS, Call
from .formats import FORMATS, view_as_sbhd
from .positions import CP_ORDERS, chunks_of, positions_of, rank_of_last
from .rotation import TENSORS, Rotation

_INTEGERS = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)
_FREQS = (
    "a torch.Tensor of angles, (s2, 1, 1, d2); a pair of torch.Tensors (cos, sin); "
    "or a RotaryPositionEmbedding"
)

_OF_A_RANK = """\
torch.Tensor. Rotate the part of each rank, with cp_size and cp_rank where it is one of a sequence:
    from torch.distributed.tensor.experimental import local_map
    q, k = local_map(rope_qk, (q.placements, k.placements))(q, k, freqs)"""

Shape = tuple[int | str, ...]  # a name fits any size
Named = Sequence[tuple[str, Tensor | None]]  # tensors by the names of their arguments


@dataclass(slots=True)
class _Argument:
    """A row of the table of tensor arguments: what came as `name`, and what is accepted there."""

    name: str
    value: object
    dtypes: tuple[torch.dtype, ...]
    shapes: Sequence[Shape]
    condition: str = ""  # what else in the call decides what is accepted
    dtype_note: str = ""  # for the message about a wrong dtype


@dataclass(slots=True)
class _Sizes:
    """What the first tensor to rotate says, and all others have to fit."""

    name: str
    t: Tensor
    tensor_format: str
    seq_len: int
    batch: int
    head_dim: int

    @property
    def in_words(self) -> str:
        return as_read(self.name, self.t, self.tensor_format)


def check_call(call: Call, roundings: tuple[str | None, ...] = (None, *ROUNDINGS)) -> int | None:
    """Check everything about a call but the values of its tensors.

    Args:
        call: every argument, as it came.
        roundings: those that the function has.

    Returns:
        The number of positions, by which a module may interpolate. None where the call does not say
        how many they are: with 'thd', `start_positions` or `position_ids`.

    Raises:
        TypeError: a dtype that is not accepted, or not a tensor or bool where one is expected.
        ValueError: shapes, devices or options that do not fit together.
    """
    _check_options(call)
    check_choice("rounding", call.rounding, roundings)
    sizes = _check_rotated(call)
    packed, by_ids = call.tensor_format == "thd", call.position_ids is not None
    takes_two_chunks = call.cp_size > 1 and call.cp_order == "zigzag"
    if takes_two_chunks and sizes.seq_len % 2 and not (packed or by_ids):
        came = f"cp_size is {call.cp_size}, and {sizes.in_words}"
        raise bad(came, "an even s, for two chunks of equal length")
    positions = None if packed or by_ids else sizes.seq_len * call.cp_size
    _check_freqs(call, sizes, positions)
    _check_where(call, sizes)
    return positions if call.start_positions is None else None


def _check_options(call: Call) -> None:
    check_choice("tensor_format", call.tensor_format, FORMATS)
    for name in ("interleaved", "fused", "inplace", "inverse"):
        check_flag(name, getattr(call, name))
    check_choice("output_pairing", call.output_pairing, OUTPUT_PAIRINGS)
    if call.output_pairing == "half" and call.inplace:
        raise bad("output_pairing is 'half' with inplace=True", "'same'")
    check_rank(call.cp_size, call.cp_rank, call.cp_order)


def check_rank(size: object, rank: object, order: object) -> None:
    """Check `cp_size`, `cp_rank` and `cp_order`."""
    check_choice("cp_order", order, CP_ORDERS)
    check_integer("cp_size", size, 1, 2**31 - 1, "an integer from 1, below 2^31")
    check_integer("cp_rank", rank, 0, size - 1, "an integer from 0 to cp_size - 1 = {most}")


def check_choice(name: str, value: object, accepted: tuple[str | None, ...]) -> None:
    if not (isinstance(value, (str, NoneType)) and value in accepted):
        raise bad(f"{name} is {value!r}", ", ".join(map(str, accepted)))


def check_flag(name: str, flag: object) -> None:
    if not isinstance(flag, bool):
        raise bad(f"{name} is {flag!r}", "False, True", TypeError)


def check_integer(
    name: str, value: object, least: float, most: float, accepted: str, **sizes: object
) -> None:
    """Check an integer from `least` to `most`.

    `accepted` may name {least}, {most} and `sizes`. They are written into it only for an error: a
    size in a string is a constant to torch.compile, which would compile again for every other one.
    """
    if isinstance(value, bool):  # an int to Python, so True would pass for 1
        error = TypeError
    elif isinstance(value, (int, torch.SymInt)) and least <= value <= most:
        return
    else:
        error = ValueError
    raise bad(f"{name} is {value!r}", accepted.format(least=least, most=most, **sizes), error)


def _check_rotated(call: Call) -> _Sizes:
    """Check the tensors to rotate: the first by itself, the other beside it."""
    tensor_format, rank = call.tensor_format, len(call.tensor_format)
    named = dict(zip(call.names, call.tensors, strict=True))
    for name, x in named.items():
        check_tensor(name, x, FLOATS)
        if x.dim() != rank:
            came = f"{name} has shape {tuple(x.shape)}, {x.dim()} dimensions"
            raise ValueError(f"{came}; tensor_format {tensor_format!r} needs {rank}")
    (name, t), *others = named.items()
    seq_len, batch, _, head_dim = view_as_sbhd(t, tensor_format).shape
    sizes = _Sizes(name, t, tensor_format, seq_len, batch, head_dim)
    heads = tensor_format.index("h")
    for other, x in others:
        shape = (*t.shape[:heads], x.shape[heads], *t.shape[heads + 1 :])
        _check_argument(_Argument(other, x, (t.dtype,), [shape], f" beside {name}"), sizes)
    return sizes


def _check_freqs(call: Call, sizes: _Sizes, positions: int | None) -> None:
    freqs, s2 = call.freqs, None
    if isinstance(freqs, RotaryPositionEmbedding):
        _check_module(freqs, call, sizes)
        rotary_dim = freqs.rotary_dim
    elif isinstance(freqs, Tensor):
        _check_argument(_angles(check_tensor("freqs", freqs), sizes), sizes)
        s2, rotary_dim = freqs.shape[0], freqs.shape[3]
    else:
        cos, sin = _pair(freqs)
        for argument in _cos_and_sin(cos, sin, sizes):
            _check_argument(argument, sizes)
        s2, rotary_dim = cos.shape[-2:]
    _check_slice(call, sizes, rotary_dim, known=s2 is None)
    if s2 is not None and positions is not None and s2 < positions:
        shape, tensor_format = tuple(sizes.t.shape), call.tensor_format
        needs = f"{sizes.name} of shape {shape} in format {tensor_format!r} needs"
        came = f"freqs has angles for s2 = {s2} positions"
        raise ValueError(f"{came}; {needs} at least s = {positions}")


def _check_slice(call: Call, sizes: _Sizes, width: int, known: bool) -> None:
    """Check which elements turn.

    `width`: columns of the table, or the `rotary_dim` that is `known`, of a module.
    """
    start, most, named = call.rotary_start, sizes.head_dim, {"t": sizes.name, "d": sizes.head_dim}
    rotary_dim, came = width, "freqs has last dimension d2 ="
    accepted = "an even number from 2 to {t}'s head dimension d = {d}"
    if call.rotary_dim is not None:
        rotary_dim, came = call.rotary_dim, "rotary_dim is"
        check_integer("rotary_dim", rotary_dim, -math.inf, math.inf, accepted, **named)
    if rotary_dim % 2 or not 2 <= rotary_dim <= most:
        came = f"{came} {rotary_dim}"
        raise bad(came, f"{accepted.format(**named)}; {sizes.in_words}")
    accepted = "an integer from 0 to {most}, for {n} elements within {t}'s head dimension d = {d}"
    check_integer("rotary_start", start, 0, most - rotary_dim, accepted, n=rotary_dim, **named)
    if known and rotary_dim != width:
        raise bad(f"{came} {rotary_dim}", f"None, or that of freqs, {width}")
    if rotary_dim != width and rotary_dim != 2 * width:
        wide = f"{rotary_dim}, or one column per pair, {rotary_dim // 2}"
        raise bad(f"freqs has last dimension {width} with rotary_dim = {rotary_dim}", wide)


def _check_module(freqs: RotaryPositionEmbedding, call: Call, sizes: _Sizes) -> None:
    check_tensor("freqs.inv_freq", freqs.inv_freq)
    if freqs.interleaved != call.interleaved:
        came = f"freqs has interleaved = {freqs.interleaved}"
        raise bad(came, f"the call's, {call.interleaved}")
    freqs.check_usable_as_freqs()
    shape = (freqs.rotary_dim // 2,)
    row = _Argument("freqs", freqs.inv_freq, EXACT, [shape], " for inv_freq")
    if is_differentiated(_check_argument(row, sizes)):
        accepted = f"freqs.cos_sin(max_seq_len) as freqs, with rotary_dim={freqs.rotary_dim}"
        raise bad("freqs has an inv_freq that requires a gradient", accepted)


def _angles(freqs: Tensor, sizes: _Sizes) -> _Argument:
    """The row of a table of angles: bf16 and fp16 cannot tell position 2048 from 2049."""
    dtype = sizes.t.dtype
    dtypes = EXACT if dtype == torch.float64 else (torch.float32,)
    condition, note = f" with {sizes.name} of {short(dtype)}", ""
    if freqs.dtype in (torch.bfloat16, torch.float16):
        note = (
            ". TransformerEngine casts such angles to float32, which does not bring back what they "
            f"lost to {short(freqs.dtype)}: make them in float32"
        )
    return _Argument("freqs", freqs, dtypes, [("s2", 1, 1, "d2")], condition, dtype_note=note)


def _pair(freqs: object) -> tuple[Tensor, Tensor]:
    """Cosines and sines, if `freqs` is a pair of tensors."""
    if not isinstance(freqs, (tuple, list)):
        raise bad(f"freqs is of type {type(freqs).__name__}", _FREQS, TypeError)
    if len(freqs) != 2:
        raise bad(f"freqs has {len(freqs)} entries", _FREQS)
    for i, x in enumerate(freqs):
        if not isinstance(x, Tensor):
            came = f"freqs[{i}] is of type {type(x).__name__}"
            raise TypeError(f"{came}; accepted as freqs: {_FREQS}")
    cos, sin = freqs
    return cos, sin


def _cos_and_sin(cos: Tensor, sin: Tensor, sizes: _Sizes) -> tuple[_Argument, _Argument]:
    shapes = ("s2", "d2"), (sizes.batch, "s2", "d2"), (1, "s2", "d2")
    return (
        _Argument("freqs[0]", cos, FLOATS, shapes),
        _Argument("freqs[1]", sin, (cos.dtype,), [tuple(cos.shape)], " beside freqs[0]"),
    )


def _check_where(call: Call, sizes: _Sizes) -> None:
    """Check the arguments that say where a token is: which of them came, then each by its row."""
    packed, batch = call.tensor_format == "thd", sizes.batch
    cu_seqlens, starts, ids = call.cu_seqlens, call.start_positions, call.position_ids
    if cu_seqlens is not None and not packed:
        came = f"cu_seqlens came with tensor_format {call.tensor_format!r}"
        raise ValueError(
            f"{came}; accepted only with 'thd' (elsewhere TransformerEngine ignores it)"
        )
    if packed and cu_seqlens is None and ids is None:
        accepted = "the cumulative sequence lengths, int32 or int64 of shape (b + 1,)"
        raise bad("cu_seqlens is None with tensor_format 'thd'", f"{accepted}, or position_ids")
    if starts is not None and ids is not None:
        raise bad("position_ids came with start_positions", "one of the two")
    if not (starts is None or isinstance(starts, Tensor)):
        raise _bad_start(starts)
    sequences = cu_seqlens.numel() - 1 if isinstance(cu_seqlens, Tensor) else batch
    starts_shapes: list[Shape] = [(sequences,), (1,), ()]  # `Call` has made the first of the others
    beside = " beside cu_seqlens" if packed else ""
    table = (
        _Argument("cu_seqlens", cu_seqlens, (torch.int32, torch.int64), [("b + 1",)]),
        _Argument("start_positions", starts, _INTEGERS, starts_shapes, beside),
        _position_ids(call, sizes),
    )
    for argument in table:
        if argument.value is not None:
            _check_argument(argument, sizes)


def _position_ids(call: Call, sizes: _Sizes) -> _Argument:
    """The row of positions of each token."""
    ids, tokens, batch, freqs = call.position_ids, sizes.seq_len, sizes.batch, call.freqs
    shapes: list[Shape] = [(batch, tokens), (1, tokens)]
    if call.tensor_format == "thd":
        shapes = [(tokens,)]
    note = ""
    if isinstance(freqs, RotaryPositionEmbedding) and isinstance(ids, Tensor):
        if ids.dim() == len(shapes[0]) + 1:
            raise _several_axes(ids, shapes, freqs.rotary_dim, call.tensor_format)
        if ids.is_floating_point():
            with_one = ", and one sequence in cu_seqlens" if call.tensor_format == "thd" else ""
            note = "; or freqs.cos_sin(position_ids) as freqs, without position_ids, with "
            note += f"rotary_dim={freqs.rotary_dim}{with_one}"
    return _Argument("position_ids", ids, _INTEGERS, shapes, dtype_note=note)


def _several_axes(
    ids: Tensor, shapes: list[Shape], rotary_dim: int, tensor_format: str
) -> Exception:
    """The error for positions on several axes, as M-RoPE has them: a table takes their place."""
    one = "" if tensor_format != "thd" else ", with one sequence in cu_seqlens"
    return ValueError(
        f"position_ids has shape {tuple(ids.shape)}, a dimension more than a token's position; "
        f"accepted: {' or '.join(map(str, shapes))}. Of several axes make a table, once for all "
        f"layers, and pass it as freqs with rotary_dim={rotary_dim}, without position_ids{one}:\n"
        f"    axis = torch.tensor([...], device=position_ids.device)  # of each of the "
        f"{rotary_dim // 2} pairs\n"
        "    cos, sin = freqs.cos_sin(position_ids)\n"
        "    cos, sin = (x.gather(0, axis.expand(1, *x.shape[1:]))[0] for x in (cos, sin))"
    )


def _bad_start(start: object) -> Exception:
    """The error for a start that is no tensor, and that `Call` has not made one of."""
    accepted = "an int from -2^62 to 2^62, or a torch.Tensor"
    if isinstance(start, int):
        error = TypeError if isinstance(start, bool) else ValueError
        return bad(f"start_positions is {start}", accepted, error)
    return bad(f"start_positions is of type {type(start).__name__}", accepted, TypeError)


def _check_argument(argument: _Argument, sizes: _Sizes) -> Tensor:
    """Check one row: a tensor, of an accepted dtype and shape, on the device of the first."""
    name, condition = argument.name, argument.condition
    x = check_tensor(name, argument.value, argument.dtypes, condition, argument.dtype_note)
    if not any(_fits(x.shape, shape) for shape in argument.shapes):
        shapes = " or ".join(dict.fromkeys(_in_words(s) for s in argument.shapes))
        came = f"{name} has shape {tuple(x.shape)}"
        raise ValueError(f"{came}; accepted{condition}: {shapes}; {sizes.in_words}")
    if x.device != sizes.t.device:
        needs = f"it must be on {sizes.name}'s device, {sizes.t.device}"
        raise ValueError(f"{name} is on {x.device}; {needs}")
    return x


def check_tensor(
    name: str,
    x: object,
    dtypes: tuple[torch.dtype, ...] = (),
    condition: str = "",
    dtype_note: str = "",
) -> Tensor:
    """Return `x`, a strided tensor of one of the dtypes (of any, if none is named)."""
    if not isinstance(x, Tensor):
        raise bad(f"{name} is of type {type(x).__name__}", "torch.Tensor", TypeError)
    if is_dtensor(x):
        raise bad(f"{name} is a DTensor", _OF_A_RANK, TypeError)
    if x.is_nested:
        raise bad(f"{name} has layout of a nested tensor", "torch.strided")
    # torch.compile cannot trace `layout` in a backward, and refuses sparse tensors by itself
    if not torch.compiler.is_compiling() and x.layout != torch.strided:
        raise bad(f"{name} has layout {x.layout}", "torch.strided")
    if dtypes and x.dtype not in dtypes:
        names = ", ".join(short(dtype) for dtype in dtypes)
        came = f"{name} has dtype {short(x.dtype)}"
        raise TypeError(f"{came}; accepted{condition}: {names}{dtype_note}")
    return x


def named_beside(call: Call) -> list[tuple[str, object]]:
    """What a call has beside the tensors to rotate, by the names of its arguments."""
    freqs = call.freqs
    tables = [("freqs", freqs)]
    if isinstance(freqs, (tuple, list)):
        tables = [(f"freqs[{i}]", x) for i, x in enumerate(freqs)]
    elif isinstance(freqs, RotaryPositionEmbedding):
        tables = [("freqs.inv_freq", freqs.inv_freq)]
    where = zip(("cu_seqlens", "start_positions", "position_ids"), call.where, strict=True)
    return [*tables, *([] if call.norm is None else call.norm.named), *where]


def check_rotate_half(x: Tensor, interleaved: bool) -> None:
    """Raise unless `x` is a tensor whose last dimension splits into pairs, and the flag a bool."""
    check_tensor("x", x)
    check_flag("interleaved", interleaved)
    if x.dim() == 0 or x.shape[-1] % 2:
        raise bad(f"x has shape {tuple(x.shape)}", "an even last dimension, to have two halves")


def check_values(rotation: Rotation, seq_len: int) -> None:
    """Check the values of tensors on the CPU, where reading them costs nothing."""
    if not (rotation.table.is_cpu and all(has_values(x) for x in rotation.where)):
        return
    if rotation.cu_seqlens is not None:
        tokens = seq_len * rotation.cp_size
        check_lengths(rotation.cu_seqlens, tokens, rotation.cp_size, rotation.cp_order)
    if not rotation.on_the_fly:
        _check_reach(rotation, seq_len)


def check_lengths(cu_seqlens: Tensor, tokens: int, cp_size: int, cp_order: str) -> None:
    """Check the values of `cu_seqlens`, for ranks that together have so many tokens."""
    lengths, accepted = cu_seqlens.long().diff(), None
    chunks = chunks_of(cp_size, cp_order)
    if cu_seqlens[0] != 0 or (lengths < 0).any():
        accepted = "values that start at 0 and never fall"
    elif cu_seqlens[-1] > tokens:
        accepted = f"values up to {tokens}, the number of tokens on all ranks"
    elif (lengths % chunks).any():
        name = "2 * cp_size" if chunks > cp_size else "cp_size"
        accepted = f"lengths that {name} = {chunks} divides"
    if accepted is not None:  # only now: torch 2.9 cannot list elements within torch.func
        raise bad(f"cu_seqlens is {_head(cu_seqlens)}", accepted)


def _check_reach(rotation: Rotation, seq_len: int) -> None:
    """Check that the table has a row for every position in use."""
    # of the ranks that hold the first and the last, so every rank comes to the same answer
    ends = {0, rank_of_last(rotation.cp_size, rotation.cp_order)}
    shares = [positions_of(replace(rotation, cp_rank=rank), seq_len) for rank in ends]
    used = torch.cat([x if held is None else x[:, held] for x, held in shares], 1)
    if not used.numel():
        return
    first, last = (int(x) for x in used.aminmax())
    if first < 0:
        starts = rotation.start_positions
        came = f"position_ids has {first}"
        if starts is not None:
            came = f"start_positions is {_head(starts)}"
        raise bad(came, "values from 0 with a table")
    s2 = rotation.tables[0].shape[1]
    if last >= s2:
        came = f"freqs has angles for s2 = {s2} positions"
        raise ValueError(f"{came}; the last position in use needs {last + 1}")


def check_inplace(
    names: tuple[str, ...],
    tensors: tuple[Tensor, ...],
    rotation: Rotation,
    beside: Named = (),
) -> None:
    """Raise `ValueError` where tensors cannot be overwritten, before anything is written.

    `beside` names what the call reads beside them and what the rotation says.
    """
    if wants_grad((rotation.table, rotation.sin)):
        raise bad("freqs requires a gradient", "with inplace=True tables after detach()")
    if is_traced():
        return  # PyTorch checks gradients when it traces; the operator comes here when it runs
    transformed = torch._C._are_functorch_transforms_active()  # PyTorch then does the overwriting
    with_grad, spans = wants_grad(tensors), []
    for name, t in zip(names, tensors, strict=True):
        if t.is_inference() and not torch.is_inference_mode_enabled():
            raise bad(f"{name} is an inference tensor outside inference mode", _cloned(name))
        if with_grad:
            _check_autograd(name, t, alone=len(tensors) == 1, transformed=transformed)
        layout = _layout(t.shape, t.stride())
        if layout.overlaps_itself and not transformed:
            came = f"{name} has elements in one place, or may have, by its strides {t.stride()}"
            raise bad(came, _cloned(name))
        spans.append(layout.extent * t.element_size())
    if not transformed:
        try:
            _check_memory(names, tensors, spans, rotation, beside)
        except RuntimeError:
            return  # no address: a batch of vmap, or a class without memory of its own


def _check_memory(
    names: tuple[str, ...],
    tensors: tuple[Tensor, ...],
    spans: list[int],
    rotation: Rotation,
    beside: Named,
) -> None:
    """Check that what is written has memory of its own. `spans`: bytes from first to last."""
    start = tensors[0].data_ptr()
    written = [range(start, start + spans[0])]
    low, high = start, start + spans[0]
    if len(tensors) == 2:
        start = tensors[1].data_ptr()
        written.append(range(start, start + spans[1]))
        if _meet(*written) and not _are_neighbors(*tensors):
            raise _shared("k", "q")
        low, high = min(low, start), max(high, start + spans[1])
    # in every call: few steps, and names only where there is an overlap to name
    for x in (*rotation.tensors, *[x for _, x in beside]) if beside else rotation.tensors:
        if x is not None and 0 < (first := x.data_ptr()) < high and low < first + _bytes_of(x):
            _refuse_overlaps(names, written, rotation, beside)


def _refuse_overlaps(
    names: tuple[str, ...], written: list[range], rotation: Rotation, beside: Named
) -> None:
    """Raise with the names of what is read and of what is written there, if anything is."""
    for name, x in (*named_tensors(rotation), *beside):
        for t_name, memory in zip(names, written, strict=True):
            if x is not None and _meet(_memory_of(x), memory):
                raise _shared(name, t_name)


def _shared(name: str, t_name: str) -> Exception:
    came = f"{name} shares memory with {t_name}"
    return bad(came, f"with inplace=True separate elements, e.g. {name}.clone()")


def _check_autograd(name: str, t: Tensor, alone: bool, transformed: bool) -> None:
    base = t if t._base is None else t._base
    if (t.is_leaf and t.requires_grad) or (base.is_leaf and base.requires_grad):
        came = f"{name} is a leaf that requires a gradient, or a view of one"
        raise bad(came, _cloned(name))
    if not t._is_view() or transformed:
        return
    plain = torch._C._autograd.CreationMeta.DEFAULT  # not from chunk or split, nor in no_grad
    if not alone or torch._C._autograd._get_creation_meta(t) != plain:
        accepted = f"{_cloned(name)}, or one slice (not from chunk or split) a call"
        raise bad(f"{name} is a view that autograd cannot overwrite", accepted)


def bad(came: str, accepted: str, error: type[Exception] = ValueError) -> Exception:
    """The error to raise: what came, and what is accepted."""
    return error(f"{came}; accepted: {accepted}")


def as_read(name: str, t: Tensor, tensor_format: str) -> str:
    """How the format reads the sizes of `t`, in words. For errors alone, as in `check_integer`."""
    read = ", ".join(f"{x} = {size}" for x, size in zip(tensor_format, t.shape, strict=True))
    return f"{name} of shape {tuple(t.shape)} in format {tensor_format!r} has {read}"


def _fits(shape: torch.Size, accepted: Shape) -> bool:
    """Whether a shape has the accepted sizes: numbers as they are, names any, "b + 1" from 1."""
    if len(shape) != len(accepted):
        return False
    for size, wanted in zip(shape, accepted, strict=True):
        if isinstance(wanted, str):
            if size == 0 and wanted.endswith("+ 1"):
                return False
        elif size != wanted:
            return False
    return True


def _in_words(shape: Shape) -> str:
    sizes = ", ".join(f"{size}" for size in shape)
    return f"({sizes},)" if len(shape) == 1 else f"({sizes})"


def _cloned(name: str) -> str:
    return f"with inplace=True e.g. {name}.clone()"


def _head(values: Tensor) -> str:
    shown = ", ".join(str(value) for value in values[:6].tolist())
    return f"[{shown}{', ...' if values.numel() > 6 else ''}]"


class _Layout(NamedTuple):
    """What sizes and strides say of a tensor's memory."""

    overlaps_itself: bool  # or may do so
    extent: int  # elements, from the first to the last


@lru_cache(4096)
def _layout(sizes: tuple[int, ...], strides: tuple[int, ...]) -> _Layout:
    """Two indices may lead to one place, unless each stride steps over all that smaller ones reach.

    A few strides fail this and still keep all elements apart; they count as overlapping too.
    """
    if 0 in sizes:
        return _Layout(False, 0)
    overlaps, reach = False, 1
    for stride, n in sorted(zip(strides, sizes, strict=True)):
        overlaps = overlaps or (n > 1 and stride < reach)
        reach += stride * (n - 1)
    return _Layout(overlaps, reach)


def _bytes_of(x: Tensor) -> int:
    """Of memory, from the first element of a tensor to its last."""
    if x.is_contiguous():
        return x.nbytes
    return _layout(x.shape, x.stride()).extent * x.element_size()


def _meet(one: range, other: range) -> bool:
    """Whether two ranges of addresses have one in common; those from 0 on are of no memory."""
    return 0 < one.start < other.stop and 0 < other.start < one.stop


def check_overwritten(name: str, x: Tensor) -> None:
    """Raise `ValueError` where a kernel can't overwrite `x` by itself."""
    if x.is_inference() and not torch.is_inference_mode_enabled():
        raise bad(f"{name} is an inference tensor outside inference mode", "a tensor of your own")
    if x.is_neg():
        raise bad(f"{name} is a view with a pending sign", "memory as it is, x.resolve_neg()")
    if _layout(x.shape, x.stride()).overlaps_itself:
        came = f"{name} has elements in one place, or may have, by its strides {x.stride()}"
        raise bad(came, "memory for each element")


def check_apart(written: Named, read: Named) -> None:
    """Raise `ValueError` where what is written has an element in the memory of anything else."""
    placed = [(name, x, _memory_of(x)) for name, x in (*written, *read) if x is not None]
    count = len(written)
    for i, (name, x, memory) in enumerate(placed[:count]):
        for other, y, other_memory in placed[:i] + placed[count:]:
            if not _meet(memory, other_memory):
                continue
            alike = x.dim() == y.dim() and x.dtype == y.dtype
            if not (alike and _are_neighbors(x, y)):
                accepted = "memory of its own, or slices of one tensor"
                raise bad(f"{other} shares memory with {name}", accepted)


def named_tensors(rotation: Rotation) -> list[tuple[str, Tensor | None]]:
    """The tensors of a rotation, by the names of the arguments that they came as."""
    tables = {"table": "freqs"}
    if rotation.sin is not None:
        tables = {"table": "freqs[0]", "sin": "freqs[1]"}
    return [(tables.get(name, name), getattr(rotation, name)) for name in TENSORS]


def _memory_of(x: Tensor) -> range:
    """Addresses from the first element of a tensor to its last."""
    start = x.data_ptr()
    return range(start, start + _bytes_of(x))


def _are_neighbors(q: Tensor, k: Tensor) -> bool:
    """Whether `q` and `k` are slices of one packed tensor, such as qkv, that share no element."""
    first, second = (q, k) if q.data_ptr() <= k.data_ptr() else (k, q)
    distance, rest = divmod(second.data_ptr() - first.data_ptr(), q.element_size())
    layouts = first.shape, first.stride(), second.shape, second.stride()
    return rest == 0 and _are_apart(*layouts, distance)


@lru_cache(4096)
def _are_apart(
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    next_sizes: tuple[int, ...],
    next_strides: tuple[int, ...],
    distance: int,
) -> bool:
    """Whether one slice ends, along a dimension, before the next begins `distance` elements later.

    Then the slice that holds both has a place for each element, if it doesn't overlap itself.
    """
    dims = list(zip(sizes, strides, next_sizes, next_strides, strict=True))
    if any(n > 1 and m > 1 and stride != other for n, stride, m, other in dims):
        return False
    common = [stride if n > 1 else other for n, stride, _, other in dims]  # of 1 they say nothing
    for dim, stride in enumerate(common):
        if stride and distance % stride == 0 and distance // stride >= sizes[dim]:
            both = [max(n, m) for n, _, m, _ in dims]
            both[dim] = distance // stride + next_sizes[dim]
            if not _layout(tuple(both), tuple(common)).overlaps_itself:
                return True
    return False
