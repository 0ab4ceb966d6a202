"""The plans of all kernels. They need no GPU and read no value."""

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ..call.rotation import Rotation
from ..kernels.values import (
    BackwardOrder,
    CacheStrides,
    Norm,
    NormBackward,
    NormBackwardStrides,
    NormStrides,
    Order,
    Packing,
    RopeStrides,
    SplitStrides,
    Steps,
)
from ..machine.engine import Engine, engine_of
from .layout import Layout, alignment, cp_of, layout_of, strides_of
from .plan import (
    BackwardTensors,
    CacheTensors,
    ForwardTensors,
    Plan,
    RopeTensors,
    SplitTensors,
    SumTensors,
)
from .tile_facts import next_power_of_2
from .tiles import (
    WHOLE_ROWS,
    backward_tile,
    forward_tile,
    max_registers,
    rope_tile,
    wanted_forward,
)
from .tuning import NORM_BACKWARD, first_match

FORWARD, BACKWARD, SUM = "norm_rope_kernel", "norm_rope_backward_kernel", "sum_partials_kernel"
TO_CACHE, SPLIT = "rope_to_cache_kernel", "split_qkv_rope_kernel"
SMS_ELSEWHERE = 4  # where there is no GPU: enough programs to share the positions
PARTIALS_AT_ONCE = 512  # rows of partial sums that a program adds at a time, at most
PARTIALS = 2048  # that a program adds at a time: many small ones wait for memory together
SUM_WARPS = 8
# What a backward may allocate for partial sums: so many bytes, or 1 % of the input's gradient.
BYTES_OF_PARTIALS = 2**22
GRADIENT_PER_PARTIALS = 100


# forward


def plan_rope(
    tensors: RopeTensors, rotation: Rotation, inplace: bool, engine: Engine | None = None
) -> Plan:
    """Plan a launch that rotates: grid, tile, order of programs, flags, strides.

    Args:
        tensors: from `as_read`; on any device, the meta device too.
        rotation: by which angles.
        inplace: leave elements beyond the rotary slice alone.
        engine: what the plan is for; None: the engine that takes `tensors.q`.
    """
    engine = engine_of(tensors.q) if engine is None else engine
    layout = layout_of(tensors, RopeStrides, rotation, rope_tile, engine, inplace=inplace)
    kernel, steps = layout.work.kernel, steps_of(rotation)
    own = {"steps": steps, "TRANSPOSE": rotation.transpose}
    if kernel == WHOLE_ROWS:
        own["IN_PLACE"] = inplace
    return _forward(kernel, layout, tensors, rotation, own, fp_fusion=steps.fused)


def plan_norm(tensors: ForwardTensors, rotation: Rotation, engine: Engine | None = None) -> Plan:
    """Plan a launch that normalizes and rotates; arguments as in `plan_rope`."""
    engine = engine_of(tensors.q) if engine is None else engine
    layout = layout_of(tensors, NormStrides, rotation, forward_tile, engine)
    wanted = wanted_forward(layout.facts)
    registers = max_registers(wanted, rotation, layout.facts, tensors.q.dtype, engine)
    rounds = roundings_of(tensors.q, tensors.q_weight, rotation)
    norm = Norm(
        eps=float(rotation.norm.eps),
        weight_offset=float(rotation.norm.weight_offset),
        after=rotation.norm.after,
        rounds_normal=rounds.normal,
        rounds_product=rounds.product,
        weights_last=wanted.weights_last,
    )
    own = {"norm": norm, "steps": rounds.steps}
    options = {"fp_fusion": rounds.steps.fused, "max_registers": registers}
    return _forward(FORWARD, layout, tensors, rotation, own, **options)


