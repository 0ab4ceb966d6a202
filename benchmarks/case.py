"""One call to measure, as data: sizes, layout, angles, positions, and clock.

A `Case` is compared with a copy of the rows that it rotates. For a `Row`, other bytes count, too: a
table, ids, slots. So as a share of the copy's speed, it can reach at most

    own limit = copies * bytes of the copy / bytes of the call

where every byte of the call counts once, because L2 holds a table for all heads and batch entries
that share it. `copies` is 1, or 1.5 for a norm's backward, which also reads the forward's inputs.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

BASE = 10000.0  # of the frequencies
EPS = 1e-6  # of norms
LIMITS = ("copy_", "x * 2")  # all providers are compared with these
OURS = "rope_kernels"
ON_THE_FLY = "rope_kernels, on the fly"
COS_AND_SIN = "rope_kernels, cos and sin"
ROTATION = "rope_qk in place"  # decoding steps are compared with this

BOTH_WAYS = ("forward", "backward")
_SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}


@dataclass(frozen=True)
class Case:
    """Tensors to rotate, and the options of the call."""

    copies = 1.0  # that move the same bytes of rows as the call
    s: int  # with 'thd': all tokens
    b: int
    h: int
    d: int
    k_heads: int = 0  # heads of k, rotated together with q; 0: one tensor
    dtype: str = "bfloat16"
    tensor_format: str = "sbhd"
    stored: str = ""  # order of the dimensions in memory, if it is not the format's
    rotary_dim: int = 0  # 0: all of d
    freqs: str = "angles"  # an fp32 table; or 'cos and sin'; or 'module': on the fly
    positions: str = "index"  # or 'ids', 'starts'
    sequences: int = 0  # 'thd' only; their lengths are random
    interleaved: bool = False
    inplace: bool = False
    clock: str = "device"  # time on the GPU, L2 flushed; or "host", the time to queue a call

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
        """All elements, including those that don't rotate."""
        return self.s * self.b * self.heads * self.d

    @property
    def label(self) -> str:
        """A name that no other case of its group has."""
        heads = f"{self.h}/{self.k_heads}" if self.k_heads else str(self.h)
        sizes = {"s": self.s, "b": self.b, "h": heads, "d": self.d, "t": self.s}
        shape = ", ".join(str(sizes[dim]) for dim in self.tensor_format)
        return ", ".join([f"{self.tensor_format} ({shape}) {_SHORT[self.dtype]}", *self._options()])

    def _options(self) -> list[str]:
        said = {
            "q + k": self.k_heads > 0,
            f"d2 {self.d2}": self.d2 != self.d,
            f"stored {self.stored}": self.stored not in ("", self.tensor_format),
            f"{self.sequences} sequence{'s' * (self.sequences > 1)}": self.tensor_format == "thd",
            "interleaved": self.interleaved,
            "position ids": self.positions == "ids",
            "start positions": self.positions == "starts",
            "on the fly": self.freqs == "module",
            "cos and sin": self.freqs == "cos and sin",
            "in place": self.inplace,
            "host time": self.clock == "host",
        }
        return [option for option, holds in said.items() if holds]


# rows that have a limit of their own

# An H200 runs this many programs of a norm's backward at the same time. Each writes a share of the
# weights' gradients, which is read again. With an fp32 table with a column per element, there have
# been 16 per SM since 2026-11-29. Counting them would lower the limit of such a row by 0.2 points
# with two batch entries, and by 0.4 with one.
SMS, PROGRAMS_OF_AN_SM = 132, 12

# Packed sequences of unequal lengths, each divisible into the four chunks of two ranks.
CUTS = 0, 100, 1100, 3000, 4100, 6000, 7000, 8192
DECODED = 64  # tokens of a decoding step

_BF16, _FP32, _INT32, _INT64 = 2, 4, 4, 8  # bytes


@dataclass(frozen=True)
class TableKind:
    """The tables of a call, if it has any."""

    dtype: str = ""  # '': no table, because angles are computed on the fly
    parts: int = 2  # 2: cosines and sines; 1: angles
    of_pairs: bool = False  # a column per pair, (s, d/2), or per element, (s, d)

    def __str__(self) -> str:
        if not self.dtype:
            return "on the fly"
        dtype = {"float32": "fp32", "bfloat16": "bf16"}[self.dtype]
        entries = "angles" if self.parts == 1 else "cos and sin"
        return f"{dtype} {entries} {'(s, d/2)' if self.of_pairs else '(s, d)'}"

    def bytes_of(self, positions: int, d: int) -> int:
        """The bytes of a table with this many positions; on the fly, an int64 for each pair."""
        if not self.dtype:
            return d // 2 * _INT64
        columns = d // 2 if self.of_pairs else d
        return positions * columns * self.parts * (_FP32 if self.dtype == "float32" else _BF16)


