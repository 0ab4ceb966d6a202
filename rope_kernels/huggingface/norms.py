"""Norms of queries and keys: an attention's own forward, compiled again with them in one call.

`self.q_norm(x)` gives x, and the rotation becomes a call that normalizes, too. All else stays as it
is written, with the module's globals and the numbers of its lines. Which forwards that is right
for, the digests say: of arguments and of all statements up to the last norm or rotation.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from ..norms import Norm, NormRounding, Tensors, normalize_by
from ..ways import Way
from .calls import Rule, exchanged, one_tensor, q_and_k
from .digest import (
    UnknownCode,
    code_digest,
    definition_of,
    digest_of_parts,
    original_of,
)
from .replacement import NORMS_APART, function_of, has_code, is_hooked, replacement
from .rules import UNKNOWN, rule_of

# Digests of forwards, of transformers 5.17, 5.23 or both: the norms are given what is rotated, or
# that with heads and positions exchanged.
AS_ROTATED = """
    874bbeccde25 e2d448a68933 70c1cbe9672d fc770d85f606 b014392e35d9 87b9771c2e38 1941e5f74535
    449ddd5c6029 d24d1f459552 99bb3020a506 0d3d2298538d d627eb679dcd 271e6b9b9893 d817bcda8308
"""
TRANSPOSED = """
    6f8c84f9a400 3d406ab4ce6f 780780cfd14a f6c534931ecd b239aec9b7fc 55a842fc40bc
    1739774bd18b f49410497a17 059238f63ed0 53384d5ed0c6 0efdc9f241ea
"""
NORMED = "_rope_kernels_normed"  # what a forward calls, given itself and the names of norms


@dataclass(frozen=True)
class KnownNorm:
    """How a class normalizes, in the words of `norm_rope`."""

    eps: str  # the name of its attribute
    weight_offset: float = 0.0
    rounding: NormRounding = "model"
    has_weight: bool = True


NORMS = {  # by the digest of `forward`, and of `_norm` if there is one
    "24b3e7412775": KnownNorm("variance_epsilon"),  # Llama, and most others
    "86acc28dd0d0 cd41bdfcac79": KnownNorm("eps", weight_offset=1.0),  # Gemma 3, Qwen 3.5, ...
    "4866bfe29f4f": KnownNorm("variance_epsilon", rounding="model_cast_last"),  # AFMoE, NeoMME, ...
    "16f8b7ded486 f5e67b50bc70": KnownNorm("eps", rounding="model_cast_last"),  # Gemma 3n, 4, ...
    # NanoChat, ...
    "8db50e80c14f cd41bdfcac79": KnownNorm("eps", rounding="model_cast_last", has_weight=False),
}


@cache
def _known_norm(*methods: Any) -> tuple[KnownNorm | None, tuple[CodeType | None, ...]]:
    """What is known of a class by the code that its methods have, and this code."""
    codes = _codes_of(methods)
    try:
        digests = [code_digest(original_of(x)) for x in methods if x is not None]
    except UnknownCode:
        return None, codes
    return NORMS.get(" ".join(digests)), codes


def _codes_of(methods: Sequence[Any]) -> tuple[CodeType | None, ...]:
    return tuple([getattr(x, "__code__", None) for x in methods])


def known_norms(module: nn.Module, names: Sequence[str]) -> tuple[KnownNorm, float] | None:
    """What is known of a module's norms, and their eps, if a kernel may do what they would do.

    None where they have to run themselves: with a hook on one (transformers' tensor parallelism
    sums the gradients of weights in a hook), with weights that are shards, where a `forward` was
    set on one, and where they differ.

    Only what is known of a class's code is remembered. All else may change from call to call.
    """
    found = None
    for name in names:
        norm = module._modules.get(name)
        if norm is None:  # as where a flag says that there are none
            return None
        kind, own = type(norm), norm.__dict__
        methods = getattr(kind, "forward", None), getattr(kind, "_norm", None)
        known, codes = _known_norm(*methods)
        if codes != _codes_of(methods):  # a method was given other code, as by autoreload
            _known_norm.cache_clear()
            known, _ = _known_norm(*methods)
        is_changed = "forward" in own or "_norm" in own
        if known is None or is_hooked(norm) or is_changed:
            return None
        weight, eps = norm._parameters.get("weight"), own.get(known.eps)
        if known.has_weight and (type(weight) is not nn.Parameter or not own.get("with_scale", 1)):
            return None
        if type(eps) is not float or found not in (None, (known, eps)):
            return None
        found = known, eps
    return found


@dataclass(frozen=True, eq=False)
class Normed:
    """What a forward normalizes and rotates, found in its definition."""

    node: ast.FunctionDef
    digest: str  # of the code up to the last norm or rotation
    norms: dict[str, str]  # by the variable that is normalized and rotated
    calls: set[ast.AST]  # of these norms
    turns: list[ast.Assign]  # the statements that rotate
    rotation: str  # the name of the function that they call
    known: Rule  # what is known of it
    after: bool  # the norms follow the rotation


def find_normed(function: Callable) -> Normed | None:
    """What a forward normalizes and rotates; None: not both. Raises UnknownCode, as code_digest."""
    rotations = _rotations_of(function)
    if not rotations:
        return None
    node = definition_of(function)
    assigns = [(x, _variables(x)) for x in ast.walk(node) if isinstance(x, ast.Assign)]
    turns = [x for x, names in assigns if names and _name_of(x.value) in rotations]
    rotated = {name: x.lineno for x in turns for name in _variables(x)}
    of_one = [(x, names[0]) for x, names in assigns if len(names) == 1 and names[0] in rotated]
    normalized = [(name, x) for one, name in of_one for x in ast.walk(one.value) if _is_norm(x)]
    used = {_name_of(x.value) for x in turns}
    if not normalized or len(used) != 1:
        return None
    norms, calls = {name: _name_of(x) for name, x in normalized}, {x for _, x in normalized}
    (rotation,) = used
    named = {rotation, *norms.values()}
    last = max(i for i, x in enumerate(node.body) if named & {*map(_name_of, ast.walk(x))})
    digest = digest_of_parts([node.args, *node.body[: last + 1]])
    after = any(call.lineno > rotated[name] for name, call in normalized)
    return Normed(node, digest, norms, calls, turns, rotation, rotations[rotation], after)


def _rotations_of(function: Callable) -> dict[str, Rule]:
    """The globals that a function names, if they are known to rotate."""
    found = {}
    if isinstance(function, FunctionType):
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, (FunctionType, nn.Module)):
                with suppress(UnknownCode):
                    found[name] = rule_of(function_of(original_of(value)))
    return found


def _variables(assign: ast.Assign) -> list[str]:
    """Those that a statement sets."""
    names = getattr(assign.targets[0], "elts", [assign.targets[0]])
    return [x.id for x in names if isinstance(x, ast.Name)]


def _name_of(node: ast.AST) -> str:
    """The last name of what is called."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", ""))


