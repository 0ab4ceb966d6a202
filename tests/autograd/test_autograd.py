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
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


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


def test_the_gradient_is_linear_in_the_upstream_gradient(device):
    sample = Sample("sbhd", device)
    out = sample.rotate(sample.t)
    g1, g2 = torch.randn_like(out), torch.randn_like(out)

    def pulled_back(grad):
        return torch.autograd.grad(out, sample.t, grad, retain_graph=True)[0]

    combined = 2 * pulled_back(g1) - 3 * pulled_back(g2)
    torch.testing.assert_close(pulled_back(2 * g1 - 3 * g2), combined)
    assert not torch.allclose(pulled_back(g1), pulled_back(g2))
    assert not pulled_back(torch.zeros_like(g1)).any()


@each_format
def test_gradcheck_and_gradgradcheck(tensor_format, device):
    sample = tiny(tensor_format, device, interleaved=tensor_format in ("bshd", "thd"))
    assert torch.autograd.gradcheck(sample.rotate, (sample.t,))
    # fast mode: along random directions, not element by element
    assert torch.autograd.gradgradcheck(sample.rotate, (sample.t,), fast_mode=True)


def test_the_second_derivative_goes_on_past_the_rotation(device):
    """d/dt of |d/dt sum(rotated ** 3)|^2: the backward's own backward is the forward."""
    sample = Sample("bshd", device)

    def penalty(rotate):
        loss = (rotate(sample.t) ** 3).sum()
        (grad_t,) = torch.autograd.grad(loss, sample.t, create_graph=True)
        return torch.autograd.grad((grad_t**2).sum(), sample.t)[0]

    torch.testing.assert_close(penalty(sample.rotate), penalty(sample.expected))


@each_format
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


@pytest.mark.usefixtures("needs_triton")
def test_freqs_changed_in_place_before_backward_is_an_error(device):
    sample = Sample("sbhd", device)
    out = sample.rotate(sample.t)
    sample.freqs.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


# who gets a gradient


def test_no_gradient_where_t_requires_none(device):
    sample = Sample("sbhd", device)
    assert not sample.rotate(sample.t.detach()).requires_grad
    with torch.no_grad():
        assert not sample.rotate(sample.t).requires_grad


@pytest.mark.parametrize("function", (rope_fw, rope_bw))
def test_the_bare_functions_carry_no_gradient(function, device):
    sample = Sample("sbhd", device)
    out = function(sample.t, sample.freqs)
    assert not out.requires_grad and out.grad_fn is None
    assert sample.t.grad is None


@each_format
def test_tensor_format_is_the_third_argument_or_a_keyword(tensor_format, device):
    sample = Sample(tensor_format, device)
    t, freqs, cu_seqlens = sample.t.detach(), sample.freqs, sample.cu_seqlens
    want = sample.expected(t)
    for function in (apply_rotary_pos_emb, rope_fw):
        by_place = function(t, freqs, tensor_format, cu_seqlens=cu_seqlens)
        by_name = function(t=t, freqs=freqs, tensor_format=tensor_format, cu_seqlens=cu_seqlens)
        assert_rounded_once(by_place, want)
        assert torch.equal(by_place, by_name)
    by_place = rope_bw(t, freqs, tensor_format, cu_seqlens=cu_seqlens)
    by_name = rope_bw(grad=t, freqs=freqs, tensor_format=tensor_format, cu_seqlens=cu_seqlens)
    assert_rounded_once(by_place, sample.expected_gradient(t))
    assert torch.equal(by_place, by_name)


def test_tensor_format_is_sbhd_unless_said_otherwise(device):
    sample = Sample("sbhd", device)
    t = sample.t.detach()
    for function in (apply_rotary_pos_emb, rope_fw):
        assert_rounded_once(function(t, sample.freqs), sample.expected(t))
    assert_rounded_once(rope_bw(t, sample.freqs), sample.expected_gradient(t))


@each_dtype
@each_format
def test_unfused_is_the_reference(tensor_format, dtype, device):
    sample = Sample(tensor_format, device, dtype)
    freqs = sample.freqs.clone().requires_grad_()
    inputs = (sample.t, freqs, tensor_format)
    out = apply_rotary_pos_emb(*inputs, fused=False, cu_seqlens=sample.cu_seqlens)
    want = reference.apply_rotary_pos_emb(*inputs, cu_seqlens=sample.cu_seqlens)
    assert torch.equal(out, want)
    grad = torch.randn_like(out)
    got = torch.autograd.grad(out, (sample.t, freqs), grad)
    for one, other in zip(got, torch.autograd.grad(want, (sample.t, freqs), grad), strict=True):
        # on a GPU the gather's backward adds in no fixed order
        torch.testing.assert_close(one, other)


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


def dense_matrix(sample):
    """The rotation as a matrix, by the fp64 definition."""
    return torch.autograd.functional.jacobian(sample.expected, sample.t.detach())


