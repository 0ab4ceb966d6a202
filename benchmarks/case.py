"""The calls that are measured, as data, and the benchmarks: lists of them.

A call is compared with a copy of the rows that it rotates. It also moves other bytes: a table, ids,
slots. So as a share of the copy's speed, it can reach at most

    own limit = copies * bytes of the copy / bytes of the call

where every byte of the call counts once, because L2 holds a table for all heads and batch entries
that share it. `copies` is 1, or 1.5 for a norm's backward, which also reads the forward's inputs.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import torch

BASE = 10000.0  # of the frequencies
EPS = 1e-6  # of norms
LIMITS = ("copy_", "x * 2")  # all providers are compared with these
OURS = "rope_kernels"
ON_THE_FLY = "rope_kernels, on the fly"
COS_AND_SIN = "rope_kernels, cos and sin"
ROTATION = "rope_qk in place"  # decoding steps are compared with this

BOTH_WAYS = ("forward", "backward")
OF_HOST_TIME = ("forward", "forward, grad", "both")  # recorded by autograd; both through autograd

_SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}
_INT32, _INT64 = 4, 8  # bytes
# An H200 runs this many programs of a norm's backward at the same time. Each writes a share of the
# weights' gradients, which is read again. With an fp32 table with a column per element, there have
# been 16 per SM since 2026-11-29. Counting them would lower the limit of such a row by 0.2 points
# with two batch entries, and by 0.4 with one.
_SMS, _PROGRAMS_OF_AN_SM = 132, 12


def bytes_of(dtype: str) -> int:
    """The bytes of an element."""
    return getattr(torch, dtype).itemsize


@dataclass(frozen=True)
class TableKind:
    """The tables of a call, if it has any."""

    dtype: str = ""  # '': no table, because angles are computed on the fly
    parts: int = 2  # 2: cosines and sines; 1: angles
    of_pairs: bool = False  # a column per pair, (s, d/2), or per element, (s, d)

    def __str__(self) -> str:
        if not self.dtype:
            return "on the fly"
        entries = "angles" if self.parts == 1 else "cos and sin"
        return f"{_SHORT[self.dtype]} {entries} {'(s, d/2)' if self.of_pairs else '(s, d)'}"

    def bytes_of(self, positions: int, d2: int) -> int:
        """The bytes of a table with this many positions; on the fly, those of the frequencies."""
        if not self.dtype:
            return d2 // 2 * bytes_of("float32")
        columns = d2 // 2 if self.of_pairs else d2
        return positions * columns * self.parts * bytes_of(self.dtype)


NO_TABLE = TableKind()
ANGLES = TableKind("float32", parts=1)
FP32 = TableKind("float32")
FP32_OF_PAIRS = TableKind("float32", of_pairs=True)
BF16 = TableKind("bfloat16")  # as in models
BF16_OF_PAIRS = TableKind("bfloat16", of_pairs=True)  # as in serving engines


@dataclass(frozen=True)
class Case:
    """A call: its tensors, positions and options; its direction; and the clock."""

    s: int  # with 'thd': all tokens
    b: int
    h: int
    d: int
    k_heads: int = 0  # heads of k, rotated together with q, and of v; 0: one tensor
    direction: str = "forward"
    # The function that is measured: 'rope_qk', 'qk_norm_rope' or 'rope_to_cache', with `table`.
    # '': the rotation, by any function, with any table.
    function: str = ""
    table: TableKind = ANGLES
    dtype: str = "bfloat16"
    tensor_format: str = "sbhd"
    stored: str = ""  # order of the dimensions in memory, if it is not the format's
    rotary_dim: int = 0  # 0: all of d
    # 'ids': the index, passed as position ids; 'starts': each entry has a start; 'prompts': ids of
    # two prompts; 'decoded': ids of tokens that each belong to a different sequence
    positions: str = "index"
    cuts: tuple[int, ...] = ()  # where packed sequences begin, and the last one ends
    interleaved: bool = False
    inplace: bool = False
    rounding: str = "once"  # of a norm
    norm_after: bool = False
    clock: str = "device"  # time on the GPU, L2 flushed; or "host", the time to queue a call
    alone: bool = False  # without other projects

    @property
    def heads(self) -> int:
        """The heads of q and k together."""
        return self.h + self.k_heads

    @property
    def d2(self) -> int:
        """The rotated elements of a head."""
        return self.rotary_dim or self.d

    @property
    def elements(self) -> int:
        """All elements of q and k, including those that don't rotate."""
        return self.s * self.b * self.heads * self.d

    @property
    def is_backward(self) -> bool:
        """Whether its results are gradients."""
        return self.direction in ("backward", "both")

    @property
    def is_norm(self) -> bool:
        return self.function == "qk_norm_rope"

    @property
    def to_cache(self) -> bool:
        return self.function == "rope_to_cache"

    @property
    def called(self) -> str:
        """The public function; without k, the one for a single tensor."""
        one = {"rope_qk": "apply_rotary_pos_emb", "qk_norm_rope": "norm_rope"}
        function = self.function or "rope_qk"
        return function if self.k_heads else one[function]

    @property
    def table_len(self) -> int:
        """The number of positions of a table."""
        if self.cuts:
            return max(end - begin for begin, end in pairwise(self.cuts))
        more = {"starts": self.s + 4096, "prompts": self.s // 2, "decoded": 4096}
        return more.get(self.positions, self.s)

    @property
    def label(self) -> str:
        """A name that no other case with its direction has."""
        return ", ".join(self._of_a_function() if self.function else self._of_a_rotation())

    def _of_a_rotation(self) -> list[str]:
        heads = f"{self.h}/{self.k_heads}" if self.k_heads else str(self.h)
        sizes = {"s": self.s, "b": self.b, "h": heads, "d": self.d, "t": self.s}
        shape = ", ".join(str(sizes[dim]) for dim in self.tensor_format)
        sequences = len(self.cuts) - 1
        said = {
            f"{self.tensor_format} ({shape}) {_SHORT[self.dtype]}": True,
            "q + k": self.k_heads > 0,
            f"d2 {self.d2}": self.d2 != self.d,
            f"stored {self.stored}": self.stored not in ("", self.tensor_format),
            f"{sequences} sequence{'s' * (sequences > 1)}": bool(self.cuts),
            "interleaved": self.interleaved,
            "position ids": self.positions == "ids",
            "start positions": self.positions == "starts",
            "on the fly": self.table == NO_TABLE,
            "in place": self.inplace,
            "host time": self.clock == "host",
        }
        return [words for words, holds in said.items() if holds]

    def _of_a_function(self) -> list[str]:
        said = {
            self.called: True,
            self.tensor_format: not self.to_cache,
            f"{self.b}x{self.s} tokens": self.tensor_format != "thd",
            f"{self.s} tokens": self.tensor_format == "thd",
            f"{self.h} heads": not self.k_heads,
            f"stored {self.stored}": bool(self.stored),
            "position ids": self.positions == "ids",
            "a model's rounding": self.rounding == "model",
            "norm after": self.norm_after,
            "in place": self.inplace,
            self.direction: not self.to_cache,
            str(self.table): True,
        }
        return [words for words, holds in said.items() if holds]

    # the formula of a limit

    @property
    def copied(self) -> int:
        """The bytes that the copy moves: it reads and writes q, k and, for a cache, v."""
        v = self.s * self.b * self.k_heads * self.d if self.to_cache else 0
        return 2 * (self.elements + v) * bytes_of(self.dtype)

    @property
    def copies(self) -> float:
        """The number of copies that move the same bytes of rows as the call."""
        return 1.5 if self.is_norm and self.is_backward else 1.0

    @cached_property
    def moved(self) -> dict[str, int]:
        """The bytes that the call must read and write, each once.

        A norm's forward saves nothing for its backward, so no reciprocals are counted.
        """
        tokens = self.s * self.b
        positions = self.s if self.positions == "decoded" else self.table_len
        weights = 2 * self.d * bytes_of(self.dtype) if self.is_norm else 0
        touched = self.d2 / self.d if self.inplace else 1  # In place, the rest of a head stays.
        partials = _SMS * _PROGRAMS_OF_AN_SM * self.d * bytes_of("float32")
        return {
            "rows": round(self.copies * self.copied * touched),
            "table": self.table.bytes_of(positions, self.d2),
            "position ids": 0 if self.positions == "index" else tokens * _INT64,
            "slots": tokens * _INT64 if self.to_cache else 0,
            "cu_seqlens": len(self.cuts) * _INT32,
            "weights": weights,
            "gradients of weights": weights if self.is_backward else 0,
            "partial sums": 2 * partials if self.is_norm and self.is_backward else 0,
        }

    @property
    def own_limit(self) -> float:
        """The highest possible share of the copy's speed."""
        return self.copies * self.copied / sum(self.moved.values())


# the benchmarks

HEADLINE = (2048, 16, 8, 256)  # a submission's comparison with TransformerEngine
# The submission's wall-time test (notebook 00).
TINY = ((64, 1, 16, 64), (128, 1, 16, 128), (32, 1, 8, 256))
LLAMA = (4096, 2, 32, 128)
LARGE = (8192, 1, 64, 128)
SMALL = (2048, 8, 32, 64)
LONG = (131072, 1, 8, 128)

# Packed sequences of unequal lengths, each divisible into the four chunks of two ranks.
CUTS = 0, 100, 1100, 3000, 4100, 6000, 7000, 8192
DECODED = 64  # tokens of a decoding step
TABLES = NO_TABLE, FP32, BF16, BF16_OF_PAIRS


def in_directions(directions: Iterable[str], cases: Iterable[Case]) -> tuple[Case, ...]:
    """Each case in each direction."""
    return tuple(replace(case, direction=way) for case in cases for way in directions)


def random_cuts(tokens: int, sequences: int) -> tuple[int, ...]:
    """The bounds of sequences of random lengths, none empty."""
    order = torch.randperm(tokens - 1, generator=torch.Generator().manual_seed(2)) + 1
    return 0, *sorted(order[: sequences - 1].tolist()), tokens


def _q_and_k(tensor_format: str, **options) -> Case:
    return Case(*LLAMA, k_heads=8, tensor_format=tensor_format, **options)


def _packed(sequences: int, **options) -> Case:
    cuts = random_cuts(65536, sequences)
    return Case(65536, 1, 32, 128, tensor_format="thd", cuts=cuts, **options)


def _calls() -> tuple[Case, ...]:
    """Calls compared with other projects, our calls alone, and host times."""
    compared = (
        Case(*HEADLINE),
        Case(*HEADLINE, dtype="float32"),
        Case(*LLAMA),
        Case(*LONG, table=NO_TABLE),
        _q_and_k("bhsd"),
        _q_and_k("bhsd", stored="bshd"),  # transposed views, as from projections
        Case(*LLAMA, rotary_dim=64),
        _packed(50, k_heads=8),
    )
    ours = (
        Case(*HEADLINE, dtype="float16"),
        Case(*LLAMA, tensor_format="bshd"),
        Case(*LLAMA, tensor_format="bhsd"),
        *(Case(*LARGE, tensor_format=dense) for dense in ("sbhd", "bshd", "bhsd")),
        *(Case(*SMALL, tensor_format=dense) for dense in ("sbhd", "bshd", "bhsd")),
        Case(1048576, 1, 2, 128, dtype="float32", table=NO_TABLE),
        _q_and_k("bshd"),
        _q_and_k("bshd", inplace=True),
        _q_and_k("bhsd", inplace=True),
        Case(*LLAMA, rotary_dim=64, inplace=True),  # The copy is one of whole heads.
        *map(_packed, (1, 50, 500, 2401, 8192)),
        Case(*LLAMA, stored="bshd"),
        Case(*LLAMA, interleaved=True),
        Case(*LLAMA, tensor_format="bshd", positions="ids"),
        Case(*LLAMA, tensor_format="bshd", positions="starts"),
    )
    host = (Case(*sizes, k_heads=k, clock="host") for k in (0, 4) for sizes in TINY)
    return (
        *in_directions(BOTH_WAYS, compared),
        *in_directions(BOTH_WAYS, (replace(case, alone=True) for case in ours)),
        *in_directions(OF_HOST_TIME, host),
    )


# Other projects' kernels, built from their sources.
_PEERS = (
    Case(*LLAMA),
    Case(*HEADLINE),
    Case(*HEADLINE, dtype="float32"),
    Case(*LARGE),
    Case(*LONG),
    _packed(50),
)


def function_case(function: str, table: TableKind, tensor_format: str = "thd", **options) -> Case:
    """A function with one table: 32 + 8 heads of 128, and 8192 tokens in one entry.

    With 'thd', these are packed sequences, unless they have positions of their own.
    """
    is_packed = tensor_format == "thd" and "positions" not in options
    sizes = {"s": CUTS[-1], "b": 1, "h": 32, "d": 128, "k_heads": 8, "alone": True}
    sizes["cuts"] = CUTS if is_packed else ()
    sizes |= options
    return Case(function=function, table=table, tensor_format=tensor_format, **sizes)


def _dense(function: str, tensor_format: str, table: TableKind, **options) -> list[Case]:
    """A case for one batch entry of 4096 tokens, and one for two: each compiles another kernel."""
    return [function_case(function, table, tensor_format, s=4096, b=b, **options) for b in (1, 2)]


def _rotations() -> list[Case]:
    cases = []
    for table in (*TABLES, ANGLES, FP32_OF_PAIRS):
        cases += _dense("rope_qk", "bshd", table)
    for table in (NO_TABLE, FP32):
        cases += _dense("rope_qk", "bshd", table, direction="backward")
        cases += _dense("rope_qk", "bhsd", table)
    cases += _dense("rope_qk", "sbhd", NO_TABLE)
    for table in (NO_TABLE, FP32, BF16_OF_PAIRS):
        cases += _dense("rope_qk", "bshd", table, positions="ids")
    cases += [function_case("rope_qk", table) for table in TABLES]  # packed
    cases.append(function_case("rope_qk", NO_TABLE, direction="backward"))
    for table in (ANGLES, FP32):
        cases += _dense("rope_qk", "bshd", table, h=9, k_heads=0)
    return cases


def _norms() -> list[Case]:
    cases = []
    for direction in BOTH_WAYS:
        for table in TABLES:
            for tensor_format in ("bshd", "bhsd"):
                cases += _dense("qk_norm_rope", tensor_format, table, direction=direction)
            cases.append(function_case("qk_norm_rope", table, direction=direction))  # packed
    for table in (FP32, BF16):  # models use bf16 tables
        cases += _dense("qk_norm_rope", "bshd", table, rounding="model")
    for table in (NO_TABLE, FP32):
        cases += _dense("qk_norm_rope", "bshd", table, norm_after=True, direction="backward")
    return cases


def _caches() -> list[Case]:
    kinds = ("prompts", False), ("decoded", False), ("decoded", True)
    return [
        function_case(
            "rope_to_cache",
            table,
            s=DECODED if positions == "decoded" else CUTS[-1],
            positions=positions,
            inplace=inplace,
        )
        for positions, inplace in kinds
        for table in TABLES
    ]


# Compared with torch.compile: on the fly, and with a table like that of the compiled functions.
_NORM = [
    function_case(
        "qk_norm_rope", table, tensor_format, stored=stored, direction=direction, alone=False
    )
    for direction in BOTH_WAYS
    for table in (NO_TABLE, FP32_OF_PAIRS)
    # The third has transposed views, as from projections.
    for tensor_format, stored in (("sbhd", ""), ("bhsd", ""), ("bhsd", "bshd"), ("thd", ""))
]

BENCHMARKS: dict[str, tuple[Case, ...]] = {
    "calls": _calls(),
    "peers": in_directions(BOTH_WAYS, _PEERS),
    "norm": tuple(_NORM),
    "cache-limits": tuple(_caches()),
    "norm-limits": tuple(_norms()),
    "rotation-limits": tuple(_rotations()),
}
