"""`norm_rope` and `qk_norm_rope`, values and every gradient, against fp64.

What goes with every other option is in `test_norm_rope_matrix.py`.
"""

import pytest
import torch

from inputs import FORMATS, LAYOUTS, angles, contiguous, sequence_starts, shape_of
from norm_yardstick import assert_as_in_new_memory, check, norm_rope_fp64
from pairwise import cover
from rope_kernels import norm_rope, qk_norm_rope
from rope_kernels.launch import kernel_plans, launch

S, B, H, D, D2 = 3, 2, 3, 20, 12  # tiles with rows and positions that are not there

each_pairing = pytest.mark.parametrize("interleaved", (False, True), ids=("halves", "interleaved"))
each_order = pytest.mark.parametrize("norm_after", (False, True), ids=("norm first", "norm after"))


class Sample:
    """Queries and keys, a weight for each, and a table whose pairs have two angles each."""

    def __init__(
        self,
        device,
        tensor_format="sbhd",
        *,
        dtype=torch.float32,
        s=S,
        b=B,
        heads=(H, 1),
        d=D,
        d2=D2,
        layout=contiguous,
    ):
        self.format, self.device = tensor_format, device
        self.tensors = [layout(shape_of(tensor_format, s, b, h, d), dtype, device) for h in heads]
        self.weights = [self.weight(d, dtype) for _ in heads]
        self.freqs = angles(2 * s * b + 2, d2, device)
        self.options = {}
        if tensor_format == "thd":
            self.options["cu_seqlens"] = sequence_starts("thd", s, b, device)

    def weight(self, d, dtype):
        return (1 + torch.randn(d, device=self.device)).to(dtype)

    def check(self, freqs=None, **options):
        freqs = self.freqs if freqs is None else freqs
        options = {**self.options, **options}
        return check(self.tensors, self.weights, freqs, self.format, **options)


# formats, pairings, head dimensions


# beside those of the matrix
HEAD_AND_ROTARY_DIMS = [(2, 2), (72, 72), (92, 46), (100, 100), (128, 32), (192, 64), (256, 256)]
HEAD_AND_ROTARY_DIMS += [(512, 128)]


@cover(dims=HEAD_AND_ROTARY_DIMS, tensor_format=("sbhd", "thd"), norm_after=(False, True))
def test_any_head_dim(dims, tensor_format, norm_after, device):
    """The mean is over the whole head dimension, channels that are not rotated too."""
    (head_dim, rotary_dim), heads = dims, (2, 1) if dims[0] <= 128 else (1,)
    sample = Sample(device, tensor_format, s=2, heads=heads, d=head_dim, d2=rotary_dim)
    sample.check(norm_after=norm_after)


@cover(heads=((17, 5), (41, 3), (8, 8)), tensor_format=("sbhd", "bhsd"), norm_after=(False, True))
def test_any_number_of_heads(heads, tensor_format, norm_after, device):
    Sample(device, tensor_format, s=2, heads=heads).check(norm_after=norm_after)


# memory and dtypes


@cover(
    tensor_format=FORMATS,
    layout=("negative_view", "packed_qkv"),
    dtype=(torch.float32, torch.float64),
)
def test_a_minus_sign_that_is_noted_and_a_view(tensor_format, layout, dtype, device):
    """The matrix has the other layouts."""
    sample = Sample(device, tensor_format, dtype=dtype, layout=LAYOUTS[layout])
    sample.check(gradient=LAYOUTS[layout])


# tables


def cos_sin(*shape, device):
    angle = 10 * torch.randn(shape, device=device)
    return angle.cos(), angle.sin()


@each_order
def test_cosines_and_sines_that_are_scaled(norm_after, device):
    table = tuple(1.4 * x for x in cos_sin(S, D2, device=device))
    Sample(device, "bshd").check(freqs=table, norm_after=norm_after)


# weights


def strided(weight):
    return weight.repeat_interleave(2)[::2]


def negative(weight):
    return torch.view_as_complex(torch.stack([weight, weight], -1)).conj().imag


def expanded(weight):
    return weight[:1].expand(weight.shape)


@pytest.mark.parametrize("kept", (strided, negative, expanded))
def test_weights_of_any_strides(kept, device):
    sample = Sample(device, heads=(3, 2))
    sample.weights = [kept(weight) for weight in sample.weights]
    sample.check()


@cover(
    tensor_format=("bhsd", "thd"),
    of_k=(lambda weight: None, lambda weight: weight.float()),
    norm_after=(False, True),
)
def test_mixed_weights(tensor_format, of_k, norm_after, device):
    """A launch each: a weight of q says nothing about k's."""
    sample = Sample(device, tensor_format, dtype=torch.bfloat16, heads=(3, 2))
    sample.weights[1] = of_k(sample.weights[1])
    sample.check(norm_after=norm_after)


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


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # rows that do not exist are divided by 0
def test_no_eps(device):
    Sample(device).check(eps=0)


@each_order
def test_rows_of_zeros_stay_zeros(norm_after, device):
    """And their gradient is divided by sqrt(eps)."""
    sample = Sample(device)
    for t in sample.tensors:
        t[0] = 0
    assert not sample.check(eps=1e-5, norm_after=norm_after)[0]["out"][0].any()


# what comes to nothing, and what both functions share


@cover(tensor_format=FORMATS, dtype=(torch.bfloat16, torch.float32), heads=((H, 1), (8, 1)))
def test_q_and_k_are_what_each_is_alone(tensor_format, dtype, heads, device):
    """But for the order in which squares are added: k alone, of one head, has another tile."""
    sample = Sample(device, tensor_format, dtype=dtype, heads=heads, d=64)
    given = cos_sin(2 * S * B, 64, device=device), tensor_format
    together = qk_norm_rope(*sample.tensors, *sample.weights, *given, **sample.options)
    for t, weight, out in zip(sample.tensors, sample.weights, together, strict=True):
        assert_as_in_new_memory(out, norm_rope(t, weight, *given, **sample.options))


@pytest.mark.parametrize("count", (1, 2))
def test_one_launch_forward_and_two_backward(count, device, monkeypatch, whole_way):
    kernels, run = [], launch.run
    monkeypatch.setattr(
        launch, "run", lambda plan, given: kernels.append(plan.kernel) or run(plan, given)
    )
    Sample(device, heads=(H, 1)[:count]).check()
    assert kernels == [kernel_plans.FORWARD, kernel_plans.BACKWARD, kernel_plans.SUM]
