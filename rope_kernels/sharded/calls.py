"""A call with DTensors as the call that this rank makes with its own tensors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import DTensor

from ..call.arguments import Call, NormCall
from ..call.checks import bad, check_call
from ..call.norm_checks import check_norm_call
from ..embedding import AnglesPerPair, CosSinPerPair, RotaryPositionEmbedding
from ..machine.modes import is_dtensor, is_traced, is_transformed, wants_grad
from .placements import (
    Placements,
    Sharding,
    check_beside,
    check_pair,
    grad_placements_beside,
    mesh_in_words,
    sharding_of,
)

# Before torch 2.12 `to_local` loses the history of gradients, silently.
HAS_SECOND_DERIVATIVES = torch.__version__ >= (2, 12)


@dataclass(slots=True)
class _Table:
    """A tensor of `freqs`, by the name in messages, and which of its dimensions are whose."""

    name: str
    x: Tensor
    rows: int  # the dimension of positions
    dims: dict[str, int]  # of batch entries, if each has its own


def rotate_shards(call: Call, rotate: Callable[[Call], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Answer a call with DTensors. `rotate` is `routes.rotate_call`, for the tensors of a rank."""
    _check_mode()
    check = check_call if call.norm is None else check_norm_call
    check(call)
    shardings = _shardings_of(call)
    return _results(call, shardings, rotate(_call_of_rank(call, shardings)))


def _check_mode() -> None:
    """PyTorch cannot take a DTensor apart while one of these is active."""
    if is_transformed():
        came = "a tensor is a DTensor, within torch.func, forward mode or torch.jit.trace"
        raise bad(came, "torch.autograd; or to_local() of each tensor")


def _shardings_of(call: Call) -> list[Sharding]:
    """How the tensors to rotate are sharded."""
    found = []
    for name, t in zip(call.names, call.tensors, strict=True):
        if not isinstance(t, DTensor):
            other, x = next((y, x) for y, x in _named(call) if isinstance(x, DTensor))
            came = f"{name} is of type {type(t).__name__}, and {other} is a DTensor on"
            accepted = "a DTensor, or none in the whole call"
            raise bad(f"{came} {mesh_in_words(x.device_mesh)}", accepted, TypeError)
        found.append(sharding_of(name, t, call.tensor_format))
    if len(found) == 2:
        q_heads, k_heads = (t.shape[call.tensor_format.index("h")] for t in call.tensors)
        check_pair(*found, (q_heads, k_heads))
    if call.inplace and wants_grad(call.tensors):
        came = "inplace is True, and a DTensor requires a gradient"
        raise bad(came, "inplace=False; or a call within torch.no_grad()")
    return found


def _named(call: Call) -> list[tuple[str, object]]:
    """What of a call may be a DTensor, by name."""
    found = [*zip(call.names, call.tensors, strict=True)]
    if isinstance(call.freqs, RotaryPositionEmbedding):
        found.append(("freqs.inv_freq", call.freqs.inv_freq))
    else:
        found += [(table.name, table.x) for table in _tables_of(call)]
    found += zip(("cu_seqlens", "start_positions", "position_ids"), call.where, strict=True)
    return found if call.norm is None else [*found, *call.norm.named]


