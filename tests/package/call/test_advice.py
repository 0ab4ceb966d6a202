"""What an error advises is accepted by the next call, and gives the result that was asked for."""

import re
from ast import literal_eval
from functools import partial, update_wrapper

import pytest
import torch

from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb
from yardstick import assert_near, rotate_fp64

S, B, H, D = 5, 2, 3, 16


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


@pytest.mark.parametrize("refused", ("of a factor", "with a forward of its own"))
def test_of_a_module_whose_pairs_are_interleaved(refused, device):
    """A call by the module takes its pairing, and one by a table has to say it."""
    t = torch.randn(S, B, H, D, device=device)
    same = freqs = RotaryPositionEmbedding(D, interleaved=True).to(device)
    if refused == "of a factor":
        same.attention_factor = 1.25
        said = advice(lambda: freqs(S))
    else:
        same = RotaryPositionEmbedding(D, interleaved=True, inv_freq=freqs.inv_freq / 2).to(device)
        freqs = Scaled(D, interleaved=True).to(device)
        said = advice(lambda: apply_rotary_pos_emb(t, freqs), TypeError)
    out = apply_rotary_pos_emb(t, table_of(said, freqs), "sbhd", **options_of(said))
    torch.testing.assert_close(out.detach(), apply_rotary_pos_emb(t, same))


class AlignDevicesHook:
    """As that of accelerate: it loads what was offloaded, and only while `forward` runs."""

    __module__ = "accelerate.hooks"

    def __init__(self, module, offload):
        self.loaded, self.offload = module.inv_freq, offload
        self.post_forward(module, None)

    def pre_forward(self, module):
        module._buffers["inv_freq"] = self.loaded

    def post_forward(self, module, output):
        if self.offload:
            module._buffers["inv_freq"] = self.loaded.to("meta")
        return output


class Doubled(AlignDevicesHook):
    __module__ = "models"

    def post_forward(self, module, output):
        return None if output is None else 2 * output


def add_hook_to_module(module, hook):
    """As accelerate does, which puts a `forward` of its own into each module."""

    def new_forward(module, *args, **kwargs):
        module._hf_hook.pre_forward(module)
        return module._hf_hook.post_forward(module, module._old_forward(*args, **kwargs))

    module._hf_hook, module._old_forward = hook, module.forward
    forward = partial(new_forward, module)
    module.forward = update_wrapper(forward, module._old_forward)


@pytest.mark.parametrize("interleaved", (False, True))
def test_of_a_module_that_accelerate_has_placed(interleaved, device):
    """Offloaded, its frequencies are on meta until its own `forward` runs."""
    t = torch.randn(S, B, H, D, device=device)
    want = apply_rotary_pos_emb(t, RotaryPositionEmbedding(D, interleaved=interleaved).to(device))
    for offload in (False, True):
        freqs = RotaryPositionEmbedding(D, interleaved=interleaved).to(device)
        add_hook_to_module(freqs, AlignDevicesHook(freqs, offload))
        if not offload:
            for fused in (True, True, False):
                out = apply_rotary_pos_emb(t, freqs, fused=fused)
                torch.testing.assert_close(out, want)
            continue
        said, _, instead = advice(lambda freqs=freqs: apply_rotary_pos_emb(t, freqs)).partition(
            ", or "
        )
        assert instead.endswith("offload_buffers=False")  # which the other case is
        out = apply_rotary_pos_emb(t, table_of(said, freqs), "sbhd", **options_of(said))
        torch.testing.assert_close(out, want)


def test_of_a_hook_of_accelerate_that_changes_results(device):
    t, freqs = torch.randn(S, B, H, D, device=device), RotaryPositionEmbedding(D).to(device)
    add_hook_to_module(freqs, Doubled(freqs, offload=False))
    said = advice(lambda: apply_rotary_pos_emb(t, freqs), TypeError)
    out = apply_rotary_pos_emb(t, table_of(said, freqs), "sbhd")
    assert_near(out, rotate_fp64(t, 2 * RotaryPositionEmbedding(D).to(device)(S), "sbhd"))