def plan_to_cache(tensors: CacheTensors, rotation: Rotation, engine: Engine | None = None) -> Plan:
    """Plan a launch that rotates, and writes into caches; arguments as in `plan_rope`."""
    engine = engine_of(tensors.q) if engine is None else engine
    layout = layout_of(tensors, CacheStrides, rotation, forward_tile, engine)
    k_cache, v_cache, steps = tensors.k_cache, tensors.v_cache, steps_of(rotation)
    own = {"steps": steps, "V_ALIGNED": alignment(tensors.v)}
    plan = _forward(TO_CACHE, layout, tensors, rotation, own, fp_fusion=steps.fused)
    sizes = {name: size for name, size in plan.sizes.items() if name != "cp"}  # it has none
    sizes |= {
        "listed": tensors.slots.numel(),
        "cache_slots": k_cache.shape[0] * k_cache.shape[1],
        "page": k_cache.shape[1],
        "k_cache_strides": strides_of(k_cache),
        "v_cache_strides": strides_of(v_cache),
    }
    return replace(plan, programs=plan.programs + _programs_of_v(layout), sizes=sizes)


def plan_split(
    tensors: SplitTensors, rotation: Rotation, group: int, engine: Engine | None = None
) -> Plan:
    """Plan a launch that splits a projection and rotates; arguments as in `plan_rope`.

    `group` is that of `PackedFormat`. All tensors are views (s, b, h, d).
    """
    engine = engine_of(tensors.q) if engine is None else engine
    layout = layout_of(tensors, SplitStrides, rotation, forward_tile, engine)
    groups = (0, group) if rotation.transpose else (group, 0)
    steps = steps_of(rotation)
    own = {
        "steps": steps,
        "packing": Packing(*groups, alignment(tensors.v), alignment(tensors.v_out)),
        "TRANSPOSE": rotation.transpose,
    }
    plan = _forward(SPLIT, layout, tensors, rotation, own, fp_fusion=steps.fused)
    return replace(plan, programs=plan.programs + _programs_of_v(layout))


def _programs_of_v(layout: Layout) -> int:
    """Beside those of q and k."""
    return layout.entries * layout.s_blocks * layout.row_blocks[1]


def _forward(
    kernel: str,
    layout: Layout,
    tensors: RopeTensors | ForwardTensors | CacheTensors | SplitTensors,
    rotation: Rotation,
    own: dict[str, tuple | bool | None],
    **options: bool | int | None,
) -> Plan:
    """One tile a program; `own` are the kernel's constants that others lack."""
    work, order, cu_seqlens = layout.work, layout.order, tensors.cu_seqlens
    return Plan(
        kernel=kernel,
        programs=layout.entries * layout.s_blocks * sum(layout.row_blocks),
        num_warps=work.num_warps,
        sizes={
            **layout.sizes,
            "sequences": 0 if cu_seqlens is None else cu_seqlens.numel() - 1,
            "cp": cp_of(rotation),
        },
        strides=layout.strides,
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
            "lookup": layout.lookup,
            **own,
        },
        **options,
    )


def steps_of(rotation: Rotation) -> Steps:
    """What is rounded: in one direction, for autograd may round more than the forward."""
    model = rotation.rounding == "model"
    return Steps(
        fused=rotation.rounding == "once",
        rounds_cos_sin=model and rotation.sin is None,  # else they have the stored dtype
        rounds_products=model or (rotation.rounding == "promoted" and rotation.transpose),
    )


class Roundings(NamedTuple):
    """What is rounded to the stored dtype, besides the result."""

    normal: bool  # the normalized row, before the weights
    product: bool  # after them
    steps: Steps  # of the rotation


def roundings_of(t: Tensor, weight: Tensor | None, rotation: Rotation) -> Roundings:
    """What the model's operators round; they promote what meets a weight or cosines in fp32."""
    if not rotation.norm.like_model:
        once = Steps(fused=True, rounds_cos_sin=False, rounds_products=False)
        return Roundings(normal=False, product=False, steps=once)
    casts_first, promoted = not rotation.norm.casts_last, rotation.rounding == "promoted"
    in_fp32 = casts_first and not rotation.norm.after and _promotes(weight, t)  # what is turned
    return Roundings(
        normal=casts_first and not (rotation.norm.after and promoted),
        product=not in_fp32,
        steps=Steps(
            fused=False,
            rounds_cos_sin=rotation.sin is None and not in_fp32,  # else they have the stored dtype
            rounds_products=not (promoted or in_fp32),
        ),
    )


