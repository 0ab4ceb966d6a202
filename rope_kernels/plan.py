"""What one launch is: the kernel's tensors, and a Plan, which is everything else."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


class KernelTensors(NamedTuple):
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


@dataclass(frozen=True)
class Plan:
    """One launch, tensors aside: what `run` needs, and all that decides which kernel is compiled.

    The dicts go by the names of the kernel's arguments, and are in their order.
    """

    kernel: str  # its name in kernels.py
    programs: int  # the grid
    num_warps: int  # per program
    sizes: dict[str, int | tuple[int, int] | None]  # run-time integers, and `cp`
    strides: dict[str, tuple[int, ...] | None]  # in elements
    blocks: dict[str, int]  # constexprs: pairs, tail, and the tile of a program
    flags: dict[str, int | bool]  # constexprs: what to do, and in which order

    @property
    def numbers(self) -> tuple[int | tuple[int, ...] | None, ...]:
        """The kernel's arguments after its tensors, in order."""
        rows = self.sizes, self.strides, self.blocks, self.flags
        return tuple(value for row in rows for value in row.values())

    def __str__(self) -> str:
        warps = "1 warp" if self.num_warps == 1 else f"{self.num_warps} warps"
        lines = [f"{self.kernel}: {self.programs} programs of {warps}"]
        for title in ("sizes", "strides", "blocks", "flags"):
            row = getattr(self, title).items()
            shown = [f"{name}={value}" for name, value in row if value is not None]
            lines.append(f"  {title:8}{', '.join(shown)}")
        return "\n".join(lines)


def both(tensors: tuple[Tensor, ...]) -> tuple[Tensor, Tensor | None]:
    """q and k of one or two tensors: k is None if it is not there."""
    return tensors if len(tensors) == 2 else (tensors[0], None)


def strides_of(x: Tensor | None) -> tuple[int, ...] | None:
    """In elements; 0 for a dimension of one index, where 1 would look unaligned to the compiler."""
    if x is None:
        return None
    return tuple(0 if n == 1 else step for n, step in zip(x.shape, x.stride(), strict=True))
