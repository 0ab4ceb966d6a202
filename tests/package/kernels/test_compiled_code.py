"""What the compiler makes of calls, by instruction. Needs no GPU; the calls are as `launches` says.

Wide accesses, full threads and no spills are what speed rests on, and all are lost silently: a
stride of 1 where there should have been none made packed tensors load 2 bytes at a time.
We measured on an H200 and an H100 alone, both sm_90.
"""

import os
import re
from functools import cache
from typing import NamedTuple

import pytest
import torch

import pairwise
from pairwise import slow_but
from rope_kernels import RotaryPositionEmbedding, rope_bw, rope_fw, rope_qk
from rope_kernels.norms import norm_rope, qk_norm_rope
from rope_kernels.serving import rope_to_cache, split_qkv_rope
from rope_lab.compiler.plans import plans_of
from rope_lab.compiler.stages import operations

triton = pytest.importorskip("triton", reason="needs Triton")
pytestmark = pytest.mark.needs_compiler

# The Triton of these numbers, with the ptxas in it: others lay out threads in other ways.
OF_THE_SAME_TRITON = triton.__version__ == "3.7.1" and "TRITON_PTXAS_PATH" not in os.environ
SLOW_SINE = "0f47CE4780"  # 105 615
S, B, H, D = 64, 2, 8, 128
IDS = torch.zeros(B, S, dtype=torch.int64)
PACKED = {"cu_seqlens": torch.tensor([0, 10, S])}
OF_A_RANK = {"cu_seqlens": torch.tensor([0, 20, 2 * S]), "cp_size": 2, "cp_rank": 1}
PAIRS_OF = {"interleaved": True}


def bf16(*shape):
    return torch.empty(shape, dtype=torch.bfloat16)


def trained(*tensors):
    return [x.requires_grad_() for x in tensors]


def on_the_fly(d, **options):
    return RotaryPositionEmbedding(d, **options)


def table(d):
    return on_the_fly(d)(S)