def _promotes(weight: Tensor | None, t: Tensor) -> bool:
    return weight is not None and torch.promote_types(weight.dtype, t.dtype) != t.dtype


# backward, of a norm: a rotation's backward is a rotation


def plan_backward(
    tensors: BackwardTensors,
    rotation: Rotation,
    wants_weights: bool,
    packed: bool,
    engine: Engine | None = None,
) -> Plan:
    """Plan the launch that goes back through all rows. It does not look at partial sums.

    Args:
        tensors: from `as_read`.
        rotation: by which angles, and how rows were normalized.
        wants_weights: gradients of the weights are computed, too.
        packed: the ids are positions that the forward wrote.
        engine: what the plan is for; None: the engine that takes `tensors.q`.
    """
    engine = engine_of(tensors.q) if engine is None else engine
    layout = layout_of(tensors, NormBackwardStrides, rotation, backward_tile, engine)
    work, order, wanted = layout.work, layout.order, first_match(NORM_BACKWARD, layout.facts)
    division = _divide(layout, wanted.programs_per_sm, tensors, wants_weights)
    rounds = roundings_of(tensors.q, tensors.q_weight, rotation)
    return Plan(
        kernel=BACKWARD,
        programs=division.units * division.chunks,
        num_warps=work.num_warps,
        sizes=layout.sizes | {"cp": cp_of(rotation), "chunks": division.chunks},
        strides=layout.strides,
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
            "lookup": layout.lookup,
            "norm": NormBackward(
                weight_offset=float(rotation.norm.weight_offset),
                after=rotation.norm.after,
                rounds_cos_sin=rounds.steps.rounds_cos_sin,
                packed=packed,
            ),
        },
    )


class _Division(NamedTuple):
    """How a backward's tiles are divided among programs."""

    units: int  # groups of tiles whose programs add to the same partial sums
    chunks: int  # programs of a unit
    fold: bool  # the tiles of a unit are of all batch entries and all rows


def _divide(
    layout: Layout, programs_per_sm: int, tensors: BackwardTensors, wants_weights: bool
) -> _Division:
    """Enough programs to fill the GPU, and not more partial sums than a backward may allocate."""
    programs = programs_per_sm * count_sms(tensors.q.device) // layout.work.num_warps
    units, tiles, fold = layout.entries * sum(layout.row_blocks), layout.s_blocks, False
    share = tensors.q.shape[-1] * tensors.q_rstd.element_size()  # bytes of a row of partial sums
    outs = [x for x in (tensors.q_out, tensors.k_out) if x is not None]
    gradient = sum(x.numel() * x.element_size() for x in outs)
    shares = max(BYTES_OF_PARTIALS, gradient // GRADIENT_PER_PARTIALS) // share
    per_chunk = units  # rows of partial sums
    if wants_weights and units > shares:
        tiles *= layout.entries * max(layout.row_blocks)
        units = per_chunk = sum(blocks > 0 for blocks in layout.row_blocks)
        programs, fold = programs * units, True
    chunks = max(1, min(tiles, programs // units))
    if wants_weights:
        chunks = max(1, min(chunks, shares // per_chunk))
    return _Division(units, chunks, fold)


def shares_of(plan: Plan, weights: int) -> tuple[int, ...]:
    """Rows of partial sums that a planned backward writes, of each of so many weights."""
    heads = plan.sizes["q_heads"], plan.sizes["k_heads"]
    chunks, batch, order = plan.sizes["chunks"], plan.sizes["batch"], plan.constants["order"]
    tile_rows = plan.constants["tile"].rows
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
