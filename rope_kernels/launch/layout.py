"""What the plans of all kernels have in common: views of tensors, tile, order of tiles, tables."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..call.formats import view_as_sbhd
from ..call.rotation import Rotation
from ..kernels.values import EvenlyApart, Lookup, TwoChunks
from ..machine.engine import Engine
from .plan import Tensors
from .tile_facts import Facts, facts_of
from .tiles import OrderOfPrograms, Work, order_of_programs, rows_run_outer


@dataclass(frozen=True)
class Layout:
    """How the rows of one launch are laid out in memory and over programs."""

    facts: Facts
    work: Work
    order: OrderOfPrograms
    entries: int  # batch entries with rows of their own
    row_blocks: tuple[int, int]  # of q and of k
    s_blocks: int
    sizes: dict[str, int]  # run-time integers
    strides: tuple[tuple[int, ...] | None, ...]  # a NamedTuple, in elements
    lookup: Lookup


def layout_of(
    tensors: Tensors,
    strides: type,
    rotation: Rotation,
    work_of: Callable[[Rotation, Facts], Work],
    engine: Engine,
    *,
    inplace: bool = False,
) -> Layout:
    """Lay out a launch. Needs no GPU, reads no value.

    Args:
        tensors: from `as_read`; on any device, the meta device too.
        strides: the class of the kernel's, whose fields also say which tensors have rows.
        rotation: by which angles.
        work_of: chooses the tile.
        engine: what the launch is for.
        inplace: elements beyond the rotary slice are left alone.
    """
    names = strides._fields[:-2]  # the others are those of a table and of ids
    views = [_view(getattr(tensors, name), tensors.q, rotation) for name in names]
    order, q = order_of_programs(tensors.q, rotation), names.index("q")
    if not order.per_batch:
        views = with_rows_in_one_dimension(views)
    seq_len, batch, q_heads, head_dim = views[q].shape
    k_heads = 0 if tensors.k is None else views[q + 1].shape[2]
    per_batch = order.per_batch or batch == 1
    entries, rows_of_a_head = (batch, 1) if per_batch else (1, batch)
    rows = rows_of_a_head * q_heads, rows_of_a_head * k_heads
    memory = {"rows_outer": order.rows_outer, "inplace": inplace}
    facts = facts_of(rotation, head_dim, rows, tensors.q.element_size(), **memory)
    work = work_of(rotation, facts)
    table = None if rotation.on_the_fly else tensors.table
    of_tables = strides_of_tables(table, tensors.ids)
    return Layout(
        facts=facts,
        work=work,
        order=order._replace(per_batch=per_batch, rows_outer=rows_run_outer(order, work, rows)),
        entries=entries,
        row_blocks=(-(-rows[0] // work.rows), -(-rows[1] // work.rows)),
        s_blocks=-(-seq_len // work.positions),
        sizes={
            "seq_len": seq_len,
            "batch": batch,
            "q_heads": q_heads,
            "k_heads": k_heads,
            "s2": 0 if table is None else table.shape[1 if table.dim() == 3 else 0],
        },
        strides=strides(*map(strides_of, views), of_tables.table, of_tables.ids),
        lookup=lookup_of(tensors.q, rotation, of_tables.unit, engine),
    )


def _view(t: Tensor | None, q: Tensor, rotation: Rotation) -> Tensor | None:
    """(s, b, h, d), and (s, b, h, 1) of what has a number for each row."""
    if t is None:
        return None
    t = t if t.dim() == q.dim() else t.unsqueeze(-1)
    return view_as_sbhd(t, rotation.tensor_format)


def alignment(*tensors: Tensor | None) -> int:
    """Bytes, up to 16, that divide the address of every row; 0 if Triton finds them by itself.

    Triton knows of a stride only whether 16 divides it. Rows of 72 elements of 2 bytes are 144
    bytes apart, so 16 bytes are always aligned, yet Triton would load 2 at a time.
    """
    aligned, known = 16, True
    for x in tensors:
        if x is None:
            continue
        size, strides = x.element_size(), [step for step in strides_of(x)[:-1] if step]
        known &= x.data_ptr() % 16 == 0 and all(step % 16 == 0 for step in strides)
        aligned = math.gcd(aligned, x.data_ptr(), *(step * size for step in strides))
    return 0 if known else aligned


def cp_of(rotation: Rotation) -> TwoChunks | EvenlyApart | None:
    """Context parallelism as the kernels take it."""
    size, rank = rotation.cp_size, rotation.cp_rank
    if size == 1:
        return None
    if rotation.cp_order == "zigzag":
        return TwoChunks(size, rank)
    return EvenlyApart(size, rank, size if rotation.cp_order == "round_robin" else 0)


def lookup_of(t: Tensor, rotation: Rotation, unit: int, engine: Engine) -> Lookup:
    """How a kernel finds cosines and sines; `unit` is that of `StridesOfTables`."""
    return Lookup(
        one_per_pair=rotation.on_the_fly or rotation.one_per_pair,
        interleaved=rotation.interleaved,
        unit=unit,
        fast_sine=has_fast_sine(t, engine),
        inverse=rotation.inverse,
        attention_factor=None if rotation.attention_factor == 1.0 else rotation.attention_factor,
    )


def has_fast_sine(t: Tensor, engine: Engine) -> bool:
    """Whether the hardware's sine may serve: AMD's library, the interpreter and fp64 have none."""
    return engine is Engine.NVIDIA and t.dtype != torch.float64


def with_rows_in_one_dimension(views: list[Tensor | None]) -> list[Tensor | None]:
    """Views (s, b, h, d) as (s, 1, b * h, d), where every one of them has its rows evenly spaced.

    Otherwise the same views. A program then need not divide to find the addresses of its rows.
    """
    for view in views:
        if view is not None:
            _, b_stride, h_stride, _ = view.stride()
            if b_stride != view.shape[2] * h_stride:
                return views
    return [None if view is None else view.flatten(1, 2).unsqueeze(1) for view in views]


def strides_in_units(table: Tensor | None) -> tuple[tuple[int, ...] | None, int]:
    """Strides of a table (b, s2, columns), those of b and s in units, and the unit in elements.

    The unit is 1 where Triton finds all alignment by itself: where 16 divides the strides.
    """
    strides, unit = strides_of(table), 1
    if strides is not None and any(step % 16 for step in strides[:-1]):
        unit = math.gcd(16, *strides[:-1])
        strides = *(step // unit for step in strides[:-1]), strides[-1]
    return strides, unit


class StridesOfTables(NamedTuple):
    """Those of a table and of position ids, and the unit in which the table's are counted."""

    table: tuple[int, ...] | None
    ids: tuple[int, ...] | None
    unit: int


def strides_of_tables(table: Tensor | None, ids: Tensor | None) -> StridesOfTables:
    """The strides that say where a token's angles are.

    Args:
        table: (s2, 1, 1, columns), (s2, columns) or (b, s2, columns); None: angles on the fly.
        ids: (b, s), or (s,) of packed tokens, which are one batch entry; or None.
    """
    if table is not None and table.dim() != 3:
        table = table.flatten(1)[None]  # (1, s2, columns)
    if ids is not None and ids.dim() == 1:
        ids = ids[None]
    strides, unit = strides_in_units(table)
    return StridesOfTables(strides, strides_of(ids), unit)


def strides_of(x: Tensor | None) -> tuple[int, ...] | None:
    """In elements; 0 for a dimension of one index, where 1 would look unaligned to the compiler."""
    if x is None:
        return None
    return tuple(0 if n == 1 else step for n, step in zip(x.shape, x.stride(), strict=True))
