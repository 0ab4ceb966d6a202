"""Calls of models' sizes, for the tools that compare two checkouts.

A call has 32 heads of q and 8 of k, in two sequences of 4096 tokens, or in as many packed tokens.
On a GPU, tensors are random. On a CPU, where no kernel of this size runs, they are uninitialized,
which costs nothing.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.case import ANGLES, BF16_OF_PAIRS, CUTS, DECODED, FP32, NO_TABLE, Row
from benchmarks.row_inputs import RowInputs, function_of

KINDS = NO_TABLE, ANGLES, FP32, BF16_OF_PAIRS
FORMATS = "bshd", "bhsd", "sbhd", "thd"


@dataclass(frozen=True)
class Call:
    """A function of a package, and its arguments."""

    function: Callable
    given: tuple  # tensors that may have a gradient, then others
    options: dict[str, object]
    rows: tuple[Tensor, ...]  # what a call reads once, and writes once

    def __call__(self) -> object:
        return self.function(*self.given, **self.options)

    @property
    def leaves(self) -> list[Tensor]:
        """The tensors that require a gradient."""
        return [x for x in self.given if isinstance(x, Tensor) and x.requires_grad]


class Inputs(RowInputs):
    """Those of a row, with a module that is created by other arguments."""

    table_len = 8192  # Calls may start later, or share their sequences with a rank.
    of_module: dict[str, object]

    def rope(self, package: ModuleType) -> torch.nn.Module:
        of_module = {"dim": self.row.d} | self.of_module
        return package.RotaryPositionEmbedding(**of_module).to(self.device)


@dataclass(frozen=True)
class Case:
    """A call by group and name: a row of the benchmark, and what it has beyond that."""

    group: str
    name: str
    row: Row
    options: dict[str, object] = field(default_factory=dict)  # further arguments by name
    of_module: dict[str, object] = field(default_factory=dict)  # arguments that create the module
    dtype: torch.dtype = torch.bfloat16
    function: str = ""  # if it isn't the row's
    backward: bool = False  # tensors require gradients

    @property
    def title(self) -> str:
        return f"{self.group}, {self.name}"

    def has(self, words: str) -> bool:
        """Whether each of these words is in its title."""
        return all(word in self.title for word in words.split())

    def call(self, package: ModuleType, device: str = "cpu") -> Call:
        row = replace(self.row, backward=self.backward)
        make = RowInputs if self.group == "row" else Inputs
        inputs = make(row, device, has_values=device != "cpu")
        inputs.of_module = self.of_module
        if self.dtype != torch.bfloat16:
            inputs.tensors = [x.to(self.dtype) for x in inputs.tensors]
        named = self.options.items()
        options = {name: x.to(device) if isinstance(x, Tensor) else x for name, x in named}
        options = inputs.options | options
        if self.function == "split_qkv_rope":
            parts = [x.detach().flatten(-2) for x in (*inputs.tensors, inputs.v)]
            qkv = torch.cat(parts, -1).requires_grad_(self.backward)
            given = qkv, inputs.freqs(package), row.h, row.k_heads
            options["tensor_format"] = row.tensor_format
            return Call(function_of(package, self.function), given, options, (qkv,))
        function = function_of(package, self.function or row.called)
        return Call(function, inputs.given(package), options, inputs.rows)


# the calls


def all_cases() -> list[Case]:
    return [*of_every_size(), *with_options(), *to_caches(), *out_of_projections(), *norms()]


def sized(tensor_format: str) -> dict[str, object]:
    """The fields of a row: as many tokens in each format."""
    s, b = (CUTS[-1], 1) if tensor_format == "thd" else (4096, 2)
    return {"tensor_format": tensor_format, "s": s, "b": b}


def of_every_size() -> Iterator[Case]:
    sizes = dict.fromkeys((64, 72, 80, 96, 128, 192, 256), FORMATS)
    for d, formats in (sizes | dict.fromkeys((88, 120, 160), ("bshd",))).items():
        for tensor_format in formats:
            for table in KINDS:
                row = Row("rope_qk", table, **sized(tensor_format), d=d)
                yield Case(f"qk d={d}", f"{tensor_format}, {table}", row)


def with_options() -> Iterator[Case]:
    """In head dimensions that are a power of two, and that are not."""
    of_a_rank = {"cp_size": 2, "cp_rank": 1, "cp_order": "zigzag"}
    of_all_ranks = {"cu_seqlens": torch.tensor([2 * cut for cut in CUTS])}
    interleaved = {"options": {"interleaved": True}, "of_module": {"interleaved": True}}
    starts = {"start_positions": torch.zeros(2, dtype=torch.int64)}
    for d in (128, 80):
        row = Row("rope_qk", NO_TABLE, **sized("bshd"), d=d)
        by_table, by_angles = replace(row, table=BF16_OF_PAIRS), replace(row, table=ANGLES)
        first = {"of_module": {"dim": d // 2}, "options": {}}
        last = first | {"options": {"rotary_start": d // 2}}
        last_by_table = first | {"options": {"rotary_start": d // 2, "rotary_dim": d // 2}}
        halves = interleaved | {"options": {"interleaved": True, "output_pairing": "half"}}
        case = partial(Case, f"options d={d}")
        yield case("first half of a row", row, **first)
        yield case("first half of a row, in place", replace(row, inplace=True), **first)
        yield case("last half of a row", row, **last)
        yield case("last half of a row, by a table", by_table, **last_by_table)
        yield case("interleaved", row, **interleaved)
        yield case("interleaved, by angles", by_angles, **interleaved)
        yield case("interleaved to halves", row, **halves)
        yield case("in place, bhsd", Row("rope_qk", NO_TABLE, **sized("bhsd"), d=d, inplace=True))
        packed = Row("rope_qk", NO_TABLE, d=d)
        yield case("zigzag, thd", packed, of_a_rank | of_all_ranks)
        for name, by in {"": row, ", by a table": by_table}.items():
            yield case(f"in place{name}", replace(by, inplace=True))
            yield case(f"model's rounding{name}", by, {"rounding": "model"})
            yield case(f"position ids{name}", replace(by, position_ids=True))
            yield case(f"start, an int{name}", by, {"start_positions": 100})
            yield case(f"starts{name}", by, starts)
            yield case(f"zigzag{name}", by, of_a_rank)
        yield case("model's rounding, by angles", by_angles, {"rounding": "model"})
        for dtype in (torch.float16, torch.float32, torch.float64):
            yield case(str(dtype), row, dtype=dtype)
        yield case("inverse", row, {"inverse": True})
        yield case("attention factor", row, of_module={"attention_factor": 1.2})
        for tensor_format in FORMATS:
            row = Row("rope_qk", BF16_OF_PAIRS, **sized(tensor_format), d=d)
            yield Case(f"backward d={d}", f"rope_qk, {tensor_format}", row, backward=True)
            for table in (NO_TABLE, ANGLES):
                of_q = replace(row, table=table, k_heads=0)
                name = f"rope_bw, {tensor_format}, {table}"
                yield Case(f"backward d={d}", name, of_q, function="rope_bw")


def to_caches() -> Iterator[Case]:
    prompts = {"position_ids": None, "cu_seqlens": torch.tensor(CUTS, dtype=torch.int32)}
    prompts["start_positions"] = 0  # rows of a table belong to positions, not to tokens
    for d in (64, 72, 80, 88, 128):
        for table in (NO_TABLE, BF16_OF_PAIRS):
            row = Row("rope_to_cache", table, position_ids=True, d=d)
            case = partial(Case, f"cache d={d}")
            yield case(f"{table}, position ids", row)
            yield case(f"{table}, position ids, in place", replace(row, inplace=True))
            yield case(f"{table}, {DECODED} tokens", replace(row, s=DECODED))
            yield case(f"{table}, prompts", row, prompts)


def out_of_projections() -> Iterator[Case]:
    for d in (64, 72, 80, 88, 96, 128):
        for packing in ("qkv", "grouped"):
            for tensor_format in ("bshd", "thd"):
                yield Case(
                    f"split d={d}",
                    f"{packing}, {tensor_format}",
                    Row("rope_qk", NO_TABLE, **sized(tensor_format), d=d),
                    {"packing": packing},
                    function="split_qkv_rope",
                    backward=True,
                )


def norms() -> Iterator[Case]:
    for d in (80, 128):
        for tensor_format in FORMATS:
            for table in (NO_TABLE, FP32):
                row = Row("qk_norm_rope", table, **sized(tensor_format), d=d)
                yield Case(f"norm d={d}", f"{tensor_format}, {table}", row, backward=True)
