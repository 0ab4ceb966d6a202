"""The operators of mutmut, over a file's syntax tree: what `tools/mutants.py` draws from."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

SWAPPED = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult},
    **{ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift},
    **{ast.RShift: ast.LShift, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE},
    **{ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot},
    **{ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In},
}


@dataclass(frozen=True)
class Edit:
    """A text that occurs once in a file, and what takes its place."""

    old: str
    new: str
    words: str  # what has changed in it
    line: str  # where


def edits_of(text: str) -> Iterator[Edit]:
    """One for each change of each node: its lines, and as many before them as make them unique."""
    source, lines = text.encode(), text.splitlines()  # columns count bytes
    starts = [0, *(found.end() for found in re.finditer(b"\n", source))]
    for node in code_of(ast.parse(text)):
        for new in changed(node):
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            last, first = source.find(b"\n", end), node.lineno - 1
            while first and source.count(source[starts[first] : last]) > 1:
                first -= 1
            words = ast.unparse(new)
            put = f"({words})" if isinstance(node, ast.UnaryOp) else words
            old = source[starts[first] : last].decode()
            whole = source[starts[first] : begin] + put.encode() + source[end:last]
            was = " ".join(source[begin:end].decode().split())
            line = lines[node.lineno - 1].strip()
            if old != whole.decode():
                yield Edit(old, whole.decode(), f"{was} -> {words}", line)


def code_of(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below but docstrings, annotations, and what is within an f-string."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if not isinstance(child, ast.AST) or text or name in ("annotation", "returns"):
                continue
            if not isinstance(child, ast.JoinedStr):
                yield child
                yield from code_of(child)


def changed(node: ast.AST) -> Iterator[ast.AST]:
    """What may take its place."""
    match node:
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield ast.Constant(node.value + 1)
        case ast.Constant(value=str()):
            yield ast.Constant(f"XX{node.value}XX")
        case ast.BinOp() if type(node.op) in SWAPPED:
            yield ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right)
        case ast.BoolOp():
            yield ast.BoolOp(SWAPPED[type(node.op)](), node.values)
        case ast.Compare(ops=[op]):
            yield ast.Compare(node.left, [SWAPPED[type(op)]()], node.comparators)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.Return(value=ast.expr()):
            yield ast.Return(ast.Constant(None))
        case ast.Call():
            for dropped in node.keywords:
                kept = [keyword for keyword in node.keywords if keyword is not dropped]
                yield ast.Call(node.func, node.args, kept)
