"""Calls of models' sizes, for the tools that compare what two checkouts make of them.

Each function here makes one call of a package: 32 heads of q and 8 of k, in two sequences of 4096
tokens, or in as many packed ones. On a GPU tensors are random. On a CPU, where no kernel of this
size runs, they have no values: so they cost nothing.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.case import CUTS, Row
from benchmarks.row_inputs import RowInputs, function_of

B, S, HEADS, KV_HEADS = 2, 4096, 32, 8
POSITIONS = 2 * S  # of a table: calls may start later, or share their sequences with a rank
TOKENS = B * S
PAGE = 16  # tokens of a page of a cache
ON_THE_FLY = "on the fly"
ANGLES = "angles"  # fp32
WIDE_TABLE = "cos and sin"  # fp32, a column for each element
TABLE = "cos and sin of pairs"  # bf16, a column for each pair
KINDS = ON_THE_FLY, ANGLES, WIDE_TABLE, TABLE


@dataclass(frozen=True)
class Call:
    """A function of a package, and what it is given."""

    function: Callable
    given: tuple  # tensors that may have a gradient, then others
    options: dict[str, object]
    rows: tuple[Tensor, ...]  # what a call reads once, and writes once

    def __call__(self) -> object:
        return self.function(*self.given, **self.options)

    @property
    def leaves(self) -> list[Tensor]:
        """Tensors of which a gradient is wanted."""
        return [x for x in self.given if isinstance(x, Tensor) and x.requires_grad]


@dataclass(frozen=True)
class Maker:
    """Makes calls of a package, with tensors on a device."""

    package: ModuleType
    device: str = "cpu"
    trained: bool = field(default=False, kw_only=True)  # tensors that may have a gradient want one

    def tensor(self, *sizes: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
        make = torch.empty if self.device == "cpu" else torch.randn
        return make(sizes, dtype=dtype, device=self.device, requires_grad=self.trained)

    def rows(
        self, heads: int, d: int, tensor_format: str, dtype: torch.dtype = torch.bfloat16
    ) -> Tensor:
        sizes = {"b": B, "s": S, "t": TOKENS, "h": heads, "d": d}
        return self.tensor(*[sizes[letter] for letter in tensor_format], dtype=dtype)

    def packed(self, tensor_format: str) -> dict[str, Tensor]:
        """The option that packed sequences need."""
        if tensor_format != "thd":
            return {}
        return {"cu_seqlens": torch.tensor(CUTS, dtype=torch.int32, device=self.device)}

    def freqs(self, kind: str, d: int, **of_module: object) -> tuple[object, dict[str, int]]:
        """By which angles, with the option that a table needs."""
        rope = self.package.RotaryPositionEmbedding(d, **of_module).to(self.device)
        if kind == ON_THE_FLY:
            return rope, {}
        if kind == ANGLES:
            return rope(POSITIONS), {}
        if kind == TABLE:
            return rope.cos_sin(POSITIONS, torch.bfloat16), {"rotary_dim": d}
        cos, sin = [
            x.repeat_interleave(2, -1) if rope.interleaved else torch.cat((x, x), -1)
            for x in rope.cos_sin(POSITIONS)
        ]
        return (cos, sin), {"rotary_dim": d}

    # the calls

    def rotated(
        self,
        d: int,
        tensor_format: str,
        kind: str,
        turned: int | None = None,
        dtype: torch.dtype = torch.bfloat16,
        of_module: dict[str, object] | None = None,
        **options: object,
    ) -> Call:
        """`rope_qk`, of which `turned` elements of a row turn."""
        q, k = [self.rows(heads, d, tensor_format, dtype) for heads in (HEADS, KV_HEADS)]
        freqs, of_table = self.freqs(kind, turned or d, **of_module or {})
        options = of_table | self.packed(tensor_format) | options
        return Call(self.package.rope_qk, (q, k, freqs, tensor_format), options, (q, k))

    def one_rotated(
        self, function: str, d: int, tensor_format: str, kind: str, **options: object
    ) -> Call:
        """`rope_fw`, `rope_bw` or `apply_rotary_pos_emb`, of q."""
        t = self.rows(HEADS, d, tensor_format)
        freqs, of_table = self.freqs(kind, d)
        options = of_table | self.packed(tensor_format) | options
        return Call(getattr(self.package, function), (t, freqs, tensor_format), options, (t,))

    def long_sequence(self, d: int) -> Call:
        """One tensor of 8 heads and 131 072 tokens."""
        t, (rope, _) = self.tensor(131_072, 1, 8, d), self.freqs(ON_THE_FLY, d)
        return Call(self.package.apply_rotary_pos_emb, (t, rope, "sbhd"), {}, (t,))

    def normalized(self, d: int, tensor_format: str, kind: str) -> Call:
        """`qk_norm_rope`."""
        q, k = [self.rows(heads, d, tensor_format) for heads in (HEADS, KV_HEADS)]
        weights = self.tensor(d), self.tensor(d)
        freqs, options = self.freqs(kind, d)
        given = q, k, *weights, freqs, tensor_format
        function = function_of(self.package, "qk_norm_rope")
        return Call(function, given, options | self.packed(tensor_format), (q, k))

    def split(self, d: int, tensor_format: str, packing: str, kind: str = ON_THE_FLY) -> Call:
        """`split_qkv_rope`."""
        qkv = self.rows(1, (HEADS + 2 * KV_HEADS) * d, tensor_format).flatten(-2).detach()
        qkv.requires_grad_(self.trained)
        freqs, options = self.freqs(kind, d)
        options |= self.packed(tensor_format)
        options |= {"tensor_format": tensor_format, "packing": packing}
        given = qkv, freqs, HEADS, KV_HEADS
        return Call(function_of(self.package, "split_qkv_rope"), given, options, (qkv,))

    def to_cache(
        self, d: int, kind: str, tokens: int = TOKENS, by_ids: bool = True, **options: object
    ) -> Call:
        """`rope_to_cache`, of prompts: all tokens. Or of fewer, each decoded in a sequence.

        Pages of the cache are in no order, as in one that has been used for a while.
        """
        q, k, v = [self.tensor(tokens, heads, d) for heads in (HEADS, KV_HEADS, KV_HEADS)]
        pages = max(2 * tokens // PAGE, 512)
        caches = self.tensor(2, pages, PAGE, KV_HEADS, d).unbind()
        begins = PAGE * torch.randperm(pages, generator=torch.Generator().manual_seed(1))
        if tokens == TOKENS:
            slots, ids = (begins[:, None] + torch.arange(PAGE)).flatten(), torch.arange(tokens) % S
        else:  # each has a page of its own, and is far from the others
            slots, ids = begins, torch.arange(tokens) * (S // tokens)
        slots, ids = [x[:tokens].to(self.device) for x in (slots, ids)]
        freqs, of_table = self.freqs(kind, d)
        where = {"position_ids": ids} if by_ids else self.packed("thd")
        given = q, k, v, freqs, *caches, slots
        function = function_of(self.package, "rope_to_cache")
        return Call(function, given, of_table | where | options, (q, k, v))


def call_of_row(maker: Maker, row: Row) -> Call:
    """The call of a row of the benchmark. On a CPU its tensors have no values, as others here."""
    inputs = RowInputs(row, maker.device, has_values=maker.device != "cpu")
    function, given = inputs.function(maker.package), inputs.given(maker.package)
    return Call(function, given, inputs.options, inputs.rows)


class Case(NamedTuple):
    """A call that a tool knows by its group and name."""

    group: str
    name: str
    make: Callable[[Maker], Call]
    backward: bool = False  # with gradients
    row: Row | None = None  # of the benchmark, which has a limit of its own

    @property
    def title(self) -> str:
        return f"{self.group}, {self.name}"

    def has(self, words: str) -> bool:
        """Whether each of these words is in its title."""
        return all(word in self.title for word in words.split())

    def call(self, package: ModuleType, device: str = "cpu") -> Call:
        return self.make(Maker(package, device, trained=self.backward))
