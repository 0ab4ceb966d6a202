"""The tensors of a case in a provider's layout, its tables, and the right results in fp64.

All providers get the same values. Two conversions are made here, outside of measurements: the
layout, and for providers that take q and k, the split of a case's single tensor into halves of its
heads, which are the same bytes.
"""

import contextlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor

import rope_kernels
from benchmarks.case import BASE, EPS, Case, TableKind

# The relative error of rounding normally distributed values once, slightly more than measured.
_ROUNDING = {"bfloat16": 1.75e-3, "float16": 2.2e-4, "float32": 2e-7, "float64": 1e-15}
_SCATTER = 5 * 0.9  # five standard deviations of one element's error, as a share of the error
_FP32_ANGLE = 1e-8  # per position: the error of the fp32 product of position and frequency
PAGE = 16  # tokens of a page of a cache


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


def own_layout(case: Case) -> Layout:
    """The case's own layout, for providers that take any."""
    return Layout(case.tensor_format, case.stored, pair=case.k_heads > 0)


def as_models_have_them(case: Case, memory: str = "bshd") -> Layout:
    """(b, h, s, d), as views of (b, s, h, d) or other `memory`."""
    stored = case.stored if case.tensor_format == "bhsd" else memory
    return Layout("bhsd", stored, pair=True)


def rounded_error(case: Case, roundings: int, exact_angles: bool = False) -> float:
    """The largest error against fp64 after this many roundings.

    With few elements, the error varies more, by the root of their number; a weight's gradient has
    fewest. Unless angles are exact, the error of fp32 angles is added.
    """
    elements = case.d if case.is_norm and case.is_backward else case.elements
    rounded = roundings * _ROUNDING[case.dtype] * (1 + _SCATTER / elements**0.5)
    return rounded + (0 if exact_angles else _FP32_ANGLE * case.table_len)


