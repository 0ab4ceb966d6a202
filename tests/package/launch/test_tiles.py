"""Which rule for tiles takes which calls, and which tile each call gets.

A rule is a branch of a function that chooses. A new one is red here until a call is listed that it
takes; one that no call can take is found the same way. What a rule gained is said where it is, and
in benchmarks/NOTES.md.
"""

from functools import cache
from typing import NamedTuple

import pytest
import torch

from branches import branches_of, branches_taken
from rope_kernels import RotaryPositionEmbedding, rope_fw, rope_qk, tiles
from rope_kernels.norms import launches, norm_rope, qk_norm_rope
from rope_kernels.norms import tiles as norm_tiles
from rope_kernels.serving import rope_to_cache
from rope_lab.compiler.plans import plans_of

pytest.importorskip("triton", reason="needs Triton")

CHOOSERS = {
    function.__name__: function
    for function in (
        tiles.choose_padded_tile,
        tiles.padded,
        tiles.choose_cache_tile,
        tiles.choose_wide_tile,
        tiles.choose_whole_rows,
        tiles.side_by_side,
        norm_tiles.choose_norm_tile,
        norm_tiles.choose_norm_backward_tile,
        launches._share_of_an_sm,
        launches._weights_come_last,
    )
}
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


@cache
def what_it_gets(call):
    """The settings of a call's launch, its programs, and the branches that led to them."""
    with branches_taken(*CHOOSERS.values()) as taken:
        plan = call.plan()
    return plan.settings | {"programs": plan.programs}, taken


def padded(positions, rows, warps=1, **more):
    """Rows one below the other, each padded to a power of two."""
    return {"positions": positions, "rows": rows, "num_warps": warps} | more


def lines(count, columns, *, below=1, warps, side_by_side, over="heads"):
    """Lines of rows side by side, of several heads or positions."""
    return {
        "positions": side_by_side if over == "positions" else below,
        "lines": count,
        "columns": columns,
        "side_by_side": side_by_side,
        "over_positions": over == "positions",
        "num_warps": warps,
    }


def call(function, heads, d, tensor_format="bshd", table=ON_THE_FLY, *marks, **more):
    return Call(function, heads, d, tensor_format, table, frozenset(marks), **more)


