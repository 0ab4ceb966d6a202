"""The tensors of a row, and the call that a package makes of them.

A package is `rope_kernels`, or that of another checkout under a name of its own. Tables are made of
the module's angles, so that all packages get the same bits. What is right is computed in fp64, by
definition, without a package.
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
    """What a row's call is given; the same in each process, as the seed is."""

    def __init__(self, row: Row, device: str = "cuda", has_values: bool = True) -> None:
        """Make the tensors. Without values they cost nothing, for who plans a call alone."""
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
        """Caches whose pages are in no order, as in one that has been used for a while."""
        tokens = self.row.tokens
        pages = max(2 * tokens // PAGE, 512)
        self.k_cache, self.v_cache = self._random(2, pages, PAGE, self.row.k_heads, self.row.d)
        begins = PAGE * torch.randperm(pages, generator=torch.Generator().manual_seed(1))
        if not self.row.decodes:  # two prompts
            slots = (begins[:, None] + torch.arange(PAGE)).flatten()
            ids = torch.arange(tokens) % self.row.positions
        else:  # Each token is of a sequence of its own, with a page of its own.
            slots, ids = begins, torch.arange(tokens) * (4096 // tokens)
        self.slots, self.position_ids = [x[:tokens].to(self.device) for x in (slots, ids)]

    @property
    def rows(self) -> tuple[Tensor, ...]:
        """What a copy of the row copies."""
        return (*self.tensors, self.v) if self.row.to_cache else tuple(self.tensors)

    @property
    def table_len(self) -> int:
        """How many positions a table has."""
        return 4096 if self.row.to_cache else self.row.positions

    def fresh(self) -> "RowInputs":
        """The same in other memory, so that nobody finds what another has written."""
        return RowInputs(self.row, self.device, self.has_values)

    @property
    def positions(self) -> Tensor:
        """Of each token: (b or 1, s)."""
        row = self.row
        if self.position_ids is not None:
            return self.position_ids.view(-1, row.s)
        index = torch.arange(row.s, device=self.device)
        if row.is_packed:
            cuts = torch.tensor(row.cuts, device=self.device)
            index -= cuts[torch.searchsorted(cuts, index, right=True) - 1]
        return index[None]

    def token_positions(self) -> Tensor:
        """int64, of all tokens in a row."""
        return self.positions.expand(self.row.b, self.row.s).reshape(-1).contiguous()

    # what is right

    def found(self, results: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """What `right` is compared with: of q and both caches, q and what is in the slots."""
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
        """By which angles the row turns: a module, angles, or (cos, sin)."""
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
        if row.is_norm:
            options |= {"eps": EPS, "norm_after": row.norm_after, "rounding": row.rounding}
        return options | ({"inplace": True} if row.inplace else {})

    def given(self, package: ModuleType) -> tuple[object, ...]:
        """What the row's call is given without a name."""
        freqs = self.freqs(package)
        if self.row.to_cache:
            return *self.tensors, self.v, freqs, self.k_cache, self.v_cache, self.slots
        return *self.tensors, *self.weights, freqs, self.row.tensor_format

    def function(self, package: ModuleType) -> Callable:
        """The package's function for the row."""
        return function_of(package, self.row.called)

    def rotation_in_place(self, package: ModuleType) -> Callable[[], object]:
        """`rope_qk` of the q and k of a cache's row, by the same table, in place of them."""
        options = {name: x for name, x in self.options.items() if name != "inplace"}
        given = *[x.clone() for x in self.tensors], self.freqs(package), "thd"
        return partial(package.rope_qk, *given, inplace=True, **options)


def function_of(package: ModuleType, name: str) -> Callable:
    """A public function, of the package itself or of a room that it has."""
    for room in ("", ".norms", ".serving"):
        with contextlib.suppress(ModuleNotFoundError):
            module = importlib.import_module(f"{package.__name__}{room}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"{package.__name__} has no {name}, nor has a room of it")


def cos_sin_of(angles: Tensor, table: TableKind) -> tuple[Tensor, Tensor]:
    """The table of fp32 angles (s, d), half-split.

    A column for each pair are two halves of one tensor, as engines keep them; a column for each
    element are two tensors, as models hand them round.
    """
    cos, sin = angles.cos().to(_DTYPES[table.dtype]), angles.sin().to(_DTYPES[table.dtype])
    if not table.of_pairs:
        return cos, sin
    half = angles.shape[1] // 2
    cos, sin = torch.cat((cos[:, :half], sin[:, :half]), 1).chunk(2, 1)
    return cos, sin
