"""The tensors of a row, and a package's call with them.

A package is `rope_kernels`, or that of another checkout under another name. Tables are computed
from the module's angles, so that all packages get the same bits. The right results are computed in
fp64 by definition, without a package.
"""

import contextlib
import importlib
from collections.abc import Callable
from functools import cached_property, partial
from types import ModuleType

import torch
from torch import Tensor

from benchmarks.case import BASE, EPS, Row, TableKind

PAGE = 16  # tokens of a page of a cache
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class RowInputs:
    """The arguments of a row's call. The seed is fixed, so they are equal in all processes."""

    def __init__(self, row: Row, device: str = "cuda", has_values: bool = True) -> None:
        """Create the tensors. Without values they cost nothing, which is enough to plan a call."""
        self.row, self.device, self.has_values = row, device, has_values
        torch.manual_seed(20261128)
        sizes = {"b": row.b, "s": row.s, "t": row.s, "d": row.d}
        heads = (row.h, row.k_heads) if row.k_heads else (row.h,)
        order = row.stored or row.tensor_format
        shapes = [[{**sizes, "h": count}[x] for x in order] for count in heads]
        view = [order.index(x) for x in row.tensor_format]
        self.tensors = [self._random(*shape).permute(view) for shape in shapes]  # q, or q and k
        self.grads = [self._random(*shape).permute(view) for shape in shapes]
        self.weights = [self._random(row.d) for _ in heads] if row.is_norm else []
        if row.backward:
            for x in (*self.tensors, *self.weights):
                x.requires_grad_()
        self.v = self._random(*shapes[-1])
        self.position_ids = self.slots = self.cu_seqlens = None
        if row.to_cache:
            self._make_cache()
        elif row.position_ids:
            self.position_ids = torch.arange(row.s, device=device).repeat(row.b, 1)
        if row.is_packed:
            self.cu_seqlens = torch.tensor(row.cuts, dtype=torch.int32, device=device)

    def _random(self, *sizes: int) -> Tensor:
        options = {"dtype": torch.bfloat16, "device": self.device}
        if not self.has_values:
            return torch.empty(sizes, **options)
        return torch.randn(sizes, **options)

    def _make_cache(self) -> None:
        """Create caches with pages in random order, as after some use."""
        tokens = self.row.tokens
        pages = max(2 * tokens // PAGE, 512)
        self.k_cache, self.v_cache = self._random(2, pages, PAGE, self.row.k_heads, self.row.d)
        begins = PAGE * torch.randperm(pages, generator=torch.Generator().manual_seed(1))
        if not self.row.decodes:  # two prompts
            slots = (begins[:, None] + torch.arange(PAGE)).flatten()
            ids = torch.arange(tokens) % self.row.positions
        else:  # Each token belongs to a different sequence, and has its own page.
            slots, ids = begins, torch.arange(tokens) * (4096 // tokens)
        self.slots, self.position_ids = [x[:tokens].to(self.device) for x in (slots, ids)]

    @property
    def rows(self) -> tuple[Tensor, ...]:
        """The tensors that the copy copies."""
        return (*self.tensors, self.v) if self.row.to_cache else tuple(self.tensors)

    @property
    def table_len(self) -> int:
        """The number of positions of a table."""
        return 4096 if self.row.to_cache else self.row.positions

    def fresh(self) -> "RowInputs":
        """The same in new memory, so that no provider sees what another has written."""
        return RowInputs(self.row, self.device, self.has_values)

    @property
    def positions(self) -> Tensor:
        """The position of each token: (b or 1, s)."""
        row = self.row
        if self.position_ids is not None:
            return self.position_ids.view(-1, row.s)
        index = torch.arange(row.s, device=self.device)
        if row.is_packed:
            cuts = torch.tensor(row.cuts, device=self.device)
            index -= cuts[torch.searchsorted(cuts, index, right=True) - 1]
        return index[None]

    def token_positions(self) -> Tensor:
        """The position of every token, int64, in one dimension."""
        return self.positions.expand(self.row.b, self.row.s).reshape(-1).contiguous()

    # the right results

    def found(self, results: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The results to compare with `right`: of caches, only the slots that were written."""
        if not self.row.to_cache:
            return results
        q, *caches = results
        return q, *[cache.flatten(0, 1)[self.slots] for cache in caches]

    def right(self) -> tuple[Tensor, ...]:
        """The row's results, or its gradients, in fp64."""
        row, leaves = self.row, [x.detach().double() for x in (*self.tensors, *self.weights)]
        with torch.set_grad_enabled(row.backward):
            leaves = [x.requires_grad_(row.backward) for x in leaves]
            outs = leaves[: len(self.tensors)]
            weights = leaves[len(self.tensors) :]
            if row.norm_after:
                outs = [self._rotated(x) for x in outs]
            if row.is_norm:
                pairs = zip(outs, weights, strict=True)
                outs = [x * (x.square().mean(-1, keepdim=True) + EPS).rsqrt() * w for x, w in pairs]
            if not row.norm_after:
                outs = [self._rotated(x) for x in outs]
        if row.backward:
            return torch.autograd.grad(outs, leaves, [x.double() for x in self.grads])
        return tuple(outs) + ((self.v.double(),) if row.to_cache else ())

    def _rotated(self, x: Tensor) -> Tensor:
        pair = torch.arange(0, self.row.d, 2, device=self.device, dtype=torch.float64)
        angle = self.positions.double()[:, :, None] * BASE ** -(
            pair / self.row.d
        )  # (b or 1, s, d/2)
        angle = {
            "bshd": lambda: angle[:, :, None],
            "bhsd": lambda: angle[:, None],
            "sbhd": lambda: angle.transpose(0, 1)[:, :, None],
            "thd": lambda: angle[0][:, None],
        }[self.row.tensor_format]()
        first, second = x.chunk(2, -1)
        cos, sin = angle.cos(), angle.sin()
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)

    # a package's call

    def freqs(self, package: ModuleType) -> object:
        """The row's `freqs`: a module, angles, or (cos, sin)."""
        table, rope = self.row.table, self.rope(package)
        if not table.dtype:
            return rope
        angles = rope(self.table_len)
        return angles if table.parts == 1 else cos_sin_of(angles[:, 0, 0], table)

    def rope(self, package: ModuleType) -> torch.nn.Module:
        """The module of frequencies."""
        return package.RotaryPositionEmbedding(self.row.d, rotary_base=BASE).to(self.device)

    @cached_property
    def options(self) -> dict[str, object]:
        """The keywords of the row's call."""
        row = self.row
        named = {"position_ids": self.position_ids, "cu_seqlens": self.cu_seqlens}
        options = {name: x for name, x in named.items() if x is not None}
        if row.table.parts == 2 and row.table.dtype:
            options["rotary_dim"] = row.d
            if self.cu_seqlens is not None:  # as many rows as tokens: they belong to positions
                options["start_positions"] = 0
        if row.is_norm:
            options |= {"eps": EPS, "norm_after": row.norm_after, "rounding": row.rounding}
        return options | ({"inplace": True} if row.inplace else {})

    def given(self, package: ModuleType) -> tuple[object, ...]:
        """The positional arguments of the row's call."""
        freqs = self.freqs(package)
        if self.row.to_cache:
            return *self.tensors, self.v, freqs, self.k_cache, self.v_cache, self.slots
        return *self.tensors, *self.weights, freqs, self.row.tensor_format

    def function(self, package: ModuleType) -> Callable:
        """The package's function for the row."""
        return function_of(package, self.row.called)

    def rotation_in_place(self, package: ModuleType) -> Callable[[], object]:
        """`rope_qk` in place of a cache row's q and k, with the same table."""
        options = {name: x for name, x in self.options.items() if name != "inplace"}
        given = *[x.clone() for x in self.tensors], self.freqs(package), "thd"
        return partial(package.rope_qk, *given, inplace=True, **options)


def function_of(package: ModuleType, name: str) -> Callable:
    """A public function of the package or of a subpackage."""
    for subpackage in ("", ".norms", ".serving"):
        with contextlib.suppress(ModuleNotFoundError):
            module = importlib.import_module(f"{package.__name__}{subpackage}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"{package.__name__} and its subpackages have no {name}")


def cos_sin_of(angles: Tensor, table: TableKind) -> tuple[Tensor, Tensor]:
    """cos and sin of fp32 angles (s, d), half-split.

    With a column per pair, they are two halves of one tensor, as in serving engines. With a column
    per element, they are two tensors, as in models.
    """
    cos, sin = angles.cos().to(_DTYPES[table.dtype]), angles.sin().to(_DTYPES[table.dtype])
    if not table.of_pairs:
        return cos, sin
    half = angles.shape[1] // 2
    cos, sin = torch.cat((cos[:, :half], sin[:, :half]), 1).chunk(2, 1)
    return cos, sin
