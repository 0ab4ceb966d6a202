"""Rotate q and k, and write k and v into the slots of a cache."""

from typing import NamedTuple

import torch
from torch import Tensor

from .. import reference
from ..api import rotation_of
from ..arguments import Tensors
from ..autograd import (
    ROTATION,
    Value,
    count_as_written,
    operator,
    rotate_by_path,
    rotation_of_values,
    values_of,
)
from ..check_call import Like, check_values
from ..checks import INTEGERS, bad
from ..inplace import check_apart, check_overwritten, named_tensors
from ..launch import checking, known_of_rotation, launch_rotation
from ..paths import (
    Path,
    check_in_run,
    have_elements,
    is_differentiated,
    is_known,
    is_traced,
    is_transformed,
    is_watched,
    log_path,
    path_of,
    wants_grad,
)
from ..rotation import Call, Freqs, Rotation, Rounding

_EMPTY = Path("pytorch", "there are no tokens, or no slots")


class _Came(NamedTuple):
    """The tensors of a call, except those of its rotation, with the names of the arguments."""

    q: Tensor
    k: Tensor
    v: Tensor
    k_cache: Tensor
    v_cache: Tensor
    slot_mapping: Tensor


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
    rounding: Rounding | None = None,
    interleaved: bool | None = None,
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    fused: bool = True,
) -> Tensor:
    """Rotate queries and keys, and write keys and values into a KV cache, in one launch.

    The call has no gradient. It reads nothing back from the GPU, so it works in a CUDA graph.
    `apply_rotary_pos_emb` explains the keywords that are not listed here.

    Caches may have any strides. Pass a view of shape (blocks, page, h, d):

    - vLLM: `kv_cache[0]` and `kv_cache[1]` of (2, blocks, page, h, d), in any memory order; for
      (blocks, h, page, 2 d), `kv_cache.transpose(1, 2).chunk(2, dim=-1)`;
    - SGLang: (slots, h, d), `k_cache.unsqueeze(1)`: pages of one position;
    - transformers' static cache: (b, h, s, d), `k_cache.transpose(1, 2)`: slot b * s + position.

    Args:
        q: queries, (tokens, h, d), in fp32, fp16, bf16 or fp64. Like k and v, they may have any
            strides, such as those of slices of one projection.
        k: keys, (tokens, kv heads, d).
        v: values, like `k`. They are copied.
        freqs: a `RotaryPositionEmbedding`, or a table: angles, or (cos, sin).
        k_cache: (blocks, page, kv heads, d), in the dtype of `k`.
        v_cache: like `k_cache`, with any strides. Both may be slices of one tensor.
        slot_mapping: (n,), n <= tokens, int32 or int64: the slot of each of the first n tokens,
            block * page + position within the block. A token with a negative slot is rotated, but
            not written; nor are tokens after the first n. If a slot occurs twice, its contents are
            undefined. A slot outside the cache raises an error on a CPU; on a GPU, it is not
            written.
        position_ids: (tokens,): the position of every token. Either these or `cu_seqlens` are
            required.
        cu_seqlens: (sequences + 1,): the start of each prompt, then the end of the last one.
        start_positions: with `cu_seqlens`, (sequences,) or an int: the position of each prompt's
            first token, which is the number of its tokens that are already in the cache.
        inplace: True: overwrite q and return it. k and v are never overwritten.

    Returns:
        q, rotated: a new tensor with its strides in the same order, or q itself with `inplace`.

    Raises:
        TypeError: an argument has a type or dtype that is not accepted.
        ValueError: shapes, devices, values or options do not fit together, written memory is
            shared, or a tensor requires a gradient.

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
    call = Call.__new__(
        Call,
        freqs=freqs,
        tensor_format="thd",
        cu_seqlens=cu_seqlens,
        start_positions=start_positions,
        position_ids=position_ids,
        rotary_dim=rotary_dim,
        rotary_start=rotary_start,
        interleaved=interleaved,
        inverse=inverse,
        rounding=rounding,
        fused=fused,
        inplace=inplace,
    )
    came = _Came(q=q, k=k, v=v, k_cache=k_cache, v_cache=v_cache, slot_mapping=slot_mapping)

    shared = v, k_cache, v_cache, slot_mapping, "to cache"
    rotation, known = rotation_of(call, (q, k), *shared)
    if known is None or not known.is_checked:
        with checking():
            _check_cache(k, v=v, k_cache=k_cache, v_cache=v_cache, slots=slot_mapping)
        if known is not None:
            known.is_checked = True
    _check_no_gradient(came, rotation)
    if not is_traced() and have_elements((*came, *rotation.tensors)):
        _check_written(came, inplace, rotation)
    q_out = q if inplace else torch.empty_like(q)
    path = path_of(came, rotation, fused=fused, known=known)
    if path.by != "pytorch" and any([is_known(x.numel() == 0) for x in (q, k, k_cache)]):
        path = _EMPTY
    if path.by != "kernel":
        log_path("rope_to_cache", path)
    if path.by == "kernel":
        tensors = Tensors(q, k, v, q_out, k_cache, v_cache, *rotation.tensors, slot_mapping)
        launch_rotation(tensors, rotation, known)
        count_as_written((q_out, k_cache, v_cache) if inplace else (k_cache, v_cache))
    elif path.by == "operator" and not is_watched():
        _cache_op(q, k, q_out, v, k_cache, v_cache, slot_mapping, *values_of(rotation))
    else:  # Under a mode, PyTorch's operators must write: `autograd.rotate_by_path` says why.
        by = reference.rotate if path.by == "pytorch" else rotate_by_path
        rotated_q, rotated_k = by((q, k), rotation)
        _write(k_cache, rotated_k, slot_mapping)
        _write(v_cache, v, slot_mapping)
        q_out.copy_(rotated_q)
    return q_out


def _check_cache(k: Tensor, *, v: object, k_cache: object, v_cache: object, slots: object) -> None:
    """Check the arguments that a cache adds to those of a rotation, except values and memory."""
    tokens, heads, d = k.shape
    like_k = Like("k", k, "thd")
    like_k.check("v", v, (k.dtype,), [(tokens, heads, d)])
    cache = like_k.check("k_cache", k_cache, (k.dtype,), [("blocks", "page", heads, d)])
    like_k.check("v_cache", v_cache, (k.dtype,), [tuple(cache.shape)], when=" with k_cache")
    mapping = like_k.check("slot_mapping", slots, INTEGERS[:2], [("n",)])
    if is_known(mapping.shape[0] > tokens):
        accepted = f"at most {tokens} slots, one for each of the first tokens"
        raise bad(f"slot_mapping has shape {tuple(mapping.shape)}", accepted)
    check_in_run(mapping.shape[0] <= tokens)


def _check_no_gradient(came: _Came, rotation: Rotation) -> None:
    """Raise `ValueError` if any tensor of the call requires a gradient."""
    transformed = is_transformed()
    if not (transformed or wants_grad((*came, *rotation.tensors))):
        return
    for name, x in named_tensors(rotation, came._asdict().items()):
        if wants_grad((x,)) or (transformed and x is not None and is_differentiated(x)):
            accepted = "a call within torch.no_grad(), because a cache has no gradient"
            raise bad(f"{name} requires a gradient", accepted)


def _check_written(came: _Came, inplace: bool, rotation: Rotation) -> None:
    """Check what isn't part of the signature: written memory, and the values of slots on a CPU."""
    names = ("q", "v_cache", "k_cache") if inplace else ("v_cache", "k_cache")
    read = came._asdict()
    written = [(name, read.pop(name)) for name in names]
    for name, x in written:
        check_overwritten(name, x, "separate memory for each element")
        if x.is_neg():
            raise bad(f"{name} is a view with its negative bit set", f"{name}.resolve_neg()")
    check_apart(written, named_tensors(rotation, read.items()))
    blocks, page = came.k_cache.shape[:2]
    count, slots = blocks * page, came.slot_mapping
    if slots.is_cpu and slots.numel() and int(slots.max()) >= count:
        accepted = f"slots below {count}, or negative ones, which skip the write"
        raise bad(f"slot_mapping has {int(slots.max())}", accepted)


