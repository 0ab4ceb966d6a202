"""What the compiler makes of the kernel for an H200 (sm_90) and an A100 (sm_80); needs no GPU.

A launch is planned and compiled ahead of time. Wide loads and no spills are what the
kernel's speed rests on, and both are lost without a word: a stride of 1 where there should have
been none made packed tensors load 2 bytes at a time.
"""

import re

import pytest
import torch

from pairwise import each_pair
from rope_kernels import RotaryPositionEmbedding, mrope_axes, rope_bw, rope_fw, rope_qk
from rope_lab.compiler.compile import compile_call
from rope_lab.compiler.plans import plan_of
from rope_lab.compiler.stages import opcodes, operations

pytest.importorskip("triton", reason="needs Triton")

S, B, H, D = 64, 2, 8, 128


def bf16(*shape):
    return torch.randn(shape, dtype=torch.bfloat16)


ROPE = RotaryPositionEmbedding(D)
INTERLEAVED = RotaryPositionEmbedding(D, interleaved=True)
THREE_AXES = RotaryPositionEmbedding(D, axes=mrope_axes([16, 24, 24]))
HALF_ROTARY = RotaryPositionEmbedding(D, 0.5)
CU_SEQLENS = torch.tensor([0, 10, S])
QKV = bf16(B, S, 3 * H, D).transpose(1, 2)  # in bhsd, packed along the heads

CALLS = {  # what is called, its arguments, and its options
    "table": (rope_fw, (bf16(S, B, H, D), ROPE(S)), {}),
    "on the fly": (rope_fw, (bf16(S, B, H, D), ROPE), {}),
    "interleaved": (rope_fw, (bf16(S, B, H, D), INTERLEAVED), {"interleaved": True}),
    "packed": (rope_fw, (bf16(S, H, D), ROPE, "thd"), {"cu_seqlens": CU_SEQLENS}),
    "one entry, one head": (rope_fw, (bf16(S, 1, 1, D), ROPE), {}),
    "q and k, packed qkv, in place": (
        *(rope_qk, (*QKV.split(H, dim=1)[:2], ROPE, "bhsd")),
        {"inplace": True},
    ),
    "q and k, position ids": (
        *(rope_qk, (bf16(B, S, H, D), bf16(B, S, 1, D), ROPE, "bshd")),
        {"position_ids": torch.zeros(B, S).long()},
    ),
    "q and k, three axes": (
        *(rope_qk, (bf16(B, S, H, D), bf16(B, S, 1, D), THREE_AXES, "bshd")),
        {"position_ids": torch.zeros(3, B, S).long()},
    ),
    "half rotary, new": (rope_fw, (bf16(S, B, H, D), HALF_ROTARY), {}),
    "half rotary, in place": (rope_fw, (bf16(S, B, H, D), HALF_ROTARY), {"inplace": True}),
    "half rotary, in the middle": (rope_fw, (bf16(S, B, H, D), HALF_ROTARY), {"rotary_start": 32}),
    "d = 80": (rope_fw, (bf16(S, B, 40, 80), RotaryPositionEmbedding(80)), {}),
}


def compiled(name, gpu="sm_90"):
    function, arguments, options = CALLS[name]
    return compile_call(gpu, function, *arguments, **options)


each_call = pytest.mark.parametrize("name", CALLS)
# Of 16-bit tensors. ptxas holds a packed call to 96 registers, with room for 20 programs, and for
# that stores up to 10 of a thread's registers while it searches.
# registers, programs at a time and instructions, where they are not (64, 32, 700)
LARGER = {"packed": (64, 32, 1000), "table": (96, 20, 700), "d = 80": (72, 14, 700)}


@each_call
def test_rows_are_read_and_written_16_bytes_at_a_time(name):
    code = compiled(name)
    assert set(code.stores) == {16}, code.stores
    assert code.loads[16] >= sum(code.stores.values()), code.loads  # tables: as they come
    assert code.spilled == 0, code


# head dimension -> bytes of a row's loads and stores; of the loads of the other members of pairs
WHOLE_ROWS = {72: (16, 8), 80: (16, 16), 88: (16, 8), 100: (8, 4), 112: (16, 16), 120: (16, 8)}
FREQS = {  # of a module: the table, and its options
    "table": lambda rope: (rope(S), {}),
    "on the fly": lambda rope: (rope, {}),
    "one per pair": lambda rope: (rope.angles_per_pair(S), {"rotary_dim": rope.rotary_dim}),
    "cos and sin": lambda rope: (rope.cos_sin_per_pair(S), {"rotary_dim": rope.rotary_dim}),
}


def whole_rows_code(head_dim, freqs, t=None, **more):
    table, options = FREQS[freqs](RotaryPositionEmbedding(head_dim))
    t = bf16(S, B, H, head_dim) if t is None else t
    code = compile_call("sm_90", rope_fw, t, table, **options, **more)
    assert code.kernel == "whole_rows_kernel"
    return code


