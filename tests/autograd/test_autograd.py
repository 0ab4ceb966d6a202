"""The gradient of the fused function, and that it lives with the rest of PyTorch."""

import pytest
import torch
from torch import func, nn
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from inputs import FORMATS, LAYOUTS, angles, contiguous, sequence_starts, shape_of
from pairwise import cover
from rope_kernels import apply_rotary_pos_emb, reference, rope_bw, rope_fw
from yardstick import assert_rounded_once, gradient_fp64, rotate_fp64

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)

each_format = pytest.mark.parametrize("tensor_format", FORMATS)


class Sample:
    """A leaf t, unlike angle halves and packed sequences; `rotate` is the function under test."""

    def __init__(
        self, tensor_format, device, dtype=torch.float64, s=5, b=2, h=3, d=10, d2=6, **options
    ):
        self.tensor_format, self.options = tensor_format, options
        shape = shape_of(tensor_format, s, b, h, d)
        self.t = contiguous(shape, dtype, device).requires_grad_()
        self.freqs = angles(s * b, d2, device)
        self.cu_seqlens = sequence_starts(tensor_format, s, b, device)

    def rotate(self, t, freqs=None):
        freqs = self.freqs if freqs is None else freqs
        options = {"cu_seqlens": self.cu_seqlens, **self.options}
        return apply_rotary_pos_emb(t, freqs, self.tensor_format, **options)

    def expected(self, t, freqs=None):
        freqs = self.freqs if freqs is None else freqs
        return rotate_fp64(t, freqs, self.tensor_format, self.cu_seqlens, **self.options)

    def expected_gradient(self, grad):
        inputs = self.t, self.freqs, self.tensor_format, grad, self.cu_seqlens
        return gradient_fp64(*inputs, **self.options)


def tiny(tensor_format, device, **options):
    return Sample(tensor_format, device, s=3, b=2, h=1, d=6, d2=4, **options)


# the gradient


@cover(tensor_format=FORMATS, layout=LAYOUTS, dtype=DTYPES, interleaved=(False, True))
@pytest.mark.usefixtures("needs_triton")
def test_gradient_of_a_random_upstream_gradient(tensor_format, layout, dtype, interleaved, device):
    """In every memory layout: transposed, sliced, and with the strides 0 that `.sum()` sends."""
    sample = Sample(tensor_format, device, dtype, interleaved=interleaved)
    out = sample.rotate(sample.t)
    assert_rounded_once(out.detach(), sample.expected(sample.t.detach()))
    grad = layout(out.shape, dtype, device)
    (grad_t,) = torch.autograd.grad(out, sample.t, grad)
    assert grad_t.dtype == dtype and grad_t.is_contiguous()
    assert_rounded_once(grad_t, sample.expected_gradient(grad))


def test_gradcheck_and_gradgradcheck(device):
    sample = tiny("thd", device, interleaved=True)
    # fast mode: along random directions, not element by element
    assert torch.autograd.gradcheck(
        sample.rotate, (sample.t,), check_forward_ad=True, fast_mode=True
    )
    assert torch.autograd.gradgradcheck(sample.rotate, (sample.t,), fast_mode=True)


@pytest.mark.parametrize("tensor_format", ("sbhd", "thd"))
@pytest.mark.usefixtures("needs_triton")
def test_nothing_of_t_is_saved_for_backward(tensor_format, device):
    saved = []
    sample = Sample(tensor_format, device)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor
    ):
        out = sample.rotate(sample.t)
    wanted = [tensor for tensor in (sample.freqs, sample.cu_seqlens) if tensor is not None]
    assert [tensor.data_ptr() for tensor in saved] == [tensor.data_ptr() for tensor in wanted]
    sample.t.data.fill_(float("nan"))  # so the backward cannot need it
    grad = torch.randn_like(out)
    (grad_t,) = torch.autograd.grad(out, sample.t, grad)
    assert_rounded_once(grad_t, sample.expected_gradient(grad))


