"""Plans of the launches with a norm. They need no GPU and read no value."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ..call.formats import view_as_sbhd
from ..call.normalization import Normalization
from ..call.rotation import Rotation
from ..kernels.values import (
    BackwardOrder,
    Norm,
    NormBackward,
    NormBackwardStrides,
    NormStrides,
    Order,
)
from ..machine.engine import Engine, engine_of
from .norm_roundings import roundings_of
from .norm_tiles import backward_tile, forward_tile, max_registers, wanted_forward
from .plan import (
    Plan,
    StridesOfTables,
    alignment,
    cp_of,
    lookup_of,
    strides_of,
    strides_of_tables,
    with_rows_in_one_dimension,
)
from .rope_tiles import OrderOfPrograms, Work, order_of_programs, rows_run_outer
from .tile_facts import Facts, facts_of, next_power_of_2
from .tuning import NORM_BACKWARD, first_match

FORWARD, BACKWARD, SUM = "norm_rope_kernel", "norm_rope_backward_kernel", "sum_partials_kernel"
SMS_ELSEWHERE = 4  # where there is no GPU: enough programs to share the positions
PARTIALS_AT_ONCE = 512  # rows of partial sums that a program adds at a time, at most
PARTIALS = 2048  # that a program adds at a time: many small ones wait for memory together
SUM_WARPS = 8
# What a backward may allocate for partial sums: so many bytes, or 1 % of the input's gradient.
BYTES_OF_PARTIALS = 2**22
GRADIENT_PER_PARTIALS = 100


class ForwardTensors(NamedTuple):
    """The forward kernel's tensors, in the order of its arguments."""

    q: Tensor
    k: Tensor | None
    q_out: Tensor
    k_out: Tensor | None
    q_weight: Tensor | None
    k_weight: Tensor | None
    q_rstd: Tensor | None
    k_rstd: Tensor | None
    q_sumsq: Tensor | None
    k_sumsq: Tensor | None
    positions: Tensor | None
    table: Tensor
    sin: Tensor | None
    cu_seqlens: Tensor | None
    starts: Tensor | None
    ids: Tensor | None
    axes: Tensor | None


class BackwardTensors(NamedTuple):
    """The backward kernel's tensors, in the order of its arguments."""

    q_grad: Tensor
    k_grad: Tensor | None
    q: Tensor
    k: Tensor | None
    q_out: Tensor | None
    k_out: Tensor | None
    q_weight: Tensor | None
    k_weight: Tensor | None
    q_rstd: Tensor
    k_rstd: Tensor | None
    q_sumsq: Tensor | None
    k_sumsq: Tensor | None
    q_partial: Tensor | None
    k_partial: Tensor | None
    table: Tensor
    sin: Tensor | None
    starts: Tensor | None
    ids: Tensor | None
    axes: Tensor | None


class SumTensors(NamedTuple):
    """The tensors of the kernel that adds partial sums, (shares, d), in the order of its arguments.

    With weights of each head d is that of all heads.
    """

    q_partial: Tensor
    k_partial: Tensor | None
    q_out: Tensor
    k_out: Tensor | None


@dataclass(frozen=True)
class _Layout:
    """What both directions have in common: views of all tensors, the tile, the order of tiles."""

    views: dict[str, Tensor | None]  # (s, b, h, d or 1), by the names of the kernel's arguments
    facts: Facts
    work: Work
    order: OrderOfPrograms
    entries: int  # batch entries with rows of their own
    row_blocks: tuple[int, int]  # of q and of k
    s_blocks: int
    sizes: dict[str, int | tuple[int, ...] | None]  # run-time integers, and `cp`


