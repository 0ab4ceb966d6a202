"""What replaces the functions of models, with the same arguments: one for each way to call them.

Each hands a call to the function that it replaces where `Rule.why_not`, or it itself, has a reason.
"""

from collections.abc import Callable

import torch

from .calls import Rule

Form = Callable[[Rule, Callable], Callable]


def q_and_k(rule: Rule, original: Callable) -> Callable:
    """Most of the models."""

    def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
        if rule.why_not((q, k), cos, sin, unsqueeze_dim) is not None:
            return original(q, k, cos, sin, unsqueeze_dim)
        return rule.rotate((q, k), cos, sin, unsqueeze_dim)

    return apply_rotary_pos_emb


def by_matrices(rule: Rule, original: Callable) -> Callable:
    """The perception encoders: a table becomes matrices, so dimensions from the end are others."""

    def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
        usual = unsqueeze_dim >= 0 and q.dim() == 4
        if not usual or rule.why_not((q, k), cos, sin, unsqueeze_dim) is not None:
            return original(q, k, cos, sin, unsqueeze_dim)
        return rule.rotate((q, k), cos, sin, unsqueeze_dim)

    return apply_rotary_pos_emb


def with_unused_ids(rule: Rule, original: Callable) -> Callable:
    """DeepSeek V3's interleaved function, GLM-ASR: position ids are there and have no use."""

    def apply_rotary_pos_emb(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
        if rule.why_not((q, k), cos, sin, unsqueeze_dim) is not None:
            return original(q, k, cos, sin, position_ids, unsqueeze_dim)
        return rule.rotate((q, k), cos, sin, unsqueeze_dim)

    return apply_rotary_pos_emb


def q_alone_or_with_k(rule: Rule, original: Callable) -> Callable:
    """Qwen4-exp: without keys the result is a tensor."""

    def apply_rotary_pos_emb(q, k=None, cos=None, sin=None, unsqueeze_dim=1):
        tensors = (q,) if k is None else (q, k)
        if rule.why_not(tensors, cos, sin, unsqueeze_dim) is not None:
            return original(q, k, cos, sin, unsqueeze_dim)
        outs = rule.rotate(tensors, cos, sin, unsqueeze_dim)
        return outs[0] if k is None else outs

    return apply_rotary_pos_emb


def q_with_k_or_none(rule: Rule, original: Callable) -> Callable:
    """Mistral Large 4: without keys the result has None in their place."""

    def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
        tensors = (q,) if k is None else (q, k)
        if rule.why_not(tensors, cos, sin, unsqueeze_dim) is not None:
            return original(q, k, cos, sin, unsqueeze_dim)
        outs = rule.rotate(tensors, cos, sin, unsqueeze_dim)
        return (*outs, None) if k is None else outs

    return apply_rotary_pos_emb


def one_tensor(rule: Rule, original: Callable) -> Callable:
    """Gemma 3n, Gemma 4, DeepSeek V4."""

    def apply_rotary_pos_emb(x, cos, sin, unsqueeze_dim=1):
        if rule.why_not((x,), cos, sin, unsqueeze_dim) is not None:
            return original(x, cos, sin, unsqueeze_dim)
        return rule.rotate((x,), cos, sin, unsqueeze_dim)[0]

    return apply_rotary_pos_emb


def sine_first(rule: Rule, original: Callable) -> Callable:
    """GPT-J, CodeGen: (b, s, h, d), and a table (b, s, d/2)."""

    def apply_rotary_pos_emb(tensor, sin, cos):
        if rule.why_not((tensor,), cos, sin, 2) is not None:
            return original(tensor, sin, cos)
        return rule.rotate((tensor,), cos, sin, 2)[0]

    return apply_rotary_pos_emb


def values_too(rule: Rule, original: Callable) -> Callable:
    """CLVP: position ids choose rows of the table, and the values are rotated, too."""

    def apply_rotary_pos_emb(q, k, v, cos, sin, position_ids, unsqueeze_dim=1):
        cos_at, sin_at = cos[position_ids], sin[position_ids]
        if rule.why_not((q, k, v), cos_at, sin_at, unsqueeze_dim) is not None:
            return original(q, k, v, cos, sin, position_ids, unsqueeze_dim)
        outs = rule.rotate((q, k), cos_at, sin_at, unsqueeze_dim)
        return *outs, *rule.rotate((v,), cos_at, sin_at, unsqueeze_dim)

    return apply_rotary_pos_emb


def latest_queries(rule: Rule, original: Callable) -> Callable:
    """Muse-Glimmer's assistant: q has the last rows of the table, k all of them."""

    def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
        if q.shape[-2] == k.shape[-2]:
            calls = [((q, k), cos, sin)]
        else:
            latest = [x[..., x.shape[-2] - q.shape[-2] :, :] for x in (cos, sin)]
            calls = [((q,), *latest), ((k,), cos, sin)]
        is_longer = q.shape[-2] > k.shape[-2]
        if is_longer or any([rule.why_not(*call, unsqueeze_dim) is not None for call in calls]):
            return original(q, k, cos, sin, unsqueeze_dim)
        return tuple([x for call in calls for x in rule.rotate(*call, unsqueeze_dim)])

    return apply_rotary_pos_emb


def vision(rule: Rule, original: Callable) -> Callable:
    """The towers of Qwen2-VL and others: (s, h, d), or (b, s, h, d)."""
    return _of_a_tower(rule, original, -2)


def vision_of_rows(rule: Rule, original: Callable) -> Callable:
    """MiniMax M3-VL: (s, h, d) and a table (s, d2)."""
    return _of_a_tower(rule, original, 1)


def vision_of_a_batch(rule: Rule, original: Callable) -> Callable:
    """MiniMax M3-VL in transformers 5.17: (b, s, h, d) and a table (s, d2)."""
    ours = _of_a_tower(rule, original, 1)

    def apply_rotary_pos_emb_vision(q, k, cos, sin):
        has_batch = (q.dim(), cos.dim()) == (4, 2)
        return (ours if has_batch else original)(q, k, cos, sin)

    return apply_rotary_pos_emb_vision


def _of_a_tower(rule: Rule, original: Callable, unsqueeze_dim: int) -> Callable:
    def apply_rotary_pos_emb_vision(q, k, cos, sin):
        if rule.why_not((q, k), cos, sin, unsqueeze_dim) is not None:
            return original(q, k, cos, sin)
        return rule.rotate((q, k), cos, sin, unsqueeze_dim)

    return apply_rotary_pos_emb_vision


def patches(rule: Rule, original: Callable) -> Callable:
    """DINOv3: tokens before the last rows of the table, of no patch, pass through."""

    def apply_rotary_pos_emb(q, k, cos, sin, **kwargs):
        before = q.shape[-2] - sin.shape[-2]
        if before < 0 or cos.dim() != 2:
            return original(q, k, cos, sin, **kwargs)
        turned = q[..., before:, :], k[..., before:, :]
        if rule.why_not(turned, cos, sin, 0) is not None:
            return original(q, k, cos, sin, **kwargs)
        outs = rule.rotate(turned, cos, sin, 0)
        if before == 0:
            return outs
        return tuple(
            torch.cat((x[..., :before, :], out), -2) for x, out in zip((q, k), outs, strict=True)
        )

    return apply_rotary_pos_emb