def test_no_gradient_where_none_is_wanted(device):
    sample = Sample("sbhd", device)
    assert not sample.rotate(sample.t.detach()).requires_grad
    for function in (rope_fw, rope_bw):
        assert not function(sample.t, sample.freqs).requires_grad
    with torch.no_grad():
        assert not sample.rotate(sample.t).requires_grad


# autocast and checkpointing


def test_under_autocast_the_dtype_of_t_is_kept(device):
    s, b, h, d = 5, 2, 3, 8
    projection = nn.Linear(16, h * d).to(device)
    x, freqs = torch.randn(s, b, 16, device=device), angles(s, 6, device)
    with torch.autocast(device, dtype=torch.bfloat16):
        q = projection(x).view(s, b, h, d)
        q.retain_grad()
        out = apply_rotary_pos_emb(q, freqs)
        assert q.dtype == out.dtype == torch.bfloat16
        kept = apply_rotary_pos_emb(q.detach().float(), freqs)
        assert kept.dtype == torch.float32
    assert_rounded_once(out.detach(), rotate_fp64(q.detach(), freqs, "sbhd"))
    assert_rounded_once(kept, rotate_fp64(q.detach(), freqs, "sbhd"))
    grad = torch.randn_like(out)
    out.backward(grad)
    assert_rounded_once(q.grad, gradient_fp64(q, freqs, "sbhd", grad))
    want = torch.einsum("sbi,sbo->oi", x, q.grad.flatten(2).float())
    assert projection.weight.grad.dtype == torch.float32
    torch.testing.assert_close(projection.weight.grad, want, rtol=2e-2, atol=5e-2)


@pytest.mark.parametrize("use_reentrant", (False, True))
@pytest.mark.parametrize("tensor_format", ("sbhd", "thd"))
def test_checkpointing_changes_no_bit_of_the_gradient(tensor_format, use_reentrant, device):
    sample = Sample(tensor_format, device, torch.float32)
    grad = torch.randn_like(sample.t)

    def block(t):
        return sample.rotate(torch.sin(sample.rotate(t * t)))

    (plain,) = torch.autograd.grad(block(sample.t), sample.t, grad)
    checkpoint(block, sample.t, use_reentrant=use_reentrant).backward(grad)
    assert torch.equal(sample.t.grad, plain)


# torch.func and forward mode


@each_format
def test_func_vjp_and_jvp(tensor_format, device):
    """The map is linear: its derivative in the direction of a tangent is the rotated tangent."""
    sample = Sample(tensor_format, device)
    t, tangent, grad = sample.t.detach(), torch.randn_like(sample.t), torch.randn_like(sample.t)
    out, pull_back = func.vjp(sample.rotate, t)
    assert_rounded_once(out, sample.expected(t))
    assert_rounded_once(pull_back(grad)[0], sample.expected_gradient(grad))
    out, pushed_forward = func.jvp(sample.rotate, (t,), (tangent,))
    assert_rounded_once(out, sample.expected(t))
    assert_rounded_once(pushed_forward, sample.expected(tangent))
    with forward_ad.dual_level():
        out = forward_ad.unpack_dual(sample.rotate(forward_ad.make_dual(t, tangent)))
    assert_rounded_once(out.tangent, sample.expected(tangent))


@pytest.mark.parametrize("jacobian", (func.jacrev, func.jacfwd), ids=("jacrev", "jacfwd"))
def test_func_jacobian_is_the_dense_matrix(jacobian, device):
    sample = tiny("bhsd", device)
    want = torch.autograd.functional.jacobian(sample.expected, sample.t.detach())
    assert_rounded_once(jacobian(sample.rotate)(sample.t.detach()), want)


# which engine: the kernel, but for torch.func and forward mode


@pytest.fixture
def only_the_kernel(monkeypatch):
    def reached(*_args, **_kwargs):
        raise AssertionError("plain PyTorch ran")

    monkeypatch.setattr(reference, "rotate", reached)


