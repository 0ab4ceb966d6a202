"""The compile matrix: no call becomes worse on any GPU than docs/compile_matrix.json says.

Nothing is run. A call is compiled ahead of time, once for all tests of this file.
"""

import os
import re
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest

import compile_matrix
import pairwise
from compile_matrix import TARGETS, Row, calls, compiled, planned, row_of
from rope_lab.compiler.assembly import loads_in, needs_of_amd, stores_in
from rope_lab.compiler.compile import compile_plan
from rope_lab.compiler.targets import target_of
from row_widths import row_loads, row_stores, stores_more_than_rows

triton = pytest.importorskip("triton", reason="needs Triton")
ROOT = Path(__file__).resolve().parents[2]
TABLE = compile_matrix.read_table()
CELLS = tuple(compile_matrix.cells())


def some_cells():
    """Every call for the H200 and, in turn, every third one for one of the other GPUs."""
    others = [target for target in TARGETS if target != "sm_90"]
    cells = [(call, "sm_90") for call in calls()]
    return [*cells, *zip([*calls()][::3], cycle(others), strict=False)]


def what_is_worse(now: Row, before: Row) -> list[str]:
    """Sentences on narrower accesses, more spills and more shared memory; [] if there are none."""
    worse = []
    if now.kernel != before.kernel:
        worse.append(f"the kernel is {now.kernel}, not {before.kernel}")
    for name in ("loads", "stores"):
        ours, theirs = getattr(now, name), getattr(before, name)
        if _is_narrower(ours, theirs):
            worse.append(f"{name} are narrower or more: {ours}, not {theirs}")
    if now.spilled > before.spilled:
        worse.append(f"a thread spills {now.spilled} bytes, not {before.spilled}")
    if now.shared > before.shared:
        worse.append(f"a program takes {now.shared} bytes of shared memory, not {before.shared}")
    return worse


def _is_narrower(ours: dict[int, int], theirs: dict[int, int]) -> bool:
    """Whether more accesses than before have at most some width."""
    return any(
        sum(n for width, n in ours.items() if width <= most)
        > sum(n for width, n in theirs.items() if width <= most)
        for most in ours
    )


# What is compiled, and what the table says

# Triton and the ptxas in it laid out the threads of the table and allocated their registers;
# others do it otherwise for the same kernel
OF_THE_SAME_TRITON = triton.__version__ == TABLE.triton and "TRITON_PTXAS_PATH" not in os.environ


@pytest.mark.parametrize(("call", "target"), CELLS if pairwise.EVERY else some_cells())
def test_a_call_compiles_as_well_as_in_the_table(call, target):
    """And accesses 16 bytes where addresses and the tile allow it."""
    row, before = row_of(call, target), TABLE.row(call, target)
    if OF_THE_SAME_TRITON:
        assert what_is_worse(row, before) == []
        assert row.registers <= before.registers
    plan, tensors = planned(call, target)
    warp_size = target_of(target).warp_size
    for width, count in row_stores(plan, tensors, warp_size).items():
        assert row.stores.get(width, 0) >= count, row.stores
    if not stores_more_than_rows(tensors):
        assert row.stores == row_stores(plan, tensors, warp_size)
    # other loads read tables, positions and weights
    for width, count in row_loads(plan, tensors, warp_size).items():
        assert row.loads.get(width, 0) >= count, row.loads


def test_addresses_allow_16_bytes_in_most_of_the_sample():
    """Or the test above would be content with anything."""
    plans = {call: planned(call, "sm_90") for call in calls()}
    stores = {call: row_stores(*plan, 32) for call, plan in plans.items()}
    narrow = {call for call, widths in stores.items() if set(widths) != {16}}
    expected = {"rotary_start 128 of 192, inverse", "head dimension 100, backward"}
    expected |= {"norm of head dimension 72, backward", "norm of q and k, sum of shares"}
    assert narrow == expected
    loads = {call: row_loads(*plan, 32) for call, plan in plans.items()}
    narrow |= {"on the fly, input at an odd address", "head dimension 72, q and k"}
    narrow |= {"head dimension 72, half rotary"}
    narrow -= {"norm of q and k, sum of shares"}  # it reads wide, and writes a column a thread
    assert {call for call, widths in loads.items() if set(widths) != {16}} == narrow


