"""What the compiler makes of a rotation for an H200 (sm_90), by instruction; needs no GPU.

A launch is planned and compiled ahead of time. Wide loads and no spills are what the kernel's speed
rests on, and both are lost silently: a stride of 1 where there should have been none made packed
tensors load 2 bytes at a time.
"""

import re
from dataclasses import replace
from functools import cache

import pytest
import torch

import sampled
from calls.plans import plans_of
from pairwise import cover
from rope_kernels import (
    RotaryPositionEmbedding,
    rope_bw,
    rope_fw,
    rope_qk,
    rope_to_cache,
)
from rope_kernels.launch import launch
from rope_kernels.machine.engine import Engine
from rope_lab.compiler.compile import compile_call, compile_plan
from rope_lab.compiler.plans import plan_for, plan_of
from rope_lab.compiler.stages import opcodes, operations

pytest.importorskip("triton", reason="needs Triton")

S, B, H, D = 64, 2, 8, 128


def bf16(*shape):
    return torch.randn(shape, dtype=torch.bfloat16)


ROPE = RotaryPositionEmbedding(D)
HALF_ROTARY = RotaryPositionEmbedding(D, 0.5)
CU_SEQLENS = torch.tensor([0, 10, S])

CALLS = {  # what is called, its arguments, and its options; None: a call of the sample
    **dict.fromkeys(["table of angles", "on the fly", "interleaved", "packed sequences"]),
    **dict.fromkeys(["q and k of a packed qkv, in place", "head dimension 80, in place"]),
    "half rotary": None,
    "one entry, one head": (rope_fw, (bf16(S, 1, 1, D), ROPE), {}),
    "q and k, position ids": (
        *(rope_qk, (bf16(B, S, H, D), bf16(B, S, 1, D), ROPE, "bshd")),
        {"position_ids": torch.zeros(B, S).long()},
    ),
    "half rotary, in place": (rope_fw, (bf16(S, B, H, D), HALF_ROTARY), {"inplace": True}),
    "half rotary, in the middle": (rope_fw, (bf16(S, B, H, D), HALF_ROTARY), {"rotary_start": 32}),
}
# ptxas holds a packed call to 96 registers, with room for 20 programs, and for that stores up to 10
# of a thread's registers while it searches.
# registers, programs at a time and instructions, where they are not (64, 32, 700)
LARGER = {
    "packed sequences": (64, 32, 1000),
    "table of angles": (96, 20, 700),
    "head dimension 80, in place": (72, 14, 700),
}


def compiled(name):
    if CALLS.get(name) is None:
        return sampled.compiled(name, "sm_90")
    function, arguments, options = CALLS[name]
    return compile_call("sm_90", function, *arguments, **options)


@pytest.mark.parametrize("name", CALLS)
def test_16_bit_rows_are_wide_and_their_programs_small(name):
    """The slow branch of an exact sine compares with 105 615, jumps, and has an array in memory."""
    code = compiled(name)
    assert set(code.stores) == {16}, code.stores
    assert code.loads[16] >= sum(code.stores.values()), code.loads  # tables: as they come
    assert code.spilled == 0, code
    assert opcodes(code, "sass", keep="^MUFU.(SIN|COS)"), code
    assert "0f47CE4780" not in code.stages["ptx"]
    packed = name == "packed sequences"
    jumps = opcodes(code, "sass", keep="^(BRA|CALL|BSSY)")
    assert jumps == ({"BRA": 2} if packed else {}), jumps  # the loop of the search
    assert code.stack == 0 or packed, code
    registers, programs, instructions = LARGER.get(name, (64, 32, 700))
    assert code.registers <= registers and code.programs_at_a_time >= programs, code
    assert len(operations(code, "sass")) < instructions


