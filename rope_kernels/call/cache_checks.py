"""What `rope_to_cache` accepts beyond the rotation, and the errors for the rest."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..machine.modes import is_differentiated, is_transformed, wants_grad
from .arguments import OF_A_CACHE, CacheCall, Call
from .checks import (
    bad,
    check_apart,
    check_call,
    check_flag,
    check_overwritten,
    check_tensor,
    named_beside,
    named_tensors,
)
from .rotation import Rotation


def check_cache_call(call: Call) -> None:
    """Check everything about a call that writes into caches but the values of its tensors.

    Raises:
        TypeError: a dtype that is not accepted, or not a tensor, number or bool where one is.
        ValueError: shapes, devices or options that do not fit together, or a gradient is wanted.
    """
    (q, k), cache = call.tensors, call.cache
    check_call(call)
    check_flag("return_k", cache.return_k)
    if check_tensor("v", cache.v, (k.dtype,)).shape != k.shape:
        raise bad(f"v has shape {tuple(cache.v.shape)}", f"that of k, {tuple(k.shape)}")
    _check_caches(k, cache)
    _check_slots(k.shape[0], cache.slot_mapping)
    for name, x in cache.named:
        if x.device != q.device:
            raise ValueError(f"{name} is on {x.device}; it must be on q's device, {q.device}")
    for name, x in _named(call):
        if wants_grad((x,)) or (
            is_transformed() and isinstance(x, Tensor) and is_differentiated(x)
        ):
            accepted = "without, or a call within torch.no_grad(): a cache has no gradient"
            raise bad(f"{name} requires a gradient", accepted)


def _named(call: Call) -> list[tuple[str, object]]:
    """All that may be tensors, by the names of their arguments."""
    q, k = call.tensors
    return [("q", q), ("k", k), *call.cache.named, *named_beside(call)]


def _check_caches(k: Tensor, cache: CacheCall) -> None:
    for name, x in cache.named[1:3]:
        check_tensor(name, x, (k.dtype,))
        if x.dim() != 4 or x.shape[2:] != k.shape[1:]:
            heads, d = k.shape[1:]
            accepted = f"(blocks, positions of a block, {heads}, {d})"
            words = f"{accepted}, for k of shape {tuple(k.shape)}"
            raise bad(f"{name} has shape {tuple(x.shape)}", words)
    k_cache, v_cache = cache.k_cache, cache.v_cache
    if k_cache.shape != v_cache.shape:
        accepted = f"that of k_cache, {tuple(k_cache.shape)}"
        raise bad(f"v_cache has shape {tuple(v_cache.shape)}", accepted)


def check_written(
    tensors: Sequence[Tensor],
    inplace: bool,
    cache: Sequence[Tensor],
    rotation: Rotation,
) -> None:
    """Check what every call has to ask: memory that is written, and slots on the CPU.

    `cache` are the tensors of a `CacheCall`. All tensors have memory. Raises ValueError.
    """
    named = dict(zip(("q", "k", *OF_A_CACHE), (*tensors, *cache), strict=True))
    names = "k_cache", "v_cache", *(("q",) if inplace else ())
    written = [(name, named.pop(name)) for name in names]
    for name, x in written:
        check_overwritten(name, x)
    check_apart(written, (*named.items(), *named_tensors(rotation)))
    (_, _, _, slots), count = cache, cache[1].shape[0] * cache[1].shape[1]
    if slots.is_cpu and slots.numel() and int(slots.max()) >= count:
        accepted = f"slots below {count}; a negative one: no write"
        raise bad(f"slot_mapping has {int(slots.max())}", accepted)


def _check_slots(tokens: int, slot_mapping: object) -> None:
    slots = check_tensor("slot_mapping", slot_mapping, (torch.int32, torch.int64))
    if slots.dim() != 1 or slots.shape[0] > tokens:
        accepted = f"a slot for each of the first tokens, of which there are {tokens}"
        raise bad(f"slot_mapping has shape {tuple(slots.shape)}", accepted)
