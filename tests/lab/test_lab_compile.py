"""`compile_for`: compiled like a launch, and shown as it is; no GPU."""

import pytest
import torch

import pairwise
import rope_lab as lab
from rope_lab.compiler.assembly import needs_of_amd, widths_of
from rope_lab.compiler.compile import Compiled, compile_for, target_of

triton = pytest.importorskip("triton", reason="needs Triton")

import triton.language as tl  # noqa: E402

from rope_lab.compiler.stages import (  # noqa: E402
    evaluations_of_threads,
    signature,
)
from rope_lab.judge.climb.instruments import headline  # noqa: E402
from rope_lab.judge.rehearsal import rehearsed  # noqa: E402
from rope_lab.rungs import RUNGS  # noqa: E402

MEMORY = torch.zeros(4096, dtype=torch.bfloat16)
FP32 = torch.zeros(4096)
assert lab.device  # the engine is picked before Triton is loaded


@triton.jit
def copy_kernel(t_ptr, out_ptr, stride, D: tl.constexpr):
    column = tl.arange(0, D)
    x = tl.load(t_ptr + tl.program_id(0) * stride + column)
    tl.store(out_ptr + column, x)


def copied(tensor=MEMORY, stride=256, **options):
    return compile_for("sm_90", copy_kernel, tensor, MEMORY, stride, D=256, num_warps=1, **options)


# Compiled as a launch would be


@pytest.mark.needs_compiler
def test_a_launch_is_specialised_on_alignment_and_divisibility():
    """And a signature shows what is known of each argument."""
    assert copied().loads == copied().stores == {16: 1}
    assert copied(MEMORY[1:]).loads == copied(stride=264).loads == {2: 8}
    first, second, third = signature(copied()).splitlines()
    assert first == "%t_ptr: !tt.ptr<bf16> {tt.divisibility = 16 : i32}"
    assert third == "%stride: i32 {tt.divisibility = 16 : i32}"
    assert signature(copied(MEMORY[1:], stride=7)) == (
        f"%t_ptr: !tt.ptr<bf16>\n{second}\n%stride: i32"
    )
    assert "stride" not in signature(copied(stride=1))


# Room on a multiprocessor


def with_registers(registers, num_warps=1, shared=0, gpu="sm_90"):
    return Compiled("k", gpu, num_warps, "", {"ptx": ""}, b"", registers, 0, 0, shared)


ROOM = {  # warps of a multiprocessor -> registers, warps and shared memory of a program, and room
    "sm_90": (
        64,
        [
            (16, 1, 0, 32),  # no more than 32 programs
            (16, 4, 0, 16),  # no more than 64 warps
            (91, 1, 0, 20),  # 65536 / (32 * 91) = 22.5: 3072 registers a warp, 5 warps a part
            (97, 1, 0, 16),  # 3104 would be 5 warps a part, but 3328 it is
            (129, 1, 0, 12),  # 4352 a warp: 3 in each of four parts
            (16, 1, 100 * 1024, 2),  # 228 KiB, and each program takes one more
        ],
    ),
    "sm_75": (
        32,
        [
            (16, 1, 0, 16),  # no more than 16 programs
            (16, 4, 0, 8),  # no more than 32 warps
            (129, 1, 0, 12),  # as on the others
            (16, 1, 32 * 1024, 2),  # 64 KiB, of which the system keeps none
            (16, 1, 16 * 1024 + 1, 3),  # in units of 256 bytes
        ],
    ),
}


@pytest.mark.parametrize("gpu", ROOM)
def test_programs_at_a_time(gpu):
    warps, rows = ROOM[gpu]
    for registers, num_warps, shared, programs in rows:
        code = with_registers(registers, num_warps, shared, gpu)
        assert code.programs_at_a_time == programs, (registers, num_warps, shared)
        assert code.occupancy == programs * num_warps / warps


# The rungs on other GPUs

OTHERS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_100", "sm_120")


@pytest.mark.needs_compiler
@pytest.mark.parametrize("gpu", OTHERS if pairwise.EVERY else ("sm_75",))
@pytest.mark.parametrize("number", RUNGS)
def test_a_rung_compiles_for_other_gpus_and_spills_nothing(number, gpu):
    """Tests of the climb compile it for sm_90."""
    (launch,) = rehearsed(RUNGS[number].module.my_rope, headline, "meta").launches
    here, measured = launch.compiled(gpu), launch.compiled()
    assert here.spilled == 0, here
    assert (here.loads, here.stores) == (measured.loads, measured.stores), here
    assert here.programs_at_a_time >= 1


# What threads repeat


@triton.jit
def cosines_of_sums_kernel(t_ptr, out_ptr, R: tl.constexpr, C: tl.constexpr):
    i = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    sums = tl.sum(tl.load(t_ptr + i), axis=0)
    tl.store(out_ptr + i, tl.cos(sums)[None, :] + tl.zeros((R, 1), tl.float32))


@pytest.mark.needs_compiler
@pytest.mark.parametrize("num_warps", (1, 4))
def test_a_cosine_counts_for_each_thread_that_computes_it(num_warps):
    """The sums of columns are a slice of the block's layout, which every warp has."""
    sizes = {"R": 8, "C": 128, "num_warps": num_warps}
    code = compile_for("sm_90", cosines_of_sums_kernel, FP32, FP32, **sizes)
    assert evaluations_of_threads(code) == 128 * num_warps


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
    assert widths_of({"amdgcn": ASSEMBLY}, "load") == {1: 1, 2: 2, 16: 2}
    assert widths_of({"amdgcn": ASSEMBLY}, "store") == {1: 1, 8: 1, 12: 1}
    assert needs_of_amd(ASSEMBLY) == {"registers": 64, "spilled": 16, "stack": 16}


def test_a_target_is_found_by_its_name():
    for names, threads in ((("sm_80", "sm_103", "gfx1100"), 32), (("gfx942", "gfx950"), 64)):
        assert {target_of(name)[2] for name in names} == {threads}
    for name in ("sm90", "h100", "gfx9", "gfx", "sm_90a"):
        with pytest.raises(ValueError, match=f"gpu is '{name}'; accepted: "):
            target_of(name)
