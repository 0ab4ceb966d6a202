"""An attention's own forward, compiled again: the norms of q and k and their rotation are one call.

`self.q_norm(x)` becomes `x`, and the rotation a call that normalizes, too. All else stays as it is
written, with the module's globals and the numbers of its lines. Which forwards that is right for,
the digests say: of arguments and of all statements up to the last norm or rotation.
"""

import ast
import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import nn

from ..modes import is_traced
from .digest import REPLACES, UnknownCode, definition_of, digest_of_parts, original_of
from .forms import by_matrices, one_tensor, q_and_k
from .known import UNKNOWN, Known, function_of, known_by_code, watch
from .norms import NormedRotation, NormInput, known_norms

# By what the norms are given: the digests of forwards, of transformers 5.17, 5.23 or both.
FORWARDS: dict[NormInput, str] = {
    "as rotated": """
        874bbeccde25 e2d448a68933 70c1cbe9672d fc770d85f606 b014392e35d9 87b9771c2e38
        1941e5f74535
        449ddd5c6029 d24d1f459552 99bb3020a506 0d3d2298538d d627eb679dcd
        271e6b9b9893 d817bcda8308 9176d125b940
    """,
    "transposed": """
        6f8c84f9a400 3d406ab4ce6f 6df08a2909f4 780780cfd14a f6c534931ecd b239aec9b7fc
        55a842fc40bc 1739774bd18b f49410497a17 059238f63ed0
        53384d5ed0c6 0efdc9f241ea
    """,
}
BY_DIGEST = {digest: given for given, digests in FORWARDS.items() for digest in digests.split()}
SCALED = {"9176d125b940"}  # TimesFM 2.5 scales queries after their norm, in autocast in fp32
FORMS = q_and_k, by_matrices, one_tensor
ROTATE, NORMALIZE = "_rope_kernels_rotate", "_rope_kernels_normalize"


@dataclass(frozen=True)
class Normed:
    """What a forward normalizes and rotates, found in its code.

    Attributes:
        node: its definition.
        statements: how many of them, from the first, reach the last norm or rotation.
        norms: the norm of each variable that is rotated, by the variable's name.
        rotation: the name of the function that rotates.
        known: what is known of that function.
        after: the norms follow the rotation.
        condition: the attribute without which the rotation has no norms; None: it has them always.
    """

    node: ast.FunctionDef
    statements: int
    norms: Mapping[str, str]
    rotation: str
    known: Known
    after: bool
    condition: str | None

    @property
    def digest(self) -> str:
        has_docstring = ast.get_docstring(self.node) is not None
        return digest_of_parts(
            [self.node.args, *self.node.body[has_docstring : self.statements]],
        )


def find_normed(function: Callable) -> Normed | None:
    """What a forward normalizes and rotates; None: not both.

    Raises:
        UnknownCode: its code can't be read.
    """
    rotations = dict(_rotations_of(function))
    if not rotations:
        return None
    node = definition_of(function)
    rotated = dict(pair for x in ast.walk(node) for pair in _rotated_by(x, rotations).items())
    norms = dict(pair for x in ast.walk(node) for pair in _norm_of(x, rotated))
    used = {_name_of(call) for call in rotated.values()}
    if not norms or len(used) != 1:
        return None
    attributes = {name: call.func.attr for name, call in norms.items()}
    last = 0
    for i, statement in enumerate(node.body):
        names = {_name_of(x) for x in ast.walk(statement)}
        if names & {*used, *attributes.values()}:
            last = i + 1
    (rotation,) = used
    after = any(call.lineno > rotated[name].lineno for name, call in norms.items())
    condition = _condition_of(node, [*norms.values()], [*rotated.values()])
    return Normed(node, last, attributes, rotation, rotations[rotation], after, condition)


def _condition_of(node: ast.AST, norms: list[ast.Call], rotated: list[ast.Call]) -> str | None:
    """The x of an `if self.x:` around norms that are followed by a rotation outside of it."""
    for part in ast.walk(node):
        if isinstance(part, ast.If) and isinstance(part.test, ast.Attribute):
            within = [*ast.walk(part)]
            if any(x in within for x in norms) and not any(x in within for x in rotated):
                return part.test.attr
    return None


def _rotations_of(function: Callable) -> Iterator[tuple[str, Known]]:
    """The globals that a function names, if they are known to rotate."""
    if isinstance(function, FunctionType):
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, (FunctionType, nn.Module)):
                try:
                    yield name, known_by_code(function_of(original_of(value)))
                except UnknownCode:
                    continue


def _rotated_by(assign: ast.AST, rotations: Mapping[str, Known]) -> dict[str, ast.Call]:
    """The variables that a statement rotates, with the call."""
    if not (isinstance(assign, ast.Assign) and _name_of(assign.value) in rotations):
        return {}
    targets = assign.targets[0]
    names = targets.elts if isinstance(targets, ast.Tuple) else [targets]
    return {x.id: assign.value for x in names if isinstance(x, ast.Name)}


def _norm_of(assign: ast.AST, rotated: Mapping[str, Any]) -> Iterator[tuple[str, ast.Call]]:
    """The call of a norm in a statement, if it gives a variable that is rotated."""
    if isinstance(assign, ast.Assign) and isinstance(assign.targets[0], ast.Name):
        for call in ast.walk(assign.value):
            if assign.targets[0].id in rotated and _is_norm(call):
                yield assign.targets[0].id, call


