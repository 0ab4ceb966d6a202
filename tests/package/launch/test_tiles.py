"""Tiles: that they fit, that each row has one place, and which tile each measured call gets.

What a choice gained is said in `tiles.py`, and in benchmarks/NOTES.md.
"""

from typing import NamedTuple

import pytest
import torch

from pairwise import cover
from rope_kernels import RotaryPositionEmbedding, rope_fw, rope_qk
from rope_kernels.norms import norm_rope, qk_norm_rope
from rope_kernels.serving import rope_to_cache
from rope_lab.compiler.plans import plans_of

pytest.importorskip("triton", reason="needs Triton")

MOST_WARPS, MOST_BYTES = 32, 8192  # of a tile
B, S = 2, 4096
BF16, FP32, FP64 = torch.bfloat16, torch.float32, torch.float64
ON_THE_FLY = "on the fly"
TABLES = {  # of cosines and sines: their dtype, and how many columns there are for a pair
    "bf16 pairs": (BF16, 1),
    "bf16 elements": (BF16, 2),
    "fp32 pairs": (FP32, 1),
    "fp32 elements": (FP32, 2),
}
ANGLES = "angles"  # fp32, a column for each element


class Call(NamedTuple):
    """One of a function of the package, in two sequences of 4096 tokens."""

    function: object
    heads: tuple[int, ...]  # of q; or of q and of k
    d: int
    tensor_format: str = "bshd"
    table: str = ON_THE_FLY
    # "ids": positions that are looked up; "in place"; "ranks": two share each sequence; "model":
    # its rounding; "backward": the launch that computes gradients
    marks: frozenset[str] = frozenset()
    turned: int | None = None  # elements of a row; None: all
    dtype: torch.dtype = BF16

    def __str__(self):
        what = [f"{self.function.__name__} {'+'.join(map(str, self.heads))} heads of {self.d}"]
        what += [self.tensor_format, self.table, *sorted(self.marks), str(self.dtype)[6:]]
        return ", ".join(what) + (f", {self.turned} turn" if self.turned else "")

    @property
    def tokens(self):
        return {"b": B, "s": S, "t": B * S}

    def rows(self, heads):
        sizes = self.tokens | {"h": heads, "d": self.d}
        sizes = [sizes[letter] for letter in self.tensor_format]
        return torch.empty(sizes, dtype=self.dtype, requires_grad="backward" in self.marks)

    @property
    def freqs(self):
        """By which angles, and the option that a table needs."""
        d2 = self.turned or self.d
        if self.table == ON_THE_FLY:
            return RotaryPositionEmbedding(d2), {}
        if self.table == ANGLES:
            return torch.empty(2 * S, 1, 1, d2), {}
        dtype, columns = TABLES[self.table]
        rows = B * S + 1  # more than packed tokens
        cos = torch.empty(rows, d2 // 2 * columns, dtype=dtype)
        return (cos, cos), {"rotary_dim": d2}

    def plan(self):
        """Its launch; with the mark "backward" that of its gradients."""
        freqs, options = self.freqs
        given = [self.rows(heads) for heads in self.heads]
        # A token that goes into a cache is found by its id or by its sequence.
        has_ids_alone = self.function is rope_to_cache and "ids" in self.marks
        if self.tensor_format == "thd" and not has_ids_alone:
            options["cu_seqlens"] = torch.empty(9, dtype=torch.int32)
        if "ids" in self.marks:
            tokens = [n for letter, n in self.tokens.items() if letter in self.tensor_format]
            options["position_ids"] = torch.empty(tokens, dtype=torch.int32)
        if "ranks" in self.marks:
            options |= {"cp_size": 2, "cp_rank": 0}
        if "in place" in self.marks:
            options["inplace"] = True
        if "model" in self.marks:
            options["rounding"] = "model"
        if self.function is rope_to_cache:
            q, k = given
            caches = torch.empty(2, B * S // 16, 16, *k.shape[1:], dtype=self.dtype)
            slots = torch.empty(B * S, dtype=torch.int64)
            found = plans_of(rope_to_cache, q, k, k, freqs, *caches, slots, **options)
        else:
            if self.function in (norm_rope, qk_norm_rope):
                given += [torch.empty(self.d, dtype=self.dtype) for _ in self.heads]
            found = plans_of(self.function, *given, freqs, self.tensor_format, **options)
        return found["backward" in self.marks]


def call(function, heads, d, tensor_format="bshd", table=ON_THE_FLY, *marks, **more):
    return Call(function, heads, d, tensor_format, table, frozenset(marks), **more)


def is_legal(case):
    function, heads = case.get("function"), case.get("heads")
    if function and heads and len(heads) != (1 if function in (rope_fw, norm_rope) else 2):
        return False
    if function is rope_to_cache and case.get("tensor_format", "thd") != "thd":
        return False
    return case.get("mark") != "backward" or function in (None, norm_rope, qk_norm_rope)


@cover(
    is_legal,
    function=(rope_fw, rope_qk, norm_rope, qk_norm_rope, rope_to_cache),
    heads=((1,), (9,), (32,), (1, 1), (14, 2), (32, 8)),
    d=(20, 64, 72, 80, 100, 128, 160, 256),
    tensor_format=("sbhd", "bshd", "bhsd", "thd"),
    table=(ON_THE_FLY, ANGLES, *TABLES),
    mark=("none", "ids", "in place", "backward"),
    turned=(None, 16),
    dtype=(BF16, FP32, FP64),
)
def test_a_tile_fits_and_every_row_has_one_place(
    function, heads, d, tensor_format, table, mark, turned, dtype
):
    asked = call(function, heads, d, tensor_format, table, mark, turned=turned, dtype=dtype)
    plan = asked.plan()
    chosen = plan.settings
    positions, warps = chosen["positions"], chosen["num_warps"]
    width = 2 * chosen["half"] + chosen["tail"]  # in place elements that don't turn are not read
    if "lines" in chosen:
        below = 1 if chosen["over_positions"] else positions
        rows = chosen["lines"] * (1 if chosen["over_positions"] else chosen["side_by_side"])
        assert chosen["side_by_side"] * width <= chosen["columns"]
        sizes, places = (below, chosen["lines"], chosen["columns"]), below * chosen["lines"]
        in_bytes = places * chosen["columns"] * dtype.itemsize
    else:
        rows, row_bytes = chosen["rows"], width * dtype.itemsize
        sizes, in_bytes = (positions, rows), positions * rows * row_bytes
    assert all(size & (size - 1) == 0 for size in (*sizes, warps))
    assert 1 <= warps <= MOST_WARPS and in_bytes <= max(MOST_BYTES, d * dtype.itemsize)
    if mark == "backward":  # its programs go from tile to tile
        return
    entries, counts = chosen["batch"] or 1, [chosen["q_heads"], chosen["k_heads"]]
    tokens = B * S if tensor_format == "thd" else S
    assert chosen["seq_len"] == tokens
    assert entries * tokens * counts[0] == B * S * heads[0]  # of each entry, or of all together
    if function is rope_to_cache:
        counts.append(counts[1])  # those of v
    blocks = sum(-(-count // rows) for count in counts)
    assert plan.programs == entries * -(-tokens // positions) * blocks


# What was measured, and what a neighboring rule would choose otherwise: positions, rows, warps

MEASURED = (
    (call(rope_qk, (8, 1), 128), (8, 1, 1)),
    (call(rope_qk, (32, 8), 128), (8, 1, 1)),
    (call(rope_fw, (9,), 128, "bshd", "fp32 elements"), (1, 16, 1)),
    (call(rope_fw, (32,), 160), (1, 8, 1)),
    (call(rope_fw, (32,), 128, turned=32), (1, 8, 1)),
    (call(rope_fw, (32,), 128, "thd", "fp32 elements"), (1, 16, 1)),
    (call(rope_fw, (32,), 128, "bshd", "bf16 pairs"), (2, 4, 1)),
    (call(rope_fw, (1,), 128, "bshd", "fp32 elements"), (2, 1, 1)),
    (call(rope_fw, (32,), 96, "bhsd"), (2, 4, 1)),
    (call(rope_qk, (8, 1), 128, "thd"), (4, 2, 1)),
    (call(rope_qk, (8, 1), 128, "thd", ON_THE_FLY, "ranks"), (1, 8, 1)),
    (call(rope_fw, (2,), 72), (8, 2, 1)),
    (call(rope_fw, (32,), 112), (1, 16, 2)),
    (call(rope_fw, (32,), 100), (1, 16, 2)),
    (call(rope_fw, (32,), 100, "thd"), (1, 8, 1)),
    (call(rope_fw, (32,), 72), (7, 4, 2)),
    (call(rope_fw, (32,), 88), (1, 16, 1)),
    (call(rope_fw, (32,), 88, "bhsd"), (5, 4, 2)),
    (call(rope_fw, (32,), 88, "bhsd", dtype=FP32), (5, 4, 4)),
    (call(rope_fw, (32,), 88, "bhsd", "fp32 elements", dtype=FP32), (5, 2, 2)),
    (call(rope_fw, (32,), 112, "bhsd", "fp32 elements", "in place"), (4, 4, 2)),
    (call(rope_fw, (32,), 88, "bshd", "fp32 elements", "ids"), (1, 32, 2)),
    (call(qk_norm_rope, (14, 2), 128, "bshd", "fp32 elements"), (4, 2, 1)),
    (call(qk_norm_rope, (32, 8), 128), (2, 8, 2)),
    (call(norm_rope, (32,), 64), (1, 32, 1)),
    (call(qk_norm_rope, (32, 8), 128, "thd"), (2, 8, 1)),
    (call(qk_norm_rope, (8, 1), 128, "bshd", ON_THE_FLY, "backward"), (8, 1, 1)),
    (call(qk_norm_rope, (8, 1), 128, "sbhd", ON_THE_FLY, "backward"), (4, 2, 1)),  # of two entries
    (call(rope_to_cache, (8, 1), 128, "thd", "bf16 pairs"), (4, 2, 1)),
)


@pytest.mark.parametrize("asked, tile", MEASURED, ids=str)
def test_the_tile_of_a_measured_call(asked, tile):
    chosen = asked.plan().settings
    rows = chosen.get("rows") or chosen["lines"] * (
        1 if chosen["over_positions"] else chosen["side_by_side"]
    )
    assert (chosen["positions"], rows, chosen["num_warps"]) == tile


# A norm's backward: its programs, the registers of a thread, and whether it loads the next tile
# before it works on the last.

SHARES = (
    (call(qk_norm_rope, (32, 8), 128, turned=64), (32, None, True)),
    (call(qk_norm_rope, (32, 8), 128, dtype=FP64), (32, None, True)),
    (call(qk_norm_rope, (8, 1), 128), (32, None, True)),
    (call(qk_norm_rope, (8, 1), 128, "sbhd"), (48, 168, True)),  # of two entries
    (call(qk_norm_rope, (8, 2), 128), (48, 168, True)),
    (call(qk_norm_rope, (20, 1), 128), (48, 168, True)),
    (call(qk_norm_rope, (32, 8), 128, "bshd", ANGLES), (64, 128, True)),
    (call(qk_norm_rope, (32, 8), 128, "bshd", "fp32 pairs"), (48, 168, False)),
    (call(qk_norm_rope, (32, 8), 128, "bshd", "bf16 elements"), (48, 168, False)),
    (call(qk_norm_rope, (32, 8), 64, "bshd", "fp32 elements"), (48, 168, False)),
    (call(qk_norm_rope, (32, 8), 128, "thd", "fp32 elements"), (48, 168, False)),
)


@pytest.mark.parametrize("asked, share", SHARES, ids=str)
def test_the_share_of_an_sm_that_a_norms_backward_gets(asked, share):
    plan = asked._replace(marks=frozenset({"backward"})).plan()
    assert (plan.programs, plan.settings.get("maxnreg"), plan.settings["next_first"]) == share


WEIGHTS_LAST = (
    (call(qk_norm_rope, (32, 8), 128, "bshd", "fp32 elements", "model"), True),
    (call(qk_norm_rope, (32, 8), 256, "thd"), True),
    (call(qk_norm_rope, (32, 8), 256), False),
    (call(qk_norm_rope, (32, 8), 128, "thd", "fp32 elements"), False),
)


@pytest.mark.parametrize("asked, last", WEIGHTS_LAST, ids=str)
def test_whether_a_norm_loads_its_weights_last(asked, last):
    assert asked.plan().settings["weights_last"] is last
