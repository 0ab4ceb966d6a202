"""The norm of `norm_rope`: weights of every kind, eps, sums of squares from elsewhere; wrong norms.

Values and gradients are compared with fp64.
"""

import pytest
import torch

from inputs import shape_of
from norm_yardstick import check, norm_rope_fp64
from pairwise import each_pair
from rope_kernels import norm_rope, qk_norm_rope, sum_of_squares
from rope_kernels.launch import launch_norm, norm_plan
from test_norm_rope import DTYPES, S, Sample, each_format, each_order

# weights


def transposed(weight):
    return weight.t().contiguous().t() if weight.dim() == 2 else weight.repeat_interleave(2)[::2]


def negative(weight):
    return torch.view_as_complex(torch.stack([weight, weight], -1)).conj().imag


def expanded(weight):
    return weight[..., :1].expand(weight.shape)


KEPT = {"contiguous": lambda weight: weight, "transposed": transposed}
KEPT |= {"negative": negative, "expanded": expanded}


@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT.keys())
@pytest.mark.parametrize("weights", ("(d,)", "(h, d)"))
def test_weights_of_any_strides(weights, kept, device):
    sample = Sample(device, heads=(3, 2), weights=weights)
    sample.weights = [kept(weight) for weight in sample.weights]
    sample.check()


MIXED = {
    "none and one": (None, "(d,)"),
    "one and none": ("(d,)", None),
    "of the row and of each head": ("(d,)", "(h, d)"),
}


@each_pair
@each_order
@pytest.mark.parametrize("kinds", MIXED.values(), ids=MIXED.keys())
@pytest.mark.parametrize("tensor_format", ("bhsd", "thd"))
def test_mixed_weights(tensor_format, kinds, norm_after, device):
    """A launch each: a weight of q says nothing about k's."""
    sample = Sample(device, tensor_format, dtype=torch.bfloat16, heads=(3, 2))
    rows = zip(kinds, (3, 2), strict=True)
    sample.weights = [sample.weight(kind, h, 20, torch.bfloat16) for kind, h in rows]
    sample.check(norm_after=norm_after)


def test_one_weight_in_fp32_and_one_in_bf16(device):
    sample = Sample(device, dtype=torch.bfloat16)
    sample.weights[1] = sample.weights[1].float()
    sample.check()


def test_the_same_weight_for_q_and_k(device):
    """Its gradient is the sum of both."""
    sample = Sample(device)
    weight = sample.weights[0]
    grads = [torch.randn_like(t) for t in sample.tensors]
    leaf = weight.clone().requires_grad_()
    outs = qk_norm_rope(*sample.tensors, leaf, leaf, sample.freqs)
    (got,) = torch.autograd.grad(outs, leaf, grads)
    wide = weight.double().requires_grad_()
    outs = [norm_rope_fp64(t, wide, sample.freqs) for t in sample.tensors]
    (want,) = torch.autograd.grad(outs, wide, [grad.double() for grad in grads])
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("weights", ("(d,)", "(h, d)"))
@each_format
def test_gradients_have_the_same_bits_in_every_run(tensor_format, weights, device):
    """Of weights too, which many programs add up: with atomics no two runs on a GPU agree."""
    runs, s = (100, 2048) if device == "cuda" else (2, 5)
    sample = Sample(device, tensor_format, s=s, dtype=torch.bfloat16, weights=weights)
    grads = [torch.randn_like(t) for t in sample.tensors]
    leaves = [t.clone().requires_grad_() for t in (*sample.tensors, *sample.weights)]

    def gradients():
        outs = qk_norm_rope(*leaves, sample.freqs, tensor_format, **sample.options)
        return torch.autograd.grad(outs, leaves, grads)

    first = gradients()
    for _ in range(runs - 1):
        assert all(map(torch.equal, first, gradients()))


# eps


@each_pair
@each_order
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", (0.0, 1e-4, 1e-2, 100.0))
@pytest.mark.parametrize("eps", (1e-6, 1e-5, 0.5))
def test_eps_and_rows_of_any_size(eps, size, dtype, norm_after, device):
    """Rows of zeros stay zeros, and their gradient is divided by sqrt(eps)."""
    sample = Sample(device, dtype=dtype)
    for t in sample.tensors:
        t.mul_(size)
        t[0] = 0
    if dtype == torch.float16 and eps < 1e-5 and size < 1e-2:
        eps = 1e-4  # else gradients are larger than fp16 can hold
    out = sample.check(eps=eps, norm_after=norm_after)[0]["out"]
    assert not out[0].any()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # rows that do not exist are divided by 0
def test_no_eps(device):
    Sample(device).check(eps=0.0)
    Sample(device).check(eps=0)


# sums of squares from elsewhere


@pytest.mark.parametrize("weights", (None, "(d,)", "(h, d)"))
def test_without_norm_dim_the_mean_is_over_the_head(weights, device):
    sample = Sample(device, heads=(3,), weights=weights)
    (t,) = sample.tensors
    sumsq = sum_of_squares(t)
    sample.check(sumsqs=[sumsq])
    given = norm_rope(t, *sample.weights, sample.freqs, sumsq=sumsq)
    torch.testing.assert_close(given, norm_rope(t, *sample.weights, sample.freqs))