def per_pair(d):
    return table(d)[..., : d // 2].contiguous()


def cos_sin(d):
    return on_the_fly(d).cos_sin(S + 1)  # more rows than packed tokens, so by position


def rotated(d, freqs, heads=H, tensor_format="sbhd", function=rope_fw, b=B, **options):
    """A call of one tensor that turns as far as there are angles."""
    sizes = {"s": S, "b": b, "t": S, "h": heads, "d": d}
    if tensor_format == "thd":
        options = PACKED | options
    shape = [sizes[letter] for letter in tensor_format]
    return function, (bf16(*shape), freqs, tensor_format), options


def normalized(d, freqs, tensor_format, **options):
    function, (t, *rest), options = rotated(d, freqs, H, tensor_format, norm_rope, **options)
    return function, (t, bf16(d), *rest), options


def q_and_k(heads, freqs, tensor_format="sbhd", **options):
    _, (q, *rest), options = rotated(D, freqs, heads[0], tensor_format, **options)
    _, (k, *_), _ = rotated(D, freqs, heads[1], tensor_format)
    return rope_qk, (q, k, *rest), options


def norm_with_backward(d, shape=(S, B), k_heads=2, tensor_format="sbhd"):
    q, k, *weights = trained(bf16(*shape, H, d), bf16(*shape, k_heads, d), bf16(d), bf16(d))
    return qk_norm_rope, (q, k, *weights, on_the_fly(d), tensor_format), {}


def of_a_packed_qkv(d, tensor_format, freqs, heads=11, **options):
    """Strides of q are no multiples of 16 elements: Triton alone would not see the alignment."""
    function, (qkv, *rest), options = rotated(d, freqs, 3 * heads, tensor_format, **options)
    return function, (qkv.narrow(tensor_format.index("h"), heads, heads), *rest), options


def long_rows(d, dtype=torch.bfloat16, **options):
    """Of other rows' memory, one of them a whole tile: a pointer is a scalar to the compiler."""
    t = torch.empty(S, B, H, 2 * d, dtype=dtype)[..., :d]
    return rope_fw, (t, per_pair(d)), {"rotary_dim": d} | options


def into_a_cache():
    q, k, v, cache = bf16(S, H, D), bf16(S, 2, D), bf16(S, 2, D), bf16(2, 8, 16, 2, D)
    return rope_to_cache, (q, k, v, on_the_fly(D), *cache, IDS[0]), {"position_ids": IDS[0]}


def out_of_a_projection():
    (qkv,) = trained(bf16(S, B, (H + 4) * D))
    formats = {"tensor_format": "sbhd", "output_format": "bhsd"}
    return split_qkv_rope, (qkv, on_the_fly(D), H, 2), formats


class Code(NamedTuple):
    """What is asked of the code of a call's first launch. Bytes are those of one access."""

    programs: int = 32  # that an SM holds at a time, at least
    sines: int = 8  # a thread evaluates, at most
    filled: float = 1.0  # share of what its programs can store that is stored, at least
    stores: tuple[int, ...] = (16,)
    loads: int = 2  # at least
    instructions: int = 640  # of PTX, at most
    branches: int = 1  # with stores, of which a program takes one


HALF = {"rotary_dim": 64}
CALLS = {
    # rows of 256 bytes
    "table": (rotated(D, table(D)), Code(20, 4, loads=8, instructions=510)),
    "table, backward": (rotated(D, table(D), function=rope_bw), Code(20, 4, loads=8)),
    "cosines and sines": (rotated(D, cos_sin(D), rotary_dim=D), Code(28, 0, loads=8)),
    "on the fly": (rotated(D, on_the_fly(D)), Code(loads=8)),
    "cosines and sines of bf16": (
        rotated(D, on_the_fly(D).cos_sin(S, torch.bfloat16), 32, rotary_dim=D),
        Code(32, 0, loads=8),
    ),
    "interleaved": (rotated(D, on_the_fly(D, **PAIRS_OF), **PAIRS_OF), Code(32, 4, loads=8)),
    "interleaved to halves": (
        rotated(D, on_the_fly(D, **PAIRS_OF), output_pairing="half", **PAIRS_OF),
        Code(32, 4, loads=8),
    ),
    "packed sequences": (rotated(D, on_the_fly(D), 8, "thd"), Code(32, 2, loads=8)),
    "packed sequences of a rank": (
        q_and_k((8, 1), on_the_fly(D), "thd", **OF_A_RANK),
        Code(32, 2, 0.55, loads=8),
    ),
    "position ids": (
        q_and_k((8, 1), on_the_fly(D), "bshd", position_ids=IDS),
        Code(32, 16, 0.75, loads=8),
    ),
    "position ids of a table": (
        rotated(D, table(D), 32, "bshd", position_ids=IDS),
        Code(16, 4, loads=8),
    ),
    "one entry, one head": (rotated(D, on_the_fly(D), 1), Code(32, 16, loads=8)),
    "a slice of a packed qkv": (
        of_a_packed_qkv(D, "bhsd", on_the_fly(D), H, inplace=True),
        Code(32, 16, loads=8),
    ),
    # a part of the rows turns; 2: half of each row is not written
    "half of a row": (rotated(D, on_the_fly(64)), Code(32, 1, loads=4, instructions=230)),
    "half of a row, in place": (rotated(D, on_the_fly(64), inplace=True), Code(32, 1, 2, loads=4)),
    "half in the middle": (rotated(D, on_the_fly(64), rotary_start=32), Code(32, 1, loads=4)),
    "half at the end": (
        rotated(192, per_pair(64), rotary_start=128, inverse=True, **HALF),
        Code(32, 1, stores=(8, 16), loads=4),
    ),
    # rows whose halves are worse aligned than they are
    "72": (rotated(72, table(72), 32), Code(14, 4, 0.75, loads=8)),
    "72, in place": (rotated(72, on_the_fly(72), 32, inplace=True), Code(14, 4, 0.75, loads=8)),
    "72, one entry": (rotated(72, table(72), 32, b=1), Code(14, 8, 0.9, loads=8)),
    "80": (rotated(80, per_pair(80), 32, rotary_dim=80), Code(14, 4, 0.83, loads=16)),
    "80, position ids of a table": (
        rotated(80, table(80), 32, "bshd", position_ids=IDS),
        Code(14, 4, 0.9, loads=8),
    ),
    "80, position ids": (
        rotated(80, on_the_fly(80), 32, "bshd", position_ids=IDS),
        Code(14, 8, 0.9, loads=8),
    ),
    "88": (rotated(88, on_the_fly(88), 32), Code(16, 8, 0.68, loads=8, instructions=980)),
    "100": (rotated(100, on_the_fly(100), 32), Code(14, 2, 0.78, (8,), 4)),
    "100, in place": (rotated(100, table(100), 32, inplace=True), Code(14, 2, 0.78, (8,), 4)),
    "100, packed sequences": (
        rotated(100, on_the_fly(100), 32, "thd"),
        Code(32, 4, 0.78, (8,), 4, instructions=750),
    ),
    "120": (rotated(120, cos_sin(120), 32, rotary_dim=120), Code(14, 0, 0.93, loads=8)),
    "120 of a packed qkv": (
        of_a_packed_qkv(120, "bhsd", on_the_fly(120), inplace=True),
        Code(14, 8, 0.85, loads=8, instructions=710),
    ),
    "60 angles a row": (rotated(D, torch.empty(S, 1, 1, 60), rotary_dim=120), Code(14, 4, loads=8)),
    "72, interleaved": (
        rotated(72, on_the_fly(72, **PAIRS_OF), 32, **PAIRS_OF),
        Code(28, 4, 0.56, loads=8),
    ),
    "80, packed sequences": (
        rotated(80, on_the_fly(80), 32, "thd"),
        Code(28, 8, 0.83, loads=8, instructions=810),
    ),
    "80, heads apart": (rotated(80, on_the_fly(80), 32, "bhsd"), Code(14, 8, 0.9, loads=16)),
    # padding fills a quarter of the registers or more
    "96, heads apart": (rotated(96, on_the_fly(96), 32, "bhsd"), Code(18, 16, 0.75, loads=8)),
    "160": (rotated(160, on_the_fly(160), 32), Code(18, 8, 0.62, loads=16)),
    "160, packed sequences": (
        rotated(160, on_the_fly(160), 32, "thd"),
        Code(18, 8, 0.62, loads=8),
    ),
    # few heads, as tensor parallelism leaves a rank
    "8 heads and 1": (q_and_k((8, 1), on_the_fly(D)), Code(32, 16, loads=8)),
    "8 heads and 1, packed": (q_and_k((8, 1), on_the_fly(D), "thd"), Code(32, 16, 0.9, loads=8)),
    "9 heads and 3, apart": (q_and_k((9, 3), on_the_fly(D), "bhsd"), Code(32, 16, loads=8)),
    "3 heads of each entry": (rotated(D, table(D), 3, b=8), Code(28, 4, loads=8)),
    # long rows; in fp64 a tile that forgets its tail spills 18 KB
    "2046": (long_rows(2046, inplace=True), Code(6, 32, 0.99, (4,), instructions=1300)),
    "600 of fp32": (long_rows(600, torch.float32), Code(2, 0, 0.58, loads=16, instructions=3700)),
    "1152 of fp64": (
        (rope_fw, (torch.empty(S, B, 32, 1152, dtype=torch.float64), on_the_fly(1152)), {}),
        Code(2, 0, 0.56, loads=16, instructions=1420),
    ),
    # norms: registers are limited where that gains programs and spills nothing
    "norm": (normalized(D, cos_sin(D), "sbhd", rotary_dim=D), Code(28, 0)),
    "norm, heads apart": (
        normalized(D, cos_sin(D), "bhsd", rotary_dim=D),
        Code(16, 0, instructions=1000),
    ),
    "norm on the fly, heads apart": (
        normalized(D, on_the_fly(D), "bhsd"),
        Code(12, 8, instructions=1000),
    ),
    "norm of 256, heads apart": (
        normalized(256, on_the_fly(256), "bhsd"),
        Code(14, 32, instructions=1200),
    ),
    "norm of 64, heads apart": (
        normalized(64, cos_sin(64), "bhsd", rotary_dim=64),
        Code(20, 0),  # weights come 2 bytes at a time, a pair for each thread
    ),
    "norm of 256 with a table, heads apart": (
        normalized(256, cos_sin(256), "bhsd", rotary_dim=256),
        Code(16, 0, loads=8, instructions=1100),
    ),
    "norm of packed sequences": (
        normalized(D, cos_sin(D), "thd", rotary_dim=D),
        Code(16, 0, instructions=1100),
    ),
    "norm on the fly, packed": (
        normalized(D, on_the_fly(D), "thd"),
        Code(16, 16, instructions=1150),
    ),
    "norm of 80, packed": (
        normalized(80, cos_sin(80), "thd", rotary_dim=80),
        Code(16, 0, 0.62, instructions=1050),
    ),
    "into a cache": (into_a_cache(), Code(32, 16, 0.33, loads=8, branches=2)),
    "out of a projection": (out_of_a_projection(), Code(32, 16, 0.99, loads=8, branches=2)),
}


@cache
def compiled(name, gpu="sm_90"):
    """The first launch of a call, and its code."""
    function, arguments, options = CALLS[name][0]
    plan = plans_of(function, *arguments, gpu=gpu, **options)[0]
    return plan, plan.compiled()


@pytest.mark.parametrize("name", CALLS)
def test_accesses_are_wide_threads_are_full_and_programs_small(name):
    """An exact sine, which 16 bits don't need, has a slow branch from 105 615 on."""
    (function, arguments, _), least = CALLS[name]
    plan, code = compiled(name)
    assert tuple(code.stores) == least.stores, code
    # A thread that reduces one frequency loads 4 bytes.
    wide = [width for width, count in code.loads.items() if (width, count) != (4, 1)]
    assert min(wide) >= least.loads and max(wide) <= 16, code
    stored = sum(width * count for width, count in code.stores.items()) / least.branches
    loaded = sum(x * count for x, count in code.loads.items() if x >= least.stores[0])
    assert loaded >= stored, code  # tables: as they come
    ptx = code.stages["ptx"]
    assert SLOW_SINE not in ptx or arguments[0].dtype == torch.float32
    rows = sum(t.nbytes for t in arguments[: 2 if function is rope_qk else 1])
    filled = rows / (stored * plan.threads * plan.programs)
    assert filled >= least.filled, filled
    if not OF_THE_SAME_TRITON:
        return
    assert code.spilled == 0, code
    assert ptx.count("sin.approx") <= least.sines, ptx.count("sin.approx")
    assert code.programs_at_a_time >= least.programs, code
    assert len(operations(code, "ptx")) <= least.instructions, len(operations(code, "ptx"))


@pytest.mark.parametrize(("d", "shift"), ((128, 8), (128, 2), (120, 8)))
def test_rows_at_other_addresses_are_read_as_wide_as_these_allow(d, shift):
    """And no wider: their memory begins so many bytes after an address that 16 divides."""
    t = bf16(S * B * H * d + 8)[shift // 2 :][: S * B * H * d].view(S, B, H, d)
    (plan,) = plans_of(rope_fw, t, on_the_fly(d))
    code = plan.compiled()
    assert set(code.stores) == {16} and code.loads.get(16, 0) <= 2, code  # frequencies
    assert code.loads[shift] * shift >= code.stores[16] * 16, code


# other GPUs: a thread's registers, and a program's bytes of shared memory, at most


ELSEWHERE = {
    ("table", "sm_80"): (111, 256),
    ("packed sequences", "sm_100"): (64, 256),
    ("80", "sm_120"): (74, 1024),
    ("on the fly", "gfx942"): (43, 256),
    ("norm, heads apart", "gfx942"): (72, 4096),
    ("into a cache", "sm_100"): (64, 512),
    ("out of a projection", "gfx942"): (74, 2048),
}


@pytest.mark.parametrize(("name", "gpu"), ELSEWHERE)
def test_a_call_compiles_well_for_a_gpu_that_we_have_not_measured(name, gpu):
    """NVIDIA's fast sine and limit of registers are none of AMD's: they would not compile."""
    _, code = compiled(name, gpu)
    assert set(code.stores) == {16} and max(code.loads) == 16, code
    if OF_THE_SAME_TRITON:
        registers, shared = ELSEWHERE[name, gpu]
        assert code.spilled == 0 and code.registers <= registers and code.shared <= shared, code


# GPUs that have no record: T4, A100, A10 and RTX 30, L4 and RTX 40, B200, RTX 50
OTHERS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_100", "sm_120")
OF_EACH_KERNEL = (
    *("table", "table, backward", "interleaved", "packed sequences of a rank"),
    *("72, in place", "80, packed sequences", "600 of fp32", "norm, heads apart"),
    *("norm of 80, packed", "into a cache", "out of a projection"),
)
if pairwise.EVERY:
    TRIED = [(name, gpu) for gpu in OTHERS for name in CALLS]
else:
    TRIED = [(name, "sm_75") for name in OF_EACH_KERNEL]


@pytest.mark.parametrize(("name", "gpu"), TRIED)
def test_a_call_compiles_for_every_gpu_from_sm_75_on(name, gpu):
    """With accesses as wide as on sm_90. sm_75 rounds to bf16 by several instructions."""
    _, code = compiled(name, gpu)
    assert tuple(code.stores) == CALLS[name][1].stores, code
    assert max(code.loads) <= 16, code
    if OF_THE_SAME_TRITON:
        assert code.spilled == 0, code


# Of a norm's backward, whose registers are limited as is best for sm_90: bytes a thread, at most.
# Rows of 64 spill on sm_90, too, and are faster than without (benchmarks/NOTES.md).
SPILLED = {
    ("sm_75", 64): 176,
    ("sm_80", 64): 188,
    ("sm_86", 64): 184,
    ("sm_89", 64): 184,
    ("sm_90", 64): 240,
    ("sm_100", 64): 272,
    ("sm_120", 64): 216,
    ("sm_75", 80): 8,
    ("sm_80", 80): 16,
    ("sm_86", 80): 32,
    ("sm_89", 80): 32,
    ("sm_120", 80): 24,
    ("sm_120", D): 8,
}


@pytest.mark.parametrize("gpu", slow_but((*OTHERS, "sm_90"), "sm_75"))
@pytest.mark.parametrize("d", (D, 80, 64))
def test_a_norms_backward_compiles_for_every_gpu_from_sm_75_on(d, gpu):
    function, arguments, options = norm_with_backward(d)
    for plan in plans_of(function, *arguments, gpu=gpu, **options):
        code = plan.compiled()
        assert code.spilled <= SPILLED.get((gpu, d), 0) or not OF_THE_SAME_TRITON, code


@pytest.mark.parametrize(("d", "programs"), ((D, 12), (80, 8)))
def test_a_norms_backward_compiles_well(d, programs):
    """In programs of one warp, which fill an SM once; their shares are added up after it."""
    function, arguments, options = norm_with_backward(d)
    _, *backward = plans_of(function, *arguments, **options)
    assert backward[0].threads == 32
    rows, shares = [plan.compiled() for plan in backward]
    assert rows.stores[16] == 4 and rows.loads[16] >= 8 and shares.loads == {16: 2}
    if OF_THE_SAME_TRITON:
        assert rows.spilled == shares.spilled == 0
        assert rows.programs_at_a_time >= programs and shares.programs_at_a_time >= 8


@pytest.mark.parametrize("d", (64, D, 256))
def test_a_norms_backward_with_one_head_of_k_spills_nothing(d):
    """A tile has a row of each of several positions, so a thread holds more angles than usual."""
    function, arguments, options = norm_with_backward(
        d, shape=(B, S), k_heads=1, tensor_format="bshd"
    )
    _, rows, _ = plans_of(function, *arguments, **options)
    code = rows.compiled()
    assert code.programs_at_a_time >= 8, code
    assert code.spilled == 0 or not OF_THE_SAME_TRITON, code


def test_a_token_that_is_decoded_waits_for_one_division():
    """Of its program's number. `benchmarks/NOTES.md` has what another one cost."""
    t, ids = bf16(S, H, D), torch.zeros(S, dtype=torch.int64)
    (plan,) = plans_of(rope_qk, t, t[:, :2], on_the_fly(D), "thd", position_ids=ids)
    code = plan.compiled()
    assert [operation.opcode for operation in operations(code, "sass")].count("I2F.RP") == 1, code


@pytest.mark.parametrize("tensor_format", slow_but(("bhsd", "bshd", "sbhd", "thd"), "bshd", "thd"))
def test_a_norms_backward_finds_its_next_tile_by_one_division(tensor_format):
    """Where no table asks for stretches, and there is one batch entry.

    Its first tile takes another one, before the loop; the compiler may share a reciprocal.
    """
    function, (t, weight, *rest), options = normalized(D, on_the_fly(D), tensor_format, b=1)
    _, backward, _ = plans_of(function, *trained(t, weight), *rest, **options)
    code = backward.compiled()
    in_all, in_the_loop = [
        sum("I2F.RP" in line for line in lines)
        for lines in (code.sass.splitlines(), longest_loop(code))
    ]
    assert in_the_loop <= 1 and in_all - in_the_loop <= 1 <= in_all, code


def longest_loop(code):
    """The lines of machine code that are repeated: from a label to the last jump back to it."""
    lines, labels, longest = code.sass.splitlines(), {}, []
    for number, line in enumerate(lines):
        if found := re.match(r"\s*(\.L_\w+):", line):
            labels[found[1]] = number
        elif found := re.search(r"\bBRA `\((\.L_\w+)\)", line):
            loop = lines[labels.get(found[1], number) : number]
            longest = max(longest, loop, key=len)
    return longest


def test_the_other_way_out_of_a_projection_compiles_well():
    function, arguments, options = out_of_a_projection()
    code = plans_of(function, *arguments, **options)[1].compiled()
    assert set(code.stores) == {16} and set(code.loads) == {8, 16}, code  # frequencies
    assert code.spilled == 0 and code.programs_at_a_time >= 24, code


# the order of instructions


def opcodes_in_order(code):
    return [operation.opcode for operation in operations(code, "sass")]


@pytest.mark.parametrize("name", ("table", "table, backward", "table of fp32"))
def test_all_angles_are_requested_before_the_first_sine(name):
    """With a load after a sine, a program waits for memory twice."""
    exact = name == "table of fp32"
    if exact:
        function, (t, *rest), options = CALLS["table"][0]
        (plan,) = plans_of(function, t.float(), *rest, **options)
        code = plan.compiled()
        assert code.spilled == 0 and set(code.stores) == {16}, code
        assert SLOW_SINE in code.stages["ptx"]
    else:
        _, code = compiled(name)
    order = opcodes_in_order(code)
    # an exact sine begins with a branch, and loads a table of its own for large angles
    begins = "BRA" if exact else "MUFU.SIN"
    first_sine = next(i for i, opcode in enumerate(order) if opcode.startswith(begins))
    loads = [opcode for opcode in order[:first_sine] if opcode.startswith("LDG")]
    of_elements = 4 if exact else 8  # 16 bytes at a time
    assert len(loads) == of_elements + 2, code  # and both angles


@pytest.mark.parametrize(
    "name", ("packed sequences", "160, packed sequences", "norm of packed sequences")
)
def test_packed_elements_are_requested_before_the_search(name):
    """The search is a loop, and the compiler moves loads from before a loop to after it."""
    _, code = compiled(name)
    order = opcodes_in_order(code)
    before = order[: next(i for i, opcode in enumerate(order) if opcode.startswith("BRA"))]
    wide = [opcode for opcode in before if opcode.startswith("LDG.E.128")]
    assert len(wide) >= sum(code.stores.values()), code


INSTRUCTIONS = r"\sld\.global\b", r"\sbar\.sync\b", r"\sst\.global\b"


@pytest.mark.parametrize("name", ("72, in place", "100, in place", "2046"))
def test_in_place_every_load_is_done_before_the_first_store(name):
    """A thread reads what another one overwrites: a barrier is between the two.

    Others are there for cosines, which go through shared memory: in new memory there are as many.
    Of 2046 Triton 3.6 has one more there, so they are not counted.
    """
    function, arguments, options = CALLS[name][0]
    (new,) = plans_of(function, *arguments, **options | {"inplace": False})
    ptx, elsewhere = compiled(name)[1].stages["ptx"], new.compiled().stages["ptx"]
    loads, barriers, stores = [[m.start() for m in re.finditer(x, ptx)] for x in INSTRUCTIONS]
    assert max(loads) < max(barriers) < min(stores)
    if name != "2046":
        assert len(barriers) == len(re.findall(INSTRUCTIONS[1], elsewhere)) + 1


@pytest.mark.parametrize(
    ("tensor_format", "shape", "rotary_dim", "start", "columns", "function"),
    (
        ("sbhd", (5, 2, 3, 100), 70, 28, 70, rope_fw),
        ("sbhd", (16, 2, 18, 88), 32, 50, 16, rope_bw),
        ("thd", (21, 4, 36), 6, 19, 3, rope_bw),
    ),
)
def test_no_element_is_found_by_sums_of_16_bits(
    tensor_format, shape, rotary_dim, start, columns, function
):
    """ptxas 12.8 lost such sums, and elements of these calls turned by NaN; with Triton 3.6.

    Triton 3.7 makes no such sums here. A zero that the compiler cannot see keeps it so.
    """
    options = {"rotary_dim": rotary_dim, "rotary_start": start}
    if tensor_format == "thd":
        options["cu_seqlens"] = torch.tensor([0, 9, 21])
    freqs = torch.empty(S, 1, 1, columns)
    (plan,) = plans_of(function, bf16(*shape), freqs, tensor_format, **options)
    ptx = plan.compiled().stages["ptx"]
    assert "s16x2" not in ptx and "%ctaid.y" in ptx