def test_ptxas_keeps_the_widths_of_the_ptx():
    """The table counts in PTX; this counts in the machine code, for a call with many widths."""
    code = compiled("rotary_start 128 of 192, inverse", "sm_90")
    for name, widths in (("LDG", code.loads), ("STG", code.stores)):
        found = re.findall(rf"\b{name}\.E(?:\.(\d+))?[ .]", code.sass)
        found = [int(bits or 32) // 8 for bits in found]
        assert {width: found.count(width) for width in sorted(set(found))} == widths
    assert len(code.loads) == 3


# The sample and the table


def test_the_table_has_every_call_for_every_gpu_and_nothing_else():
    assert tuple((row.call, row.target) for row in TABLE.rows) == CELLS


def test_the_file_and_the_page_are_what_the_command_writes():
    page = (ROOT / compile_matrix.PAGE).read_text(encoding="utf-8")
    assert compile_matrix.as_page(TABLE, page) == page
    assert compile_matrix.as_json(TABLE) == (ROOT / compile_matrix.TABLE).read_text("utf-8")
    changed = replace(TABLE, rows=(replace(TABLE.rows[0], spilled=4), *TABLE.rows[1:]))
    other = compile_matrix.as_page(changed, page)
    spilling = "table of angles on sm_80", "norm, bhsd on sm_100", "norm, bhsd on sm_103"
    assert other != page and f"These spill: {'; '.join(spilling)}." in other


def test_the_sample_has_every_kernel_and_both_values_of_every_flag():
    sources = [path.read_text("utf-8") for path in (ROOT / "rope_kernels").rglob("*.py")]
    kernels = {name for text in sources for name in re.findall(r"^def (\w+_kernel)\(", text, re.M)}
    plans = [planned(call, target)[0] for call in calls() for target in ("sm_90", "gfx942")]
    assert {plan.kernel for plan in plans} == kernels
    found = {}
    for plan in plans:
        for name, constant in plan.constants.items():
            fields = constant._asdict() if isinstance(constant, tuple) else {name: constant}
            for field, value in fields.items():
                found.setdefault(field, set()).add(value)
    flags = {name: values for name, values in found.items() if isinstance(min(values), bool)}
    flags = {name: x for name, x in flags.items() if name not in ("per_head", "fold", "given")}
    assert len(flags) >= 11 and all(len(values) == 2 for values in flags.values()), flags


# What would be worse


ROW = Row("a call", "sm_90", "rope_kernel", {8: 2, 16: 4}, {16: 4}, 64, 8, 256)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"loads": {8: 10}}, "loads are narrower"),
        ({"loads": {8: 3, 16: 4}}, "loads are narrower or more"),
        ({"loads": {2: 1, 16: 4}}, "loads are narrower"),
        ({"stores": {8: 1, 16: 3}}, "stores are narrower"),
        ({"spilled": 12}, "spills 12 bytes, not 8"),
        ({"shared": 512}, "512 bytes of shared memory, not 256"),
        ({"kernel": "another"}, "the kernel is another"),
        ({}, None),
        ({"loads": {16: 5}}, None),
        ({"loads": {8: 2, 16: 3}}, None),
        ({"spilled": 0, "shared": 0}, None),
    ],
)
def test_what_is_worse_is_said_and_nothing_else(changes, says):
    sentences = what_is_worse(replace(ROW, **changes), ROW)
    assert len(sentences) == (says is not None)
    assert all(says in sentence for sentence in sentences)


def test_a_stride_of_1_where_there_should_be_none_is_found():
    """As once: a dimension of one index with stride 1 made every load 2 bytes wide."""
    call, target = "table of angles", "sm_90"
    plan, tensors = planned(call, target)
    s, b, h, d = plan.strides.q
    assert b == 0
    wrong = replace(plan, strides=plan.strides._replace(q=(s, 1, h, d)))
    right, now = row_of(call, target), compile_plan(target, wrong, tensors)
    [sentence] = what_is_worse(replace(right, loads=now.loads), right)
    assert "loads are narrower" in sentence


def test_the_fast_sine_does_not_compile_for_amd():
    """Which is why the plan for AMD takes the library's."""
    target = "gfx942"
    plan, tensors = planned("table of angles", target)
    assert plan.constants["lookup"].fast_sine is False
    assert planned("table of angles", "sm_90")[0].constants["lookup"].fast_sine is True
    with pytest.raises(RuntimeError, match=f"(?s)does not compile for {target}.*fast_cosf"):
        compile_plan(target, plan.with_constants(lookup={"fast_sine": True}), tensors)


# Reading AMD's assembly, and names of GPUs


ASSEMBLY = """
\tglobal_load_dwordx4 v[0:3], v4, s[0:1]
\tglobal_load_b128 v[0:3], v[4:5], off
\tbuffer_load_ushort v1, v2, s[0:3], 0 offen
\tbuffer_load_d16_hi_u8 v1, v2, s[0:3], null offen
\tglobal_load_short_d16_hi v1, v2, s[0:1]
\ts_load_dwordx2 s[0:1], s[2:3], 0x0
\tscratch_load_dword v1, off, s32
\tglobal_store_dwordx3 v0, v[1:3], s[0:1]
\tbuffer_store_b64 v[0:1], v2, s[0:3], null offen
\tbuffer_store_byte v0, v2, s[0:3], 0 offen
    .private_segment_fixed_size: 16
    .sgpr_spill_count: 1
    .vgpr_count:     64
    .vgpr_spill_count: 3
"""


def test_widths_and_needs_are_read_from_amds_assembly():
    assert loads_in({"amdgcn": ASSEMBLY}) == {1: 1, 2: 2, 16: 2}
    assert stores_in({"amdgcn": ASSEMBLY}) == {1: 1, 8: 1, 12: 1}
    assert needs_of_amd(ASSEMBLY) == {"registers": 64, "spilled": 16, "stack": 16}


def test_a_target_is_found_by_its_name():
    assert {name: target_of(name).warp_size for name in TARGETS} == dict.fromkeys(TARGETS, 32) | {
        "gfx942": 64,
        "gfx950": 64,
    }
    for name in ("sm90", "h100", "gfx9", "gfx", "sm_90a"):
        with pytest.raises(ValueError, match=f"gpu is '{name}'; accepted: "):
            target_of(name)
