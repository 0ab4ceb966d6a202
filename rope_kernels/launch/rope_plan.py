"""The plan of a launch that rotates. It needs no GPU and reads no value."""

from ..call.checks import bad
from ..call.formats import view_as_sbhd
from ..call.rotation import Rotation
from ..machine.engine import Engine, engine_of
from .plan import (
    MOST_ROWS,
    KernelTensors,
    Plan,
    alignment,
    has_fast_sine,
    strides_of,
    strides_of_tables,
    with_rows_in_one_dimension,
)
from .rope_tiles import order_of_programs, plan_tile


def make_plan(
    tensors: KernelTensors, rotation: Rotation, inplace: bool, engine: Engine | None = None
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
    heads = max(view.shape[2] for view in views if view is not None)
    if heads >= MOST_ROWS:
        raise bad(f"a tensor has {heads} heads", f"fewer than {MOST_ROWS}")
    order = order_of_programs(tensors.q, rotation)
    if not order["PER_BATCH"]:
        views = with_rows_in_one_dimension(views)
    q_view, k_view = views[:2]
    seq_len, batch, q_heads, head_dim = q_view.shape
    k_heads = 0 if k_view is None else k_view.shape[2]
    order["PER_BATCH"] |= batch == 1 or batch * max(q_heads, k_heads) >= MOST_ROWS
    entries, shared = (batch, 1) if order["PER_BATCH"] else (1, batch)
    tile = plan_tile(
        rotation,
        head_dim,
        rows=shared * q_heads,
        element_bytes=tensors.q.element_size(),
        k_rows=shared * k_heads,
        rows_outer=order["ROWS_OUTER"],
        inplace=inplace,
    )
    order["STRETCH"] = max(1, order["STRETCH"] // tile.positions)
    s_blocks = -(-seq_len // tile.positions)
    row_blocks = sum(-(-shared * heads // tile.rows) for heads in (q_heads, k_heads))

    table = None if rotation.on_the_fly else tensors.table
    table_strides, unit = strides_of_tables(table, tensors.ids)
    names = "q_strides", "k_strides", "q_out_strides", "k_out_strides"
    strides = {name: strides_of(view) for name, view in zip(names, views, strict=True)}
    return Plan(
        kernel=tile.kernel,
        programs=entries * s_blocks * row_blocks,
        num_warps=tile.num_warps,
        sizes={
            "seq_len": seq_len,
            "batch": batch,
            "q_heads": q_heads,
            "k_heads": k_heads,
            "s2": 0 if table is None else table.shape[1 if table.dim() == 3 else 0],
            "sequences": 0 if tensors.cu_seqlens is None else tensors.cu_seqlens.numel() - 1,
            "cp": (rotation.cp_size, rotation.cp_rank) if rotation.cp_size > 1 else None,
        },
        strides=strides | table_strides,
        blocks=tile.blocks,
        flags={
            "TRANSPOSE": rotation.transpose,
            "INVERSE": rotation.inverse,
            "ONE_PER_PAIR": rotation.on_the_fly or rotation.one_per_pair,
            **order,
            "FAST_SINE": has_fast_sine(tensors.q, engine),
            "ALIGNED": alignment(tensors.q, tensors.k),
            "OUT_ALIGNED": alignment(tensors.q_out, tensors.k_out),
            "TABLE_UNIT": unit,
            **tile.flags,
        },
    )
