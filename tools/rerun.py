"""Names that make a cell say something else when it is run again: `python tools/rerun.py [NAME]`.

A reader runs all cells, goes back, and runs one again. Where a later cell has given another value
to a name that the cell reads, the result is silently wrong. This lists such names by reading the
cells; it runs nothing. It does not see a change inside an object, such as an overwritten tensor.
"""

import ast
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEW_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
COMPREHENSION = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass
class Cell:
    """What a cell reads from cells before it, and what it gives to those after it.

    Attributes:
        reads: names that it uses before it gives them a value.
        binds: name -> the statements that give it a value, as text without positions.
        inside: function or class -> the names of the notebook that its body uses when it runs.
    """

    id: str
    reads: set[str] = field(default_factory=set)
    binds: dict[str, list[str]] = field(default_factory=dict)
    inside: dict[str, set[str]] = field(default_factory=dict)


def read_cell(source: str, cell_id: str = "") -> Cell:
    cell = Cell(cell_id)
    _read(ast.parse(source).body, cell)
    return cell


def _read(statements: list[ast.stmt], cell: Cell) -> None:
    """Go through statements in their order; what may run counts as run."""
    for statement in statements:
        header, inner = _parts(statement)
        now, later = _names_used(header)
        if not isinstance(statement, NEW_SCOPE):
            now |= later  # a lambda, which may be called at once
        cell.reads |= now - set(cell.binds)
        for name in _names_bound(header):
            cell.binds.setdefault(name, []).append(ast.dump(header))
            if isinstance(statement, NEW_SCOPE):
                cell.inside[name] = later
        for body in inner:
            _read(body, cell)


def _parts(statement: ast.stmt) -> tuple[ast.AST, list[list[ast.stmt]]]:
    """What a statement does before the statements in it, and these."""
    if isinstance(statement, NEW_SCOPE):
        return statement, []
    inner = [getattr(statement, part, []) for part in ("body", "orelse", "finalbody")]
    handlers = getattr(statement, "handlers", [])
    if not any(inner):
        return statement, []
    kept = {
        name: value
        for name, value in ast.iter_fields(statement)
        if name not in ("body", "orelse", "finalbody", "handlers")
    }
    names = [ast.Name(handler.name, ast.Store()) for handler in handlers if handler.name]
    types = [handler.type for handler in handlers if handler.type]
    parts = [part for value in kept.values() for part in _nodes(value)]
    header = ast.Tuple([*parts, *types, *names], ast.Load())
    return header, [inner[0], *(handler.body for handler in handlers), *inner[1:]]


def _nodes(value: object) -> list[ast.AST]:
    values = value if isinstance(value, list) else [value]
    return [node for node in values if isinstance(node, ast.AST)]


def _names_bound(statement: ast.AST) -> set[str]:
    """Names that it gives a value in the notebook's own scope."""
    if isinstance(statement, NEW_SCOPE):
        return {statement.name}
    found = set()
    for node in _same_scope(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
    return found


def _names_used(statement: ast.AST) -> tuple[set[str], set[str]]:
    """Names of the notebook that it reads as it runs, and those that functions in it read."""
    now, later = set(), set()
    for node in _same_scope(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            now.add(node.id)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            now.add(node.target.id)
        elif isinstance(node, NEW_SCOPE):
            for part in _evaluated_at_once(node):
                now |= _names_used(part)[0]
            later |= _free_names(node)
        elif isinstance(node, COMPREHENSION):
            now |= _free_names(node)
    return now, later


def _evaluated_at_once(node: ast.AST) -> list[ast.AST]:
    """The parts of a definition that run when it is made: decorators, defaults, base classes."""
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases]
    defaults = [part for part in (*node.args.defaults, *node.args.kw_defaults) if part]
    return [*getattr(node, "decorator_list", []), *defaults]


def _same_scope(node: ast.AST) -> Iterator[ast.AST]:
    """A node and what is in it, but for the inside of functions, classes and comprehensions."""
    yield node
    if isinstance(node, NEW_SCOPE + COMPREHENSION):
        return
    for child in ast.iter_child_nodes(node):
        yield from _same_scope(child)


def _free_names(scope: ast.AST) -> set[str]:
    """Names that a function, class or comprehension takes from around it."""
    used, own = set(), set()
    for node in ast.walk(scope):
        if isinstance(node, ast.Name):
            (own if isinstance(node.ctx, ast.Store) else used).add(node.id)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node is not scope:
            own.add(node.name)
        elif isinstance(node, ast.alias):
            own.add((node.asname or node.name).split(".")[0])
    return used - own


def _everything_read(cell: Cell, place: int, cells: list[Cell]) -> dict[str, str]:
    """name -> '' or the function through which the cell reads it."""
    found = dict.fromkeys(cell.reads, "")
    waiting = [*cell.reads, *cell.inside]
    while waiting:
        name = waiting.pop()
        home = next((c for c in reversed(cells[: place + 1]) if name in c.binds), None)
        if home is None or (home is cell and name not in cell.reads):
            continue  # a function that is made here: whether it is called, its name says
        for inner in home.inside.get(name, ()):
            if inner not in found and not (home is cell and inner in cell.binds):
                found[inner] = name
                waiting.append(inner)
    return found


def changed_names(cells: list[Cell]) -> list[tuple[str, str, str, str]]:
    """(cell, name, the later cell that changes it, the function through which it is read)."""
    found = []
    for place, cell in enumerate(cells):
        for name, through in sorted(_everything_read(cell, place, cells).items()):
            before = [c for c in cells[:place] if name in c.binds]
            last = [c for c in cells if name in c.binds][-1:]
            if not before or last[0] in (before[-1], *before):
                continue  # not a name of the notebook, or nothing later changes it
            if last[0].binds[name] != before[-1].binds[name]:
                found.append((cell.id, name, last[0].id, through))
    return found


def cells_of(notebook: dict) -> list[Cell]:
    return [
        read_cell("".join(cell["source"]), cell["id"])
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def main(arguments: list[str]) -> int:
    folder = ROOT / "notebooks"
    paths = sorted([*folder.glob("[0-9]*.ipynb"), *folder.glob("deeper/*.ipynb")])
    for path in paths:
        if arguments and not any(path.name.startswith(start) for start in arguments):
            continue
        for cell, name, later, through in changed_names(cells_of(json.loads(path.read_text()))):
            how = f" (through {through})" if through else ""
            print(f"{path.name}: {cell} reads {name}{how}, which {later} changes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