@each_format
def test_func_grad(tensor_format, device):
    sample = Sample(tensor_format, device)
    t, weight = sample.t.detach(), torch.randn_like(sample.t)
    got = func.grad(lambda t: (weight * sample.rotate(t)).sum())(t)
    assert_rounded_once(got, sample.expected_gradient(weight))


@each_format
def test_func_vjp(tensor_format, device):
    sample = Sample(tensor_format, device)
    out, pull_back = func.vjp(sample.rotate, sample.t.detach())
    assert_rounded_once(out, sample.expected(sample.t.detach()))
    grad = torch.randn_like(out)
    assert_rounded_once(pull_back(grad)[0], sample.expected_gradient(grad))


@each_format
def test_func_jvp(tensor_format, device):
    """The map is linear: its derivative in the direction of a tangent is the rotated tangent."""
    sample = Sample(tensor_format, device)
    t, tangent = sample.t.detach(), torch.randn_like(sample.t)
    out, pushed_forward = func.jvp(sample.rotate, (t,), (tangent,))
    assert_rounded_once(out, sample.expected(t))
    assert_rounded_once(pushed_forward, sample.expected(tangent))


def test_forward_mode_dual_numbers(device):
    sample = Sample("sbhd", device)
    t, tangent = sample.t.detach(), torch.randn_like(sample.t)
    with forward_ad.dual_level():
        out = forward_ad.unpack_dual(sample.rotate(forward_ad.make_dual(t, tangent)))
    assert_rounded_once(out.tangent, sample.expected(tangent))


def test_forward_mode_gradcheck(device):
    sample = tiny("bshd", device)
    assert torch.autograd.gradcheck(sample.rotate, (sample.t,), check_forward_ad=True)


@each_format
def test_func_jacrev_is_the_dense_matrix(tensor_format, device):
    sample = tiny(tensor_format, device)
    assert_rounded_once(func.jacrev(sample.rotate)(sample.t.detach()), dense_matrix(sample))


@each_format
def test_func_jacfwd_is_the_dense_matrix(tensor_format, device):
    sample = tiny(tensor_format, device)
    assert_rounded_once(func.jacfwd(sample.rotate)(sample.t.detach()), dense_matrix(sample))


@pytest.mark.parametrize("outer", ("jacrev", "jacfwd"))
def test_func_hessian(outer, device):
    """Of the sum of cubes of the rotated tensor: reverse over reverse, forward over reverse."""
    sample = tiny("sbhd", device)

    def sum_of_cubes(rotate):
        return lambda t: (rotate(t) ** 3).sum()

    got = getattr(func, outer)(func.grad(sum_of_cubes(sample.rotate)))(sample.t.detach())
    want = torch.autograd.functional.hessian(sum_of_cubes(sample.expected), sample.t.detach())
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("interleaved", (False, True))
def test_func_derivatives_in_freqs(interleaved, device):
    """Reverse and forward; more of them in test_freqs_gradient.py."""
    sample = Sample("sbhd", device, interleaved=interleaved)
    t, freqs = sample.t.detach(), sample.freqs.double()
    tangent = torch.randn_like(freqs)

    def loss(rotate):
        return lambda freqs: (rotate(t, freqs) ** 3).sum()

    got, want = (func.grad(loss(rotate))(freqs) for rotate in (sample.rotate, sample.expected))
    torch.testing.assert_close(got, want)
    got, want = (
        func.jvp(loss(rotate), (freqs,), (tangent,)) for rotate in (sample.rotate, sample.expected)
    )
    torch.testing.assert_close(got, want)


# which engine: the kernel, but for torch.func and forward mode


@pytest.fixture
def only_the_kernel(monkeypatch):
    def reached(*_args, **_kwargs):
        raise AssertionError("plain PyTorch ran")

    monkeypatch.setattr(reference, "rotate", reached)


@each_format
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


@pytest.mark.parametrize("in_dim", (0, 1, 2, -1))
@each_format
def test_vmap_over_t(tensor_format, in_dim, device):
    sample = Sample(tensor_format, device)
    batch = torch.randn(4, *sample.t.shape, device=device, dtype=torch.float64)
    batch = batch.movedim(0, in_dim)
    got = func.vmap(sample.rotate, in_dims=in_dim)(batch)
    assert_rounded_once(got, each_of(batch, in_dim, sample.expected))


def test_vmap_over_t_places_its_output_where_asked(device):
    sample = Sample("bhsd", device)
    batch = torch.randn(4, *sample.t.shape, device=device, dtype=torch.float64)
    got = func.vmap(sample.rotate, out_dims=2)(batch)
    assert_rounded_once(got.movedim(2, 0), each_of(batch, 0, sample.expected))


def test_vmap_of_vmap_over_t(device):
    sample = Sample("bshd", device)
    batch = torch.randn(2, 3, *sample.t.shape, device=device, dtype=torch.float64)
    got = func.vmap(func.vmap(sample.rotate))(batch)
    assert_rounded_once(got.flatten(0, 1), each_of(batch.flatten(0, 1), 0, sample.expected))


