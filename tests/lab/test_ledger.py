"""The ledger counts what the kernels' own lines request, and its results are those of RoPE."""

import pytest
import torch

import rope_lab as lab
from rope_kernels import reference

triton = pytest.importorskip("triton", reason="needs Triton")


from rope_lab.steps.journey import half_split_row_kernel, half_split_tile_kernel  # noqa: E402
from rope_lab.steps.ledger import run_lines  # noqa: E402

assert lab.device  # the engine is picked before Triton is loaded

S, B, H = 3, 2, 3


def sample(d, dtype=torch.float32):
    return torch.randn(S, B, H, d).to(dtype), 3 * torch.randn(S, 1, 1, d)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16))
@pytest.mark.parametrize("d, block", ((8, 4), (12, 8)))  # 12: masked lanes count nothing
def test_a_row_kernel_requests_each_element_and_its_angle_once(d, block, dtype):
    t, freqs = sample(d, dtype)
    out = torch.empty_like(t)
    ledger = run_lines(half_split_row_kernel, S * B * H, t, freqs, out, B * H, d // 2, block)
    size = t.numel() * t.element_size()
    assert (ledger.bytes_read, ledger.bytes_written) == (size + 4 * t.numel(), size)
    assert ledger.bytes == 2 * size + 4 * t.numel()
    assert ledger.evaluations == 2 * t.numel() * 2 * block // d
    torch.testing.assert_close(out, reference.apply_rotary_pos_emb(t, freqs, round_once=True))


def test_programs_run_in_the_order_that_is_asked_for():
    t, freqs = sample(8)
    out = torch.zeros_like(t)
    sizes = {"HALF": 4, "BLOCK_R": 4, "BLOCK_HALF": 4}
    run_lines(half_split_tile_kernel, (3, 0), t, freqs, out, B * H, **sizes)
    # two tiles a position: the second of position 1 and the first of position 0
    stored = out.view(S, B * H, 8).any(-1)
    want = torch.zeros(S, B * H, dtype=torch.bool)
    want[1, 4:], want[0, :4] = True, True
    assert torch.equal(stored, want)