@pytest.mark.parametrize("strided", ("transposed", "expanded"))
def test_sums_of_squares_of_any_strides(strided, device):
    sample = Sample(device, heads=(3,))
    sumsq = 10 + torch.rand(S, 2, 3, device=device)
    sumsq = sumsq.mT.contiguous().mT if strided == "transposed" else sumsq[:, :, :1].expand(S, 2, 3)
    sample.check(sumsqs=[sumsq])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@each_format
def test_sum_of_squares(tensor_format, dtype, device):
    t = torch.randn(shape_of(tensor_format, 5, 2, 3, 20), dtype=dtype, device=device)
    leaf = t.clone().requires_grad_()
    got = sum_of_squares(leaf)
    assert got.dtype == torch.promote_types(dtype, torch.float32)
    want = t.double().square().sum(-1)
    rtol = 1e-14 if dtype == torch.float64 else 1e-6
    torch.testing.assert_close(got.detach().double(), want, rtol=rtol, atol=0)
    (grad,) = torch.autograd.grad(got.sum(), leaf)
    torch.testing.assert_close(grad, 2 * t, rtol=2 * torch.finfo(dtype).eps, atol=0)


def test_the_sum_of_squares_of_zeros_has_a_gradient(device):
    """The root that a norm takes has none at 0."""
    t = torch.zeros(2, 1, 3, 8, device=device, requires_grad=True)
    sum_of_squares(t).sum().backward()
    assert not t.grad.any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_sum_of_squares_has_second_derivatives_everywhere(dtype, device):
    """2 in a row of zeros too, where the root of the sum has none."""
    t = torch.randn(3, 1, 2, 8, dtype=dtype, device=device)
    t[1] = 0
    t.requires_grad_()
    upstream = torch.rand(3, 1, 2, device=device) + 1
    upstream = upstream.to(torch.promote_types(dtype, torch.float32))
    (grad,) = torch.autograd.grad(sum_of_squares(t), t, upstream, create_graph=True)
    direction = torch.randn_like(grad)
    (second,) = torch.autograd.grad(grad, t, direction)
    want = 2 * upstream[..., None] * direction
    torch.testing.assert_close(second, want.to(dtype), rtol=4 * torch.finfo(dtype).eps, atol=0)


# wrong norms are noticed


def change_plans(monkeypatch, change):
    """Launch with other constants, or other tensors, than were planned."""
    run = launch_norm.run

    def run_changed(plan, given):
        return run(*change(plan, given))

    monkeypatch.setattr(launch_norm, "run", run_changed)


def with_field(constant, name, value):
    def change(plan, given):
        if hasattr(now := plan.constants.get(constant), name):
            plan = plan.with_constants(**{constant: {name: value(getattr(now, name))}})
        return plan, given

    return change


def without_weight(plan, given):
    if plan.kernel == norm_plan.FORWARD:
        given = given._replace(q_weight=torch.ones_like(given.q_weight))
    return plan, given


def weight_gradient_of_one_tile(plan, given):
    if plan.kernel == norm_plan.SUM:
        plan.sizes["q_shares"] = plan.sizes["k_shares"] = 1
    return plan, given


def weight_forgotten_in_the_backward(plan, given):
    if plan.kernel == norm_plan.BACKWARD:
        given = given._replace(q_weight=torch.ones_like(given.q_weight))
    return plan, given


WRONG = {
    "wrong sign": with_field("lookup", "inverse", lambda inverse: not inverse),
    "missing eps": with_field("norm", "eps", lambda eps: 0.0),
    "forgotten weight": without_weight,
    "weight's gradient of one tile": weight_gradient_of_one_tile,
    "weight forgotten in the backward": weight_forgotten_in_the_backward,
    "forgotten offset": with_field("norm", "weight_offset", lambda offset: 0.0),
    "mean over another number": with_field("norm", "dim", lambda dim: dim - 1),
    "other order": with_field("norm", "after", lambda after: not after),
}


@each_pair
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@each_order
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("tensor_format", ("bhsd", "thd"))
@pytest.mark.usefixtures("needs_triton", "whole_way")
def test_a_wrong_kernel_is_noticed(tensor_format, wrong, norm_after, device, monkeypatch):
    sample = Sample(device, tensor_format, s=9)  # several tiles
    options = {"eps": 1e-2, "weight_offset": 0.5, "norm_after": norm_after}
    change_plans(monkeypatch, wrong)
    with pytest.raises(AssertionError, match=r"^(out|t|weight): \d+ of \d+ differ"):
        sample.check(**options)


def test_a_norm_of_the_rotary_slice_alone_is_noticed(device):
    """As in models that norm fewer channels: the answer differs from ours."""
    sample = Sample(device, heads=(3,))
    (t,), (weight,) = sample.tensors, sample.weights
    slice_alone = norm_rope(t[..., :12], weight[:12], sample.freqs)
    assert not torch.allclose(norm_rope(t, weight, sample.freqs)[..., :12], slice_alone)
    check([t[..., :12]], [weight[:12]], sample.freqs)
