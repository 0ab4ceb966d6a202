"""Cells of a notebook that run in the tests' process, where nothing has to be started."""

import ast
import contextlib
import io
import itertools

NUMBERS = itertools.count()


def run(cell, names, folder):
    """What a cell prints and shows, and the error that it stops with, as `Type: words`; or ""."""
    file = folder / f"{cell.id}.py"
    file.write_text(cell.source, encoding="utf-8")  # where the judge finds a function's source
    body, said, error = ast.parse(cell.source).body, io.StringIO(), ""
    with contextlib.redirect_stdout(said):
        try:
            for one in body:
                if one is body[-1] and isinstance(one, ast.Expr):
                    shown = eval(compile(ast.Expression(one.value), file, "eval"), names)
                    print("" if shown is None else repr(shown))
                else:
                    exec(compile(ast.Module([one], []), file, "exec"), names)
        except Exception as stopped:
            error = f"{type(stopped).__name__}: {stopped}"
    return said.getvalue(), error


def names_in(text, folder, **names):
    """What text defines as a cell: its names are in no module that could be imported."""
    path = folder / f"cell_{next(NUMBERS)}.py"
    path.write_text(text, encoding="utf-8")
    names |= {"__name__": "__main__"}
    exec(compile(text, path, "exec"), names)
    return names