@pytest.mark.parametrize("in_dim", (0, 2, -1))
@pytest.mark.parametrize("tensor_format", ("sbhd", "thd"))
def test_vmap_over_freqs(tensor_format, in_dim, device):
    sample = Sample(tensor_format, device)
    t = sample.t.detach()
    batch = torch.stack([sample.freqs, 2 * sample.freqs, sample.freqs + 1]).movedim(0, in_dim)
    got = func.vmap(lambda freqs: sample.rotate(t, freqs), in_dims=in_dim)(batch)
    assert_rounded_once(got, each_of(batch, in_dim, lambda freqs: sample.expected(t, freqs)))


def test_vmap_over_t_and_freqs_together(device):
    sample = Sample("bhsd", device)
    t = torch.randn(3, *sample.t.shape, device=device, dtype=torch.float64)
    freqs = torch.stack([sample.freqs, 2 * sample.freqs, sample.freqs + 1])
    got = func.vmap(sample.rotate, in_dims=(1, 0))(t.movedim(0, 1), freqs)
    want = [sample.expected(*pair) for pair in zip(t, freqs, strict=True)]
    assert_rounded_once(got, torch.stack(want))


def test_vmap_over_cu_seqlens(device):
    sample = Sample("thd", device)
    t = sample.t.detach()
    batch = torch.tensor([[0, 2, 10], [0, 7, 8], [0, 0, 9]], device=device)

    def rotate(cu_seqlens):
        return apply_rotary_pos_emb(t, sample.freqs, "thd", cu_seqlens=cu_seqlens)

    def expected(cu_seqlens):
        return rotate_fp64(t, sample.freqs, "thd", cu_seqlens)

    assert_rounded_once(func.vmap(rotate)(batch), each_of(batch, 0, expected))


@each_format
def test_vmap_of_grad_gives_a_gradient_for_each_sample(tensor_format, device):
    sample = Sample(tensor_format, device)
    batch = torch.randn(3, *sample.t.shape, device=device, dtype=torch.float64)

    def loss(rotate):
        return lambda t: (rotate(t) ** 3).sum()

    got = func.vmap(func.grad(loss(sample.rotate)))(batch)
    torch.testing.assert_close(got, each_of(batch, 0, func.grad(loss(sample.expected))))


def test_grad_through_vmap(device):
    sample = Sample("sbhd", device)
    batch = torch.randn(3, *sample.t.shape, device=device, dtype=torch.float64)
    weight = torch.randn_like(batch)
    got = func.grad(lambda batch: (weight * func.vmap(sample.rotate)(batch)).sum())(batch)
    assert_rounded_once(got, each_of(weight, 0, sample.expected_gradient))


def test_the_gradient_through_vmap_reaches_freqs(device):
    """There freqs does not say that it requires one."""
    sample = Sample("bshd", device)
    t = sample.t.detach()
    freqs = torch.randn(4, *sample.freqs.shape, device=device, dtype=torch.float64)
    grad = torch.randn(4, *t.shape, device=device, dtype=torch.float64)

    def gradient(rotate_each):
        leaf = freqs.clone().requires_grad_()
        return torch.autograd.grad(rotate_each(leaf), leaf, grad)[0]

    got = gradient(func.vmap(lambda freqs: sample.rotate(t, freqs)))
    want = gradient(lambda batch: each_of(batch, 0, lambda freqs: sample.expected(t, freqs)))
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("rotary_dim", (8, 6))
def test_gradients_in_batches(rotary_dim, device):
    """As `torch.autograd.functional.jacobian(vectorize=True)` asks for them."""
    t, freqs = torch.randn(5, 2, 3, 8, device=device), angles(5, rotary_dim, device)
    grads = torch.randn(4, *t.shape, device=device)
    out = apply_rotary_pos_emb(t.requires_grad_(), freqs)
    for _ in range(2):
        (got,) = torch.autograd.grad(out, t, grads, retain_graph=True, is_grads_batched=True)
        for grad, x in zip(grads, got, strict=True):
            torch.testing.assert_close(x, rope_bw(grad, freqs))
        torch.autograd.grad(out, t, grads[0], retain_graph=True)  # of a kind seen before


def test_the_gradient_of_a_conjugate_has_its_sign(device):
    """Its gradient arrives as a view whose minus sign is noted and not stored."""
    sample = Sample("sbhd", device)
    imaginary_part = sample.rotate(sample.t)
    weight = torch.randn(imaginary_part.shape, dtype=torch.complex128, device=device)
    z = torch.complex(torch.zeros_like(imaginary_part), imaginary_part)
    (z.conj() * weight).real.sum().backward()
    # (conj(i y) w).real = y * w.imag
    want = gradient_fp64(sample.t, sample.freqs, "sbhd", weight.imag)
    assert_rounded_once(sample.t.grad, want)
