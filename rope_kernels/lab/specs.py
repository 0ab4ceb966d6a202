"""The specifications that exercises are judged by: plain PyTorch, and no more than a definition."""
# ruff: noqa: F821 (the letters of shapes)

import torch

from .spec import STRIDED, spec


@spec
def rotate_half(x: "(s, b, h, d2)"):
    """(x1, x2) to (-x2, x1), half by half."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


@spec
def rotate_half_of_neighbours(x: "(s, b, h, d2)"):
    """(x1, x2) to (-x2, x1), where x1 and x2 stand side by side."""
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


@spec
def rope(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """The study's function: the first d2 elements rotated, the rest as it came."""
    return _rotated(t, freqs[: t.shape[0]], rotate_half.function)


@spec(angles="pairs")
def rope_of_neighbours(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """The same for the interleaved pairing."""
    return _rotated(t, freqs[: t.shape[0]], rotate_half_of_neighbours.function)


@spec(leave_out=STRIDED)
def rope_of_contiguous(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope`, and every tensor contiguous."""
    return rope.function(t, freqs)


@spec(leave_out=(*STRIDED, "part of the head rotated", "a table longer than the text"))
def rope_of_whole_heads(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope`, and every tensor contiguous and every head rotated as a whole."""
    return rope.function(t, freqs)


@spec(overwrites=("t",))
def rope_in_place(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope`, written over its input and nowhere else."""
    return rope.function(t, freqs)


@spec
def rope_gradient(grad: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """From the gradient of `rope`'s result to that of `t`: the transposed map."""
    d2 = freqs.shape[-1]
    freqs = freqs[: grad.shape[0]]
    rotary, tail = grad[..., :d2], grad[..., d2:]
    back = rotary * freqs.cos() - rotate_half.function(rotary * freqs.sin())
    return torch.cat((back, tail), dim=-1)


@spec
def rope_at_positions(
    t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)", position_ids: "positions (b, s)"
):
    """`rope`, with a position of its own for every token."""
    return _rotated(t, freqs[position_ids.t(), 0], rotate_half.function)


@spec
def rope_of_q_and_k(q: "(s, b, h, d)", k: "(s, b, g, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope` of both; they may differ in the number of heads."""
    return rope.function(q, freqs), rope.function(k, freqs)


@spec
def rope_in_three_sections(
    t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)", position_ids: "positions (3, b, s)"
):
    """M-RoPE: time, height and width turn a quarter, then three eighths of the pairs each.

    Source: Qwen2-VL, section 2.1; its 16, 24 and 24 pairs of 64. What does not divide goes last.
    """
    pairs = freqs.shape[-1] // 2
    ends = pairs // 4, pairs // 4 + 3 * pairs // 8
    section = torch.bucketize(
        torch.arange(pairs, device=t.device), torch.tensor(ends, device=t.device), right=True
    )
    by_section = freqs[position_ids, 0, 0].permute(2, 1, 0, 3)  # (s, b, 3, d2)
    section = section.repeat(2).expand(*by_section.shape[:2], 1, -1)
    return _rotated(t, by_section.gather(2, section), rotate_half.function)


def _rotated(t, angles, quarter_turn):
    rotary, tail = t[..., : angles.shape[-1]], t[..., angles.shape[-1] :]
    rotated = rotary * angles.cos() + quarter_turn(rotary) * angles.sin()
    return torch.cat((rotated.to(t.dtype), tail), dim=-1)
