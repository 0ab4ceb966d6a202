"""The plan of a launch that rotates. It needs no GPU and reads no value."""

from ..call.formats import view_as_sbhd
from ..call.rotation import Rotation
from ..kernels.values import Order, RopeStrides, Steps
from ..machine.engine import Engine, engine_of
from .plan import (
    Plan,
    RopeTensors,
    alignment,
    cp_of,
    lookup_of,
    strides_of,
    strides_of_tables,
    with_rows_in_one_dimension,
)
from .rope_tiles import WHOLE_ROWS, order_of_programs, plan_tile, rows_run_outer


def make_plan(
    tensors: RopeTensors, rotation: Rotation, inplace: bool, engine: Engine | None = None
) -> Plan:
    """Plan a launch: grid, tile, order of programs, flags, strides. Needs no GPU, reads no value.

    Args:
        tensors: from `as_stored`; on any device, the meta device too.
        rotation: by which angles.
        inplace: leave elements beyond the rotary slice alone.
        engine: what the plan is for; None: the engine that takes `tensors.q`.
    """
    engine = engine_of(tensors.q) if engine is None else engine
    views = [None if x is None else view_as_sbhd(x, rotation.tensor_format) for x in tensors[:4]]
    order = order_of_programs(tensors.q, rotation)
    if not order.per_batch:
        views = with_rows_in_one_dimension(views)
    q_view, k_view = views[:2]
    seq_len, batch, q_heads, head_dim = q_view.shape
    k_heads = 0 if k_view is None else k_view.shape[2]
    order = order._replace(per_batch=order.per_batch or batch == 1)
    entries, shared = (batch, 1) if order.per_batch else (1, batch)
    rows = shared * q_heads, shared * k_heads
    work = plan_tile(
        rotation,
        head_dim,
        rows=rows[0],
        element_bytes=tensors.q.element_size(),
        k_rows=rows[1],
        rows_outer=order.rows_outer,
        inplace=inplace,
    )
    s_blocks = -(-seq_len // work.positions)
    row_blocks = sum(-(-n // work.rows) for n in rows)
    table = None if rotation.on_the_fly else tensors.table
    of_tables = strides_of_tables(table, tensors.ids, tensors.axes is not None)
    q, k, q_out, k_out = map(strides_of, views)
    constants = {
        "head": work.head,
        "tile": work.tile,
        "order": Order(
            per_batch=order.per_batch,
            rows_outer=rows_run_outer(order, work, rows),
            stretch=max(1, order.stretch // work.positions),
            aligned=alignment(tensors.q, tensors.k),
            out_aligned=alignment(tensors.q_out, tensors.k_out),
        ),
        "lookup": lookup_of(tensors.q, rotation, of_tables.unit, engine),
        "steps": steps_of(rotation),
        "TRANSPOSE": rotation.transpose,
    }
    return Plan(
        kernel=work.kernel,
        programs=entries * s_blocks * row_blocks,
        num_warps=work.num_warps,
        sizes={
            "seq_len": seq_len,
            "batch": batch,
            "q_heads": q_heads,
            "k_heads": k_heads,
            "s2": 0 if table is None else table.shape[1 if table.dim() == 3 else 0],
            "sequences": 0 if tensors.cu_seqlens is None else tensors.cu_seqlens.numel() - 1,
            "cp": cp_of(rotation),
        },
        strides=RopeStrides(q, k, q_out, k_out, of_tables.table, of_tables.ids),
        constants=constants | ({"IN_PLACE": inplace} if work.kernel == WHOLE_ROWS else {}),
        fp_fusion=constants["steps"].fused,
    )


def steps_of(rotation: Rotation) -> Steps:
    """What is rounded: in one direction, for autograd may round more than the forward."""
    model = rotation.rounding == "model"
    return Steps(
        fused=rotation.rounding == "once",
        rounds_cos_sin=model and rotation.sin is None,  # else they have the stored dtype
        rounds_products=model or (rotation.rounding == "promoted" and rotation.transpose),
    )
