"""Cells of a notebook that run in the tests' process, where nothing has to be started."""

import ast
import contextlib
import io
import itertools
from dataclasses import dataclass, field

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


def names_in(text, folder, names=None):
    """What text defines as a cell, after others if their names are given: no module has them."""
    path = folder / f"cell_{next(NUMBERS)}.py"
    path.write_text(text, encoding="utf-8")
    names = {"__name__": "__main__"} if names is None else names
    exec(compile(text, path, "exec"), names)
    return names


CELL = """
import math
import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra.libdevice import tanh
{above}

@triton.jit
def doubling_kernel({pointers}, out_ptr, n, BLOCK: {kind}, PART: tl.constexpr = None):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    {lines}
    tl.store(out_ptr + i, y, mask=i < n)

def doubled({tensors}):
    out = torch.empty_like(x)
    doubling_kernel[(triton.cdiv(x.numel(), 64),)]({tensors}, out, x.numel(), BLOCK=64{options})
    return out
"""


@dataclass(frozen=True)
class Cell:
    """A cell with an element-wise kernel, which doubles its input unless it is given other lines.

    Attributes:
        lines: of the kernel, from its load of x to its store of y.
        above: the kernel.
        options: what else it is launched with.
        kind: the annotation of its constant.
        tensors: what the launcher takes.
        instead: text of the cell -> what is in its place.
    """

    lines: str = "y = 2 * x"
    above: str = ""
    options: str = ""
    kind: str = "tl.constexpr"
    tensors: str = "x"
    instead: dict[str, str] = field(default_factory=dict)

    @property
    def text(self):
        parts = {name: getattr(self, name) for name in ("above", "options", "kind", "tensors")}
        pointers = ", ".join(f"{name}_ptr" for name in self.tensors.split(", "))
        lines = self.lines.replace("\n", "\n    ")
        text = CELL.format(lines=lines, pointers=pointers, **parts)
        for words, others in self.instead.items():
            assert words in text
            text = text.replace(words, others)
        return text

    def launcher(self, folder):
        """The function that launches the kernel."""
        return names_in(self.text, folder)["doubled"]