def _is_norm(node: ast.AST) -> bool:
    """Whether it is `self.some_norm(x)`."""
    match node:
        case ast.Call(ast.Attribute(ast.Name("self"), name), [_], []):
            return "norm" in name
    return False


def normed_forward(cls: type) -> Callable | None:
    """The forward that replaces that of a class; None: it has no norm and rotation.

    `UnknownCode` says why one that has is left.
    """
    original = original_of(vars(cls).get("forward"))
    normed = find_normed(original)
    if normed is None:
        return None
    is_fused = normed.known.form in (q_and_k, one_tensor) and normed.known.rounding == "model"
    if not is_fused or normed.digest not in AS_ROTATED + TRANSPOSED:
        raise UnknownCode(UNKNOWN)
    rotation = original_of(original.__globals__[normed.rotation])
    return _made_for(original, original.__code__, rotation, function_of(rotation).__code__)


@cache  # patched again, a class has the same one, unless code was replaced
def _made_for(
    original: FunctionType, code: CodeType, rotation: Any, code_of_rotation: CodeType
) -> Callable:
    normed, variables = find_normed(original), original.__globals__
    assert normed is not None
    names, transposed = {*normed.norms.values()}, normed.digest in TRANSPOSED
    ways: Counter[Way] = Counter()

    def of_module(module, *names):
        norms, known = [getattr(module, x) for x in names], known_norms(module, names)
        return NormedRotation(
            normed=normed,
            transposed=transposed,
            rotation=variables[normed.rotation],
            norms=norms,
            known=known,
            ways=ways,
        )

    def suits(module, *args):
        return (
            has_code(original, code)
            and original_of(variables.get(normed.rotation)) is rotation
            and known_norms(module, names) is not None
        )

    ours = _compiled_again(normed, original)(of_module)
    return replacement(original, ours, rotation=rotation, ways=ways, suits=suits)


