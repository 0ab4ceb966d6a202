"""From tensors to one kernel launch: `make_plan`, which needs no GPU, and `run`."""

from importlib import import_module

import torch
from torch import Tensor

from . import fastpath
from .checks import bad
from .engine import Engine, engine_of
from .formats import view_as_sbhd
from .plan import (
    MOST_ROWS,
    KernelTensors,
    Plan,
    alignment,
    as_read,
    both,
    strides_of,
    strides_of_tables,
    with_rows_in_one_dimension,
)
from .rotation import Rotation
from .tiles import WHOLE_ROWS, order_of_programs, plan_tile

NOT_IN_A_SIGNATURE = 2, 3, 4  # of the kernel's tensors: outputs, and perhaps a module's turns


def rotate(
    tensors: tuple[Tensor, ...], rotation: Rotation, inplace: bool, entry: fastpath.Entry | None
) -> tuple[Tensor, ...]:
    """Rotate one or two tensors, known to be good, in one launch of the kernel.

    The results are new and contiguous; or with `inplace` the tensors themselves, of which only the
    rotary slice is touched. `entry` is what the fast path remembers of such calls.
    """
    outs = tensors  # a pending minus sign of a view may stay: -x turned is minus x turned
    if not inplace:
        outs = tuple([torch.empty_like(t, memory_format=torch.contiguous_format) for t in tensors])
    given = *both(tensors), *both(outs), *rotation.tensors
    if entry is not None and entry.launch is not None and entry.launch(given):
        return outs
    # Triton launches on the current device. If that was another one, try again on this one.
    device = tensors[0].device
    with torch.cuda.device(device if device.type == "cuda" else -1):
        if entry is None or entry.launch is None or not entry.launch(given):
            _plan_and_run(KernelTensors(*given), rotation, inplace, entry)
    return outs


def _plan_and_run(
    given: KernelTensors, rotation: Rotation, inplace: bool, entry: fastpath.Entry | None
) -> None:
    tensors = as_stored(given, inplace)
    if tensors.q is None:
        return
    plan = make_plan(tensors, rotation, inplace)
    compiled = run(plan, tensors)
    copied = any(x is not y for x, y in zip(tensors, given, strict=True))
    if entry is not None and not copied:
        unsigned = tuple([i for i in NOT_IN_A_SIGNATURE if given[i] is not None])
        entry.launch = fastpath.shortest_launch(compiled, plan.programs, plan.numbers, unsigned)


def as_stored(given: KernelTensors, inplace: bool) -> KernelTensors:
    """The tensors as the kernel reads them; without q or k where they have no elements."""
    pairs = (given.q, given.q_out), (given.k, given.k_out)
    pairs = [(t, out) for t, out in pairs if t is not None and t.numel()]
    (q, q_out), (k, k_out) = [*pairs, (None, None), (None, None)][:2]
    if not inplace:
        q, k = (None if t is None else t.resolve_neg() for t in (q, k))
    read = as_read(given.table, given.sin, given.cu_seqlens, given.starts)
    return KernelTensors(q, k, q_out, k_out, *read, given.ids)


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


def has_fast_sine(t: Tensor, engine: Engine) -> bool:
    """Whether the hardware's sine may serve: AMD's library, the interpreter and fp64 have none."""
    return engine is Engine.NVIDIA and t.dtype != torch.float64


def kernel_of(plan: Plan):
    """The Triton kernel that a plan names."""
    # the first launch loads Triton, and its own kernel's file, not the import of the package
    room = {"rope_kernel": "kernels", WHOLE_ROWS: "whole_rows"}.get(plan.kernel, "norm_kernels")
    return getattr(import_module(f".{room}", __package__), plan.kernel)


def options_of(plan: Plan) -> dict[str, int | bool]:
    """Options of the compiler. Fusion, which decides last bits, is never left to its default."""
    options = {"num_warps": plan.num_warps, "enable_fp_fusion": plan.fp_fusion}
    return options if plan.max_registers is None else options | {"maxnreg": plan.max_registers}


def run(plan: Plan, tensors: KernelTensors):
    """Launch a plan through Triton's JIT, which compiles what is new; return what it compiled."""
    constants = plan.blocks | plan.flags | options_of(plan)
    kernel = kernel_of(plan)
    return kernel[(plan.programs,)](*tensors, **plan.sizes, **plan.strides, **constants)
