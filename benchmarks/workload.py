"""The tensors of a case, in whatever layout a provider takes, and what is right: fp64.

The values are the same for every provider. Two kinds of conversion are made here, outside of every
measurement: of the layout, and, for who takes q and k where a case has one tensor, of half of its
heads to q and half to k, which are the same bytes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.case import BASE, Case
from rope_kernels import RotaryPositionEmbedding

# relative error of one rounding of normally distributed values, a little more than measured
_ROUNDING = {"bfloat16": 1.75e-3, "float16": 2.2e-4, "float32": 2e-7, "float64": 1e-15}
_SCATTER = 5 * 0.9  # standard deviations of that error, as a share of it, of one element
_FP32_ANGLE = 1e-8  # a position: what the fp32 product of position and frequency may lose


@dataclass(frozen=True)
class Layout:
    """How a provider takes its tensors."""

    tensor_format: str  # the order of the dimensions; 'thd' takes b * s for t
    stored: str = ""  # their order in memory, if it is another
    pair: bool = False  # takes q and k at once

    @property
    def memory(self) -> str:
        """The order in memory."""
        return self.stored or self.tensor_format

    def __str__(self) -> str:
        if self.memory == self.tensor_format:
            return self.tensor_format
        return f"{self.tensor_format} view of {self.memory} memory"


def own_layout(case: Case, pair: bool = False) -> Layout:
    """The case's format and memory, for who takes any."""
    return Layout(case.tensor_format, case.stored, pair)


def as_models_have_them(case: Case, memory: str = "bshd") -> Layout:
    """(b, h, s, d), as views of (b, s, h, d) memory unless another order is asked for."""
    if case.tensor_format == "bhsd":
        return own_layout(case, pair=True)
    return Layout("bhsd", memory, pair=True)


def rounded_error(case: Case, roundings: int, exact_angles: bool = False) -> float:
    """How far from fp64 results are that round so many times.

    The error of few elements scatters, by the root of their number. Angles that are no exact ones
    lose what fp32 loses of a position's angle.
    """
    rounded = roundings * _ROUNDING[case.dtype] * (1 + _SCATTER / case.elements**0.5)
    return rounded + (0 if exact_angles else _FP32_ANGLE * table_rows(case))


def table_rows(case: Case) -> int:
    """How many positions a table has to have."""
    return case.s + (4096 if case.positions == "starts" else 0)


