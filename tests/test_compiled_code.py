"""What the compiler makes of the kernel for an H200 (sm_90) and an A100 (sm_80); needs no GPU.

A launch is caught on its way and compiled ahead of time. Wide loads and no spills are what the
kernel's speed rests on, and both are lost without a word: a stride of 1 where there should have
been none made packed tensors load 2 bytes at a time.
"""

import pytest
import torch

from rope_kernels import RotaryPositionEmbedding, kernels, launch, rope_fw, rope_qk
from rope_kernels.lab.compile import compile_for

pytest.importorskip("triton", reason="needs Triton")

S, B, H, D = 64, 2, 8, 128


@pytest.fixture
def compiled(monkeypatch):
    """A function from a call to what it would launch, compiled."""
    launches = []

    class Catcher:
        def __getitem__(self, grid):
            return lambda *arguments, **constants: launches.append((arguments, constants))

    real = kernels.rope_kernel
    monkeypatch.setattr(kernels, "rope_kernel", Catcher())
    monkeypatch.setattr(launch, "runs_in_triton", lambda t: True)

    def compile_launch(call, gpu="sm_90"):
        with torch.no_grad():
            call()
        ((arguments, constants),) = launches
        return compile_for(gpu, real, *arguments, **constants)

    return compile_launch


def bf16(*shape):
    return torch.randn(shape, dtype=torch.bfloat16)


ROPE = RotaryPositionEmbedding(D)
INTERLEAVED = RotaryPositionEmbedding(D, interleaved=True)
HALF_ROTARY = RotaryPositionEmbedding(D, 0.5)
CU_SEQLENS = torch.tensor([0, 10, S])
QKV = bf16(B, S, 3 * H, D).transpose(1, 2)  # in bhsd, packed along the heads

CALLS = {
    "table": lambda: rope_fw(bf16(S, B, H, D), ROPE(S)),
    "on the fly": lambda: rope_fw(bf16(S, B, H, D), ROPE),
    "interleaved": lambda: rope_fw(bf16(S, B, H, D), INTERLEAVED, interleaved=True),
    "packed": lambda: rope_fw(bf16(S, H, D), ROPE, "thd", cu_seqlens=CU_SEQLENS),
    "one entry, one head": lambda: rope_fw(bf16(S, 1, 1, D), ROPE),
    "q and k, packed qkv, in place": lambda: rope_qk(
        *QKV.split(H, dim=1)[:2], ROPE, "bhsd", inplace=True
    ),
    "q and k, position ids": lambda: rope_qk(
        bf16(B, S, H, D), bf16(B, S, 1, D), ROPE, "bshd", position_ids=torch.zeros(B, S).long()
    ),
    "half rotary, new": lambda: rope_fw(bf16(S, B, H, D), HALF_ROTARY),
    "half rotary, in place": lambda: rope_fw(bf16(S, B, H, D), HALF_ROTARY, inplace=True),
    "d = 80": lambda: rope_fw(bf16(S, B, 40, 80), RotaryPositionEmbedding(80)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_rows_are_read_and_written_16_bytes_at_a_time(call, compiled):
    code = compiled(call)
    assert set(code.stores) == {16}, code.stores
    assert code.loads[16] >= sum(code.stores.values()), code.loads  # tables: as they come
    assert code.spilled <= 16, code  # 8 bytes here and there, round the slow sine


def test_an_older_gpu_too(compiled):
    code = compiled(CALLS["on the fly"], "sm_80")
    assert set(code.stores) == {16} and code.spilled <= 16, code


def test_a_tensor_at_an_odd_address_is_not_read_wide(compiled):
    """Else the GPU would stop with an error; the output is new, and written wide all the same."""
    t = bf16(S * B * H * D + 1)[1:].view(S, B, H, D)
    code = compiled(lambda: rope_fw(t, ROPE))
    assert set(code.stores) == {16}, code.stores
    assert code.loads[2] == 8 * code.stores[16], code.loads
