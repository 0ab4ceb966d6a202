"""`norm_rope` and `qk_norm_rope`, values and every gradient, against fp64."""

import pytest
import torch

from inputs import FORMATS, LAYOUTS, angles, contiguous, sequence_starts, shape_of
from norm_yardstick import assert_as_in_new_memory, check
from pairwise import cover, each_pair
from rope_kernels import norm_rope, qk_norm_rope, reference
from rope_kernels.call.normalization import Normalization
from rope_kernels.launch import launch_norm, norm_plan

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
S, B, H, D, D2 = 3, 2, 3, 20, 12  # tiles with rows and positions that are not there

each_format = pytest.mark.parametrize("tensor_format", FORMATS)
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
        weights="(d,)",
        weight_dtype=None,
    ):
        self.format, self.device = tensor_format, device
        self.tensors = [layout(shape_of(tensor_format, s, b, h, d), dtype, device) for h in heads]
        self.weights = [self.weight(weights, h, d, weight_dtype or dtype) for h in heads]
        self.freqs = angles(2 * s * b + 2, d2, device)
        self.options = {}
        if tensor_format == "thd":
            self.options["cu_seqlens"] = sequence_starts("thd", s, b, device)

    def weight(self, kind, heads, d, dtype):
        if kind is None:
            return None
        shape = (heads, d) if kind == "(h, d)" else (d,)
        return (1 + torch.randn(shape, device=self.device)).to(dtype)

    def check(self, freqs=None, **options):
        freqs = self.freqs if freqs is None else freqs
        options = {**self.options, **options}
        return check(self.tensors, self.weights, freqs, self.format, **options)


# formats, pairings, head dimensions


HEAD_AND_ROTARY_DIMS = [(2, 2), (30, 10), (64, 64), (72, 72), (80, 80), (80, 32), (92, 46)]
HEAD_AND_ROTARY_DIMS += [(100, 100), (100, 50), (120, 120), (128, 128), (128, 32), (192, 64)]
HEAD_AND_ROTARY_DIMS += [(256, 256), (256, 64), (512, 128)]


@each_pair
@each_order
@pytest.mark.parametrize("head_dim,rotary_dim", HEAD_AND_ROTARY_DIMS)
@pytest.mark.parametrize("tensor_format", ("sbhd", "thd"))
def test_any_head_dim(tensor_format, head_dim, rotary_dim, norm_after, device):
    """The mean is over the whole head dimension, channels that are not rotated too."""
    heads = (2, 1) if head_dim <= 128 else (1,)
    sample = Sample(device, tensor_format, s=2, heads=heads, d=head_dim, d2=rotary_dim)
    sample.check(norm_after=norm_after)


@each_pair
@each_order
@pytest.mark.parametrize("heads", ((1,), (1, 1), (17, 5), (41, 3), (2, 5), (8, 8)), ids=str)
@pytest.mark.parametrize("tensor_format", ("sbhd", "bhsd"))
def test_any_number_of_heads(tensor_format, heads, norm_after, device):
    Sample(device, tensor_format, s=2, heads=heads).check(norm_after=norm_after)


@pytest.mark.parametrize("weights", ("(d,)", "(h, d)", None))
@pytest.mark.parametrize("tensor_format", ("sbhd", "thd"))
def test_more_rows_than_32_bits_count(tensor_format, weights, device, monkeypatch, whole_way):
    """Then each batch entry has programs of its own: here already for 4 rows."""
    sample = Sample(device, tensor_format, weights=weights)
    monkeypatch.setattr(norm_plan, "MOST_ROWS", 6)
    sample.check()


def test_more_heads_than_32_bits_count_are_refused(device, monkeypatch, whole_way):
    sample = Sample(device, "sbhd")
    monkeypatch.setattr(norm_plan, "MOST_ROWS", 2)
    with pytest.raises(ValueError, match=r"heads; accepted: fewer than 2"):
        sample.check()


# memory and dtypes


@cover(
    tensor_format=FORMATS,
    layout=LAYOUTS,
    dtype=DTYPES,
    interleaved=(False, True),
    norm_after=(False, True),
)
def test_any_strides_of_input_and_gradient(
    tensor_format, layout, dtype, interleaved, norm_after, device
):
    sample = Sample(device, tensor_format, dtype=dtype, layout=layout)
    sample.check(gradient=layout, interleaved=interleaved, norm_after=norm_after)


