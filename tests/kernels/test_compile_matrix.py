"""Ten calls, each compiled for a GPU that need not be here: wide accesses, few registers, no spill.

Nothing is run. We measured on an H200 and an H100 alone, both sm_90.
"""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from rope_lab.compiler.assembly import loads_in, needs_of_amd, stores_in
from rope_lab.compiler.compile import compile_plan
from rope_lab.compiler.targets import target_of
from row_widths import row_loads, row_stores, stores_more_than_rows
from sampled import compiled, planned

triton = pytest.importorskip("triton", reason="needs Triton")
ROOT = Path(__file__).resolve().parents[2]
CELLS = {  # call and GPU -> a thread's registers and a program's bytes of shared memory, at most
    ("table of angles", "sm_80"): (103, 256),
    ("table of angles, backward", "sm_90"): (96, 128),
    ("packed sequences", "sm_100"): (64, 256),
    ("head dimension 80, in place", "sm_120"): (74, 512),
    ("on the fly", "gfx942"): (43, 256),
    ("norm of q and k", "sm_90"): (62, 512),
    ("norm of q and k, backward", "sm_120"): (167, 512),
    ("norm of q and k, sum of shares", "gfx942"): (15, 1024),
    ("into a cache", "sm_100"): (58, 512),
    ("a projection to bhsd", "gfx942"): (34, 256),
}
# The Triton of these numbers, with the ptxas in it: others lay out threads in other ways.
OF_THE_SAME_TRITON = triton.__version__ == "3.7.1" and "TRITON_PTXAS_PATH" not in os.environ


@pytest.mark.parametrize(("call", "target"), CELLS)
def test_a_call_compiles_well(call, target):
    """It accesses 16 bytes where addresses and the tile allow it, and takes no more than it did."""
    code, (plan, tensors) = compiled(call, target), planned(call, target)
    check_widths(code, plan, tensors, target)
    if OF_THE_SAME_TRITON:
        assert code.spilled == 0, code
        registers, shared = CELLS[call, target]
        assert code.registers <= registers and code.shared <= shared, code


def check_widths(code, plan, tensors, target):
    warp_size = target_of(target).warp_size
    for width, count in row_stores(plan, tensors, warp_size).items():
        assert code.stores.get(width, 0) >= count, code.stores
    if not stores_more_than_rows(tensors):
        assert code.stores == row_stores(plan, tensors, warp_size)
    # other loads read tables, positions and weights
    for width, count in row_loads(plan, tensors, warp_size).items():
        assert code.loads.get(width, 0) >= count, code.loads


def test_addresses_allow_16_bytes():
    """Or the test above would be content with anything."""
    for call, target in CELLS:
        (plan, tensors), warp_size = planned(call, target), target_of(target).warp_size
        assert set(row_loads(plan, tensors, warp_size)) == {16}
        if "sum of shares" not in call:  # it writes a column a thread
            assert set(row_stores(plan, tensors, warp_size)) == {16}


def test_a_stride_of_1_where_there_should_be_none_is_found():
    """As once: a dimension of one index with stride 1 made every load 2 bytes wide."""
    call, target = "table of angles", "sm_80"
    plan, tensors = planned(call, target)
    s, b, h, d = plan.strides.q
    assert b == 0
    wrong = replace(plan, strides=plan.strides._replace(q=(s, 1, h, d)))
    with pytest.raises(AssertionError):
        check_widths(compile_plan(target, wrong, tensors), plan, tensors, target)


def test_every_kernel_is_among_them():
    sources = [path.read_text("utf-8") for path in (ROOT / "rope_kernels").rglob("*.py")]
    kernels = {name for text in sources for name in re.findall(r"^def (\w+_kernel)\(", text, re.M)}
    assert {planned(*cell)[0].kernel for cell in CELLS} == kernels


def test_ptxas_keeps_the_widths_of_the_ptx():
    """Counts are those of PTX; here also in the machine code, for a call with many widths."""
    code = compiled("rotary_start 128 of 192, inverse", "sm_90")
    for name, widths in (("LDG", code.loads), ("STG", code.stores)):
        found = re.findall(rf"\b{name}\.E(?:\.(\d+))?[ .]", code.sass)
        found = [int(bits or 32) // 8 for bits in found]
        assert {width: found.count(width) for width in sorted(set(found))} == widths
    assert len(code.loads) == 3


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
    names = *(target for _, target in CELLS), "sm_103", "gfx1100"
    assert {target_of(name).warp_size for name in names if name != "gfx942"} == {32}
    assert target_of("gfx942").warp_size == target_of("gfx950").warp_size == 64
    for name in ("sm90", "h100", "gfx9", "gfx", "sm_90a"):
        with pytest.raises(ValueError, match=f"gpu is '{name}'; accepted: "):
            target_of(name)