@pytest.mark.parametrize("tensor_format", ("bhsd", "thd"))
@pytest.mark.usefixtures("needs_triton")
def test_forward_and_both_backwards_run_the_kernel(tensor_format, device, only_the_kernel):
    sample = Sample(tensor_format, device)
    loss = (sample.rotate(sample.t) ** 3).sum()
    (grad_t,) = torch.autograd.grad(loss, sample.t, create_graph=True)
    torch.autograd.grad((grad_t**2).sum(), sample.t)
    with pytest.raises(AssertionError, match="plain PyTorch ran"):
        Sample(tensor_format, device, fused=False).rotate(sample.t)


def test_transformed_functions_give_the_references_bits(device):
    sample = Sample("sbhd", device, torch.float32)
    t = sample.t.detach()
    want = reference.apply_rotary_pos_emb(t, sample.freqs, round_once=True)
    assert torch.equal(func.vmap(sample.rotate)(t[None])[0], want)
    assert torch.equal(func.jvp(sample.rotate, (t,), (t,))[0], want)
    out, pull_back = func.vjp(sample.rotate, t)
    transposed = reference.apply_rotary_pos_emb(t, sample.freqs, round_once=True, transpose=True)
    assert torch.equal(out, want)
    torch.testing.assert_close(pull_back(t)[0], transposed)


# vmap


def each_of(batch, in_dim, function):
    return torch.stack([function(entry) for entry in batch.unbind(in_dim)])


@cover(in_dim=(0, 1, -1), out_dim=(0, 2), tensor_format=FORMATS)
def test_vmap_over_t(tensor_format, in_dim, out_dim, device):
    sample = Sample(tensor_format, device)
    batch = torch.randn(4, *sample.t.shape, device=device, dtype=torch.float64)
    batch = batch.movedim(0, in_dim)
    got = func.vmap(sample.rotate, in_dims=in_dim, out_dims=out_dim)(batch)
    assert_rounded_once(got.movedim(out_dim, 0), each_of(batch, in_dim, sample.expected))


@pytest.mark.parametrize("tensor_format,in_dim", (("sbhd", -1), ("thd", 0)))
def test_vmap_over_freqs(tensor_format, in_dim, device):
    sample = Sample(tensor_format, device)
    t = sample.t.detach()
    batch = torch.stack([sample.freqs, 2 * sample.freqs, sample.freqs + 1]).movedim(0, in_dim)
    got = func.vmap(lambda freqs: sample.rotate(t, freqs), in_dims=in_dim)(batch)
    assert_rounded_once(got, each_of(batch, in_dim, lambda freqs: sample.expected(t, freqs)))


@pytest.mark.parametrize("tensor_format", ("bhsd", "thd"))
def test_vmap_of_grad_gives_a_gradient_for_each_sample(tensor_format, device):
    sample = Sample(tensor_format, device)
    batch = torch.randn(3, *sample.t.shape, device=device, dtype=torch.float64)

    def loss(rotate):
        return lambda t: (rotate(t) ** 3).sum()

    got = func.vmap(func.grad(loss(sample.rotate)))(batch)
    torch.testing.assert_close(got, each_of(batch, 0, func.grad(loss(sample.expected))))


@pytest.mark.parametrize("interleaved", (False, True))
def test_gradients_in_batches(interleaved, device):
    """As `torch.autograd.functional.jacobian(vectorize=True)` asks for them."""
    t = torch.randn(5, 2, 3, 8, device=device, requires_grad=True)
    table = angles(7, 6, device).requires_grad_()
    out = apply_rotary_pos_emb(t, table, interleaved=interleaved)
    grads = torch.randn(4, *t.shape, device=device)
    for _ in range(2):
        got = torch.autograd.grad(out, (t, table), grads, retain_graph=True, is_grads_batched=True)
        for i, grad in enumerate(grads):  # of a kind seen before
            want = torch.autograd.grad(out, (t, table), grad, retain_graph=True)
            for x, y in zip(got, want, strict=True):
                torch.testing.assert_close(x[i], y)