@pytest.mark.parametrize("weights", ("(d,)", "(h, d)"))
def test_a_weight_in_fp32_for_rows_in_fp64(weights, device):
    """The output has the dtype of x, and the weight's gradient that of the weight."""
    sample = Sample(device, dtype=torch.float64, weights=weights, weight_dtype=torch.float32)
    sample.check()


# tables


def cos_sin(*shape, device):
    angle = 10 * torch.randn(shape, device=device)
    return angle.cos(), angle.sin()


@each_order
def test_cosines_and_sines_that_are_scaled(norm_after, device):
    table = tuple(1.4 * x for x in cos_sin(S, D2, device=device))
    Sample(device, "bshd").check(freqs=table, norm_after=norm_after)


# what comes to nothing, and what both functions share


@pytest.mark.parametrize("shape", ((0, 2, 3, 8), (5, 0, 3, 8), (5, 2, 0, 8)), ids=str)
def test_empty_tensors(shape, device):
    sample = Sample(device, d=8, d2=4)
    full = torch.randn(*shape[:2], 2, 8, device=device)
    for tensors in ([torch.randn(shape, device=device)], [torch.randn(shape, device=device), full]):
        weights = sample.weights[: len(tensors)]
        for x in outs_and_gradients(tensors, weights, sample.freqs):
            assert not x.isnan().any()


def outs_and_gradients(tensors, weights, freqs):
    leaves = [x.clone().requires_grad_() for x in (*tensors, *weights)]
    outs = qk_norm_rope(*leaves, freqs) if len(tensors) == 2 else (norm_rope(*leaves, freqs),)
    assert [out.shape for out in outs] == [t.shape for t in tensors]
    grads = torch.autograd.grad(outs, leaves, [torch.ones_like(out) for out in outs])
    assert [x.shape for x in grads] == [x.shape for x in leaves]
    for weight_grad, t in zip(grads[len(tensors) :], tensors, strict=True):
        assert t.numel() or not weight_grad.any()
    return *outs, *grads


@each_pair
@pytest.mark.parametrize("heads", ((H, 1), (8, 1)), ids=str)
@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float32), ids=str)
@each_format
def test_q_and_k_are_what_each_is_alone(tensor_format, dtype, heads, device):
    """But for the order in which squares are added: k alone, of one head, has another tile."""
    sample = Sample(device, tensor_format, dtype=dtype, heads=heads, d=64)
    given = cos_sin(2 * S * B, 64, device=device), tensor_format
    together = qk_norm_rope(*sample.tensors, *sample.weights, *given, **sample.options)
    for t, weight, out in zip(sample.tensors, sample.weights, together, strict=True):
        assert_as_in_new_memory(out, norm_rope(t, weight, *given, **sample.options))


@pytest.mark.parametrize("count", (1, 2))
def test_one_launch_forward_and_two_backward(count, device, monkeypatch, whole_way):
    kernels, run = [], launch_norm.run
    monkeypatch.setattr(
        launch_norm, "run", lambda plan, given: kernels.append(plan.kernel) or run(plan, given)
    )
    Sample(device, heads=(H, 1)[:count]).check()
    assert kernels == [norm_plan.FORWARD, norm_plan.BACKWARD, norm_plan.SUM]


@pytest.mark.parametrize("tensor_format", ("sbhd", "bshd", "bhsd", "thd", "hbsd", "hsbd"))
def test_weights_of_heads_meet_their_heads_in_any_format(tensor_format):
    """In formats that there may be one day, too; with as many heads as tokens."""
    sizes = {"s": 3, "b": 2, "h": 3, "t": 3, "d": 4}
    x, weight = torch.randn([sizes[dim] for dim in tensor_format]), torch.randn(3, 4)
    norm = Normalization(
        eps=0.0, weight_offset=0.0, after=False, like_model=False, casts_last=False, dim=4
    )
    heads = tensor_format.index("h")
    by_head = reference.normalize(x, weight, None, tensor_format, norm).unbind(heads)
    for i, x_of_head in enumerate(x.unbind(heads)):
        want = torch.nn.functional.rms_norm(x_of_head, (4,), weight[i], eps=0.0)
        torch.testing.assert_close(by_head[i], want)
