"""What the public functions accept, and the errors for everything else.

Every message names the argument, what came and what is accepted. All checks run before a kernel is
launched. Values that lie on the GPU are not read back (that would stall the GPU and forbid CUDA
graphs): there only shapes, dtypes and devices are checked.
"""

from functools import lru_cache

import torch
from torch import Tensor

from .angles import Angles
from .formats import FORMATS, view_as_sbhd
from .frequencies import RotaryPositionEmbedding
from .kinds import has_values, is_differentiated, is_traced, known_of

_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_INTEGERS = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)


def check_arguments(
    tensors: dict[str, Tensor],
    freqs: Tensor | tuple[Tensor, Tensor] | RotaryPositionEmbedding,
    tensor_format: str,
    cu_seqlens: Tensor | None = None,
    start_positions: Tensor | None = None,
    position_ids: Tensor | None = None,
    interleaved: bool = False,
    cp_size: int = 1,
    cp_rank: int = 0,
) -> Angles:
    """Raise `TypeError` or `ValueError` unless the arguments fit together; else return the angles.

    `tensors` are one or two to rotate, by the names that the caller knows them by.
    """
    where = cu_seqlens, start_positions, position_ids
    options = tensor_format, interleaved, cp_size, cp_rank
    types = type(interleaved), type(cp_size), type(cp_rank)  # True == 1 == 1.0
    given = () if cu_seqlens is start_positions is position_ids is None else where
    known = known_of(freqs, (options, types), *tensors.values(), *given)
    memory = {} if known is None else known
    if "checked" not in memory:
        memory["checked"] = _check_kind(tensors, freqs, where, options)
    seq_len, positions = memory["checked"]
    if isinstance(freqs, RotaryPositionEmbedding):
        freqs = freqs.turns(positions)
    tables = (freqs, None) if isinstance(freqs, Tensor) else freqs
    angles = Angles(*tables, *where, *options, known)
    if given and not is_traced():  # if traced, the operator comes to it when it runs
        check_values(angles, seq_len)
    return angles


def _check_kind(tensors: dict[str, Tensor], freqs, where: tuple, options: tuple) -> tuple:
    """Do `check_arguments` but for values; return s, and how many positions there are if known."""
    cu_seqlens, start_positions, position_ids = where
    tensor_format, interleaved, cp_size, cp_rank = options
    if tensor_format not in FORMATS:
        raise bad(f"tensor_format is {tensor_format!r}", ", ".join(FORMATS))
    packed, rank, heads = tensor_format == "thd", len(tensor_format), tensor_format.index("h")
    (name, t), *others = tensors.items()
    for x_name, x in tensors.items():
        check_tensor(x_name, x, _FLOATS)
        if x.dim() != rank:
            came = f"{x_name} has shape {tuple(x.shape)}, {x.dim()} dimensions"
            raise ValueError(f"{came}; tensor_format {tensor_format!r} needs {rank}")
    for k_name, k in others:
        shape = (*t.shape[:heads], k.shape[heads], *t.shape[heads + 1 :])
        check_tensor(k_name, k, (t.dtype,), [shape], t, name, f" beside {name}")
    seq_len, batch, _, head_dim = view_as_sbhd(t, tensor_format).shape
    if not isinstance(interleaved, bool):
        raise bad(f"interleaved is {interleaved!r}", "False, True", TypeError)
    if not (isinstance(cp_size, int) and 1 <= cp_size < 2**31):
        raise bad(f"cp_size is {cp_size!r}", "an integer from 1, below 2^31")
    if not (isinstance(cp_rank, int) and 0 <= cp_rank < cp_size):
        raise bad(f"cp_rank is {cp_rank!r}", f"an integer from 0 to cp_size - 1 = {cp_size - 1}")
    if cp_size > 1 and seq_len % 2 and not packed and position_ids is None:
        came = f"cp_size is {cp_size}, and {name} has s = {seq_len} positions"
        raise bad(came, "an even s, for two chunks of equal length")

    positions = None if packed or position_ids is not None else seq_len * cp_size
    rotary_dim, s2 = _check_freqs(freqs, t, name, batch, interleaved)
    if rotary_dim % 2 or not 2 <= rotary_dim <= head_dim:
        accepted = f"an even number from 2 to {name}'s head dimension d = {head_dim}"
        raise bad(f"freqs has last dimension d2 = {rotary_dim}", accepted)
    if s2 is not None and positions is not None and s2 < positions:
        needs = f"{name} of shape {tuple(t.shape)} in format {tensor_format!r} needs"
        came = f"freqs has angles for s2 = {s2} positions"
        raise ValueError(f"{came}; {needs} at least s = {positions}")

    sequences = batch
    if cu_seqlens is not None:
        if not packed:
            came = f"cu_seqlens came with tensor_format {tensor_format!r}"
            raise ValueError(f"{came}; accepted only with 'thd'")
        check_tensor("cu_seqlens", cu_seqlens, _INTEGERS[:2], None, t, name)
        if cu_seqlens.dim() != 1 or cu_seqlens.numel() == 0:
            raise bad(f"cu_seqlens has shape {tuple(cu_seqlens.shape)}", "(b + 1,)")
        sequences = cu_seqlens.numel() - 1
    elif packed and position_ids is None:
        accepted = "the cumulative sequence lengths, int32 or int64 of shape (b + 1,)"
        raise bad("cu_seqlens is None with tensor_format 'thd'", f"{accepted}, or position_ids")
    if start_positions is not None:
        check_tensor("start_positions", start_positions, _INTEGERS, [(sequences,)], t, name)
    if position_ids is not None:
        if start_positions is not None:
            raise bad("position_ids came with start_positions", "one of the two")
        shapes = [(seq_len,)] if packed else [(batch, seq_len), (1, seq_len)]
        check_tensor("position_ids", position_ids, _INTEGERS, shapes, t, name)
    return seq_len, positions if start_positions is None else None