def positions_of(case: Case) -> Tensor:
    """The position of each token: (b or 1, s)."""
    index = torch.arange(case.s)[None]
    if case.cuts:
        cuts = torch.tensor(case.cuts)
        return index - cuts[torch.searchsorted(cuts, index, right=True) - 1]
    if case.positions == "starts":
        return starts_of(case)[:, None] + index
    if case.positions == "prompts":
        return index % case.table_len
    return index * (case.table_len // case.s)  # apart if tokens are decoded


def starts_of(case: Case) -> Tensor:
    """The random position of each batch entry's first token."""
    return torch.randint(0, 4096, (case.b,), generator=torch.Generator().manual_seed(1))


class Inputs:
    """Random tensors of a case, their positions, and tables. The seed is fixed."""

    def __init__(self, case: Case, device: str = "cuda") -> None:
        """On the device "meta" they have no values, which is enough to plan a call."""
        torch.manual_seed(20261120)
        self.case, self.device = case, device
        sizes, tensors = (case.b, case.s, case.heads, case.d), 2 if case.k_heads else 1
        self.x, self.grad = self._random(*sizes), self._random(*sizes)  # (b, s, h, d)
        self.weights = [self._random(case.d) for _ in range(tensors if case.is_norm else 0)]
        self.module = self.rope(rope_kernels)
        self.positions = positions_of(case).to(device)
        self.cu_seqlens = self.starts = None
        if case.cuts:
            self.cu_seqlens = torch.tensor(case.cuts, device=device, dtype=torch.int32)
        if case.positions == "starts":
            self.starts = starts_of(case).to(device, torch.int32)
        if case.to_cache:
            self._place_in_cache()

    def _random(self, *sizes: int) -> Tensor:
        return torch.randn(sizes, dtype=getattr(torch, self.case.dtype), device=self.device)

    def _place_in_cache(self) -> None:
        """Create v, and slots of pages in random order, as after some use."""
        case = self.case
        self.v = self._random(case.s, case.k_heads, case.d)
        self.pages = max(2 * case.s // PAGE, 512)
        begins = PAGE * torch.randperm(self.pages, generator=torch.Generator().manual_seed(1))
        slots = (begins[:, None] + torch.arange(PAGE)).flatten()
        # A decoded token has its own page.
        slots = begins if case.positions == "decoded" else slots
        self.slots = slots[: case.s].to(self.device)

    def of(self, case: Case) -> "Inputs":
        """Those of another case, on the same device."""
        return Inputs(case, self.device)

    # what providers need

    def rope(self, package: ModuleType) -> torch.nn.Module:
        """The module of frequencies, by this package."""
        case = self.case
        options = {"rotary_base": BASE, "interleaved": case.interleaved}
        return package.RotaryPositionEmbedding(case.d2, **options).to(self.device)

    def angles(self) -> Tensor:
        """The fp32 table of TransformerEngine's module: (positions, 1, 1, d2)."""
        return self.module(self.case.table_len)

    def table(self, kind: TableKind) -> tuple[Tensor, Tensor]:
        """cos and sin of each position.

        With a column per pair, they are two halves of one tensor, as in serving engines. With a
        column per element, they are two tensors, as in models.
        """
        dtype = getattr(torch, kind.dtype)
        cos, sin = self._cos_sin(torch.arange(self.case.table_len, device=self.device))
        if kind.of_pairs:
            cos, sin = torch.cat((cos, sin), -1).to(dtype).chunk(2, -1)
            return cos, sin
        return self._per_element(cos).to(dtype), self._per_element(sin).to(dtype)

    def cos_sin(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """cos and sin of each token and element, as in models: (b or 1, s, d2)."""
        cos, sin = self._cos_sin(self.positions)
        return self._per_element(cos).to(dtype), self._per_element(sin).to(dtype)

    def _cos_sin(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        angle = positions[..., None] * self.module.inv_freq
        return angle.cos(), angle.sin()

    def _per_element(self, of_pairs: Tensor) -> Tensor:
        if self.case.interleaved:
            return of_pairs.repeat_interleave(2, -1)
        return torch.cat((of_pairs, of_pairs), -1)

    def token_positions(self) -> Tensor:
        """The position of every token, int64, in one dimension."""
        return self.positions.expand(self.case.b, self.case.s).reshape(-1).contiguous()

    def new_caches(self) -> tuple[Tensor, Tensor]:
        """Caches of k and v, so that no provider sees what another has written."""
        k_cache, v_cache = self._random(2, self.pages, PAGE, self.case.k_heads, self.case.d)
        return k_cache, v_cache

    def take(self, source: Tensor, layout: Layout) -> tuple[Tensor, ...]:
        """`x` or `grad` in a layout: one or two new tensors."""
        h, k_heads = self.case.h, self.case.k_heads
        if layout.pair and not k_heads:
            h, k_heads = h - h // 2, h // 2
        heads = [h, k_heads] if k_heads else [h]
        return tuple(_from_bshd(part, layout) for part in source.split(heads, 2))

    # the right results

    @torch.no_grad()
    def error(self, results: tuple[Tensor, ...], layout: Layout) -> float:
        """The error of results, or of gradients, against fp64.

        Raises:
            ValueError: the results have wrong shapes or dtypes.
        """
        whole, *others = self.right()
        wanted = *self.take(whole, layout), *others
        if self.case.to_cache:  # Only the slots that were written are compared.
            q, *caches = results
            results = q, *(cache.flatten(0, 1)[self.slots] for cache in caches)
        return distance(results, wanted, self.x.dtype)

    def right(self) -> tuple[Tensor, ...]:
        """The case's result (b, s, h, d), or its gradient and those of weights; v for a cache."""
        case = self.case
        leaves = [t.double().requires_grad_(case.is_backward) for t in (self.x, *self.weights)]
        with torch.set_grad_enabled(case.is_backward):
            out, *weights = leaves
            if case.norm_after:
                out = self._rotated(out)
            if case.is_norm:
                heads = (case.h, case.k_heads)
                rows = [w.expand(n, case.d) for w, n in zip(weights, heads, strict=False)]
                out = out * (out.square().mean(-1, keepdim=True) + EPS).rsqrt() * torch.cat(rows)
            if not case.norm_after:
                out = self._rotated(out)
        if case.is_backward:
            return torch.autograd.grad(out, leaves, self.grad.double())
        return (out, self.v.double()) if case.to_cache else (out,)

    def _rotated(self, x: Tensor) -> Tensor:
        """RoPE of (b, s, h, d) by its definition, without a table."""
        angle = self.positions.double()[:, :, None, None] * self.module.inv_freq.double()
        cos, sin = angle.cos(), angle.sin()
        x, rest = x[..., : self.case.d2], x[..., self.case.d2 :]
        if self.case.interleaved:
            first, second = x[..., ::2], x[..., 1::2]
            turned = torch.stack((first * cos - second * sin, second * cos + first * sin), -1)
            return torch.cat((turned.flatten(-2), rest), -1)
        first, second = x.chunk(2, -1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin, rest), -1)


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


def function_of(package: ModuleType, name: str) -> Callable:
    """A public function of the package or of a subpackage."""
    for subpackage in ("", ".norms", ".serving"):
        with contextlib.suppress(ModuleNotFoundError):
            module = importlib.import_module(f"{package.__name__}{subpackage}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"{package.__name__} and its subpackages have no {name}")


def _from_bshd(t: Tensor, layout: Layout) -> Tensor:
    """A copy of (b, s, h, d) in a layout."""
    if layout.tensor_format == "thd":
        return t.flatten(0, 1).clone(memory_format=torch.contiguous_format)
    in_memory = t.permute(["bshd".index(dim) for dim in layout.memory])
    in_memory = in_memory.clone(memory_format=torch.contiguous_format)
    return in_memory.permute([layout.memory.index(dim) for dim in layout.tensor_format])
