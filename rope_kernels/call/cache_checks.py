"""What `rope_to_cache` accepts beyond the rotation and the norm, and the errors for the rest."""

import torch
from torch import Tensor

from ..embedding.arguments import short
from ..machine.modes import has_values, is_dtensor, is_traced, wants_grad
from .arguments import CacheCall, Call
from .checks import bad, check_apart, check_call, check_flag, check_tensor
from .norm_checks import check_norm_call

FP8 = torch.float8_e4m3fn


def check_cache_call(call: Call) -> None:
    """Check everything about a call that writes into caches but the values of its tensors.

    Raises:
        TypeError: a dtype that is not accepted, or not a tensor, number or bool where one is.
        ValueError: shapes, devices or options that do not fit together, or a gradient is wanted.
    """
    (q, k), cache = call.tensors, call.cache
    for name, x in [("q", q), ("k", k), *cache.named]:
        if is_dtensor(x):
            raise bad(f"{name} is a DTensor", "the tensor of each rank, x.to_local()", TypeError)
    if call.norm is None:
        check_call(call)
    elif None in call.norm.weights:
        missing = call.norm.weight_names[call.norm.weights.index(None)]
        raise bad(f"{missing} is None beside the other weight", "both weights, or none")
    else:
        check_norm_call(call)
    check_flag("return_k", cache.return_k)
    tokens, heads, _ = k.shape
    if check_tensor("v", cache.v, (k.dtype,)).shape != k.shape:
        raise bad(f"v has shape {tuple(cache.v.shape)}", f"that of k, {tuple(k.shape)}")
    _check_caches(k, cache)
    slots = check_tensor("slot_mapping", cache.slot_mapping, (torch.int32, torch.int64))
    if slots.dim() != 1 or slots.shape[0] > tokens:
        accepted = f"a slot for each of the first tokens, of which there are {tokens}"
        raise bad(f"slot_mapping has shape {tuple(slots.shape)}", accepted)
    for name, x in cache.named[4:]:
        if x is not None:
            _check_scale(name, x, cache.k_cache, heads)
    for name, x in cache.named:
        if x is not None and x.device != q.device:
            raise ValueError(f"{name} is on {x.device}; it must be on q's device, {q.device}")
    tables = call.freqs if isinstance(call.freqs, (tuple, list)) else (call.freqs,)
    if wants_grad((q, k, cache.v, *tables, *(call.norm.tensors if call.norm else ()))):
        accepted = "tensors without, or a call within torch.no_grad(): a cache has no gradient"
        raise bad("a tensor requires a gradient", accepted)


def _check_caches(k: Tensor, cache: CacheCall) -> None:
    for name, x in cache.named[1:3]:
        check_tensor(name, x, (k.dtype, FP8))
        if x.dim() != 4 or x.shape[2:] != k.shape[1:]:
            heads, d = k.shape[1:]
            accepted = f"(blocks, positions of a block, {heads}, {d})"
            words = f"{accepted}, for k of shape {tuple(k.shape)}"
            raise bad(f"{name} has shape {tuple(x.shape)}", words)
    k_cache, v_cache = cache.k_cache, cache.v_cache
    if k_cache.dtype != v_cache.dtype:
        came = f"v_cache has dtype {short(v_cache.dtype)}"
        raise bad(came, f"that of k_cache, {short(k_cache.dtype)}")
    if k_cache.shape != v_cache.shape:
        accepted = f"that of k_cache, {tuple(k_cache.shape)}"
        raise bad(f"v_cache has shape {tuple(v_cache.shape)}", accepted)


def check_written(call: Call) -> None:
    """Check what every call has to ask anew: memory that is written, and slots on the CPU."""
    cache = call.cache
    q, k = call.tensors
    if is_traced() or not all(has_values(x) for x in (q, k, *cache.tensors)):
        return
    read = [("k", k), ("v", cache.v), ("slot_mapping", cache.slot_mapping)]
    written = [("k_cache", cache.k_cache), ("v_cache", cache.v_cache)]
    if call.inplace:
        written.append(("q", q))
    else:
        read.append(("q", q))
    for i, (name, x) in enumerate(written):
        if any(n > 1 and step == 0 for n, step in zip(x.shape, x.stride(), strict=True)):
            raise bad(f"{name} is expanded, by its strides {x.stride()}", "memory for each element")
        if x.is_neg():
            raise bad(f"{name} is a view with a pending sign", f"{name}.resolve_neg()")
        for other, y in (*read, *written[:i]):
            check_apart(name, x, other, y)
    slots = cache.slot_mapping
    if slots.is_cpu and slots.numel():
        last, count = int(slots.max()), cache.k_cache.shape[0] * cache.k_cache.shape[1]
        if last >= count:
            raise bad(f"slot_mapping has {last}", f"slots below {count}; a negative one: no write")


def _check_scale(name: str, x: object, cache: Tensor, heads: int) -> None:
    check_tensor(name, x, (torch.float32,))
    if cache.dtype != FP8:
        came = f"{name} came with a cache of {short(cache.dtype)}"
        raise bad(came, f"None, or a cache of {short(FP8)}")
    if x.shape not in ((1,), (heads,)):
        raise bad(f"{name} has shape {tuple(x.shape)}", f"(1,), or ({heads},) for each head of k")