def _is_norm(node: ast.AST) -> bool:
    """Whether it is `self.some_norm(x)`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    is_own = isinstance(node.func.value, ast.Name) and node.func.value.id == "self"
    return is_own and "norm" in node.func.attr and len(node.args) == 1 and not node.keywords


def _name_of(node: ast.AST) -> str:
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", ""))


class _InOneCall(ast.NodeTransformer):
    """Takes norms out of statements, and hands their names to the call that rotates."""

    def __init__(self, normed: Normed) -> None:
        self.normed = normed
        self.has_norm = False

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        for name, norm in list(_norm_of(node, self.normed.norms)):
            assert self.normed.norms[name] == norm.func.attr
            self.has_norm = True
            node.value = _Without(norm).visit(node.value)
        names = tuple(_rotated_by(node, {self.normed.rotation: self.normed.known}))
        if names:
            call = node.value
            call.func = ast.copy_location(ast.Name(ROTATE, ast.Load()), call.func)
            call.args = [*self._norms_of(names, call), *call.args]
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        """A layer without a rotation has its norms nonetheless."""
        within = [x for part in (*node.body, *node.orelse) for x in ast.walk(part)]
        known = {self.normed.rotation: self.normed.known}
        assigns = [x for x in within if _rotated_by(x, known)]
        if assigns and not any(map(_is_norm, within)) and not node.orelse:
            (assign,) = assigns
            names = tuple(x.id for x in assign.targets[0].elts)
            call = ast.copy_location(ast.Call(ast.Name(NORMALIZE, ast.Load()), [], []), assign)
            call.args = [*self._norms_of(names, call), *copy.deepcopy(assign.value.args[:2])]
            target = copy.deepcopy(assign.targets[0])
            node.orelse = [ast.copy_location(ast.Assign([target], call), assign)]
        return self.generic_visit(node)

    def _norms_of(self, names: tuple[str, ...], where: ast.AST) -> list[ast.expr]:
        norms = ast.Tuple([ast.Constant(self.normed.norms[x]) for x in names], ast.Load())
        return [ast.Name("self", ast.Load()), norms]


class _Without(ast.NodeTransformer):
    """A call gives way to its argument."""

    def __init__(self, call: ast.Call) -> None:
        self.call = call

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return self.visit(node.args[0]) if node is self.call else self.generic_visit(node)


def normed_forward(cls: type) -> Callable | None:
    """The forward that replaces that of a class; None: it has no norm and rotation.

    Raises:
        UnknownCode: it has, and is not known.
    """
    original = original_of(vars(cls).get("forward"))
    if not isinstance(original, FunctionType):
        return None
    normed = find_normed(original)
    if normed is None:
        return None
    given = BY_DIGEST.get(normed.digest)
    if given is None or normed.known.form not in FORMS:
        raise UnknownCode(UNKNOWN)
    if normed.known.rule.rounding != "model":
        raise UnknownCode(f"{normed.rotation} rounds where no kernel with a norm does")
    if _needs_its_class(normed.node):
        raise UnknownCode("its code means something else outside of its class")
    rotation = original_of(original.__globals__[normed.rotation])
    if (original, rotation) not in _made:
        _made[original, rotation] = _make(original, rotation, normed, given)
    return _made[original, rotation]


# Of a forward and its rotation: patched again, a class has the same one.
_made: dict[tuple[FunctionType, Any], Callable] = {}


def _make(original: FunctionType, rotation: Any, normed: Normed, given: NormInput) -> Callable:
    names, condition = tuple(dict.fromkeys(normed.norms.values())), normed.condition
    variables, form, scaled = original.__globals__, normed.known.form, normed.digest in SCALED

    def rotate(module, own_names, *args, **kwargs):
        together = _together(module, own_names)
        return form(together, together.apart(variables[normed.rotation]))(*args, **kwargs)

    def normalize(module, own_names, *tensors):
        return _together(module, own_names).normalize(tensors)

    def _together(module, own_names):
        norms, known = [getattr(module, x) for x in own_names], known_norms(module, own_names)
        return NormedRotation(normed.known.rule, tuple(norms), known, given, normed.after, scaled)

    fused = _compiled_again(normed, original)(rotate, normalize)
    is_as_known = watch(rotation)

    @functools.wraps(original)
    def forward(self, *args, **kwargs):
        runs_as_written = (
            is_traced()
            or torch.jit.is_tracing()
            or original_of(variables.get(normed.rotation)) is not rotation
            or not is_as_known()
            or (condition is not None and not getattr(self, condition))
            or known_norms(self, names) is None
        )
        return (original if runs_as_written else fused)(self, *args, **kwargs)

    setattr(forward, REPLACES, (forward, original))
    return forward


def _needs_its_class(node: ast.FunctionDef) -> bool:
    """Whether names change their meaning elsewhere: `self.__x`, and a global of the same name."""
    names = {getattr(x, "id", getattr(x, "attr", "")) for x in ast.walk(node)}
    return any(x == node.name or (x.startswith("__") and not x.endswith("__")) for x in names)


def _compiled_again(normed: Normed, original: FunctionType) -> Callable:
    """What makes the forward, given the two functions that it calls."""
    node = copy.deepcopy(normed.node)
    editor = _InOneCall(normed)
    node.body[: normed.statements] = [editor.visit(x) for x in node.body[: normed.statements]]
    node.decorator_list, node.returns = [], None
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    made = ast.FunctionDef(
        name="make",
        args=ast.arguments([], [ast.arg(ROTATE), ast.arg(NORMALIZE)], None, [], [], None, []),
        body=[node, ast.Return(ast.Name(node.name, ast.Load()))],
        decorator_list=[],
    )
    if "type_params" in ast.FunctionDef._fields:  # from Python 3.12 on
        made.type_params = []
    tree = ast.fix_missing_locations(ast.Module([ast.copy_location(made, node)], []))
    found = {}
    exec(compile(tree, original.__code__.co_filename, "exec"), original.__globals__, found)
    return found["make"]
