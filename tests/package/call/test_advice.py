"""What an error advises is accepted by the next call, and gives the result that was asked for."""

import re
from ast import literal_eval

import pytest
import torch

from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb
from rope_kernels.norms import norm_rope
from yardstick import assert_near, rotate_fp64

S, B, H, D = 5, 2, 3, 16
IDS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])


def trained(device, **options):
    module = RotaryPositionEmbedding(D, **options).to(device)
    module.inv_freq.requires_grad_()
    return module


def advice(call, error=ValueError):
    """The part of the message that says what is accepted."""
    with pytest.raises(error) as raised:
        call()
    return str(raised.value).partition("; accepted")[2]


def table_of(said, freqs, position_ids=None, max_seq_len=16):
    """The table that an advice names."""
    expression = re.search(r"freqs(\.cos_sin)?\([^)]*\)", said)[0]
    names = {"freqs": freqs, "position_ids": position_ids, "max_seq_len": max_seq_len}
    return eval(expression, names)


def options_of(said):
    """The options of a call that it names."""
    return {name: literal_eval(x) for name, x in re.findall(r"(\w+)=(\w+)", said)}


def assert_gradient_of_inv_freq(out, freqs):
    (gradient,) = torch.autograd.grad(out.sum(), freqs.inv_freq)
    assert gradient.isfinite().all() and gradient.abs().max() > 0


@pytest.mark.parametrize("where", ("index", "start_positions", "position_ids"))
def test_of_a_module_that_is_trained(where, device):
    freqs, t = trained(device, attention_factor=1.25), torch.randn(S, B, H, D, device=device)
    options = {
        "index": {},
        "start_positions": {"start_positions": torch.tensor([3, 7], device=device)},
        "position_ids": {"position_ids": IDS.to(device)},
    }[where]
    said = advice(lambda: apply_rotary_pos_emb(t, freqs, **options))
    table = table_of(said, freqs)
    options |= options_of(said)
    out = apply_rotary_pos_emb(t, table, "sbhd", **options)
    pair = tuple(x.detach() for x in table)
    assert_near(out.detach(), rotate_fp64(t, pair, "sbhd", **options))
    assert_gradient_of_inv_freq(out, freqs)
    assert norm_rope(t, None, table, "sbhd", **options).requires_grad


def test_of_a_table_of_angles(device):
    freqs = RotaryPositionEmbedding(D, attention_factor=1.25).to(device)
    t = torch.randn(S, B, H, D, device=device)
    said = advice(lambda: apply_rotary_pos_emb(t, freqs(S)))
    out = apply_rotary_pos_emb(t, table_of(said, freqs), "sbhd", **options_of(said))
    torch.testing.assert_close(out, apply_rotary_pos_emb(t, freqs))


def test_of_complex_numbers(device):
    """As in Llama's own code."""
    t, angles = torch.randn(B, S, H, D, device=device), torch.randn(S, D // 2, device=device)
    freqs = torch.polar(torch.ones_like(angles), angles)
    said = advice(lambda: apply_rotary_pos_emb(t, freqs, "bshd"), TypeError)
    options = re.search(r"pass complex numbers as (.*), with (.*)", said)
    out = eval(
        f"apply_rotary_pos_emb(t, {options[1]}, 'bshd', {options[2]})",
        {"apply_rotary_pos_emb": apply_rotary_pos_emb, "t": t, "freqs": freqs},
    )
    want = torch.view_as_real(torch.view_as_complex(t.unflatten(-1, (-1, 2))) * freqs[:, None])
    torch.testing.assert_close(out, want.flatten(-2))


class Scaled(RotaryPositionEmbedding):
    def forward(self, max_seq_len, offset=0):
        return super().forward(max_seq_len, offset) / 2


@pytest.mark.parametrize("refused", ("trained", "of a factor", "with a forward of its own"))
def test_of_a_module_whose_pairs_are_interleaved(refused, device):
    """A call by the module takes its pairing, and one by a table has to say it."""
    t = torch.randn(S, B, H, D, device=device)
    same = freqs = RotaryPositionEmbedding(D, interleaved=True).to(device)
    if refused == "trained":
        freqs = trained(device, interleaved=True)
        said = advice(lambda: apply_rotary_pos_emb(t, freqs))
    elif refused == "of a factor":
        same.attention_factor = 1.25
        said = advice(lambda: freqs(S))
    else:
        same = RotaryPositionEmbedding(D, interleaved=True, inv_freq=freqs.inv_freq / 2).to(device)
        freqs = Scaled(D, interleaved=True).to(device)
        said = advice(lambda: apply_rotary_pos_emb(t, freqs), TypeError)
    out = apply_rotary_pos_emb(t, table_of(said, freqs), "sbhd", **options_of(said))
    torch.testing.assert_close(out.detach(), apply_rotary_pos_emb(t, same))
