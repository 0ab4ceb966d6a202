"""Norms of queries and keys: which of them a kernel can do, and the call that also rotates.

A norm is known by the digest of its class's code. All else that decides, such as a hook or a shard
for a weight, may change from call to call, so every call asks again.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import CodeType

import torch
from torch import Tensor, nn

from ..norms import Norm, NormRounding, Tensors, normalize_by
from ..ways import Way
from .calls import Rule, exchanged
from .digest import UnknownCode, code_digest, original_of
from .replacement import NORMS_APART, is_hooked


@dataclass(frozen=True)
class NormRule:
    """How a class normalizes, in the words of `norm_rope`."""

    eps: str  # the name of its attribute
    weight_offset: float = 0.0
    rounding: NormRounding = "model"
    has_weight: bool = True


# By the digest of a class's `forward`; if it also has a `_norm`, by both with a space between them.
NORM_RULES = {
    # Llama, and most others
    "24b3e7412775": NormRule("variance_epsilon"),
    # Gemma 3, Qwen 3.5, ...
    "86acc28dd0d0 cd41bdfcac79": NormRule("eps", weight_offset=1.0),
    # AFMoE, NeoMME, ...
    "4866bfe29f4f": NormRule("variance_epsilon", rounding="model_cast_last"),
    # Gemma 3n, 4, ...
    "16f8b7ded486 f5e67b50bc70": NormRule("eps", rounding="model_cast_last"),
    # NanoChat, ...
    "8db50e80c14f cd41bdfcac79": NormRule("eps", rounding="model_cast_last", has_weight=False),
}


@cache
def _rule_of_methods(*methods: object) -> tuple[NormRule | None, tuple[CodeType | None, ...]]:
    """The rule of a class with these methods, None if it has none; and the code that they have."""
    codes = _codes_of(methods)
    try:
        digests = [code_digest(original_of(x)) for x in methods if x is not None]
    except UnknownCode:
        return None, codes
    return NORM_RULES.get(" ".join(digests)), codes


def _codes_of(methods: Sequence[object]) -> tuple[CodeType | None, ...]:
    return tuple([getattr(x, "__code__", None) for x in methods])


def _rule_of_class(cls: type[nn.Module]) -> NormRule | None:
    """The rule by which a class normalizes; None if its code is not that of a known norm."""
    methods = getattr(cls, "forward", None), getattr(cls, "_norm", None)
    rule, codes = _rule_of_methods(*methods)
    if codes != _codes_of(methods):  # a method was given other code, as by autoreload
        _rule_of_methods.cache_clear()
        rule, _ = _rule_of_methods(*methods)
    return rule


def norm_of_all(module: nn.Module, names: Iterable[str], norm_after: bool) -> Norm | None:
    """What the norms of these names do, if all do the same and a kernel may do it for them.

    None where they have to run themselves: with a hook on one (transformers' tensor parallelism
    sums the gradients of weights in a hook), with weights that are shards, where a `forward` was
    set on one, and where they differ.
    """
    found: tuple[NormRule, float] | None = None
    for name in names:
        norm = module._modules.get(name)
        if norm is None:  # as where a flag says that there are none
            return None
        rule, own = _rule_of_class(type(norm)), norm.__dict__
        is_changed = "forward" in own or "_norm" in own
        if rule is None or is_hooked(norm) or is_changed:
            return None
        weight, eps = norm._parameters.get("weight"), own.get(rule.eps)
        if rule.has_weight and (type(weight) is not nn.Parameter or not own.get("with_scale", 1)):
            return None
        if type(eps) is not float or found not in (None, (rule, eps)):
            return None
        found = rule, eps
    if found is None:
        return None
    rule, eps = found
    return Norm(eps, rule.weight_offset, norm_after, rule.rounding)


@dataclass(slots=True)
class NormedRotation:
    """What a forward calls in place of its rotation: it normalizes, too.

    It takes the rotation's arguments and hands them to the form of the rotation's rule. The form
    calls `rotate`, and where that can't be done in one launch, norms and rotation apart.
    """

    rule: Rule  # of the rotation
    rotation: Callable[..., Tensors | Tensor]  # the model's own
    norms: list[nn.Module]  # the model's own, one for each tensor that is rotated
    norm: Norm | None  # what all of them do; None: they have to run themselves
    norm_after: bool  # they come after the rotation
    exchanges: bool  # they are given heads and positions exchanged
    ways: Counter[Way]  # counts calls

    def __call__(self, *args: object, **kwargs: object) -> object:
        apart = self._one_apart if len(self.norms) == 1 else self._two_apart
        return self.rule.form(self.rotate, apart, *args, **kwargs)

    def rotate(
        self, tensors: Tensors, cos: Tensor, sin: Tensor, unsqueeze_dim: int
    ) -> Tensors | None:
        """Normalize and rotate one or two tensors in one launch; None: they have to run apart.

        In autocast, where a weight in fp32 promotes, the result is promoted, too. Its values are
        rounded to the dtype of q, as autocast does before an attention.
        """
        weights = tuple([norm._parameters.get("weight") for norm in self.norms])
        in_fp32 = self._promoted(tensors, weights, cos)
        if self.norm is None or in_fp32 is None:
            self.ways[NORMS_APART] += 1
            return None
        # `NORM_RULES` round like a model, as do the rotations that `replacement_forward` takes.
        by = partial(normalize_by, self.norm, weights=weights)
        outs = self.rule.rotate(
            tensors, cos, sin, unsqueeze_dim=unsqueeze_dim, ways=self.ways, by=by
        )
        if outs is None:
            return None
        flagged = zip(outs, in_fp32, strict=True)
        return tuple([out.float() if is_promoted else out for out, is_promoted in flagged])

    def _promoted(
        self, tensors: Tensors, weights: Sequence[Tensor | None], cos: Tensor
    ) -> list[bool] | None:
        """Whether the model has each result in fp32; None: norms and rotation have to run apart."""
        if self.norm is None or (self.exchanges and tensors[0].dim() != 4):
            return None
        q = tensors[0]
        in_fp32 = [self.rule.promotes(q, cos)] * len(tensors)
        for i, weight in enumerate(weights):
            if weight is None:
                continue
            if weight.shape != q.shape[-1:] or weight.dtype not in (q.dtype, torch.float32):
                return None
            if weight.dtype != q.dtype:
                in_fp32[i] |= self.norm.rounding == "model" and not self.norm.weight_offset
        if any(in_fp32) and not torch.is_autocast_enabled(q.device.type):
            return None
        return in_fp32

    def _two_apart(
        self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int
    ) -> Tensors | Tensor:
        return self._apart((q, k), cos, sin, unsqueeze_dim)

    def _one_apart(
        self, x: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int
    ) -> Tensors | Tensor:
        return self._apart((x,), cos, sin, unsqueeze_dim)

    def _apart(
        self, tensors: Tensors, cos: Tensor, sin: Tensor, unsqueeze_dim: int
    ) -> Tensors | Tensor:
        """Norms and rotation as the model has them. A rotation of one tensor returns a tensor."""
        if not self.norm_after:
            return self.rotation(
                *self.normalize(*tensors), cos=cos, sin=sin, unsqueeze_dim=unsqueeze_dim
            )
        rotated = self.rotation(*tensors, cos=cos, sin=sin, unsqueeze_dim=unsqueeze_dim)
        if isinstance(rotated, Tensor):
            return self.normalize(rotated)[0]
        return self.normalize(*rotated)

    def normalize(self, *tensors: Tensor) -> Tensors:
        """The norms alone, on tensors such as those that are rotated."""
        given = exchanged(tensors) if self.exchanges else tensors
        outs = tuple([norm(x) for norm, x in zip(self.norms, given, strict=True)])
        return exchanged(outs) if self.exchanges else outs