def _layout(
    tensors: ForwardTensors | BackwardTensors,
    names: Sequence[str],
    rotation: Rotation,
    work_of: Callable[[Rotation, Facts], Work],
    per_batch: bool = False,
) -> _Layout:
    order = order_of_programs(tensors.q, rotation)
    views = {name: _view(getattr(tensors, name), tensors.q, rotation) for name in names}
    per_batch |= order.per_batch
    if not (per_batch or _is_per_head(tensors.q_weight)):  # a row should tell its head
        merged = with_rows_in_one_dimension(list(views.values()))
        views = dict(zip(names, merged, strict=True))
    seq_len, batch, q_heads, head_dim = views["q"].shape
    k_heads = 0 if tensors.k is None else views["k"].shape[2]
    order = order._replace(per_batch=per_batch or batch == 1)
    entries, shared = (batch, 1) if order.per_batch else (1, batch)
    rows, element_bytes = (shared * q_heads, shared * k_heads), tensors.q.element_size()
    facts = facts_of(rotation, head_dim, rows, element_bytes, rows_outer=order.rows_outer)
    work = work_of(rotation, facts)
    order = order._replace(rows_outer=rows_run_outer(order, work, rows))
    table = tensors.table
    sizes = {
        "seq_len": seq_len,
        "batch": batch,
        "q_heads": q_heads,
        "k_heads": k_heads,
        "s2": 0 if rotation.on_the_fly else table.shape[1 if table.dim() == 3 else 0],
        "cp": cp_of(rotation),
    }
    return _Layout(
        views=views,
        facts=facts,
        work=work,
        order=order,
        entries=entries,
        row_blocks=(-(-rows[0] // work.rows), -(-rows[1] // work.rows)),
        s_blocks=-(-seq_len // work.positions),
        sizes=sizes,
    )


def plan_forward(
    tensors: ForwardTensors, rotation: Rotation, norm: Normalization, engine: Engine | None = None
) -> Plan:
    """Plan the forward launch. Needs no GPU, reads no value: tensors may be on any device.

    `engine` is what the plan is for; None: the engine that takes `tensors.q`.
    """
    engine = engine_of(tensors.q) if engine is None else engine
    names = "q", "k", "q_out", "k_out", "q_rstd", "k_rstd", "q_sumsq", "k_sumsq"
    layout = _layout(tensors, names, rotation, forward_tile)
    work, order, wanted = layout.work, layout.order, wanted_forward(layout.facts)
    rounds = roundings_of(tensors.q, tensors.q_weight, rotation, norm)
    special = norm.like_model or _is_per_head(tensors.q_weight)
    registers = max_registers(wanted, rotation, layout.facts, tensors.q.dtype, special, engine)
    of_tables = _strides_of_tables(tensors, rotation)
    sequences = 0 if tensors.cu_seqlens is None else tensors.cu_seqlens.numel() - 1
    return Plan(
        kernel=FORWARD,
        programs=layout.entries * layout.s_blocks * sum(layout.row_blocks),
        num_warps=work.num_warps,
        sizes=layout.sizes | {"sequences": sequences},
        strides=NormStrides(**_strides(layout), table=of_tables.table, ids=of_tables.ids),
        constants={
            "head": work.head,
            "tile": work.tile,
            "order": Order(
                per_batch=order.per_batch,
                rows_outer=order.rows_outer,
                stretch=max(1, order.stretch // work.positions),
                aligned=alignment(tensors.q, tensors.k),
                out_aligned=alignment(tensors.q_out, tensors.k_out),
            ),
            "lookup": lookup_of(tensors.q, rotation, of_tables.unit, engine),
            "norm": Norm(
                eps=float(norm.eps),
                weight_offset=float(norm.weight_offset),
                dim=norm.dim,
                after=norm.after,
                rounds_normal=rounds.normal,
                rounds_product=rounds.product,
                per_head=_is_per_head(tensors.q_weight),
                weights_last=wanted.weights_last,
            ),
            "steps": rounds.steps,
        },
        fp_fusion=rounds.steps.fused,
        max_registers=registers,
    )


def plan_backward(
    tensors: BackwardTensors,
    rotation: Rotation,
    norm: Normalization,
    wants_weights: bool,
    given_sums: bool,
    packed: bool,
    engine: Engine | None = None,
) -> Plan:
    """Plan the backward launch, of tensors without outputs for partial sums.

    Args:
        tensors: `q_partial` and `k_partial` are None.
        rotation: by which angles.
        norm: how rows were normalized.
        wants_weights: gradients of the weights are computed, too.
        given_sums: the sums of squares came from elsewhere.
        packed: the ids are positions that the forward wrote.
        engine: what the plan is for; None: the engine that takes `tensors.q`.
    """
    engine = engine_of(tensors.q) if engine is None else engine
    names = "q_grad", "k_grad", "q", "k", "q_out", "k_out", "q_rstd", "k_rstd"
    names += "q_sumsq", "k_sumsq"
    per_head = _is_per_head(tensors.q_weight)
    layout = _layout(tensors, names, rotation, backward_tile, per_batch=per_head)
    work, order, wanted = layout.work, layout.order, first_match(NORM_BACKWARD, layout.facts)
    division = _divide(layout, wanted.programs_per_sm, tensors, wants_weights)
    of_tables = _strides_of_tables(tensors, rotation)
    rounds = roundings_of(tensors.q, tensors.q_weight, rotation, norm)
    return Plan(
        kernel=BACKWARD,
        programs=division.units * division.chunks,
        num_warps=work.num_warps,
        sizes=layout.sizes | {"chunks": division.chunks},
        strides=NormBackwardStrides(**_strides(layout), table=of_tables.table, ids=of_tables.ids),
        constants={
            "head": work.head,
            "tile": work.tile,
            "order": BackwardOrder(
                per_batch=order.per_batch,
                rows_outer=order.rows_outer,
                fold=division.fold,
                stages=wanted.stages,
                aligned=alignment(tensors.q, tensors.k),
                grad_aligned=alignment(tensors.q_grad, tensors.k_grad),
                out_aligned=alignment(tensors.q_out, tensors.k_out),
            ),
            "lookup": lookup_of(tensors.q, rotation, of_tables.unit, engine),
            "norm": NormBackward(
                weight_offset=float(norm.weight_offset),
                dim=norm.dim,
                after=norm.after,
                rounds_cos_sin=rounds.steps.rounds_cos_sin,
                per_head=per_head,
                given=given_sums,
                packed=packed,
            ),
        },
    )


class _Division(NamedTuple):
    """How a backward's tiles are divided among programs."""

    units: int  # groups of tiles whose programs add to the same partial sums
    chunks: int  # programs of a unit
    fold: bool  # the tiles of a unit are of all batch entries, and unless per head of all rows


def _divide(
    layout: _Layout, programs_per_sm: int, tensors: BackwardTensors, wants_weights: bool
) -> _Division:
    """Enough programs to fill the GPU, and not more partial sums than a backward may allocate."""
    per_head = _is_per_head(tensors.q_weight)
    programs = programs_per_sm * count_sms(tensors.q.device) // layout.work.num_warps
    units, tiles, fold = layout.entries * sum(layout.row_blocks), layout.s_blocks, per_head
    share = tensors.q.shape[-1] * tensors.q_rstd.element_size()  # bytes of a row of partial sums
    outs = [x for x in (tensors.q_out, tensors.k_out) if x is not None]
    gradient = sum(x.numel() * x.element_size() for x in outs)
    shares = max(BYTES_OF_PARTIALS, gradient // GRADIENT_PER_PARTIALS) // share
    per_chunk = units  # rows of partial sums
    if per_head:
        units, tiles = sum(layout.row_blocks), layout.s_blocks * layout.entries
        per_chunk = layout.sizes["q_heads"] + layout.sizes["k_heads"]
    elif wants_weights and units > shares:
        tiles *= layout.entries * max(layout.row_blocks)
        units = per_chunk = sum(blocks > 0 for blocks in layout.row_blocks)
        programs, fold = programs * units, True
    chunks = max(1, min(tiles, programs // units))
    if wants_weights:
        chunks = max(1, min(chunks, shares // per_chunk))
    return _Division(units, chunks, fold)


def shares_of(plan: Plan, weights: int) -> tuple[int, ...]:
    """Rows of partial sums that a planned backward writes, of each of so many weights.

    None at all where each head has weights of its own and one program: it writes their gradients.
    """
    heads = plan.sizes["q_heads"], plan.sizes["k_heads"]
    chunks, batch, order = plan.sizes["chunks"], plan.sizes["batch"], plan.constants["order"]
    tile_rows = plan.constants["tile"].rows
    if plan.constants["norm"].per_head:
        return tuple([chunks * h for h in heads[:weights]]) if chunks > 1 else ()
    if order.fold:
        return (chunks,) * weights
    entries, shared = (batch, 1) if order.per_batch else (1, batch)
    return tuple([chunks * entries * -(-shared * h // tile_rows) for h in heads[:weights]])


def plan_sum(tensors: SumTensors) -> Plan:
    """Plan the launch that adds partial sums."""
    partials = [x for x in (tensors.q_partial, tensors.k_partial) if x is not None]
    d = partials[0].shape[1]
    shares = partials[0].shape[0], partials[-1].shape[0]
    rows = min(PARTIALS_AT_ONCE, next_power_of_2(max(shares)))
    return Plan(
        kernel=SUM,
        programs=len(partials) * -(-d // (PARTIALS // rows)),
        num_warps=SUM_WARPS,
        sizes={"q_shares": shares[0], "k_shares": shares[1]},
        strides=None,
        constants={"D": d, "BLOCK_N": rows, "BLOCK_D": PARTIALS // rows},
    )


@lru_cache
def count_sms(device: torch.device) -> int:
    """Number of streaming multiprocessors (SMs); on a CPU some number."""
    if device.type != "cuda":
        return SMS_ELSEWHERE
    return torch.cuda.get_device_properties(device).multi_processor_count


def _view(t: Tensor | None, q: Tensor, rotation: Rotation) -> Tensor | None:
    """(s, b, h, d), and (s, b, h, 1) of what has a number for each row."""
    if t is None:
        return None
    t = t if t.dim() == q.dim() else t.unsqueeze(-1)
    return view_as_sbhd(t, rotation.tensor_format)


def _strides(layout: _Layout) -> dict[str, tuple[int, ...] | None]:
    return {name: strides_of(view) for name, view in layout.views.items()}


def _strides_of_tables(
    tensors: ForwardTensors | BackwardTensors, rotation: Rotation
) -> StridesOfTables:
    table = None if rotation.on_the_fly else tensors.table
    return strides_of_tables(table, tensors.ids, tensors.axes is not None)


def _is_per_head(weight: Tensor | None) -> bool:
    return weight is not None and weight.dim() == 2
