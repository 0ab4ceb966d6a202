"""The tensors of a case in a provider's layout, and the right results in fp64.

All providers get the same values. Two conversions are made here, outside of measurements: the
layout, and for providers that take q and k, the split of a case's single tensor into halves of its
heads, which are the same bytes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.case import BASE, Case
from rope_kernels import RotaryPositionEmbedding

# The relative error of rounding normally distributed values once, slightly more than measured.
_ROUNDING = {"bfloat16": 1.75e-3, "float16": 2.2e-4, "float32": 2e-7, "float64": 1e-15}
_SCATTER = 5 * 0.9  # five standard deviations of one element's error, as a share of the error
_FP32_ANGLE = 1e-8  # per position: the error of the fp32 product of position and frequency


@dataclass(frozen=True)
class Layout:
    """The layout of a provider's tensors."""

    tensor_format: str  # the order of the dimensions; with 'thd', t is b * s
    stored: str = ""  # their order in memory, if it is different
    pair: bool = False  # q and k together

    @property
    def memory(self) -> str:
        """The order in memory."""
        return self.stored or self.tensor_format

    def __str__(self) -> str:
        if self.memory == self.tensor_format:
            return self.tensor_format
        return f"{self.tensor_format} view of {self.memory} memory"


def own_layout(case: Case, pair: bool = False) -> Layout:
    """The case's own layout, for providers that take any."""
    return Layout(case.tensor_format, case.stored, pair)


def as_models_have_them(case: Case, memory: str = "bshd") -> Layout:
    """(b, h, s, d), as views of (b, s, h, d) or other `memory`."""
    if case.tensor_format == "bhsd":
        return own_layout(case, pair=True)
    return Layout("bhsd", memory, pair=True)


def rounded_error(case: Case, roundings: int, exact_angles: bool = False) -> float:
    """The largest error against fp64 after this many roundings.

    With few elements, the error varies more, by the root of their number. Unless angles are exact,
    the error of fp32 angles is added.
    """
    rounded = roundings * _ROUNDING[case.dtype] * (1 + _SCATTER / case.elements**0.5)
    return rounded + (0 if exact_angles else _FP32_ANGLE * table_rows(case))


def table_rows(case: Case) -> int:
    """The number of positions that a table needs."""
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
            # Several documents in each row, as after packing.
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

    # what providers need

    def angles(self) -> Tensor:
        """The fp32 table of TransformerEngine's module: (s2, 1, 1, d2)."""
        return self.module(self.table_rows)

    def table(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """cos and sin of each position and pair: (s2, d2 / 2)."""
        angle = torch.arange(self.table_rows, device=self.x.device)[:, None] * self.module.inv_freq
        return angle.cos().to(dtype), angle.sin().to(dtype)

    def cos_sin(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """cos and sin of each token and element, as in models: (b or 1, s, d2)."""
        angle = self.positions[:, :, None] * self.module.inv_freq
        each = angle.repeat_interleave(2, -1) if self.case.interleaved else angle.repeat(1, 1, 2)
        return each.cos().to(dtype), each.sin().to(dtype)

    def token_positions(self) -> Tensor:
        """The position of every token, int64, in one dimension."""
        return self.positions.expand(self.case.b, self.case.s).reshape(-1).contiguous()

    def take(self, source: Tensor, layout: Layout) -> tuple[Tensor, ...]:
        """`x` or `grad` in a layout: one or two new tensors."""
        h, k_heads = self.case.h, self.case.k_heads
        if layout.pair and not k_heads:
            h, k_heads = h - h // 2, h // 2
        heads = [h, k_heads] if k_heads else [h]
        return tuple(_from_bshd(part, layout) for part in source.split(heads, 2))

    # the right results

    @torch.no_grad()
    def error(self, results: tuple[Tensor, ...], layout: Layout, direction: str) -> float:
        """The error of rotated tensors against fp64."""
        transpose = direction in ("backward", "both")
        wanted = self.rotated(self.grad if transpose else self.x, transpose)
        return distance(results, self.take(wanted, layout), self.x.dtype)

    def rotated(self, x: Tensor, transpose: bool) -> Tensor:
        """RoPE of (b, s, h, d) by its definition, in fp64 without a table."""
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
    """The largest relative error of the results: the norm of the difference over the norm.

    Raises:
        ValueError: the results have wrong shapes or dtypes.
    """
    found = [(tuple(result.shape), result.dtype) for result in results]
    if found != [(tuple(want.shape), dtype) for want in wanted]:
        raise ValueError(f"results have shapes and dtypes {found}")
    pairs = zip(results, wanted, strict=True)
    relative = [(result.double() - want).norm() / want.norm() for result, want in pairs]
    return float(torch.stack(relative).max())  # Unlike Python's, torch's max keeps a NaN.


def _from_bshd(t: Tensor, layout: Layout) -> Tensor:
    """A copy of (b, s, h, d) in a layout."""
    if layout.tensor_format == "thd":
        return t.flatten(0, 1).clone(memory_format=torch.contiguous_format)
    in_memory = t.permute(["bshd".index(dim) for dim in layout.memory])
    in_memory = in_memory.clone(memory_format=torch.contiguous_format)
    return in_memory.permute([layout.memory.index(dim) for dim in layout.tensor_format])


def _cu_seqlens(case: Case) -> list[int]:
    """The bounds of sequences of random lengths, none empty."""
    order = torch.randperm(case.s - 1, generator=torch.Generator().manual_seed(2)) + 1
    return [0, *sorted(order[: case.sequences - 1].tolist()), case.s]