def _check_freqs(freqs, t: Tensor, name: str, batch: int, interleaved: bool) -> tuple:
    """Return d2, and s2 of a table."""
    if isinstance(freqs, RotaryPositionEmbedding):
        if freqs.interleaved != interleaved:
            raise bad(f"freqs has interleaved = {freqs.interleaved}", f"the call's, {interleaved}")
        shape = (freqs.rotary_dim // 2,)
        check_tensor("freqs", freqs.inv_freq, _FLOATS, [shape], t, name, " for inv_freq")
        if is_differentiated(freqs.inv_freq):
            raise bad("freqs has an inv_freq that requires a gradient", "freqs(max_seq_len)")
        return freqs.rotary_dim, None
    if isinstance(freqs, tuple | list):
        if len(freqs) != 2:
            raise bad(f"freqs has {len(freqs)} entries", "(cos, sin)")
        cos, sin = freqs
        check_tensor("freqs[0]", cos, _FLOATS, None, t, name)
        if cos.dim() not in (2, 3) or cos.shape[:-2] not in ((), (1,), (batch,)):
            accepted = f"(s2, d2) or (b, s2, d2), b = {batch} or 1"
            raise bad(f"freqs[0] has shape {tuple(cos.shape)}", accepted)
        check_tensor("freqs[1]", sin, (cos.dtype,), [cos.shape], t, name, " beside freqs[0]")
        return cos.shape[-1], cos.shape[-2]
    # fp16 or bf16 angles cannot tell position 2048 from 2049: refused, never rounded up in silence
    accepted = (torch.float32, torch.float64) if t.dtype == torch.float64 else (torch.float32,)
    check_tensor("freqs", freqs, accepted, None, t, name, f" with {name} of {_short(t.dtype)}")
    if freqs.dim() != 4 or freqs.shape[1:3] != (1, 1):
        raise bad(f"freqs has shape {tuple(freqs.shape)}", "(s2, 1, 1, d2)")
    return freqs.shape[3], freqs.shape[0]


def check_tensor(name, x, dtypes=(), shapes=None, t=None, t_name="t", why="") -> None:
    """`x` must be a tensor, of one of the dtypes and of the shapes, on the device of `t`."""
    if not isinstance(x, Tensor):
        raise bad(f"{name} is of type {type(x).__name__}", "torch.Tensor", TypeError)
    if x.layout != torch.strided or x.is_nested:
        layout = "of a nested tensor" if x.is_nested else x.layout
        raise bad(f"{name} has layout {layout}", "torch.strided")
    if dtypes and x.dtype not in dtypes:
        names = ", ".join(_short(dtype) for dtype in dtypes)
        raise TypeError(f"{name} has dtype {_short(x.dtype)}; accepted{why}: {names}")
    if shapes and x.shape not in shapes:
        names = " or ".join(str(tuple(shape)) for shape in shapes)
        raise ValueError(f"{name} has shape {tuple(x.shape)}; accepted{why}: {names}")
    if t is not None and x.device != t.device:
        raise ValueError(f"{name} is on {x.device}; it must be on {t_name}'s device, {t.device}")


def check_values(angles: Angles, seq_len: int) -> None:
    """Check the values of tensors on the CPU, where to read them costs nothing."""
    cu_seqlens, starts = angles[2:4]
    if not (angles.table.is_cpu and all(has_values(x) for x in angles[2:5])):
        return
    if cu_seqlens is not None:
        came, size = f"cu_seqlens is {_head(cu_seqlens)}", angles.cp_size
        lengths, tokens = cu_seqlens.long().diff(), seq_len * size
        if cu_seqlens[0] != 0 or (lengths < 0).any():
            raise bad(came, "values that start at 0 and never fall")
        if cu_seqlens[-1] > tokens:
            raise bad(came, f"values up to {tokens}, the number of tokens on all ranks")
        if size > 1 and (lengths % (2 * size)).any():
            raise bad(came, f"lengths that 2 * cp_size = {2 * size} divides")
    if starts is not None and ((starts < 0) | (starts.long() > 2**62)).any():
        raise bad(f"start_positions is {_head(starts)}", "values from 0 to 2^62")
    if angles.on_the_fly:
        return
    # of the first rank, which has the last positions too: so all ranks agree
    position, in_sequence = angles._replace(cp_rank=0).positions(seq_len)
    used = position if in_sequence is None else position[:, in_sequence]
    first, last = used.aminmax() if used.numel() else (0, -1)
    if first < 0:
        raise bad(f"position_ids has {first}", "values from 0")
    if last >= (s2 := angles.rows[0].shape[1]):
        came = f"freqs has angles for s2 = {s2} positions"
        raise ValueError(f"{came}; the last position in use needs {int(last) + 1}")


def check_inplace(tensors: dict[str, Tensor], angles: Angles) -> None:
    """Raise `ValueError` where tensors cannot be overwritten, before anything is written."""
    with_grad = torch.is_grad_enabled()
    if with_grad and any(x is not None and x.requires_grad for x in angles[:2]):
        raise bad("freqs requires a gradient", "with inplace=True freqs.detach()")
    if is_traced():
        return  # PyTorch checks gradients when it traces; the operator comes here when it runs
    transformed = torch._C._are_functorch_transforms_active()  # there PyTorch overwrites
    with_grad = with_grad and any(t.requires_grad for t in tensors.values())
    for name, t in tensors.items():
        base, accepted = t._base if t._is_view() else t, f"with inplace=True e.g. {name}.clone()"
        if with_grad and base.is_leaf and base.requires_grad:
            raise bad(f"{name} is a leaf that requires a gradient, or a view of one", accepted)
        if not transformed and _overlaps_itself(t.shape, t.stride()):
            raise bad(f"{name} has elements in one place: strides {t.stride()}", accepted)
        plain = torch._C._autograd.CreationMeta.DEFAULT  # not from chunk or split, nor in no_grad
        if (with_grad and t._is_view() and not transformed) and (
            len(tensors) > 1 or torch._C._autograd._get_creation_meta(t) != plain
        ):
            accepted += ", or one slice (not from chunk or split) a call"
            raise bad(f"{name} is a view that autograd cannot overwrite", accepted)
    have_memory = not transformed and all(has_values(t) for t in tensors.values())
    if len(tensors) == 2 and have_memory and _share_elements(*tensors.values()):
        raise bad("k shares memory with q", "with inplace=True separate elements")


def bad(came: str, accepted: str, error: type[Exception] = ValueError) -> Exception:
    """The error to be raised: what came, and what is accepted."""
    return error(f"{came}; accepted: {accepted}")


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _head(values: Tensor) -> str:
    shown = ", ".join(str(value) for value in values[:6].tolist())
    return f"[{shown}{', ...' if values.numel() > 6 else ''}]"


@lru_cache(4096)
def _overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    dims = zip(strides, shape, strict=True)
    steps = sorted((stride, 1 - n, n - 1) for stride, n in dims if n > 1)
    return 0 not in shape and bool(steps) and (steps[0][0] == 0 or _lead_to(0, steps))


def _share_elements(q: Tensor, k: Tensor) -> bool:
    """Is an element of `q` one of `k` too? Where their strides differ, it says yes to be safe."""
    distance = (k.data_ptr() - q.data_ptr()) // q.element_size()
    q, k = (q.shape, q.stride()), (k.shape, k.stride())
    if 0 in q[0] or 0 in k[0] or not -_last_element(*k) <= distance <= _last_element(*q):
        return False
    dims = [dim for dim in zip(*q, *k, strict=True) if dim[::2] != (1, 1)]
    if any(q_step != k_step and 1 not in (nq, nk) for nq, q_step, nk, k_step in dims):
        return True
    # from an element of q to the same of k, by steps along q and back along k
    steps = [(k_step if nq == 1 else q_step, 1 - nk, nq - 1) for nq, q_step, nk, k_step in dims]
    return _lead_to(distance, sorted(steps), moved=True)


@lru_cache(4096)
def _last_element(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Where the last element lies, counted from the first."""
    return sum(step * (n - 1) for step, n in zip(strides, shape, strict=True))


def _lead_to(distance: int, steps: list[tuple[int, int, int]], moved: bool = False) -> bool:
    """Do steps, (size, fewest, most) from the smallest size, not none, add up to the distance?"""
    if not steps:
        return distance == 0 and moved
    *smaller, (size, fewest, most) = steps
    least, furthest = (sum(step[0] * step[i] for step in smaller) for i in (1, 2))
    fewest = max(fewest, -((furthest - distance) // size))
    most = min(most, (distance - least) // size)
    return any(
        _lead_to(distance - n * size, smaller, moved or n != 0) for n in range(fewest, most + 1)
    )
