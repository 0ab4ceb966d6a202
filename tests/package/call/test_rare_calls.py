"""Rare calls that were once wrong, refused or crashed, each found by a review of the package."""

import pytest
import torch
from torch import func
from torch.autograd import forward_ad

from inputs import ADDRESSLESS, angles
from ops import OPS
from processes import run_python
from rope_kernels import (
    RotaryPositionEmbedding,
    apply_rotary_pos_emb,
    rope_qk,
)

S, B, H, D = 5, 2, 3, 8


@pytest.mark.parametrize("cp_order", ("zigzag", "contiguous", "round_robin"))
@pytest.mark.parametrize("cp_rank", (0, 2**28 - 1))
def test_context_parallel_positions_beyond_32_bits(cp_rank, cp_order, device):
    t, rope = torch.randn(32, 1, 2, D, device=device), RotaryPositionEmbedding(D).to(device)
    ranks = {"cp_size": 2**28, "cp_rank": cp_rank, "cp_order": cp_order}
    got = apply_rotary_pos_emb(t, rope, **ranks)
    torch.testing.assert_close(got, apply_rotary_pos_emb(t, rope, fused=False, **ranks))


def rotated_by(inv_freq, t):
    rope = RotaryPositionEmbedding(D)
    rope.inv_freq = inv_freq
    return apply_rotary_pos_emb(t, rope)


@pytest.mark.parametrize("mode", ("forward", "reverse through vmap", "reverse"))
def test_a_derivative_in_inv_freq_is_not_lost(mode, device):
    """It is that of a table that the module computes."""
    inv_freq = RotaryPositionEmbedding(D).to(device).inv_freq
    t = torch.randn(S, B, H, D, device=device)
    rotated_by(inv_freq, t)  # a call of this kind has been launched

    def by_table(x):
        rope = RotaryPositionEmbedding(D)
        rope.inv_freq = x
        return apply_rotary_pos_emb(t, rope.cos_sin(S), "sbhd", rotary_dim=D)

    found = []
    for f in (lambda x: rotated_by(x, t), by_table):
        if mode == "forward":
            found += [func.jvp(f, (inv_freq,), (torch.ones_like(inv_freq),))[1]]
        elif mode == "reverse":
            found += [func.grad(lambda x, f=f: f(x).square().sum() + f(x).sum())(inv_freq)]
        else:
            many = torch.stack([inv_freq] * 2).requires_grad_()
            found += torch.autograd.grad(func.vmap(f)(many).sum(), many)
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


def test_q_and_k_without_memory_share_none():
    q, k = (torch.empty(S, B, heads, D, device="meta") for heads in (H, 1))
    table = torch.empty(S, 1, 1, D, device="meta")
    assert rope_qk(q, k, table, "sbhd", inplace=True) == (q, k)
    assert rope_qk(q, k, table, "sbhd")[1].shape == k.shape


@pytest.mark.parametrize("make", ADDRESSLESS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("op", [op for op in OPS if op.name != "rope_to_cache"], ids=str)
def test_elements_that_have_no_address_are_zeros_to_no_kernel(op, make, device, interpreter):
    """On a GPU a kernel would end the process's CUDA context; in a warm call, too."""
    sample = op.sample(device, positions="ids", freqs="cos and sin")

    def call(name, x):
        if name in sample.given:
            return sample.call({name: x})
        return sample.call(freqs=(x, x)) if name == "freqs" else sample.call(**{name: x})

    for name, x in (sample.given | {"freqs": sample.freqs[0]} | sample.where).items():
        call(name, x)
        call(name, x)
        want = call(name, torch.zeros_like(x))
        for _ in range(2):
            outs = call(name, make(x))
            outs = [torch._from_functional_tensor(y) if is_functional(y) else y for y in outs]
            for out, zero in zip(outs, want, strict=True):
                torch.testing.assert_close(out, zero)


def is_functional(x):
    return torch._is_functional_tensor(x)


def test_threads_in_the_interpreter_wait_for_each_other(needs_triton):
    """Triton's interpreter, which a variable turns on, keeps the grid of a launch in globals.

    Launches have several programs, so that another thread's launch falls between them.
    """
    code = """
        import torch
        from concurrent.futures import ThreadPoolExecutor
        from rope_kernels import RotaryPositionEmbedding, rope_fw

        rope = RotaryPositionEmbedding(8)
        tensors = [torch.randn(10 * (1 + i), 2, 2, 8) for i in range(4)]
        wants = [rope_fw(t, rope) for t in tensors]

        def rotate(i):
            return [rope_fw(tensors[i], rope) for _ in range(4)]

        with ThreadPoolExecutor(4) as pool:
            for want, outs in zip(wants, pool.map(rotate, range(4)), strict=True):
                print(all(torch.equal(out, want) for out in outs))
    """
    assert run_python(code, TRITON_INTERPRET="1").split() == ["True"] * 4


@pytest.mark.parametrize("transform", ("vmap", "grad"))
def test_a_transform_under_compile_takes_pytorchs_operators(transform, device):
    """The operator has no rule for them."""
    t, table = torch.randn(3, S, B, H, D, device=device), angles(S, D, device)

    def rotate(t):
        return apply_rotary_pos_emb(t, table)

    def transformed(t):
        if transform == "vmap":
            return func.vmap(rotate)(t)
        return func.grad(lambda t: (rotate(t) ** 3).sum())(t[0])

    got = torch.compile(transformed, backend="aot_eager", fullgraph=True)(t)
    torch.testing.assert_close(got, transformed(t))


class Mine(torch.Tensor):
    pass


BAD_VALUES = {
    "position_ids": (torch.tensor([[0, 1, 2, 3, 99]]), r"^freqs has angles .* needs 100$"),
    "start_positions": (torch.tensor([0, -3]), r"^start_positions is \[0, -3\]"),
}


@pytest.mark.parametrize("within", ("func.grad", "vmap", "forward mode", "a subclass"))
@pytest.mark.parametrize("which", BAD_VALUES)
def test_values_on_the_cpu_are_checked_wherever_they_can_be_read(which, within):
    t, table = torch.randn(S, B, H, D), angles(S + 4, D, "cpu")
    values, message = BAD_VALUES[which]

    def rotate(t):
        return apply_rotary_pos_emb(t, table, **{which: values})

    with pytest.raises(ValueError, match=message):
        if within == "func.grad":
            func.grad(lambda t: rotate(t).sum())(t)
        elif within == "vmap":
            func.vmap(rotate)(t[None])
        elif within == "forward mode":
            with forward_ad.dual_level():
                rotate(forward_ad.make_dual(t, t))
        else:
            rotate(t.as_subclass(Mine))