@each_pair
@pytest.mark.parametrize("inplace", (False, True), ids=("new", "in place"))
@pytest.mark.parametrize("freqs", FREQS)
@pytest.mark.parametrize("head_dim", WHOLE_ROWS)
def test_whole_rows_are_read_and_written_as_wide_as_they_allow(head_dim, freqs, inplace):
    code = whole_rows_code(head_dim, freqs, inplace=inplace)
    row, other = WHOLE_ROWS[head_dim]
    assert set(code.stores) == {row}, code.stores
    assert code.loads[row] >= code.stores[row] and min(code.loads) == other, code.loads
    assert code.loads[other] >= code.stores[row] * row // other
    assert code.spilled == 0, code


@pytest.mark.parametrize("head_dim", WHOLE_ROWS)
def test_no_two_warps_evaluate_the_same_sine(head_dim):
    """A block of 256 columns, two warps: 4 sines a thread. One warp on the fly: 8 at most."""
    for freqs in ("table", "one per pair", "on the fly"):
        code = whole_rows_code(head_dim, freqs, bf16(S, 2, 32, head_dim))
        threads = 32 if freqs == "on the fly" and head_dim == 88 else 64
        columns = 128 if head_dim == 100 else 256
        sines = opcodes(code, "sass", keep="^MUFU.SIN")
        assert 0 < sum(sines.values()) <= columns // threads, code
        assert code.registers <= (72 if threads == 64 else 128) and code.spilled == 0, code


@pytest.mark.parametrize("tensor_format", ("sbhd", "bshd", "bhsd"))
def test_whole_rows_of_a_packed_qkv_are_wide_too(tensor_format):
    """Their strides are no multiples of 16 elements: the plan says what Triton cannot see."""
    qkv = bf16(S, S, 3 * 11, 120)  # as a batch, a sequence or heads
    t = qkv.narrow(tensor_format.index("h"), 11, 11)
    code = whole_rows_code(120, "one per pair", t, tensor_format=tensor_format, inplace=True)
    assert set(code.stores) == {16} and min(code.loads) == 8, code


MIDDLE = (  # sizes, rotary dimension, first element, columns of the table per pair, dtype
    ("sbhd", (5, 2, 3, 100), 70, 28, 2, torch.bfloat16),
    ("sbhd", (16, 2, 18, 88), 32, 50, 1, torch.bfloat16),
    ("bhsd", (2, 31, 39, 88), 54, 31, 1, torch.float32),
    ("thd", (21, 4, 36), 6, 19, 1, torch.float16),
)


