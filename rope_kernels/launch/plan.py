"""What one launch is: the kernel's tensors, and a Plan, which is everything else."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import Tensor


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


# Tensors of q and of k come in pairs, whose names begin with q and with k.


class RopeTensors(NamedTuple):
    """The rope kernel's tensors, in the order of its arguments."""

    q: Tensor
    k: Tensor | None
    q_out: Tensor
    k_out: Tensor | None
    table: Tensor
    sin: Tensor | None
    cu_seqlens: Tensor | None
    starts: Tensor | None
    ids: Tensor | None


class ForwardTensors(NamedTuple):
    """The norm's forward kernel's tensors, in the order of its arguments."""

    q: Tensor
    k: Tensor | None
    q_out: Tensor
    k_out: Tensor | None
    q_weight: Tensor | None
    k_weight: Tensor | None
    q_rstd: Tensor | None
    k_rstd: Tensor | None
    positions: Tensor | None
    table: Tensor
    sin: Tensor | None
    cu_seqlens: Tensor | None
    starts: Tensor | None
    ids: Tensor | None


class CacheTensors(NamedTuple):
    """The tensors of the kernel that writes into caches, in the order of its arguments."""

    q: Tensor
    k: Tensor
    v: Tensor
    q_out: Tensor
    k_out: Tensor | None
    k_cache: Tensor
    v_cache: Tensor
    slots: Tensor
    table: Tensor
    sin: Tensor | None
    cu_seqlens: Tensor | None
    starts: Tensor | None
    ids: Tensor | None


class SplitTensors(NamedTuple):
    """The tensors of the kernel that splits a projection, in the order of its arguments."""

    q: Tensor
    k: Tensor
    v: Tensor
    q_out: Tensor
    k_out: Tensor
    v_out: Tensor
    table: Tensor
    sin: Tensor | None
    cu_seqlens: Tensor | None
    starts: Tensor | None
    ids: Tensor | None


class BackwardTensors(NamedTuple):
    """The norm's backward kernel's tensors, in the order of its arguments."""

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
    q_partial: Tensor | None
    k_partial: Tensor | None
    table: Tensor
    sin: Tensor | None
    starts: Tensor | None
    ids: Tensor | None


class SumTensors(NamedTuple):
    """The tensors of the kernel that adds partial sums, (shares, d), in their order there."""

    q_partial: Tensor
    k_partial: Tensor | None
    q_out: Tensor
    k_out: Tensor | None


Tensors = RopeTensors | ForwardTensors | CacheTensors | SplitTensors | BackwardTensors | SumTensors


def q_and_k(tensors: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """Those of q and of k: None where there is none."""
    if not tensors:
        return None, None
    return (tensors[0], None) if len(tensors) == 1 else tensors


def with_elements(given: Tensors) -> Tensors | None:
    """The same without what belongs to an empty q or k; None if nothing is left.

    No program of a kernel has rows of an empty tensor. Where q is empty, k takes its place.
    """
    q_full = given.q.numel() > 0
    k_full = given.k is not None and given.k.numel() > 0
    if q_full and (k_full or given.k is None):
        return given
    if not (q_full or k_full):
        return None
    pairs = [(name, "k" + name[1:]) for name in given._fields if name[0] == "q"]
    left = {q: getattr(given, q if q_full else k) for q, k in pairs}
    return given._replace(**left, **{k: None for _, k in pairs})


_READ_WHOLE = "q", "k", "v", "q_grad", "k_grad"
_CONTIGUOUS = "q_weight", "k_weight", "cu_seqlens", "starts", "slots"


def as_read(given: Tensors, inplace: bool = False) -> Tensors:
    """The same as a kernel reads them.

    Pending signs of views are resolved, but in place, where minus x turned is minus what comes out.
    Weights and lists are contiguous, and cosines and sines have equal strides.
    """
    read = {name: x for name, x in given._asdict().items() if x is not None}
    if not inplace:
        read |= {name: read[name].resolve_neg() for name in _READ_WHOLE if name in read}
    read |= {name: read[name].resolve_neg().contiguous() for name in _CONTIGUOUS if name in read}
    table, sin = given.table, given.sin
    if sin is not None and (table.stride() != sin.stride() or table.is_neg() or sin.is_neg()):
        table, sin = (x.resolve_neg().contiguous() for x in (table, sin))
    return given._replace(**read | {"table": table.resolve_neg(), "sin": sin})


def same_memory(given: Tensors, read: Tensors) -> bool:
    """Whether no tensor had to be copied. A copy is another one in the next call."""
    pairs = zip(given, read, strict=True)
    return all(x is y or x.data_ptr() == y.data_ptr() for x, y in pairs)
