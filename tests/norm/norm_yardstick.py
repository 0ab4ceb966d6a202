"""What `norm_rope` should give: fp64, written apart from the package, by the definition.

Gradients are PyTorch's own, of that definition. `check` compares values and every gradient; its
tolerances are fp32 arithmetic and one rounding to the dtype, at the scale of each row.
"""

from functools import partial

import torch

from inputs import contiguous
from rope_kernels import norm_rope, qk_norm_rope
from yardstick import assert_near, rotate_fp64

NOT_OF_THE_ANSWER = ("rounding", "fused", "inplace")


def norm_rope_fp64(
    t,
    weight,
    freqs,
    tensor_format="sbhd",
    *,
    eps=1e-6,
    weight_offset=0.0,
    norm_after=False,
    **options,
):
    """RMS norm and RoPE by their definitions, in fp64, differentiable in every tensor."""
    rotate = partial(rotate_fp64, freqs=freqs, tensor_format=tensor_format, **options)
    x = t.double()
    x = rotate(x) if norm_after else x
    x = x * rstd_fp64(x, eps)
    if weight is not None:
        x = x * (weight_offset + weight.double())
    return x if norm_after else rotate(x)


def rstd_fp64(x, eps=1e-6):
    """1 / rms of each row, (..., 1)."""
    return (x.double().square().mean(-1, keepdim=True) + eps) ** -0.5


def answers_fp64(t, weight, freqs, tensor_format, grad, options):
    """Name -> what should come out, and the scale of what was added up for it."""
    given = {"t": t, "weight": weight}
    leaves = {n: x.detach().double().requires_grad_() for n, x in given.items() if x is not None}
    options = {name: x for name, x in options.items() if name not in NOT_OF_THE_ANSWER}
    out = norm_rope_fp64(leaves["t"], leaves.get("weight"), freqs, tensor_format, **options)
    grad = grad.double()
    found = torch.autograd.grad(out, list(leaves.values()), grad)
    wants = {"out": out.detach(), **dict(zip(leaves, found, strict=True))}

    rstd = rstd_fp64(t, options.get("eps", 1e-6))
    normal, largest = most_of_row(t) * rstd, most_of_row(grad)
    factor = (
        1 if weight is None else (weight.double() + options.get("weight_offset", 0)).abs().max()
    )
    along = largest * normal * factor  # in a row's gradient along itself
    scales = {
        "out": most_of_row(wants["out"]),
        "t": rstd * (largest * factor + along * normal),
        "weight": (largest * normal).square().sum().sqrt(),
    }
    return {name: (want, scales[name]) for name, want in wants.items()}


def most_of_row(x):
    return x.detach().double().abs().amax(-1, keepdim=True)


def assert_as_in_new_memory(out, want):
    """The same bits; on a GPU, where memory may decide in which order squares are added, nearly.

    Rows apart from each other, or at odd addresses, are loaded in other pieces than those of a new
    tensor, and so are rows in another tile.
    """
    if out.is_cuda:
        assert_added_otherwise(out, want)
    else:
        assert torch.equal(out, want)


def assert_added_otherwise(out, want):
    """The same but for the order of sums: 1 / rms differs by a bit or two, and so does its row."""
    of_dtype = torch.finfo(out.dtype)
    allowed = 4 * of_dtype.eps * (most_of_row(want.nan_to_num()) + of_dtype.smallest_normal)
    same = (out == want) | (out.isnan() & want.isnan()) | ((out - want).abs() <= allowed)
    assert same.all(), f"{(~same).sum()} of {same.numel()} elements differ"


def outs_and_grads(tensors, weights, freqs, tensor_format, grads, **options):
    """Call the public function for one or two tensors: [name -> result] of each."""
    leaves = [
        {n: x.detach().requires_grad_() for n, x in given.items() if x is not None}
        for given in named(tensors, weights)
    ]
    ts, ws = ([leaf.get(name) for leaf in leaves] for name in ("t", "weight"))
    if len(tensors) == 2:
        outs = qk_norm_rope(*ts, *ws, freqs, tensor_format, **options)
    else:
        outs = (norm_rope(*ts, *ws, freqs, tensor_format, **options),)
    flat = [x for leaf in leaves for x in leaf.values()]
    found = iter(torch.autograd.grad(outs, flat, grads))
    return [
        {"out": out.detach(), **{name: next(found) for name in leaf}}
        for out, leaf in zip(outs, leaves, strict=True)
    ]


def named(tensors, weights):
    rows = zip(tensors, weights, strict=True)
    return [dict(zip(("t", "weight"), row, strict=True)) for row in rows]


def check(
    tensors, weights, freqs, tensor_format="sbhd", *, gradient=contiguous, slack=0.0, **options
):
    """Values and all gradients of `norm_rope`, or of `qk_norm_rope` for two tensors.

    `gradient(shape, dtype, device)` makes what arrives from the rest of the network. Returns what
    came: [name -> result] of each tensor.
    """
    grads = [gradient(t.shape, t.dtype, t.device) for t in tensors]
    found = outs_and_grads(tensors, weights, freqs, tensor_format, grads, **options)
    for given, got, grad in zip(named(tensors, weights), found, grads, strict=True):
        wants = answers_fp64(
            **given, freqs=freqs, tensor_format=tensor_format, grad=grad, options=options
        )
        assert got["out"].is_contiguous() and got["out"].dtype == grad.dtype
        for name, (want, scale) in wants.items():
            if name != "out":
                assert got[name].dtype == given[name].dtype, name
            assert_near(got[name], want, scale, slack, name)
    return found
