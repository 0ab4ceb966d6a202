"""A norm and positions with several axes: values and all gradients against fp64."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from inputs import FORMATS, contiguous, sequence_starts, shape_of
from norm_yardstick import assert_close, check, norm_rope_fp64, outs_and_grads
from pairwise import cover
from rope_kernels import RotaryPositionEmbedding, norm_rope, qk_norm_rope
from rope_kernels.launch import launch

S, B, H, D = 5, 2, 3, 20
AXES = [0, 0, 2, 1, 1, 2, 0, 2]  # of d2 = 16


def module(device, **options):
    return RotaryPositionEmbedding(2 * len(AXES), axes=AXES, **options).to(device)


def ids_of(tensor_format, device, most=10**9):
    tokens = (S * B,) if tensor_format == "thd" else (B, S)
    return torch.randint(-most, most, (3, *tokens), device=device)


def rows(tensor_format, dtype, device, d=D):
    tensors = [contiguous(shape_of(tensor_format, S, B, h, d), dtype, device) for h in (H, 1)]
    return tensors, [contiguous((d,), dtype, device) for _ in tensors]


@cover(
    tensor_format=FORMATS,
    dtype=(torch.float32, torch.bfloat16, torch.float64),
    interleaved=(False, True),
    norm_after=(False, True),
    count=(1, 2),
)
def test_values_and_all_gradients(tensor_format, dtype, interleaved, norm_after, count, device):
    """In thd the backward reads the positions that the forward kept, on every axis."""
    tensors, weights = rows(tensor_format, dtype, device)
    ids = ids_of(tensor_format, device, most=20 if dtype == torch.float64 else 10**9)
    options = {"position_ids": ids, "norm_after": norm_after, "interleaved": interleaved}
    if dtype != torch.float64:  # tokens of no sequence
        options["cu_seqlens"] = sequence_starts(tensor_format, S, B, device)
    rope = module(device, interleaved=interleaved)
    check(tensors[:count], weights[:count], rope, tensor_format, **options)


def test_full_rows_of_128(device):
    axes = [[0, 1, 2][i % 3] if i < 60 else 0 for i in range(64)]
    rope = RotaryPositionEmbedding(128, axes=axes).to(device)
    tensors, weights = rows("bhsd", torch.bfloat16, device, d=128)
    check(tensors, weights, rope, "bhsd", position_ids=ids_of("bhsd", device))


@pytest.mark.parametrize("tensor_format", ("bhsd", "thd"))
def test_equal_positions_have_the_bits_of_one_axis(tensor_format, device):
    tensors, weights = rows(tensor_format, torch.bfloat16, device)
    grads = [torch.randn_like(t) for t in tensors]
    ids, one = ids_of(tensor_format, device)[0], RotaryPositionEmbedding(16).to(device)
    cu_seqlens, found = sequence_starts(tensor_format, S, B, device), []
    for rope, given in (
        (module(device), ids.expand(3, *ids.shape)),
        (module(device), ids),
        (one, ids),
    ):
        options = {"position_ids": given, "cu_seqlens": cu_seqlens}
        parts = outs_and_grads(tensors, weights, rope, tensor_format, grads, **options)
        found.append([x for part in parts for x in part.values()])
    for others in found[:2]:
        assert all(torch.equal(x, y) for x, y in zip(others, found[2], strict=True))


def test_in_place_and_in_plain_pytorch(device):
    (t, _), (weight, _) = rows("bshd", torch.float32, device)
    ids, rope = ids_of("bshd", device), module(device)
    want = norm_rope_fp64(t, weight, rope, "bshd", position_ids=ids)
    scale = want.abs().amax(-1, keepdim=True)
    plain = norm_rope(t, weight, rope, "bshd", position_ids=ids, fused=False)
    assert_close(plain, want, scale)
    assert norm_rope(t, weight, rope, "bshd", position_ids=ids, inplace=True) is t
    assert_close(t, want, scale)


def test_compiled_with_the_same_bits(device):
    tensor_format = "thd"
    torch._dynamo.reset()
    tensors, weights = rows(tensor_format, torch.float32, device)
    leaves = [x.requires_grad_() for x in (*tensors, *weights)]
    grads, rope = [torch.randn_like(t) for t in tensors], module(device)
    ids = ids_of(tensor_format, device)
    cu_seqlens = sequence_starts(tensor_format, S, B, device)

    def step(q, k, q_weight, k_weight):
        options = {"position_ids": ids, "cu_seqlens": cu_seqlens}
        return qk_norm_rope(q, k, q_weight, k_weight, rope, tensor_format, **options)

    counter, found = CompileCounterWithBackend("aot_eager"), []
    for run in (step, torch.compile(step, backend=counter, fullgraph=True)):
        outs = run(*leaves)
        found.append([*outs, *torch.autograd.grad(outs, leaves, grads)])
    assert counter.frame_count == 1
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))
    torch._dynamo.reset()


def test_a_backward_of_packed_tokens_does_not_search_again(
    device, whole_way, monkeypatch, needs_triton
):
    launched = []
    run = launch.run
    monkeypatch.setattr(launch, "run", lambda *x: launched.append(x[1]) or run(*x))
    (t, _), (weight, _) = rows("thd", torch.float32, device)
    t.requires_grad_()
    cu_seqlens, ids = sequence_starts("thd", S, B, device), ids_of("thd", device)
    norm_rope(
        t, weight, module(device), "thd", position_ids=ids, cu_seqlens=cu_seqlens
    ).sum().backward()
    forward, backward = launched[:2]
    assert forward.positions.shape == (3, S * B) and backward.ids is forward.positions
    assert torch.equal(forward.positions[1:], ids[1:])
    assert (forward.positions[0, -2:] == -(2**63)).all()  # past the last sequence
