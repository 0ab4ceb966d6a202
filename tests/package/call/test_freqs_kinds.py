"""What freqs may be: angles, cosines and sines, or the module itself, with no table at all.

`test_ops.py` has each kind with every option, stride and dtype; here are tables of two meanings.
The exact angles of the module are in `tests/package/embedding/test_accuracy.py`.
"""

import re

import pytest
import torch

from rope_kernels import apply_rotary_pos_emb
from test_positions import check
from yardstick import assert_near, members

S, B, H, D, D2 = 5, 3, 3, 9, 6  # no stride is divided by 16: formats share compiled kernels


def sbhd(device, s=S):
    return torch.randn(s, B, H, D, device=device)


def cos_sin(shape, device, dtype=torch.float32):
    """Of no angle at all, and unlike in both members of a pair.

    A backward that turns by minus the angle, and a kernel that reads one half, are found out.
    """
    return tuple(torch.randn(2, *shape, device=device).to(dtype))


# cosines and sines


STORED = {  # d, columns, whether neighbors are a pair; cosines and sines as a library stores them
    "FlashAttention": (128, 64, False, lambda cos, sin: (cos, sin)),
    "vLLM": (128, 64, False, lambda cos, sin: torch.cat((cos, sin), -1).chunk(2, -1)),
    "GPT-J": (256, 32, True, lambda cos, sin: torch.cat((sin, cos), -1).chunk(2, -1)[::-1]),
}


@pytest.mark.parametrize("library", STORED)
def test_narrow_cosines_have_two_meanings_and_both_that_the_error_shows_are_right(library, device):
    """A column of each element, where a part of the head turns, or of each pair."""
    d, columns, interleaved, store = STORED[library]
    t, (cos, sin) = torch.randn(B, S, H, d, device=device), cos_sin((S, columns), device)
    freqs, before = store(cos, sin), t.clone()
    came = f"^rotary_dim is missing: freqs has {columns} columns, and t has d = {d}; accepted: "
    for options in ({"fused": False}, {"inplace": True}, {"rotary_start": 2}, {}):
        with pytest.raises(ValueError, match=came) as refused:
            apply_rotary_pos_emb(t, freqs, "bshd", interleaved=interleaved, **options)
    assert torch.equal(t, before)
    # from the last one, where both have room
    of_elements, of_pairs = map(int, re.findall(r"rotary_dim=(\d+)", str(refused.value)))
    assert (of_elements, of_pairs) == (columns, 2 * columns)
    check(t, freqs, "bshd", interleaved=interleaved, rotary_dim=of_elements)
    out = check(t, freqs, "bshd", interleaved=interleaved, rotary_dim=of_pairs)

    # as these libraries define it
    exact, want = t.double(), t.double()
    cos, sin = (table.double()[:, None] for table in (cos, sin))
    first, second = members(2 * columns, interleaved)
    want[..., first] = exact[..., first] * cos - exact[..., second] * sin
    want[..., second] = exact[..., first] * sin + exact[..., second] * cos
    assert_near(out, want)


def test_a_row_for_each_token_of_packed_sequences(device):
    """What the error advises, for either reading; of a single sequence they are one."""
    tokens, starts = 12, torch.tensor([0, 5, 12], device=device)
    t = torch.randn(tokens, H, D, device=device)
    table = cos, sin = cos_sin((1, tokens, D2), device)
    options = {"tensor_format": "thd", "rotary_dim": D2}
    for one_each in (table, (cos[0], sin[0])):
        with pytest.raises(ValueError, match=r"^cu_seqlens was passed with .* one row per token"):
            apply_rotary_pos_emb(t, one_each, cu_seqlens=starts, **options)

    of_tokens = apply_rotary_pos_emb(t[None], table, "bshd", rotary_dim=D2)[0]
    ids = torch.arange(tokens, device=device)
    # a list is as good as a tuple
    rows = apply_rotary_pos_emb(t, [cos[0], sin[0]], position_ids=ids, **options)
    whole = apply_rotary_pos_emb(t, table, cu_seqlens=starts[::2], **options)
    assert torch.equal(rows, of_tokens) and torch.equal(whole, of_tokens)

    options["start_positions"] = 0
    looked_up = apply_rotary_pos_emb(t, (cos[0], sin[0]), cu_seqlens=starts, **options)
    alone = apply_rotary_pos_emb(t[None, 5:], table, "bshd", rotary_dim=D2)[0]
    assert torch.equal(looked_up[5:], alone)


def test_a_row_for_the_one_token_of_each_entry(device):
    """As rows that a decoding step has chosen by its positions. Each reading can be said."""
    t = torch.randn(B, 1, H, D, device=device)
    cos, sin = cos_sin((B, D2), device)
    options = {"tensor_format": "bshd", "rotary_dim": D2}
    with pytest.raises(ValueError, match=r"^freqs has 3 rows for 3 batch entries"):
        apply_rotary_pos_emb(t, (cos, sin), **options)

    chosen = apply_rotary_pos_emb(t, (cos[:, None], sin[:, None]), **options)
    for entry in range(B):
        alone = cos[entry][None], sin[entry][None]
        want = apply_rotary_pos_emb(t[entry][None], alone, **options)
        assert torch.equal(chosen[entry][None], want)

    at_0 = apply_rotary_pos_emb(t, (cos, sin), start_positions=0, **options)
    assert torch.equal(at_0, apply_rotary_pos_emb(t, (cos[:1], sin[:1]), **options))
