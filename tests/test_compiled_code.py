"""What the compiler makes of the kernel for an H200 (sm_90) and an A100 (sm_80); needs no GPU.

A launch is planned and compiled ahead of time. Wide loads and no spills are what the
kernel's speed rests on, and both are lost without a word: a stride of 1 where there should have
been none made packed tensors load 2 bytes at a time.
"""

import pytest
import torch

from rope_kernels import RotaryPositionEmbedding, rope_fw, rope_qk
from rope_lab.compiler.compile import compile_call
from rope_lab.compiler.stages import opcodes, operations

pytest.importorskip("triton", reason="needs Triton")

S, B, H, D = 64, 2, 8, 128


def bf16(*shape):
    return torch.randn(shape, dtype=torch.bfloat16)


ROPE = RotaryPositionEmbedding(D)
INTERLEAVED = RotaryPositionEmbedding(D, interleaved=True)
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
    "half rotary, new": (rope_fw, (bf16(S, B, H, D), HALF_ROTARY), {}),
    "half rotary, in place": (rope_fw, (bf16(S, B, H, D), HALF_ROTARY), {"inplace": True}),
    "d = 80": (rope_fw, (bf16(S, B, 40, 80), RotaryPositionEmbedding(80)), {}),
}


def compiled(name, gpu="sm_90"):
    function, arguments, options = CALLS[name]
    return compile_call(gpu, function, *arguments, **options)


each_call = pytest.mark.parametrize("name", CALLS)
# Of 16-bit tensors. ptxas holds a packed call to 96 registers, with room for 20 programs, and for
# that stores up to 10 of a thread's registers while it searches.
SPILLED = {"packed": 104}
# registers, programs at a time and instructions, where they are not (64, 32, 700)
LARGER = {"packed": (96, 20, 1000), "table": (72, 28, 700), "d = 80": (112, 16, 1300)}


@each_call
def test_rows_are_read_and_written_16_bytes_at_a_time(name):
    code = compiled(name)
    assert set(code.stores) == {16}, code.stores
    assert code.loads[16] >= sum(code.stores.values()), code.loads  # tables: as they come
    assert code.spilled <= SPILLED.get(name, 0), code


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


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_other_tensors_take_the_exact_sine(dtype):
    """And the tests above can fail."""
    exact = dtype == torch.float32
    code = compile_call("sm_90", rope_fw, torch.randn(S, B, H, D, dtype=dtype), ROPE(S))
    assert ("0f47CE4780" in code.stages["ptx"]) == exact
    assert bool(opcodes(code, "sass", keep="^BRA")) == (code.stack > 0) == exact
    assert code.spilled == 0 and set(code.stores) == {16}, code


@pytest.mark.parametrize("name", ("table", "on the fly", "packed"))
def test_exact_sines_spill_next_to_nothing_and_are_written_wide(name):
    function, (t, *arguments), options = CALLS[name]
    code = compile_call("sm_90", function, t.float(), *arguments, **options)
    assert set(code.stores) == {16}, code.stores
    assert code.spilled <= 16, code
