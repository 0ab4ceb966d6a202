"""The tables of tiles: a row says what it is for, is used when it should be, and is not dead."""

from itertools import product

import pytest
import torch

from rope_kernels import RotaryPositionEmbedding, norm_rope, rope_fw, rope_qk
from rope_kernels.launch import kernel_plans, tiles, tuning
from rope_kernels.launch.tuning import ACROSS_ROWS, ALONG_POSITIONS, ANY, Kind, Row
from rope_kernels.machine.engine import Engine
from rope_lab.compiler.plans import plan_of, plans_with_backward

TABLES = {name: getattr(tuning, name) for name in ("ROTATION", "NORM_FORWARD", "NORM_BACKWARD")}
each_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
SHAPES = {"sbhd": (64, 2, 16), "bhsd": (2, 16, 64), "thd": (64, 16)}


@each_table
def test_every_row_says_when_what_and_why(table):
    for row in table:
        assert callable(row.when) and row.lanes in (ANY, ALONG_POSITIONS, ACROSS_ROWS)
        assert row.why[0].isupper() | row.why[0].isdigit() and row.why.endswith(".")
    assert {type(row.tile) for row in table} == {type(table[0].tile)}


@each_table
def test_the_last_row_matches_every_call(table):
    assert table[-1].when(None) is True and table[-1].lanes == ANY


def test_the_first_row_that_matches_is_used():
    table = (
        Row(lambda call: call > 2, "large", ""),
        Row(lambda call: call > 1, "along", "", ALONG_POSITIONS),
        Row(lambda call: call > 0, "small", ""),
    )
    for lanes, found in {ALONG_POSITIONS: "along", ACROSS_ROWS: "small", ANY: "small"}.items():
        taken = [tuning.first_match(table, call, lanes) for call in (3, 2, 1)]
        assert taken == ["large", found, "small"]


def rotations():
    """Plans of calls that rotate, of every kind of row."""
    for d in (64, 72, 88, 96, 100, 160):
        rope = RotaryPositionEmbedding(34 if d == 64 else d)  # 34: a part of a row
        table = rope(64)
        for tensor_format, inplace, way in product(SHAPES, (False, True), ("table", "fly", "ids")):
            shape, options = (*SHAPES[tensor_format], d), {"inplace": inplace}
            if tensor_format == "thd":
                options["cu_seqlens"] = torch.tensor([0, 64])
            elif way == "ids":
                options["position_ids"] = torch.zeros(1, 64, dtype=torch.int64)
            t = torch.empty(shape, dtype=torch.bfloat16)
            freqs = rope if way == "fly" else table
            yield plan_of(rope_fw, t, freqs, tensor_format, **options)[0]
            yield plan_of(rope_qk, t, t.clone(), freqs, tensor_format, **options)[0]
    for dtype in (torch.bfloat16, torch.float32):
        t = torch.empty(64, 2, 16, 128, dtype=dtype)
        yield plan_of(rope_qk, t, t.clone(), RotaryPositionEmbedding(128))[0]
    nine = torch.empty(64, 1, 9, 128, dtype=torch.bfloat16)
    yield plan_of(rope_fw, nine, RotaryPositionEmbedding(128)(64))[0]
    options = {"cu_seqlens": torch.tensor([0, 128]), "cp_size": 2, "cp_rank": 1}
    yield plan_of(rope_fw, t[:, 0], RotaryPositionEmbedding(128), "thd", **options)[0]


def norms():
    """Plans of calls that normalize and rotate, forward and backward."""
    for tensor_format, d, on_the_fly in product(SHAPES, (32, 64, 80, 128, 256), (False, True)):
        t = torch.empty(*SHAPES[tensor_format], d, dtype=torch.bfloat16).requires_grad_()
        rope, packed = RotaryPositionEmbedding(d), tensor_format == "thd"
        options = {"cu_seqlens": torch.tensor([0, 64])} if packed else {}
        arguments = t, torch.empty(d), rope if on_the_fly else rope(64), tensor_format
        plans = plans_with_backward(Engine.NVIDIA, norm_rope, *arguments, **options)
        yield from (plan for plan, _ in plans)


def test_every_row_is_taken_by_some_plan(monkeypatch):
    """A row that no call reaches is a constant that no plan uses."""
    taken = set()

    def noted(table, call, lanes=ANY):
        """Whichever way the lanes of this Triton go."""
        for way in (ALONG_POSITIONS, ACROSS_ROWS) if lanes != ANY else (ANY,):
            rows = [row for row in table if row.lanes in (ANY, way) and row.when(call)]
            taken.add(id(rows[0]))
        return rows[0].tile

    for module in (tiles, kernel_plans):
        monkeypatch.setattr(module, "first_match", noted)
    assert [*rotations(), *norms()]
    left = {name: [n for n, row in enumerate(rows, 1) if id(row) not in taken]
            for name, rows in TABLES.items()}  # fmt: skip
    assert left == {name: [] for name in TABLES}


def what_tuning_decides(plan):
    head, tile, order = (plan.constants.get(name) for name in ("head", "tile", "order"))
    return head, tile, plan.num_warps, getattr(order, "stages", None)


def test_plans_take_what_the_tables_say(monkeypatch):
    """A row on top of each table changes every plan."""
    before = [what_tuning_decides(plan) for plan in (*rotations(), *norms())]
    tile = tuning.RotationTile(Kind.PADDED, tile_bytes=16384, warp_bytes=1)
    monkeypatch.setattr(tiles, "ROTATION", (Row(lambda call: True, tile, ""),))
    tile = tuning.ForwardTile(bytes=4, warps=4)
    monkeypatch.setattr(tiles, "NORM_FORWARD", (Row(lambda call: True, tile, ""),))
    tile = tuning.BackwardTile(1, stages=7)
    monkeypatch.setattr(kernel_plans, "NORM_BACKWARD", (Row(lambda call: True, tile, ""),))
    after = [what_tuning_decides(plan) for plan in (*rotations(), *norms())]
    same = [old for old, new in zip(before, after, strict=True) if old == new]
    assert all(head is None for head, *_ in same)  # sums of shares, which have no table