RULES = {
    "choose_padded_tile: q and k on the fly, whose rows of k fill few tiles": (
        (call(rope_qk, (8, 1), 128), padded(8, 1)),
        (call(rope_qk, (32, 8), 128), padded(8, 1)),
        (call(rope_qk, (64, 8), 128, "bhsd"), padded(8, 1)),
        (call(rope_qk, (32, 8), 64, "bshd", ON_THE_FLY, "in place"), padded(16, 1)),
    ),
    "choose_padded_tile: all rows of a position that a table turns": (
        (call(rope_fw, (9,), 128, "bshd", "fp32 elements"), padded(1, 16)),
        (call(rope_fw, (16,), 128, "bshd", ANGLES), padded(1, 16)),
        (call(rope_fw, (5,), 128, "bshd", "fp32 pairs", dtype=FP32), padded(1, 8)),
    ),
    "choose_padded_tile: rows whose padding is a third of the tile": (
        (call(rope_fw, (32,), 160), padded(1, 8)),
        (call(rope_fw, (32,), 160, "bhsd"), padded(2, 4)),
        (call(rope_fw, (32,), 160, "bhsd", ON_THE_FLY, "in place"), padded(2, 4)),
        (call(rope_fw, (32,), 72, "bshd", "fp32 pairs", turned=64), padded(2, 8)),
        (call(rope_fw, (32,), 128, turned=32), padded(1, 8)),
    ),
    "choose_padded_tile: one tensor by a table at positions that are looked up": (
        (call(rope_fw, (32,), 128, "bshd", "fp32 elements", "ids"), padded(1, 16)),
        (call(rope_fw, (32,), 128, "thd", "fp32 elements"), padded(1, 16)),
        (call(rope_fw, (32,), 128, "bshd", "bf16 pairs", "ids"), padded(2, 8)),
    ),
    "choose_padded_tile: all others that are not packed": (
        (call(rope_fw, (32,), 128), padded(1, 8)),
        (call(rope_fw, (32,), 128, "bshd", "fp32 elements", "in place"), padded(1, 8)),
        (call(rope_fw, (32,), 128, "bshd", "bf16 pairs"), padded(2, 4)),
        (call(rope_qk, (32, 8), 128, "bshd", "fp32 elements"), padded(1, 8)),
        (call(rope_qk, (8, 1), 128, "bhsd", "fp32 pairs"), padded(2, 4)),
        (call(rope_fw, (1,), 128, "bshd", "fp32 elements"), padded(2, 1)),
        (call(rope_fw, (32,), 128, dtype=FP32), padded(1, 4)),
        (call(rope_fw, (32,), 96), padded(1, 8)),
        (call(rope_fw, (32,), 96, "bhsd"), padded(2, 4)),
    ),
    "choose_padded_tile: all others that are packed": (
        (call(rope_fw, (32,), 128, "thd"), padded(1, 8)),
        (call(rope_qk, (32, 8), 128, "thd", "fp32 elements"), padded(1, 8)),
        (call(rope_qk, (8, 1), 128, "thd"), padded(4, 2)),
        (call(rope_qk, (32, 8), 160, "thd"), padded(1, 4)),
    ),
    "choose_padded_tile: packed sequences that ranks share": (
        (call(rope_qk, (8, 1), 128, "thd", ON_THE_FLY, "ranks"), padded(1, 8)),
        (call(rope_fw, (32,), 128, "thd", ON_THE_FLY, "ranks"), padded(1, 8)),
    ),
    "choose_wide_tile: whole rows": (
        (call(rope_fw, (32,), 112), lines(8, 256, warps=2, side_by_side=2)),
        (
            call(rope_qk, (32, 8), 120, "bhsd", "fp32 elements"),
            lines(8, 256, warps=2, side_by_side=2, over="positions"),
        ),
        (
            call(rope_fw, (32,), 100, "sbhd", "bf16 pairs"),
            lines(16, 128, warps=2, side_by_side=1),
        ),
    ),
    "choose_wide_tile: few rows are padded": (
        (call(rope_fw, (2,), 72), padded(8, 2)),
        (call(rope_qk, (2, 1), 88, "bhsd"), padded(4, 2)),
    ),
    "choose_wide_tile: all others are padded": (
        (call(rope_fw, (32,), 256), padded(1, 4)),
        (call(rope_fw, (32,), 192), padded(1, 4)),
        (call(rope_fw, (32,), 192, "bhsd", "fp32 elements"), padded(1, 4)),
        (call(rope_qk, (32, 8), 96, "thd"), padded(1, 8)),
    ),
    "choose_whole_rows: one head at neighboring positions": (
        (
            call(rope_fw, (32,), 72),
            lines(4, 512, warps=2, side_by_side=7, over="positions"),
        ),
        (
            call(rope_fw, (32,), 88, "bhsd"),
            lines(4, 512, warps=2, side_by_side=5, over="positions"),
        ),
        (
            call(rope_qk, (32, 8), 112, "bhsd", "fp32 elements"),
            lines(8, 256, warps=2, side_by_side=2, over="positions"),
        ),
    ),
    "choose_whole_rows: the same in place, in longer lines": (
        (
            call(rope_fw, (32,), 88, "bhsd", ON_THE_FLY, "in place"),
            lines(4, 512, warps=2, side_by_side=5, over="positions"),
        ),
        (
            call(rope_fw, (32,), 112, "bhsd", "fp32 elements", "in place"),
            lines(4, 512, warps=2, side_by_side=4, over="positions"),
        ),
    ),
    "choose_whole_rows: heads of a position that is looked up, on the fly": (
        (
            call(rope_fw, (32,), 88, "bshd", ON_THE_FLY, "ids"),
            lines(8, 256, warps=1, side_by_side=2),
        ),
        (call(rope_fw, (32,), 72, "thd"), lines(4, 256, warps=1, side_by_side=3)),
    ),
    "choose_whole_rows: heads of a position that is looked up, by a table": (
        (
            call(rope_fw, (32,), 88, "bshd", "fp32 elements", "ids"),
            lines(16, 256, warps=2, side_by_side=2),
        ),
        (
            call(rope_qk, (32, 8), 80, "thd", "fp32 elements"),
            lines(4, 256, warps=1, side_by_side=3),
        ),
    ),
    "choose_whole_rows: lines that heads fill badly, on the fly": (
        (call(rope_fw, (32,), 88), lines(8, 256, warps=1, side_by_side=2)),
    ),
    "choose_whole_rows: packed heads of rows that 16 bytes do not divide": (
        (call(rope_fw, (32,), 100, "thd"), lines(8, 128, warps=1, side_by_side=1)),
    ),
    "choose_whole_rows: heads of a position": (
        (
            call(rope_fw, (32,), 88, "bshd", "fp32 elements"),
            lines(8, 256, warps=2, side_by_side=2),
        ),
        (call(rope_fw, (32,), 120), lines(8, 256, warps=2, side_by_side=2)),
        (call(rope_fw, (32,), 100), lines(16, 128, warps=2, side_by_side=1)),
    ),
    "choose_norm_tile: by a table": (
        (call(qk_norm_rope, (32, 8), 128, "bhsd", "fp32 elements"), padded(1, 8)),
        (call(qk_norm_rope, (14, 2), 128, "bshd", "fp32 elements"), padded(4, 2)),
        (call(norm_rope, (32,), 64, "bshd", "fp32 elements"), padded(2, 8)),
    ),
    "choose_norm_tile: on the fly": (
        (call(qk_norm_rope, (32, 8), 128), padded(2, 8, warps=2)),
        (call(qk_norm_rope, (14, 2), 128), padded(8, 2, warps=2)),
        (call(norm_rope, (8,), 256, "bhsd"), padded(1, 8, warps=2)),
    ),
    "choose_norm_tile: on the fly, rows of 128 bytes": (
        (call(norm_rope, (32,), 64), padded(1, 32)),
    ),
    "choose_norm_tile: packed": (
        (call(qk_norm_rope, (32, 8), 128, "thd"), padded(2, 8)),
        (call(qk_norm_rope, (32, 8), 256, "thd", "fp32 elements"), padded(1, 8)),
    ),
    "choose_norm_backward_tile: all": (
        (call(qk_norm_rope, (32, 8), 128, "bshd", ON_THE_FLY, "backward"), padded(1, 8)),
        (call(qk_norm_rope, (8, 1), 128, "sbhd", ON_THE_FLY, "backward"), padded(4, 2)),
        (call(qk_norm_rope, (14, 2), 128, "bshd", ON_THE_FLY, "backward"), padded(4, 2)),
    ),
    "_share_of_an_sm: rows that turn in part, and fp64": (
        (
            call(qk_norm_rope, (32, 8), 128, "bshd", ON_THE_FLY, "backward", turned=64),
            padded(1, 8, programs=32, maxnreg=None, next_first=True),
        ),
        (
            call(qk_norm_rope, (32, 8), 128, "bshd", ON_THE_FLY, "backward", dtype=FP64),
            padded(1, 2, programs=32, maxnreg=None, next_first=True),
        ),
    ),
    "_share_of_an_sm: one head of k and few of q, on the fly": (
        (
            call(qk_norm_rope, (8, 1), 128, "bshd", ON_THE_FLY, "backward"),
            padded(8, 1, programs=32, maxnreg=None, next_first=True),
        ),
        (
            call(qk_norm_rope, (18, 1), 128, "bhsd", ON_THE_FLY, "backward"),
            padded(8, 1, programs=32, maxnreg=None, next_first=True),
        ),
    ),
    "_share_of_an_sm: fp32 tables of 128 elements and more, not packed": (
        (
            call(qk_norm_rope, (32, 8), 128, "bshd", "fp32 elements", "backward"),
            padded(1, 4, programs=64, maxnreg=128, next_first=True),
        ),
        (
            call(qk_norm_rope, (32, 8), 128, "bhsd", ANGLES, "backward"),
            padded(1, 4, programs=64, maxnreg=128, next_first=True),
        ),
        (
            call(qk_norm_rope, (32, 8), 256, "bshd", "fp32 elements", "backward"),
            padded(1, 2, programs=64, maxnreg=128, next_first=True),
        ),
    ),
    "_share_of_an_sm: all others": (
        (
            call(qk_norm_rope, (32, 8), 128, "bshd", ON_THE_FLY, "backward"),
            padded(1, 8, programs=48, maxnreg=168, next_first=True),
        ),
        (
            call(qk_norm_rope, (8, 2), 128, "bshd", ON_THE_FLY, "backward"),
            padded(4, 2, programs=48, maxnreg=168, next_first=True),
        ),
        (
            call(qk_norm_rope, (20, 1), 128, "bshd", ON_THE_FLY, "backward"),
            padded(4, 2, programs=48, maxnreg=168, next_first=True),
        ),
        (
            call(qk_norm_rope, (8, 1), 128, "sbhd", ON_THE_FLY, "backward"),  # of two entries
            padded(4, 2, programs=48, maxnreg=168, next_first=True),
        ),
        (
            call(qk_norm_rope, (32, 8), 128, "thd", ON_THE_FLY, "backward"),
            padded(1, 8, programs=48, maxnreg=168, next_first=False),
        ),
        (
            call(qk_norm_rope, (32, 8), 128, "thd", "fp32 elements", "backward"),
            padded(1, 8, programs=48, maxnreg=168, next_first=False),
        ),
        (
            call(qk_norm_rope, (32, 8), 128, "bshd", "bf16 elements", "backward"),
            padded(2, 4, programs=48, maxnreg=168, next_first=False),
        ),
        (
            call(qk_norm_rope, (32, 8), 128, "bhsd", "fp32 pairs", "backward"),
            padded(1, 8, programs=48, maxnreg=168, next_first=False),
        ),
        (
            call(qk_norm_rope, (32, 8), 64, "bshd", "fp32 elements", "backward"),
            padded(2, 8, programs=48, maxnreg=168, next_first=False),
        ),
    ),
    "_weights_come_last: with a model's rounding, and in packed rows of more than 128 elements": (
        (
            call(qk_norm_rope, (32, 8), 128, "bshd", "fp32 elements", "model"),
            {"weights_last": True},
        ),
        (call(qk_norm_rope, (32, 8), 256, "thd"), {"weights_last": True}),
        (call(qk_norm_rope, (32, 8), 256), {"weights_last": False}),
        (call(qk_norm_rope, (32, 8), 128, "thd", "fp32 elements"), {"weights_last": False}),
    ),
    "choose_cache_tile: by ids": (
        (call(rope_to_cache, (32, 8), 128, "thd", ON_THE_FLY, "ids"), padded(1, 8)),
        (call(rope_to_cache, (32, 8), 72, "thd", "fp32 elements", "ids"), padded(1, 8)),
    ),
    "choose_cache_tile: packed": (
        (call(rope_to_cache, (32, 8), 128, "thd"), padded(1, 8)),
        (call(rope_to_cache, (8, 1), 128, "thd", "bf16 pairs"), padded(4, 2)),
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_which_rule_takes_which_call_and_which_tile_it_gets(rule):
    """Calls of one rule take the same branches of its function."""
    taken_by = set()
    for listed, expected in RULES[rule]:
        settings, _ = what_it_gets(listed)
        assert {name: settings.get(name) for name in expected} == expected, str(listed)
        taken_by.add(branches_within(rule, listed))
    assert len(taken_by) == 1


def branches_within(rule, listed):
    function, _, _ = rule.partition(":")
    _, taken = what_it_gets(listed)
    return frozenset(branch for branch in taken if branch.function == function)


def test_rules_are_branches_of_their_own():
    """Two names of one rule would list calls twice, and hide that one of them isn't served."""
    branches = [branches_within(rule, calls[0][0]) for rule, calls in RULES.items()]
    assert all(branches) and len(set(branches)) == len(RULES)


def test_every_rule_takes_a_call_that_is_listed():
    taken = {branch for calls in RULES.values() for x, _ in calls for branch in what_it_gets(x)[1]}
    branches = [branch for function in CHOOSERS.values() for branch in branches_of(function)]
    missing = [str(branch) for branch in branches if branch not in taken]
    assert not missing, "list a call that they take, or remove them: " + "; ".join(missing)
