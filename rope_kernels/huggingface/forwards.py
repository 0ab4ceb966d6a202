"""Forwards of attentions that normalize queries and keys: read, and compiled again with one call.

In a forward that is compiled again `self.q_norm(x)` gives x, and the rotation is a call that
normalizes, too (`norms.NormedRotation`). All else stays as it is written, with the module's globals
and the numbers of its lines. Which forwards that is right for, their digests say: of arguments and
of all statements up to the last norm or rotation.
"""

# `compile` takes this import over from the file that calls it: the annotations of a forward that is
# compiled again are not evaluated.
from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType

from torch import nn

from ..ways import Way
from .calls import Rule, one_tensor, q_and_k
from .digest import Replaceable, UnknownCode, definition_of, digest_of_parts, original_of
from .norms import NormedRotation, norm_of_all
from .replacement import function_of, has_code, replacement
from .rules import UNKNOWN, rule_of

# Digests of forwards, of transformers 5.17, 5.23 or both. In these, norms are given what is
# rotated, in the same shape.
AS_ROTATED = frozenset(
    (
        "874bbeccde25",
        "e2d448a68933",
        "70c1cbe9672d",
        "fc770d85f606",
        "b014392e35d9",
        "87b9771c2e38",
        "1941e5f74535",
        "449ddd5c6029",
        "d24d1f459552",
        "99bb3020a506",
        "0d3d2298538d",
        "d627eb679dcd",
        "271e6b9b9893",
        "d817bcda8308",
    )
)
# In these, norms are given it with heads and positions exchanged: (b, s, h, d) for (b, h, s, d).
EXCHANGED = frozenset(
    (
        "6f8c84f9a400",
        "3d406ab4ce6f",
        "780780cfd14a",
        "f6c534931ecd",
        "b239aec9b7fc",
        "55a842fc40bc",
        "1739774bd18b",
        "f49410497a17",
        "059238f63ed0",
        "53384d5ed0c6",
        "0efdc9f241ea",
    )
)
NORMED = "_rope_kernels_normed"  # what a forward calls, given itself and the names of norms


@dataclass(frozen=True, eq=False)
class RotatingStatement:
    """A statement such as `q, k = apply_rotary_pos_emb(q, k, cos, sin)`."""

    assign: ast.Assign
    call: ast.Call  # its right side
    variables: list[str]  # its left side


@dataclass(frozen=True, eq=False)
class NormedForward:
    """What a forward normalizes and rotates, found in its definition."""

    definition: ast.FunctionDef
    digest: str  # of the code up to the last norm or rotation
    norm_names: dict[str, str]  # by the variable that is normalized and rotated
    norm_calls: list[ast.Call]
    rotating: list[RotatingStatement]
    rotation_name: str  # of the function that all of these call
    rule: Rule  # by which that rotates
    norm_after: bool  # the norms follow the rotation


def find_normed(forward: FunctionType) -> NormedForward | None:
    """What a forward normalizes and rotates; None: not both. Raises UnknownCode, as code_digest."""
    rules = _rules_of_globals(forward)
    if not rules:
        return None
    definition = definition_of(forward)
    assigns = [x for x in ast.walk(definition) if isinstance(x, ast.Assign)]
    rotating = [
        RotatingStatement(x, x.value, _variables(x))
        for x in assigns
        if isinstance(x.value, ast.Call) and _name_of(x.value) in rules and _variables(x)
    ]
    line_of_rotation = {name: x.assign.lineno for x in rotating for name in x.variables}
    norm_names: dict[str, str] = {}
    norm_calls: list[ast.Call] = []
    norm_after = False
    for assign in assigns:
        variables = _variables(assign)
        if len(variables) != 1 or variables[0] not in line_of_rotation:
            continue
        for part in ast.walk(assign.value):
            if isinstance(part, ast.Call) and _is_norm(part):
                norm_names[variables[0]] = _name_of(part)
                norm_calls.append(part)
                norm_after |= part.lineno > line_of_rotation[variables[0]]
    rotation_names = {_name_of(x.call) for x in rotating}
    if not norm_calls or len(rotation_names) != 1:
        return None
    (rotation_name,) = rotation_names
    return NormedForward(
        definition=definition,
        digest=_digest_up_to(definition, {rotation_name, *norm_names.values()}),
        norm_names=norm_names,
        norm_calls=norm_calls,
        rotating=rotating,
        rotation_name=rotation_name,
        rule=rules[rotation_name],
        norm_after=norm_after,
    )


def _rules_of_globals(function: FunctionType) -> dict[str, Rule]:
    """The globals that a function names and that are known to rotate, each with its rule."""
    found = {}
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, Replaceable):
            with suppress(UnknownCode):
                found[name] = rule_of(function_of(original_of(value)))
    return found


def _digest_up_to(definition: ast.FunctionDef, names: set[str]) -> str:
    """The digest of the arguments, and of all statements up to the last call of these names."""
    calls = [{_name_of(part) for part in ast.walk(x)} for x in definition.body]
    last = max(i for i, called in enumerate(calls) if names & called)
    return digest_of_parts([definition.args, *definition.body[: last + 1]])