NO_TABLE = TableKind()
ANGLES = TableKind("float32", parts=1)
FP32 = TableKind("float32")
FP32_OF_PAIRS = TableKind("float32", of_pairs=True)
BF16 = TableKind("bfloat16")  # as in models
BF16_OF_PAIRS = TableKind("bfloat16", of_pairs=True)  # as in serving engines


@dataclass(frozen=True)
class Row:
    """A call with bf16 tensors, its sizes, and the bytes that it must move."""

    function: str  # 'rope_qk', 'qk_norm_rope' or 'rope_to_cache'
    table: TableKind
    tensor_format: str = "thd"
    stored: str = ""  # order of the dimensions in memory, if it is not the format's
    s: int = CUTS[-1]  # tokens of a batch entry; of packed sequences, and for a cache, all of them
    b: int = 1  # batch entries
    h: int = 32
    k_heads: int = 8  # of k, and of v
    d: int = 128
    backward: bool = False
    position_ids: bool = False  # True with a cache
    rounding: str = "once"  # of a norm
    norm_after: bool = False
    inplace: bool = False
    cuts: tuple[int, ...] = CUTS  # where packed sequences begin, and the last one ends
    clock: str = "device"  # as a case has it

    @property
    def is_norm(self) -> bool:
        return self.function == "qk_norm_rope"

    @property
    def to_cache(self) -> bool:
        return self.function == "rope_to_cache"

    @property
    def decodes(self) -> bool:
        """Whether it is a decoding step: each token belongs to a different sequence."""
        return self.to_cache and self.s <= DECODED

    @property
    def is_packed(self) -> bool:
        return self.tensor_format == "thd" and not self.to_cache

    @property
    def tokens(self) -> int:
        """The tokens of all batch entries."""
        return self.s * self.b

    @property
    def called(self) -> str:
        """The public function; without k, the one for a single tensor."""
        one = {"rope_qk": "apply_rotary_pos_emb", "qk_norm_rope": "norm_rope"}
        return self.function if self.k_heads else one[self.function]

    @property
    def label(self) -> str:
        """A name that no other row has."""
        one_of_many = self.is_packed or self.to_cache
        heads = f"{self.h} heads" if not self.k_heads else ""
        said = {
            self.tensor_format: not self.to_cache,
            f"{self.b}x{self.s} tokens": not one_of_many,
            f"{self.tokens} tokens": one_of_many,
            heads: bool(heads),
            f"stored {self.stored}": bool(self.stored),
            "position ids": self.position_ids and not self.to_cache,
            "a model's rounding": self.rounding == "model",
            "norm after": self.norm_after,
            "in place": self.inplace,
            "backward" if self.backward else "forward": not self.to_cache,
            str(self.table): True,
        }
        return ", ".join([self.called, *[words for words, holds in said.items() if holds]])

    # the formula

    @property
    def positions(self) -> int:
        """The number of different positions. Batch entries share theirs."""
        if self.is_packed:
            return max(end - begin for begin, end in pairwise(self.cuts))
        if self.to_cache:  # two prompts, or decoded tokens of different sequences
            return self.s if self.decodes else self.s // 2
        return self.s

    @property
    def copied(self) -> int:
        """The bytes that the copy moves: it reads and writes q, k and, for a cache, v."""
        heads = self.h + self.k_heads * (2 if self.to_cache else 1)
        return 2 * self.tokens * heads * self.d * _BF16

    @property
    def copies(self) -> float:
        """The number of copies that move the same bytes of rows as the call."""
        return 1.5 if self.is_norm and self.backward else 1.0

    @cached_property
    def moved(self) -> dict[str, int]:
        """The bytes that the call must read and write, each once.

        A norm's forward saves nothing for its backward, so no reciprocals are counted.
        """
        weights = 2 * self.d * _BF16 if self.is_norm else 0
        partials = SMS * PROGRAMS_OF_AN_SM * self.d * _FP32
        return {
            "rows": round(self.copies * self.copied),
            "table": self.table.bytes_of(self.positions, self.d),
            "position ids": self.tokens * _INT64 if self.position_ids else 0,
            "slots": self.tokens * _INT64 if self.to_cache else 0,
            "cu_seqlens": len(self.cuts) * _INT32 if self.is_packed else 0,
            "weights": weights,
            "gradients of weights": weights if self.backward else 0,
            "partial sums": 2 * partials if self.is_norm and self.backward else 0,
        }

    @property
    def own_limit(self) -> float:
        """The highest possible share of the copy's speed."""
        return self.copies * self.copied / sum(self.moved.values())


@dataclass(frozen=True)
class Group:
    """Cases that are measured in the same directions."""

    cases: tuple[Case | Row, ...]
    directions: tuple[str, ...] = BOTH_WAYS
    alone: bool = False  # without other projects
