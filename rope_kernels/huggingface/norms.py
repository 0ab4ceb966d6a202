"""The norms of queries and keys in models: which are known, and what one call does with them."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from ..norm import Norm, NormRounding
from .calls import Rule
from .digest import UnknownCode, code_digest, original_of
from .known import is_hooked

# What a norm is given, beside what the rotation is given: the same, or the same with heads and
# positions exchanged.
NormInput = Literal["as rotated", "transposed"]


@dataclass(frozen=True, kw_only=True)
class KnownNorm:
    """How a class normalizes, in the words of `norm_rope`."""

    eps: str  # the name of its attribute
    weight_offset: float = 0.0
    rounding: NormRounding = "model"
    has_weight: bool = True

    @property
    def multiplies_last(self) -> bool:
        """Whether a weight in fp32 promotes the result."""
        return self.has_weight and self.rounding == "model" and not self.weight_offset


# By the digest of `forward`, and of `_norm` if there is one.
NORMS = {
    # Llama, and most others
    "24b3e7412775": KnownNorm(eps="variance_epsilon"),
    # Gemma 3, Qwen 3.5, MiniMax M3, ...
    "86acc28dd0d0 cd41bdfcac79": KnownNorm(eps="eps", weight_offset=1.0),
    # AFMoE, NeoMME, ...
    "4866bfe29f4f": KnownNorm(eps="variance_epsilon", rounding="model_cast_last"),
    # Gemma 3n, Gemma 4, ...
    "16f8b7ded486 f5e67b50bc70": KnownNorm(eps="eps", rounding="model_cast_last"),
    # NanoChat, ...
    "8db50e80c14f cd41bdfcac79": KnownNorm(eps="eps", rounding="model_cast_last", has_weight=False),
}
_LARGEST_EPS = torch.finfo(torch.float32).max


@dataclass(frozen=True)
class _Seen:
    """A class of norms that was looked at, with the methods that it had then."""

    forward: object
    helper: object
    known: KnownNorm | None


_seen: dict[type, _Seen] = {}


def known_norm(kind: type) -> KnownNorm | None:
    """What is known of a class by the code that its methods have now; None: nothing."""
    seen = _seen.get(kind)
    forward, helper = getattr(kind, "forward", None), getattr(kind, "_norm", None)
    if seen is None or seen.forward is not forward or seen.helper is not helper:
        methods = [x for x in (forward, helper) if x is not None]
        try:
            digest = " ".join([code_digest(original_of(x)) for x in methods])
        except UnknownCode:
            digest = ""
        known = NORMS.get(digest)
        if known is not None and any(hasattr(kind, x) for x in ("weight", "with_scale", known.eps)):
            known = None  # a class decides what each norm should have for itself
        seen = _seen[kind] = _Seen(forward, helper, known)
    return seen.known


def known_norms(module: nn.Module, names: tuple[str, ...]) -> KnownNorm | None:
    """What is known of a module's norms, if a kernel may do in this call what they would do.

    None where they have to run themselves: with a hook on one (transformers' tensor parallelism
    sums the gradients of weights in a hook), with weights that are shards, where a `forward` was
    set on one, and where they differ.

    Only what is known of a class's code is remembered. All else may change from call to call.
    """
    if _has_any_global_hook() or _has_one_of(type(module), names):
        return None
    found, eps, modules, attributes = None, None, module._modules, module.__dict__
    for name in names:
        norm = modules.get(name)
        if norm is None or name in attributes:
            return None
        known = known_norm(type(norm))
        if known is None or is_hooked(norm):
            return None
        own = norm.__dict__
        if "forward" in own or "_norm" in own or "weight" in own:
            return None
        if known.has_weight:
            weight = norm._parameters.get("weight")
            if type(weight) is not nn.Parameter or not own.get("with_scale", True):
                return None
        if found is None:
            found, eps = known, own.get(known.eps)
            if type(eps) is not float or not 0.0 <= eps <= _LARGEST_EPS:
                return None
        elif known is not found or own.get(known.eps) != eps:
            return None
    return found


@functools.cache
def _has_one_of(kind: type, names: tuple[str, ...]) -> bool:
    """Whether a class has an attribute in place of a module of that name."""
    return any(hasattr(kind, name) for name in names)


@dataclass(slots=True)
class NormedRotation:
    """A rotation and the norms beside it, with what forms ask of a `Rule`."""

    rule: Rule
    norms: tuple[nn.Module, ...]  # of each tensor
    known: KnownNorm | None  # None: the norms have to run themselves
    given: NormInput
    after: bool  # the norms follow the rotation
    scaled: bool  # so is the result, before anything rounds it

    def why_not(
        self, tensors: tuple[Tensor, ...], cos: Tensor, sin: Tensor, unsqueeze_dim: int
    ) -> str | None:
        """Why norms and rotation have to run apart, or None: `rotate` takes the call."""
        if self.known is None:
            return "norms that have to run themselves"
        reason = self.rule.why_not(tensors, cos, sin, unsqueeze_dim)
        if reason is not None:
            return reason
        if self.given != "as rotated" and tensors[0].dim() != 4:
            return "dimensions that are not (b, h, s, d), beside rows of the norm that are"
        for x, weight in zip(tensors, self._weights(), strict=True):
            if weight is None:
                continue
            if weight.dtype != x.dtype and weight.dtype != torch.float32:
                return "a weight of another dtype"
            if weight.shape != (x.shape[-1],):
                return "a weight of another width"
        in_autocast = torch.is_autocast_enabled(tensors[0].device.type)
        if (self.scaled or not in_autocast) and any(self._promoted(tensors, cos)):
            return "a result in fp32, which the kernel would round to the dtype of q"
        return None

    def rotate(
        self, tensors: tuple[Tensor, ...], cos: Tensor, sin: Tensor, unsqueeze_dim: int
    ) -> tuple[Tensor, ...]:
        """Normalize and rotate one or two tensors in one launch.

        In autocast, where a weight in fp32 promotes, the result is promoted, too. Its values are
        rounded to the dtype of q, as autocast does before an attention.
        """
        known = self.known
        if known is None:
            raise ValueError("why_not has a reason against this call")
        eps = self.norms[0].__dict__[known.eps]
        norm = Norm(eps, known.weight_offset, self.after, known.rounding)
        outs = self.rule.normalize_and_rotate(
            tensors, cos, sin, unsqueeze_dim, self._weights(), norm
        )
        promoted = zip(outs, self._promoted(tensors, cos), strict=True)
        return tuple([x.float() if in_fp32 else x for x, in_fp32 in promoted])

    def apart(self, rotation: Callable[..., Any]) -> Callable[..., Any]:
        """What a form calls instead of `rotate`: norms and rotation as the model has them."""
        count = len(self.norms)

        def norms_and_rotation(*args):
            if not self.after:
                return rotation(*self.normalize(args[:count]), *args[count:])
            outs = rotation(*args)
            return self.normalize(outs) if count == 2 else self.normalize((outs,))[0]

        return norms_and_rotation

    def normalize(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The norms alone, on tensors such as those that the model gives them."""
        outs = []
        for norm, x in zip(self.norms, tensors, strict=True):
            if self.given == "as rotated":
                outs.append(norm(x))
                continue
            outs.append(norm(x.transpose(1, 2)).transpose(1, 2))  # heads and positions
        return tuple(outs)

    def _weights(self) -> tuple[Tensor | None, ...]:
        return tuple([norm._parameters.get("weight") for norm in self.norms])

    def _promoted(self, tensors: tuple[Tensor, ...], cos: Tensor) -> list[bool]:
        """Which of the model's results have another dtype than q: fp32."""
        by_table = self.rule.promotes(tensors[0], cos)
        multiplies_last = self.known is not None and self.known.multiplies_last
        return [
            by_table or (multiplies_last and weight is not None and weight.dtype != x.dtype)
            for x, weight in zip(tensors, self._weights(), strict=True)
        ]
