"""What one launch is: the kernel's tensors, and a Plan, which is everything else."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..call.rotation import Rotation
from ..kernels.values import Lookup
from ..machine.engine import Engine


class RopeTensors(NamedTuple):
    """The kernel's tensors, in the order of its arguments."""

    q: Tensor | None
    k: Tensor | None
    q_out: Tensor | None
    k_out: Tensor | None
    table: Tensor
    sin: Tensor | None
    cu_seqlens: Tensor | None
    starts: Tensor | None
    ids: Tensor | None
    axes: Tensor | None


@dataclass(frozen=True)
class Plan:
    """One launch, tensors aside: what `run` needs, and all that decides which kernel is compiled.

    The kernel's arguments go by their names. `kernels/values.py` says what the values hold.
    """

    kernel: str  # its name in `rope_kernels.kernels`, and that of its file
    programs: int  # the grid
    num_warps: int  # per program
    sizes: dict[str, int | tuple[int, ...] | None]  # run-time integers, and `cp`
    strides: tuple[tuple[int, ...] | None, ...] | None  # a NamedTuple, in elements
    constants: dict[str, tuple | int | bool]  # most of them NamedTuples
    fp_fusion: bool = True  # the compiler may fuse multiply-adds
    max_registers: int | None = None  # of a thread, so that more warps fit; None: ptxas decides

    @property
    def arguments(self) -> dict[str, object]:
        """The kernel's arguments but for its tensors, by their names."""
        strides = {} if self.strides is None else {"strides": self.strides}
        return self.sizes | strides | self.constants

    def with_constants(self, **changes: dict[str, object]) -> "Plan":
        """The same plan with other fields in some of its values: `head={"tail": 0}`."""
        changed = {name: self.constants[name]._replace(**new) for name, new in changes.items()}
        return replace(self, constants=self.constants | changed)

    def __str__(self) -> str:
        warps = "1 warp" if self.num_warps == 1 else f"{self.num_warps} warps"
        lines = [f"{self.kernel}: {self.programs} programs of {warps}"]
        rows, flags = {"sizes": self.sizes}, {}
        if self.strides is not None:
            rows["strides"] = self.strides._asdict()
        for name, value in self.constants.items():
            if isinstance(value, tuple):
                rows[name] = value._asdict()
            else:
                flags[name] = value
        for title, row in (rows | {"flags": flags}).items():
            shown = [f"{name}={value}" for name, value in row.items() if value is not None]
            lines += _wrapped(f"  {title:8}", shown)
        return "\n".join(lines)


def _wrapped(title: str, items: list[str]) -> list[str]:
    """Lines of at most 100 characters, no item broken."""
    text = ", ".join(item.replace(" ", "\0") for item in items)
    indent = {"initial_indent": title, "subsequent_indent": " " * len(title)}
    return [line.replace("\0", " ") for line in textwrap.wrap(text, 100, **indent)]


def q_and_k(tensors: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """Those of q and of k: None where there is none."""
    if not tensors:
        return None, None
    return (tensors[0], None) if len(tensors) == 1 else tensors


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


def cp_of(rotation: Rotation) -> tuple[int, ...] | None:
    """Context parallelism as the kernels take it: `kernels/values.py`, `GivenPositions`."""
    size, rank = rotation.cp_size, rotation.cp_rank
    if size == 1:
        return None
    if rotation.cp_order == "zigzag":
        return size, rank
    return size, rank, size if rotation.cp_order == "round_robin" else 0


def lookup_of(t: Tensor, rotation: Rotation, unit: int, engine: Engine) -> Lookup:
    """How a kernel finds cosines and sines; `unit` is that of `StridesOfTables`."""
    return Lookup(
        one_per_pair=rotation.on_the_fly or rotation.one_per_pair,
        interleaved=rotation.interleaved,
        unit=unit,
        fast_sine=has_fast_sine(t, engine),
        inverse=rotation.inverse,
        attention_factor=None if rotation.attention_factor == 1.0 else rotation.attention_factor,
        axes=None if rotation.axes is None else rotation.position_ids.shape[0],
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


def strides_of_tables(
    table: Tensor | None, ids: Tensor | None, several_axes: bool
) -> StridesOfTables:
    """The strides that say where a token's angles are.

    Args:
        table: (s2, 1, 1, columns), (s2, columns) or (b, s2, columns); None: angles on the fly.
        ids: (b, s), or (s,) of packed tokens, which are one batch entry; or None. With one more
            dimension in front, that of axes, their strides have one more at the end.
        several_axes: whether they have.
    """
    if table is not None and table.dim() != 3:
        table = table.flatten(1)[None]  # (1, s2, columns)
    if ids is not None and ids.dim() == (2 if several_axes else 1):
        ids = ids.unsqueeze(-2)
    if several_axes:
        ids = ids.movedim(0, -1)
    strides, unit = strides_in_units(table)
    return StridesOfTables(strides, strides_of(ids), unit)


def as_read(table: Tensor, sin: Tensor | None, *lists: Tensor | None) -> tuple[Tensor | None, ...]:
    """The same as the kernels read them: cosines and sines of equal strides, contiguous lists."""
    if sin is not None and (table.stride() != sin.stride() or table.is_neg() or sin.is_neg()):
        table, sin = (x.resolve_neg().contiguous() for x in (table, sin))
    lists = tuple([None if x is None else x.contiguous() for x in lists])
    return table.resolve_neg(), sin, *lists


def strides_of(x: Tensor | None) -> tuple[int, ...] | None:
    """In elements; 0 for a dimension of one index, where 1 would look unaligned to the compiler."""
    if x is None:
        return None
    return tuple(0 if n == 1 else step for n, step in zip(x.shape, x.stride(), strict=True))