def _compiled_again(normed: Normed, original: FunctionType) -> Callable:
    """What makes the forward, given the function that it calls."""
    for assign in normed.turns:
        names = ", ".join(["self", *[repr(normed.norms[x]) for x in _variables(assign)]])
        assign.value.func = _parsed(f"{NORMED}({names})", assign).value
    for part in ast.walk(normed.node):  # a layer without a rotation has its norms nonetheless
        if isinstance(part, ast.If) and not part.orelse:
            within = {*ast.walk(part)}
            for assign in within & {*normed.turns}:
                if not any(map(_is_norm, within)):
                    target, call = map(ast.unparse, (assign.targets[0], assign.value.func))
                    tensors = ", ".join(map(ast.unparse, assign.value.args[:2]))
                    part.orelse = [_parsed(f"{target} = {call}.normalize({tensors})", assign)]
    for call in normed.calls:
        call.func = _parsed("(lambda x: x)", call).value
    normed.node.decorator_list = []
    tree = ast.parse(f"def make({NORMED}):\n    pass\n    return {normed.node.name}")
    tree.body[0].body[0] = normed.node
    found = {}  # annotations are not evaluated: `compile` takes over the first import of this file
    exec(compile(tree, original.__code__.co_filename, "exec"), original.__globals__, found)
    return found["make"]


def _parsed(text: str, where: ast.AST) -> Any:
    """A statement in the line of another one."""
    return ast.increment_lineno(ast.parse(text), where.lineno - 1).body[0]


@dataclass(slots=True)
class NormedRotation:
    """A rotation and the norms beside it: a function such as the rotation, and a form's `Rule`."""

    normed: Normed
    transposed: bool  # the norms are given heads and positions exchanged
    rotation: Callable[..., Any]
    norms: list[nn.Module]  # of each tensor
    known: tuple[KnownNorm, float] | None  # None: they have to run themselves
    ways: Counter[Way]  # of calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.normed.known.form(self, self.apart, *args, **kwargs)

    def rotate(
        self, tensors: Tensors, cos: Tensor, sin: Tensor, unsqueeze_dim: int
    ) -> Tensors | None:
        """Normalize and rotate one or two tensors in one launch; None: they have to run apart.

        In autocast, where a weight in fp32 promotes, the result is promoted, too. Its values are
        rounded to the dtype of q, as autocast does before an attention.
        """
        weights = tuple([norm._parameters.get("weight") for norm in self.norms])
        in_fp32 = self._promoted(tensors, weights, cos)
        if self.known is None or in_fp32 is None:
            self.ways[NORMS_APART] += 1
            return None
        known, eps = self.known
        norm = Norm(eps, known.weight_offset, self.normed.after, known.rounding)
        by = partial(normalize_by, norm, weights=weights)
        outs = self.normed.known.rotate(tensors, cos, sin, unsqueeze_dim, self.ways, by)
        return outs and tuple([x.float() if y else x for x, y in zip(outs, in_fp32, strict=True)])

    def _promoted(
        self, tensors: Tensors, weights: Sequence[Tensor | None], cos: Tensor
    ) -> list[bool] | None:
        """Whether the model has each result in fp32; None: norms and rotation have to run apart."""
        if self.known is None or (self.transposed and tensors[0].dim() != 4):
            return None
        q, (known, _) = tensors[0], self.known
        in_fp32 = [self.normed.known.promotes(q, cos)] * len(tensors)
        for i, weight in enumerate(weights):
            if weight is None:
                continue
            if weight.shape != q.shape[-1:] or weight.dtype not in (q.dtype, torch.float32):
                return None
            if weight.dtype != q.dtype:
                in_fp32[i] |= known.rounding == "model" and not known.weight_offset
        if any(in_fp32) and not torch.is_autocast_enabled(q.device.type):
            return None
        return in_fp32

    def apart(self, *args: Any) -> Any:
        """What a form calls instead of `rotate`: norms and rotation as the model has them."""
        if self.normed.after:
            return self.normalize(*self.rotation(*args))
        count = len(self.norms)
        return self.rotation(*self.normalize(*args[:count]), *args[count:])

    def normalize(self, *tensors: Tensor) -> Tensors:
        """The norms alone, on tensors such as those that are rotated."""
        viewed = exchanged if self.transposed else tuple
        outs = [norm(x) for norm, x in zip(self.norms, viewed(tensors), strict=True)]
        return viewed(outs)