def angles_per_pair(rope):
    return rope(S)[..., : rope.rotary_dim // 2].contiguous()


FREQS = {  # of a module: the table, and its options
    "table": lambda rope: (rope(S), {}),
    "on the fly": lambda rope: (rope, {}),
    "one per pair": lambda rope: (angles_per_pair(rope), {"rotary_dim": rope.rotary_dim}),
    "cos and sin": lambda rope: (rope.cos_sin(S), {"rotary_dim": rope.rotary_dim}),
}


def whole_rows_code(head_dim, freqs, t, **more):
    table, options = FREQS[freqs](RotaryPositionEmbedding(head_dim))
    code = compile_call("sm_90", rope_fw, t, table, **options, **more)
    assert code.kernel == "whole_rows_kernel"
    return code


@cache
def rows_of_32_heads(head_dim, freqs, inplace):
    return whole_rows_code(head_dim, freqs, bf16(S, B, 32, head_dim), inplace=inplace)


# head dimension -> bytes of a row's loads and stores; of the loads of the other members of pairs
WHOLE_ROWS = {72: (16, 8), 80: (16, 16), 88: (16, 8), 100: (8, 4), 120: (16, 8)}


@cover(head_dim=tuple(WHOLE_ROWS), freqs=tuple(FREQS), inplace={"new": False, "in place": True})
def test_whole_rows_are_as_wide_as_they_allow_and_share_their_sines(head_dim, freqs, inplace):
    """A block of 256 columns, two warps: 4 sines a thread. One warp on the fly: 8 at most."""
    code = rows_of_32_heads(head_dim, freqs, inplace)
    row, other = WHOLE_ROWS[head_dim]
    assert set(code.stores) == {row}, code.stores
    assert code.loads[row] >= code.stores[row] and min(code.loads) == other, code.loads
    assert code.loads[other] >= code.stores[row] * row // other
    assert code.spilled == 0, code
    if freqs == "cos and sin" or inplace:
        return
    threads = 32 if freqs == "on the fly" and head_dim == 88 else 64
    columns = 128 if head_dim == 100 else 256
    sines = opcodes(code, "sass", keep="^MUFU.SIN")
    assert 0 < sum(sines.values()) <= columns // threads, code
    assert code.registers <= (72 if threads == 64 else 128), code


@pytest.mark.parametrize("tensor_format", ("sbhd", "bshd", "bhsd"))
def test_whole_rows_of_a_packed_qkv_are_wide_too(tensor_format):
    """Their strides are no multiples of 16 elements: the plan says what Triton cannot see."""
    qkv = bf16(S, S, 3 * 11, 120)  # as a batch, a sequence or heads
    t = qkv.narrow(tensor_format.index("h"), 11, 11)
    code = whole_rows_code(120, "one per pair", t, tensor_format=tensor_format, inplace=True)
    assert set(code.stores) == {16} and min(code.loads) == 8, code


def test_a_row_at_an_odd_address_is_not_read_wide():
    """The matrix has such a call of the other kernel."""
    t = bf16(S * B * H * 120 + 4)[4:].view(S, B, H, 120)
    code = whole_rows_code(120, "one per pair", t)
    assert set(code.stores) == {16} and code.loads[8] == 4 * code.stores[16], code.loads


@pytest.mark.parametrize(
    ("tensor_format", "shape", "rotary_dim", "start", "per_pair", "dtype", "function"),
    (
        ("sbhd", (5, 2, 3, 100), 70, 28, 2, torch.bfloat16, rope_fw),
        ("sbhd", (16, 2, 18, 88), 32, 50, 1, torch.bfloat16, rope_bw),
        ("bhsd", (2, 31, 39, 88), 54, 31, 1, torch.float32, rope_fw),
        ("thd", (21, 4, 36), 6, 19, 1, torch.float16, rope_bw),
    ),
)
def test_no_element_is_found_by_sums_of_16_bits(
    tensor_format, shape, rotary_dim, start, per_pair, dtype, function
):
    """ptxas 12.8 lost such sums, and elements of these calls turned by NaN; with Triton 3.6.

    Triton 3.7 makes no such sums here. A zero that the compiler cannot see keeps it so.
    """
    t, freqs = torch.randn(shape, dtype=dtype), torch.randn(64, 1, 1, rotary_dim // 2 * per_pair)
    options = {"rotary_dim": rotary_dim, "rotary_start": start}
    if tensor_format == "thd":
        options["cu_seqlens"] = torch.tensor([0, 9, 21])
    code = compile_call("sm_90", function, t, freqs, tensor_format, **options)
    assert code.kernel == "whole_rows_kernel"
    assert "s16x2" not in code.stages["ptx"] and "%ctaid.y" in code.stages["ptx"], code


INSTRUCTIONS = r"\sld\.global", r"\sbar\.sync", r"\sst\.global"


def barrier_between(ptx):
    """Whether all loads from global memory come before a last barrier, and all stores after it."""
    places = [[m.start() for m in re.finditer(rf"{name}\b", ptx)] for name in INSTRUCTIONS]
    loads, barriers, stores = places
    return bool(barriers) and max(loads) < max(barriers) < min(stores)


@pytest.mark.parametrize(
    ("head_dim", "freqs"),  # rows of 2044 take one or two warps
    (*((72, freqs) for freqs in FREQS), (20, "table"), (2044, "on the fly"), (2044, "cos and sin")),
)
def test_in_place_every_load_is_done_before_the_first_store(head_dim, freqs):
    """A thread reads what another one overwrites: a barrier is between the two."""
    ptx = rows_of_32_heads(head_dim, freqs, True).stages["ptx"]
    assert barrier_between(ptx)
    assert not barrier_between(ptx.replace("bar.sync", "nop"))
    if head_dim != 20:  # cosines go through shared memory, which has barriers of its own
        elsewhere = rows_of_32_heads(head_dim, freqs, False).stages["ptx"]
        assert ptx.count("bar.sync") == elsewhere.count("bar.sync") + 1


@cover(
    head_dim=(2044, 600, 2046),
    interleaved={"halves": False, "interleaved": True},
    inplace={"new": False, "in place": True},
)
def test_one_row_may_be_a_whole_tile(head_dim, interleaved, inplace):
    """Its pointers are a scalar to the compiler, which once crashed on what it was told of them."""
    t, rope = bf16(S, B, H, 2 * head_dim)[..., :head_dim], RotaryPositionEmbedding(head_dim)
    if head_dim == 600:
        t = t.float()
    options = {"rotary_dim": head_dim, "interleaved": interleaved, "inplace": inplace}
    code = compile_call("sm_90", rope_fw, t, angles_per_pair(rope), **options)
    width = {2044: 8, 600: 16, 2046: 4}[head_dim]
    assert set(code.stores) == {width} and code.loads[width] >= code.stores[width], code


@pytest.mark.parametrize("suffix", ("", ", backward", ", fp32"))
def test_all_angles_are_requested_before_the_first_sine(suffix):
    """With a load after a sine, a program waits for memory twice."""
    code, exact = sampled.compiled(f"table of angles{suffix}", "sm_90"), suffix == ", fp32"
    order = [operation.opcode for operation in operations(code, "sass")]
    # an exact sine begins with a branch, and loads a table of its own for large angles
    begins = "BRA" if exact else "MUFU.SIN"
    first_sine = next(i for i, name in enumerate(order) if name.startswith(begins))
    loads = [name for name in order[:first_sine] if name.startswith("LDG")]
    of_elements = 4 if exact else 8  # 16 bytes at a time
    assert len(loads) == of_elements + 2, code  # and both angles


@pytest.mark.parametrize("name", ("table of angles", "on the fly", "packed sequences"))
def test_tensors_of_fp32_take_the_exact_sine_and_spill_next_to_nothing(name):
    """So the tests of the fast one can fail."""
    call = replace(sampled.calls()[name].call, dtype="float32")
    code = compile_plan("sm_90", *plans_of(call, Engine.NVIDIA)[0])
    assert "0f47CE4780" in code.stages["ptx"] and opcodes(code, "sass", keep="^BRA")
    assert set(code.stores) == {16}, code.stores
    assert code.spilled <= (0 if name == "table of angles" else 16), code


@pytest.mark.parametrize(
    ("head_dim", "freqs"),
    (
        *((head_dim, "on the fly") for head_dim in (72, 128, 160)),
        *((head_dim, "one per pair") for head_dim in (112, 128, 160)),
    ),
)
def test_packed_elements_are_requested_before_the_search(head_dim, freqs):
    """The search is a loop, and the compiler moves loads from before a loop to after it."""
    table, options = FREQS[freqs](RotaryPositionEmbedding(head_dim))
    options = options | {"cu_seqlens": CU_SEQLENS}
    code = compile_call("sm_90", rope_fw, bf16(S, 32, head_dim), table, "thd", **options)
    order = [operation.opcode for operation in operations(code, "sass")]
    before = order[: next(i for i, name in enumerate(order) if name.startswith("BRA"))]
    wide = [name for name in before if name.startswith(("LDG.E.64", "LDG.E.128"))]
    both_members = 2 if code.kernel == "whole_rows_kernel" else 1
    assert len(wide) == both_members * sum(code.stores.values()), code
    assert code.spilled == 0, code


@pytest.mark.parametrize("head_dim", (80, 96, 160))
@pytest.mark.parametrize("tensor_format", ("sbhd", "bshd", "bhsd", "thd"))
def test_pairs_side_by_side_are_read_and_written_16_bytes_at_a_time(tensor_format, head_dim):
    shape = {"sbhd": (S, B, 32), "bshd": (B, S, 32), "bhsd": (B, 32, S), "thd": (S, 32)}
    options = {"cu_seqlens": CU_SEQLENS} if tensor_format == "thd" else {}
    t, rope = bf16(*shape[tensor_format], head_dim), RotaryPositionEmbedding(head_dim)
    plan, _ = plan_of(rope_fw, t, rope, tensor_format, **options)
    packed_or_over_positions = {80: ("thd",), 96: ("bhsd",)}
    side_by_side = tensor_format in packed_or_over_positions.get(head_dim, shape)
    several = plan.constants["tile"].side_by_side > 1
    assert (several and plan.kernel == "rope_kernel") == side_by_side
    if side_by_side:
        code = compile_call("sm_90", rope_fw, t, rope, tensor_format, **options)
        assert set(code.stores) == {16} and code.loads[16] >= sum(code.stores.values()), code
        assert code.spilled == 0, code


def on_meta(*shape):
    return torch.empty(shape, dtype=torch.bfloat16, device="meta")


def a_cache_and_few_tokens():
    q, k, v, ids = on_meta(S, 32, D), on_meta(S, H, D), on_meta(S, H, D), on_meta(S).long()
    caches = on_meta(2**17, 16, H, D), on_meta(2**17, 16, H, D)  # 4 GiB each
    rope = RotaryPositionEmbedding(D).to("meta")
    given = q, k, v, rope, *caches, ids
    return plan_for(Engine.AMD, rope_to_cache, *given, position_ids=ids)


def a_long_q_and_k():
    q, k = on_meta(2**18, 1, 64, D), on_meta(2**18, 1, H, D)
    return plan_for(Engine.AMD, rope_qk, q, k, RotaryPositionEmbedding(D).to("meta"))


@pytest.mark.parametrize("plan_and_tensors", (a_cache_and_few_tokens, a_long_q_and_k))
def test_amd_compiles_where_only_some_tensors_are_above_2_gib(plan_and_tensors, monkeypatch):
    """Triton's compiler for AMD can't, if it knows. So a launch there doesn't tell it."""
    plan, tensors = plan_and_tensors()
    assert min(compile_plan("gfx942", plan, tensors).stores) == 16
    known = pytest.importorskip("triton.backends.amd.compiler").HIPBackend.is_within_2gb
    told = []

    def kernel(*given, **_):
        told.append({known(x) for x in given[: len(tensors)] if x is not None})

    monkeypatch.setattr(launch, "kernel_of", lambda plan: {(plan.programs,): kernel})
    launch.run(plan, tensors)
    monkeypatch.setattr(torch.version, "hip", "7.2")
    launch.run(plan, tensors)
    assert told == [{True, False}, {False}]