def _write(cache: Tensor, x: Tensor, slots: Tensor) -> None:
    """Write x, (tokens, h, d), to the tokens' slots, in plain PyTorch."""
    page, slot = cache.shape[1], slots.long()
    x = x[: slots.shape[0]]
    if not (slot.numel() and cache.numel()):
        return
    inside = (slot >= 0) & (slot < cache.shape[0] * page)
    # Selecting the tokens with a slot would read back how many there are. Instead, the other tokens
    # repeat the write of the first token with a slot. If there is none, they write to slot 0 what
    # it already contains.
    first, any_inside = inside.int().argmax().view(1), inside.any()
    other_slot = torch.where(any_inside, slot.index_select(0, first), 0)
    other_x = torch.where(any_inside, x.index_select(0, first), cache[0, 0])
    slot = torch.where(inside, slot, other_slot)
    cache[slot // page, slot % page] = torch.where(inside[:, None, None], x, other_x)


@operator(
    "rope_to_cache",
    "Tensor q, Tensor k, Tensor(a!) q_out, Tensor v, Tensor(b!) k_cache, Tensor(c!) v_cache, "
    f"Tensor slot_mapping, {ROTATION}",
    ["q_out", "k_cache", "v_cache"],
)
def _cache_op(
    q: Tensor,
    k: Tensor,
    q_out: Tensor,
    v: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    slot_mapping: Tensor,
    *values: Value,
) -> None:
    rotation = rotation_of_values(values)
    inplace = q_out.data_ptr() == q.data_ptr()
    if inplace:
        q_out = q
    came = _Came(q=q, k=k, v=v, k_cache=k_cache, v_cache=v_cache, slot_mapping=slot_mapping)
    _check_written(came, inplace, rotation)
    check_values(rotation, len(q))
    known = known_of_rotation((*came, q_out), rotation, "to cache", inplace)
    tensors = Tensors(q, k, v, q_out, k_cache, v_cache, *rotation.tensors, slot_mapping)
    launch_rotation(tensors, rotation, known)


@_cache_op.register_fake
def _(*given: Value) -> None:
    return None