def _variables(assign: ast.Assign) -> list[str]:
    """Those that a statement sets."""
    target = assign.targets[0]
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    return [x.id for x in parts if isinstance(x, ast.Name)]


def _name_of(node: ast.AST) -> str:
    """The last name of what is called, `q_norm` of `self.q_norm(x)`; "" if nothing is called."""
    match node:
        case ast.Call(ast.Attribute(attr=name) | ast.Name(id=name)):
            return name
    return ""


def _is_norm(call: ast.Call) -> bool:
    """Whether it is `self.some_norm(x)`."""
    match call:
        case ast.Call(ast.Attribute(ast.Name("self"), name), [_], []):
            return "norm" in name
    return False


def replacement_forward(cls: type) -> Callable[..., object] | None:
    """The forward that replaces that of a class; None: it has no norm and rotation.

    `UnknownCode` says why one that has is left.
    """
    original = original_of(vars(cls).get("forward"))
    if not isinstance(original, FunctionType):
        return None
    normed = find_normed(original)
    if normed is None:
        return None
    takes_norms = normed.rule.form in (q_and_k, one_tensor) and normed.rule.rounding == "model"
    if not takes_norms or normed.digest not in AS_ROTATED | EXCHANGED:
        raise UnknownCode(UNKNOWN)
    rotation = original_of(original.__globals__[normed.rotation_name])
    return _made_for(original, original.__code__, rotation, function_of(rotation).__code__)


@cache  # patched again, a class has the same one, unless code was replaced
def _made_for(
    original: FunctionType, code: CodeType, rotation: Replaceable, code_of_rotation: CodeType
) -> Callable[..., object]:
    """The forward that replaces `original`. The codes tell when another one has to be made."""
    normed, variables = find_normed(original), original.__globals__
    assert normed is not None, "it was found a moment ago"
    all_names = set(normed.norm_names.values())
    ways: Counter[Way] = Counter()

    def of_module(module: nn.Module, *names: str) -> NormedRotation:
        return NormedRotation(
            rule=normed.rule,
            rotation=variables[normed.rotation_name],
            norms=[getattr(module, x) for x in names],
            norm=norm_of_all(module, names, normed.norm_after),
            norm_after=normed.norm_after,
            exchanges=normed.digest in EXCHANGED,
            ways=ways,
        )

    def suits(module: nn.Module, *args: object) -> bool:
        return (
            has_code(original, code)
            and original_of(variables.get(normed.rotation_name)) is rotation
            and norm_of_all(module, all_names, normed.norm_after) is not None
        )

    ours = _compiled_again(normed, original)(of_module)
    return replacement(original, ours, rotation=rotation, ways=ways, suits=suits)


def _compiled_again(
    normed: NormedForward, original: FunctionType
) -> Callable[[Callable[..., NormedRotation]], Callable[..., object]]:
    """What makes the forward, given the function that it calls. Changes the definition."""
    definition = normed.definition
    for rotating in normed.rotating:
        names = ", ".join(["self", *[repr(normed.norm_names[x]) for x in rotating.variables]])
        rotating.call.func = _expression(f"{NORMED}({names})", rotating.assign.lineno)
    for part in ast.walk(definition):
        if isinstance(part, ast.If) and not part.orelse:
            part.orelse = _norms_alone(part, normed.rotating)
    for call in normed.norm_calls:
        call.func = _expression("(lambda x: x)", call.lineno)
    definition.decorator_list = []
    tree = ast.parse(f"def make({NORMED}):\n    pass\n    return {definition.name}")
    (make,) = tree.body
    assert isinstance(make, ast.FunctionDef)
    make.body[0] = definition
    found: dict[str, Callable[[Callable[..., NormedRotation]], Callable[..., object]]] = {}
    exec(compile(tree, original.__code__.co_filename, "exec"), original.__globals__, found)
    return found["make"]


def _norms_alone(branch: ast.If, rotating: list[RotatingStatement]) -> list[ast.stmt]:
    """What has to run where a branch that rotates is not taken.

    A layer without a rotation has its norms nonetheless, if they are outside the branch: there they
    give x, for the call in the branch would normalize.
    """
    within = set(ast.walk(branch))
    if any(isinstance(x, ast.Call) and _is_norm(x) for x in within):
        return []
    statements = []
    for one in rotating:
        if one.assign in within:
            target, call = ast.unparse(one.assign.targets[0]), ast.unparse(one.call.func)
            tensors = ", ".join([ast.unparse(x) for x in one.call.args[: len(one.variables)]])
            text = f"{target} = {call}.normalize({tensors})"
            statements.append(_statement(text, one.assign.lineno))
    return statements


def _expression(text: str, line: int) -> ast.expr:
    """The expression, in this line of a file."""
    return ast.increment_lineno(ast.parse(text, mode="eval"), line - 1).body


def _statement(text: str, line: int) -> ast.stmt:
    """The statement, in this line of a file."""
    return ast.increment_lineno(ast.parse(text), line - 1).body[0]