@pytest.mark.parametrize("function", (rope_fw, rope_bw))
@pytest.mark.parametrize("case", MIDDLE, ids=str)
def test_no_element_is_found_by_sums_of_16_bits(case, function):
    """ptxas 12.8 lost such sums, and elements of these calls turned by NaN; with Triton 3.6.

    Triton 3.7 makes no such sums here. A zero that the compiler cannot see keeps it so.
    """
    tensor_format, shape, rotary_dim, start, per_pair, dtype = case
    t, freqs = torch.randn(shape, dtype=dtype), torch.randn(64, 1, 1, rotary_dim // 2 * per_pair)
    options = {"rotary_dim": rotary_dim, "rotary_start": start}
    if tensor_format == "thd":
        options["cu_seqlens"] = torch.tensor([0, 9, 21])
    code = compile_call("sm_90", function, t, freqs, tensor_format, **options)
    assert code.kernel == "whole_rows_kernel"
    assert "s16x2" not in code.stages["ptx"] and "%ctaid.y" in code.stages["ptx"], code


def test_a_row_at_an_odd_address_is_not_read_wide_either():
    t = bf16(S * B * H * 120 + 4)[4:].view(S, B, H, 120)
    code = whole_rows_code(120, "one per pair", t)
    assert set(code.stores) == {16} and code.loads[8] == 4 * code.stores[16], code.loads


@pytest.mark.parametrize("freqs", FREQS)
@pytest.mark.parametrize("head_dim", (20, 72, 120, 2044))  # rows of 2044 take one or two warps
def test_in_place_every_load_is_done_before_the_first_store(head_dim, freqs):
    """A thread reads what another one overwrites: a barrier is between the two."""
    ptx = whole_rows_code(head_dim, freqs, inplace=True).stages["ptx"]
    assert barrier_between(ptx)
    assert not barrier_between(ptx.replace("bar.sync", "nop"))
    if head_dim != 20:  # cosines go through shared memory, which has barriers of its own
        elsewhere = whole_rows_code(head_dim, freqs).stages["ptx"]
        assert ptx.count("bar.sync") == elsewhere.count("bar.sync") + 1


@each_pair
@pytest.mark.parametrize("inplace", (False, True), ids=("new", "in place"))
@pytest.mark.parametrize("interleaved", (False, True), ids=("halves", "interleaved"))
@pytest.mark.parametrize(("head_dim", "width"), ((2044, 8), (600, 16), (2046, 4)))
def test_one_row_may_be_a_whole_tile(head_dim, width, interleaved, inplace):
    """Its pointers are a scalar to the compiler, which once crashed on what it was told of them."""
    t, rope = bf16(S, B, H, 2 * head_dim)[..., :head_dim], RotaryPositionEmbedding(head_dim)
    if head_dim == 600:
        t = t.float()
    options = {"rotary_dim": head_dim, "interleaved": interleaved, "inplace": inplace}
    code = compile_call("sm_90", rope_fw, t, rope.angles_per_pair(S), **options)
    assert set(code.stores) == {width} and code.loads[width] >= code.stores[width], code


def barrier_between(ptx):
    """Whether all loads from global memory come before a last barrier, and all stores after it."""
    places = {name: [m.start() for m in re.finditer(rf"{name}\b", ptx)] for name in INSTRUCTIONS}
    loads, barriers, stores = places.values()
    return bool(barriers) and max(loads) < max(barriers) < min(stores)


INSTRUCTIONS = r"\sld\.global", r"\sbar\.sync", r"\sst\.global"


def test_an_older_gpu_too():
    code = compiled("on the fly", "sm_80")
    assert set(code.stores) == {16} and code.spilled == 0, code


def test_a_tensor_at_an_odd_address_is_not_read_wide():
    """Else the GPU would stop with an error; the output is new, and written wide all the same."""
    t = bf16(S * B * H * D + 1)[1:].view(S, B, H, D)
    code = compile_call("sm_90", rope_fw, t, ROPE)
    assert set(code.stores) == {16}, code.stores
    assert code.loads[2] == 8 * code.stores[16], code.loads


@each_call
def test_16_bit_tensors_take_the_fast_sine_and_have_no_slow_branch(name):
    """The slow branch of an exact sine compares with 105 615, jumps, and has an array in memory."""
    code = compiled(name)
    assert opcodes(code, "sass", keep="^MUFU.(SIN|COS)"), code
    assert "0f47CE4780" not in code.stages["ptx"]
    jumps = opcodes(code, "sass", keep="^(BRA|CALL|BSSY)")
    assert jumps == ({"BRA": 2} if name == "packed" else {}), jumps  # the loop of the search
    if name != "packed":
        assert code.stack == 0, code


@each_call
def test_16_bit_programs_are_small_enough_for_many(name):
    code = compiled(name)
    registers, programs, instructions = LARGER.get(name, (64, 32, 700))
    assert code.registers <= registers and code.programs_at_a_time >= programs, code
    assert len(operations(code, "sass")) < instructions


@pytest.mark.parametrize("function", (rope_fw, rope_bw))
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_all_angles_are_requested_before_the_first_sine(dtype, function):
    """With a load after a sine, a program waits for memory twice."""
    t = torch.randn(S, B, H, D, dtype=dtype)
    code = compile_call("sm_90", function, t, ROPE(S))
    order = [operation.opcode for operation in operations(code, "sass")]
    # an exact sine begins with a branch, and loads a table of its own for large angles
    begins = "MUFU.SIN" if dtype == torch.bfloat16 else "BRA"
    first_sine = next(i for i, name in enumerate(order) if name.startswith(begins))
    loads = [name for name in order[:first_sine] if name.startswith("LDG")]
    of_elements = 8 if dtype == torch.bfloat16 else 4  # 16 bytes at a time
    assert len(loads) == of_elements + 2, code  # and both angles


@pytest.mark.parametrize("freqs", ("on the fly", "one per pair"))
@pytest.mark.parametrize("head_dim", (72, 112, 128, 160))
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
    code = compile_call("sm_90", rope_fw, t, rope, tensor_format, **options)
    packed_or_over_positions = {80: ("thd",), 96: ("bhsd",)}
    side_by_side = tensor_format in packed_or_over_positions.get(head_dim, shape)
    several = plan.constants["tile"].side_by_side > 1
    assert (several and code.kernel == "rope_kernel") == side_by_side
    if side_by_side:
        assert set(code.stores) == {16} and code.loads[16] >= sum(code.stores.values()), code
        assert code.spilled == 0, code


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_other_tensors_take_the_exact_sine(dtype):
    """And the tests above can fail."""
    exact = dtype == torch.float32
    code = compile_call("sm_90", rope_fw, torch.randn(S, B, H, D, dtype=dtype), ROPE(S))
    assert ("0f47CE4780" in code.stages["ptx"]) == exact
    assert bool(opcodes(code, "sass", keep="^BRA")) == exact
    assert exact or code.stack == 0  # until Triton 3.8, ptxas keeps a table of the sine's there
    assert code.spilled == 0 and set(code.stores) == {16}, code


@pytest.mark.parametrize("name", ("table", "on the fly", "packed"))
def test_exact_sines_spill_next_to_nothing_and_are_written_wide(name):
    function, (t, *arguments), options = CALLS[name]
    code = compile_call("sm_90", function, t.float(), *arguments, **options)
    assert set(code.stores) == {16}, code.stores
    assert code.spilled <= 16, code