class Workload:
    """Random tensors of a case, their positions, and tables of angles."""

    def __init__(self, case: Case, device: str = "cuda") -> None:
        torch.manual_seed(20261120)
        sizes, dtype = (case.b, case.s, case.heads, case.d), getattr(torch, case.dtype)
        options = {"device": device, "dtype": dtype}
        self.case = case
        self.x, self.grad = (torch.randn(sizes, **options) for _ in range(2))  # (b, s, h, d)
        options = {"rotary_base": BASE, "interleaved": case.interleaved}
        self.module = RotaryPositionEmbedding(case.d2, **options).to(device)
        self.cu_seqlens = self.starts = self.ids = None
        index = torch.arange(case.s)
        if case.tensor_format == "thd":
            cuts = torch.tensor(_cu_seqlens(case))
            self.cu_seqlens = cuts.to(device, torch.int32)
            self.longest = int(cuts.diff().max())  # of the packed sequences
            positions = (index - cuts[torch.searchsorted(cuts, index, right=True) - 1])[None]
        elif case.positions == "ids":
            # several documents in each row, as packing makes them
            positions = (index + 100 * torch.arange(case.b)[:, None]) % (case.s // 8 + 1)
            self.ids = positions.to(device)
        elif case.positions == "starts":
            starts = torch.randint(0, 4096, (case.b,), generator=torch.Generator().manual_seed(1))
            self.starts = starts.to(device, torch.int32)
            positions = starts[:, None] + index
        else:
            positions = index[None]
        self.positions = positions.to(device)  # (b or 1, s)
        self.table_rows = table_rows(case)

    # what providers take

    def angles(self) -> Tensor:
        """The fp32 table that TransformerEngine's module makes: (s2, 1, 1, d2)."""
        return self.module(self.table_rows)

    def table(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """cos and sin of each position and pair: (s2, d2 / 2)."""
        angle = torch.arange(self.table_rows, device=self.x.device)[:, None] * self.module.inv_freq
        return angle.cos().to(dtype), angle.sin().to(dtype)

    def cos_sin(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """cos and sin of each token and element, as models hand them round: (b or 1, s, d2)."""
        angle = self.positions[:, :, None] * self.module.inv_freq
        each = angle.repeat_interleave(2, -1) if self.case.interleaved else angle.repeat(1, 1, 2)
        return each.cos().to(dtype), each.sin().to(dtype)

    def token_positions(self) -> Tensor:
        """int64, of all tokens in a row."""
        return self.positions.expand(self.case.b, self.case.s).reshape(-1).contiguous()

    def take(self, source: Tensor, layout: Layout) -> tuple[Tensor, ...]:
        """`x` or `grad` in a layout: fresh tensors, one or two."""
        h, k_heads = self.case.h, self.case.k_heads
        if layout.pair and not k_heads:
            h, k_heads = h - h // 2, h // 2
        heads = [h, k_heads] if k_heads else [h]
        return tuple(_from_bshd(part, layout) for part in source.split(heads, 2))

    # what is right

    @torch.no_grad()
    def error(self, results: tuple[Tensor, ...], layout: Layout, direction: str) -> float:
        """How far rotated tensors are from fp64."""
        transpose = direction in ("backward", "both")
        wanted = self.rotated(self.grad if transpose else self.x, transpose)
        return distance(results, self.take(wanted, layout), self.x.dtype)

    def rotated(self, x: Tensor, transpose: bool) -> Tensor:
        """RoPE by its definition in fp64, of (b, s, h, d): exact positions, no table."""
        angle = self.positions.double()[:, :, None, None] * self.module.inv_freq.double()
        cos, sin = angle.cos(), angle.sin() * (-1 if transpose else 1)
        d2, result = self.case.d2, x.double().clone()
        pairs = slice(0, d2 // 2), slice(d2 // 2, d2)
        if self.case.interleaved:
            pairs = slice(0, d2, 2), slice(1, d2, 2)
        first, second = (x[..., pair].double() for pair in pairs)
        result[..., pairs[0]] = first * cos - second * sin
        result[..., pairs[1]] = second * cos + first * sin
        return result


def distance(results: tuple[Tensor, ...], wanted: tuple[Tensor, ...], dtype: torch.dtype) -> float:
    """The norm of the difference over that of what is wanted: of the worst of the results.

    Raises:
        ValueError: the results have other shapes or dtypes than they should.
    """
    found = [(tuple(result.shape), result.dtype) for result in results]
    if found != [(tuple(want.shape), dtype) for want in wanted]:
        raise ValueError(f"results have shapes and dtypes {found}")
    pairs = zip(results, wanted, strict=True)
    relative = [(result.double() - want).norm() / want.norm() for result, want in pairs]
    return float(torch.stack(relative).max())  # torch's keeps a NaN, Python's may lose it


def _from_bshd(t: Tensor, layout: Layout) -> Tensor:
    """A copy of (b, s, h, d) in a layout."""
    if layout.tensor_format == "thd":
        return t.flatten(0, 1).clone(memory_format=torch.contiguous_format)
    in_memory = t.permute(["bshd".index(dim) for dim in layout.memory])
    in_memory = in_memory.clone(memory_format=torch.contiguous_format)
    return in_memory.permute([layout.memory.index(dim) for dim in layout.tensor_format])


def _cu_seqlens(case: Case) -> list[int]:
    """Where sequences start, cut at random places, none empty."""
    order = torch.randperm(case.s - 1, generator=torch.Generator().manual_seed(2)) + 1
    return [0, *sorted(order[: case.sequences - 1].tolist()), case.s]