def _results(call: Call, shardings: list[Sharding], outs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    if not call.inplace:
        return tuple([whole_of(out, x) for out, x in zip(outs, shardings, strict=True)])
    if not is_traced():  # the local tensors have counted it, their DTensors not
        torch.autograd.graph.increment_version([t for t in call.tensors if not t.is_inference()])
    return call.tensors


def _call_of_rank(call: Call, shardings: list[Sharding]) -> Call:
    """The same call with this rank's tensors, at the positions that they have in the whole."""
    first = shardings[0]
    sequence = "t" if call.tensor_format == "thd" else "s"
    norm = None if call.norm is None else _norm_of_rank(call, shardings)
    changes = _freqs_of_rank(call, shardings, sequence)
    rows_are_sharded = changes.pop("rows_are_sharded")
    changes |= _where_of_rank(call, first, sequence)
    if sequence in first.letters and call.position_ids is None and not rows_are_sharded:
        changes |= _shifted(call, first, sequence, changes)
    tensors = tuple([shard_of(t, t.placements) for t in call.tensors])
    return replace(call, tensors=tensors, norm=norm, **changes)


# Where tokens are


def _where_of_rank(call: Call, sharding: Sharding, sequence: str) -> dict[str, Tensor | None]:
    """`cu_seqlens`, `start_positions` and `position_ids` of this rank's tokens."""
    changes, packed = {}, sequence == "t"
    if call.cu_seqlens is not None:
        check_beside("cu_seqlens", call.cu_seqlens, sharding, {})
        changes["cu_seqlens"] = shard_of(call.cu_seqlens)
    starts, ids = call.start_positions, call.position_ids
    if starts is not None and (isinstance(starts, DTensor) or packed):
        check_beside("start_positions", starts, sharding, {} if packed else {"b": 0})
        changes["start_positions"] = shard_of(starts)
    elif starts is not None:  # every rank has all of them, as those that an int was made of
        first, count = sharding.part("b", starts.shape[0])
        changes["start_positions"] = starts.narrow(0, first, count)
    if ids is not None:
        first = ids.dim() - (1 if packed else 2)  # after a dimension for the axes, if there is one
        own = {} if packed or ids.shape[first] == 1 else {"b": first}
        dims = {"t": first} if packed else {"s": first + 1} | own
        check_beside("position_ids", ids, sharding, dims)
        changes["position_ids"] = shard_of(ids)
    return changes


def _shifted(
    call: Call, sharding: Sharding, sequence: str, changes: Mapping[str, object]
) -> dict[str, object]:
    """What adds the offset of this rank's shard of the sequence to every position."""
    if call.cp_size > 1:
        came = f"cp_size is {call.cp_size}, and {sharding.name} has a sharded sequence on"
        raise bad(f"{came} {mesh_in_words(sharding.mesh)}", "one of the two, or position_ids")
    whole = sharding.t.shape[call.tensor_format.index(sequence)]
    offset, count = sharding.part(sequence, whole)
    starts = changes.get("start_positions")
    if sequence == "t":
        return _cut(changes["cu_seqlens"], starts, offset, count)
    ranks = sharding.ranks(sequence)
    if whole % ranks == 0:
        rank = sharding.rank(sequence)
        return {"cp_size": ranks, "cp_rank": rank, "cp_order": "contiguous"}
    return {"start_positions": offset if starts is None else starts.long() + offset}


def _cut(cu_seqlens: Tensor, starts: Tensor | None, offset: int, count: int) -> dict[str, Tensor]:
    """Packed sequences as far as they are among `count` tokens from `offset` on."""
    cut_off = (offset - cu_seqlens[:-1]).clamp(min=0)
    return {
        "cu_seqlens": (cu_seqlens - offset).clamp(0, count),
        "start_positions": cut_off if starts is None else starts.long() + cut_off,
    }


# Angles


def _freqs_of_rank(call: Call, shardings: list[Sharding], sequence: str) -> dict[str, object]:
    """`freqs` for this rank, and whether its rows are those of the rank's positions alone."""
    freqs, first = call.freqs, shardings[0]
    if isinstance(freqs, RotaryPositionEmbedding):
        if is_dtensor(freqs.inv_freq):
            came = "freqs has an inv_freq that is a DTensor"
            raise bad(came, "a module that distribute_module has not changed: a copy made before")
        return {"rows_are_sharded": False}
    tables = _tables_of(call)
    if wants_grad([x.x for x in tables]) and len({x.letters for x in shardings}) > 1:
        came = "freqs requires a gradient, and q and k have different placements"
        raise bad(came, "a call of apply_rotary_pos_emb for each")
    rows = [_has_sharded_rows(x, call, first, sequence) for x in tables]
    found = []
    for table in tables:
        dims = table.dims | ({sequence: table.rows} if all(rows) else {})
        check_beside(table.name, table.x, first, dims)
        found.append(shard_of(table.x, grad_placements_beside(first, dims)))
    if isinstance(freqs, AnglesPerPair):
        mine = AnglesPerPair(*found)
    elif isinstance(freqs, CosSinPerPair):
        mine = CosSinPerPair(*found)
    else:
        mine = found[0] if isinstance(freqs, Tensor) else tuple(found)
    return {"freqs": mine, "rows_are_sharded": all(rows)}


def _tables_of(call: Call) -> list[_Table]:
    freqs = call.freqs
    if isinstance(freqs, (Tensor, AnglesPerPair)):
        return [_Table("freqs", freqs.angles if isinstance(freqs, AnglesPerPair) else freqs, 0, {})]
    names = "freqs[0]", "freqs[1]"
    dims = {"b": 0} if freqs[0].dim() == 3 and freqs[0].shape[0] > 1 else {}
    rows = freqs[0].dim() - 2
    return [_Table(name, x, rows, dims) for name, x in zip(names, freqs, strict=True)]


def _has_sharded_rows(table: _Table, call: Call, sharding: Sharding, sequence: str) -> bool:
    """Whether row i of the whole table is for token i, and sharded as that."""
    x, length = table.x, sharding.t.shape[call.tensor_format.index(sequence)]
    says_more = any(y is not None for y in call.where) or call.cp_size > 1
    if not isinstance(x, DTensor) or says_more or x.shape[table.rows] != length:
        return False
    on_rows = [p.is_shard(table.rows) for p in x.placements]
    return any(on_rows) and on_rows == [letter == sequence for letter in sharding.letters]


# Norms


def _norm_of_rank(call: Call, shardings: list[Sharding]) -> NormCall:
    """Weights and sums of squares of this rank's rows."""
    heads, found = call.tensor_format.index("h"), {"weights": [], "sumsqs": []}
    norm, names = call.norm, iter(call.norm.named)
    for field, tensors in (("weights", norm.weights), ("sumsqs", norm.sumsqs)):
        for x, sharding, (name, _) in zip(tensors, shardings, names, strict=False):
            if x is None:
                found[field].append(None)
                continue
            if field == "weights":
                dims = {"h": 0} if x.dim() == 2 else {}
            else:
                dims = {letter: i for i, letter in enumerate(call.tensor_format) if letter != "d"}
                if x.shape[heads] != sharding.t.shape[heads]:
                    del dims["h"]  # all heads share one sum
            check_beside(name, x, sharding, dims)
            found[field].append(shard_of(x, grad_placements_beside(sharding, dims)))
    return replace(norm, weights=tuple(found["weights"]), sumsqs=tuple(found["sumsqs"]))


# From DTensors to the tensors of this rank, and back: what `local_map` of
# torch.distributed.tensor.experimental does, but results keep the true shape and stride where
# shards are uneven.


def shard_of(x: Tensor, grad_placements: Placements | None = None) -> Tensor:
    """This rank's part of a DTensor, or the plain tensor itself.

    Its gradient becomes a DTensor with `grad_placements`; None: with those of `x`.
    """
    if not isinstance(x, DTensor):
        return x
    if isinstance(x._local_tensor, AsyncCollectiveTensor):
        x._local_tensor = x._local_tensor.wait()  # a kernel sees no pending communication
    return x.to_local(grad_placements=grad_placements)


def whole_of(shard: Tensor, sharding: Sharding) -> DTensor:
    """The DTensor of every rank's contiguous results, with the shape and placements of the input.

    Nothing is checked, because that would communicate.
    """
    t, stride, step = sharding.t, [], 1
    for n in reversed(t.shape):
        stride.insert(0, step)
        step *= max(n, 1)
    how = {"run_check": False, "shape": t.shape, "stride": tuple(stride)}
    whole = DTensor.from_local(shard, t.device_mesh, t.placements, **how)
    if not is_traced() and whole.requires_grad:
        whole.register_hook(partial(_keep_history, placements=t.placements))
    return whole


def _keep_history(grad: DTensor, placements: Placements) -> DTensor:
    """A result's gradient with its placements; `from_local` loses the history of any others.

    Raises:
        RuntimeError: create_graph=True, where a second derivative would be wrong.
    """
    if not torch.is_grad_enabled():  # create_graph=False: there is none
        return grad
    if not HAS_SECOND_DERIVATIVES:
        came = f"create_graph is True in a backward of DTensors, with torch {torch.__version__}"
        raise bad(came, "torch 2.12 or newer; or plain tensors", RuntimeError)
    return grad if grad.placements == placements else grad.redistribute(placements=placements)
