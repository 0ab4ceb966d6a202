"""torch.compile of other people's autograd.Functions that call our kernels, and of all their sizes.

The Functions are written here after the patterns of FlashAttention, Liger-Kernel and quack: they
overwrite views of a packed tensor in forward, and the gradient that they are given in backward.
"""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from rope_kernels import qk_norm_rope, rope_bw, rope_fw, rope_qk
from rope_kernels.autograd.operators import rotate_by_operator
from rope_kernels.call.rotation import Rotation


def rotate_packed(qkv, cos, sin, q_heads, turn):
    """Queries and keys of a packed tensor in place: one view of both, or one of each."""
    if qkv.dim() == 5 and qkv.is_contiguous():
        views = [qkv[:, :, :2].reshape(*qkv.shape[:2], -1, qkv.shape[-1])]
    elif qkv.dim() == 5:
        views = [qkv[:, :, 0], qkv[:, :, 1]]
    else:
        k_heads = (qkv.shape[2] - q_heads) // 2
        views = [qkv[:, :, :q_heads], qkv[:, :, q_heads : q_heads + k_heads]]
    for view in views:
        turn(view, (cos, sin), "bshd", rotary_dim=2 * cos.shape[-1], inplace=True)
    return qkv


class Packed(torch.autograd.Function):
    """FlashAttention's: the packed tensor is overwritten, and so is its gradient."""

    @staticmethod
    def forward(ctx, qkv, cos, sin, q_heads):
        ctx.save_for_backward(cos, sin)
        ctx.q_heads = q_heads
        return rotate_packed(qkv, cos, sin, q_heads, rope_fw)

    @staticmethod
    def backward(ctx, grad):
        return rotate_packed(grad, *ctx.saved_tensors, ctx.q_heads, rope_bw), None, None, None


class Pair(torch.autograd.Function):
    """Liger-Kernel's: copies of transposed views are overwritten, both in one call."""

    @staticmethod
    def forward(ctx, q, k, cos, sin):
        ctx.save_for_backward(cos, sin)
        q, k = (x.transpose(1, 2).contiguous() for x in (q, k))
        q, k = rope_qk(q, k, (cos, sin), "bshd", inplace=True)
        return q.transpose(1, 2), k.transpose(1, 2)

    @staticmethod
    def backward(ctx, *grads):
        cos, sin = ctx.saved_tensors
        grads = [g.transpose(1, 2).contiguous() for g in grads]
        grads = [rope_bw(g, (cos, sin), "bshd", inplace=True).transpose(1, 2) for g in grads]
        return *grads, None, None


class OneTensor(torch.autograd.Function):
    """quack's: a new tensor in forward; a copy of the gradient is overwritten."""

    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.save_for_backward(cos, sin)
        return rope_fw(x, (cos, sin), "bshd", rotary_dim=2 * cos.shape[-1])

    @staticmethod
    def backward(ctx, grad):
        cos, sin = ctx.saved_tensors
        width = 2 * cos.shape[-1]
        return rope_bw(grad.clone(), (cos, sin), "bshd", rotary_dim=width, inplace=True), None, None


def table(pairs, device, wide=False):
    angles = torch.randn(12, pairs, device=device)
    angles = torch.cat((angles, angles), -1) if wide else angles
    return angles.cos(), angles.sin()


def packed_case(kind, heads, pairs, device):
    q_heads, k_heads = heads
    shape = (2, 5, 3, q_heads, 8) if kind == "five" else (2, 5, q_heads + 2 * k_heads, 8)
    qkv = torch.randn(shape, device=device)
    if kind == "strided":
        qkv = qkv.transpose(0, 1).contiguous().transpose(0, 1)
    return Packed.apply, (qkv,), (*table(pairs, device), q_heads)


def cases(name, device):
    """Calls of one Function with other head counts and widths, as a test run has them in turn."""
    sizes = ((4, 4), 4), ((6, 3), 3)
    if name == "liger":
        q, k = torch.randn(2, 4, 5, 8, device=device), torch.randn(2, 2, 5, 8, device=device)
        return [(Pair.apply, (q, k), table(4, device, wide=True))]
    if name == "quack":
        x = torch.randn(2, 5, 3, 8, device=device)
        return [(OneTensor.apply, (x,), table(pairs, device)) for pairs in (4, 2, 3)]
    return [packed_case(name, heads, pairs, device) for heads, pairs in sizes]


def outs_and_grads(function, tensors, rest, upstream):
    leaves = [x.clone().requires_grad_() for x in tensors]
    outs = function(*leaves, *rest)
    outs = outs if isinstance(outs, tuple) else (outs,)
    grads = [g.clone() for g in upstream[: len(outs)]]  # a Function of this kind overwrites them
    torch.autograd.backward(outs, grads)
    return *(out.detach().clone() for out in outs), *(leaf.grad for leaf in leaves)


@pytest.mark.parametrize(
    "name,backend",
    [(name, "aot_eager") for name in ("five", "packed", "strided", "liger", "quack")]
    + [("packed", "eager")],
)
def test_functions_of_others_compile(name, backend, device):
    torch._dynamo.reset()
    compiled = None
    for function, tensors, rest in cases(name, device):
        if compiled is None:
            compiled = torch.compile(
                lambda *inputs, function=function: function(*inputs),
                fullgraph=backend == "aot_eager",
                backend=backend,
            )
        upstream = [torch.randn_like(x) for x in tensors]
        got = outs_and_grads(compiled, tensors, rest, upstream)
        want = outs_and_grads(function, tensors, rest, upstream)
        for x, y in zip(got, want, strict=True):
            torch.testing.assert_close(x, y)


def test_the_operator_in_place_refuses_what_autograd_records(device):
    """Its gradient would be that of the identity."""
    rotation = Rotation(torch.randn(5, 1, 1, 8, device=device))
    x = torch.randn(5, 1, 2, 8, device=device)
    recorded = x.clone().requires_grad_() * 1
    with pytest.raises(RuntimeError, match="a traced rotation in place has no gradient"):
        rotate_by_operator((recorded,), rotation, inplace=True)
    with torch.no_grad():
        rotate_by_operator((recorded,), rotation, inplace=True)
    torch.testing.assert_close(recorded, rope_fw(x, rotation.table))


def inputs_of(s, b, h, d, pairs, device):
    angles = torch.randn(s + 1, pairs, device=device)
    q, k = torch.randn(s, b, h, d, device=device), torch.randn(s, b, 2 * h, d, device=device)
    return q, k, angles.cos(), angles.sin()


CALLS = {
    "starts": lambda q, k, *f: rope_fw(
        *(q, f),
        rotary_dim=2 * f[0].shape[-1],
        start_positions=torch.zeros(q.shape[1], dtype=torch.int32, device=q.device),
    ),
    "norm": lambda q, k, *f: qk_norm_rope(
        *(q, k, q[0, 0, 0], k[0, 0, 0], f), rotary_dim=2 * f[0].shape[-1]
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_one_compiled_graph_serves_all_sizes(name, device):
    """No size becomes a constant, not even in the text of an error that is never raised."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("eager")
    call = CALLS[name]
    compiled = torch.compile(call, dynamic=True, fullgraph=True, backend=counter)
    for sizes in ((13, 2, 3, 12, 4), (15, 5, 4, 20, 6)):
        given = inputs_of(*sizes, device)
        torch.testing.assert_close(compiled(*given), call(*given))
    assert counter.frame_count == 1
