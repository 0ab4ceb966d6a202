"""Rung 7 and the package's kernel, line by line: how notebook 09 ends.

Every line is quoted from its source, by its beginning. What isn't there any more is an error.
"""

import ast
import html
import inspect
from dataclasses import dataclass
from types import ModuleType

from rope_kernels import kernel

from ..rungs import rung_7_loads_first

WIDTH = 120  # of a line

# all lines of rung 7, in order -> functions of the package, and beginnings of their lines
PARTNERS = {
    "row_blocks =": ["rope_kernel: q_blocks ="],
    "position =": ["rope_kernel: s_block, row_block, b ="],
    "row =": ["rope_kernel: row ="],
    "pair =": ["rope_kernel: column ="],
    "exists =": ["rope_kernel: exists ="],
    "offset =": ["rope_kernel: x_ptr = row_pointers("],
    "x1 =": ["rope_kernel: x1 = tl.load("],
    "x2 =": ["rope_kernel: x2 = tl.load("],
    "angle_ptr =": ["find_cos_sin: row_of_table ="],
    "angle1 =": ["find_cos_sin: angle1 = tl.load("],
    "angle2 =": ["find_cos_sin: angle2 = tl.load("],
    "cos1, sin1 =": ["find_cos_sin: cos1, sin1 = cos_sin(angle1, True"],
    "cos2, sin2 =": ["find_cos_sin: cos2, sin2 = cos_sin(angle2, True"],
    "if TRANSPOSE": ["turn: if TRANSPOSE"],
    "sin1, sin2 =": ["turn: sin1, sin2 ="],
    "tl.store(out_ptr + offset,": ["turn: y1 = tl.fma(", "store_pairs: tl.store(y_ptr + (first"],
    "tl.store(out_ptr + offset + HALF,": [
        "turn: y2 = tl.fma(",
        "store_pairs: tl.store(y_ptr + (second",
    ],
}
# what rung 7 has not: function and beginning of a line -> why it is there
MORE = {
    "rope_kernel: if k_ptr is not None": "q and k turn in one launch",
    "rope_kernel: b = b.to(tl.int64)": "offsets beyond 2^31 elements: notebook 05",
    "rope_kernel: if READS_INTERLEAVED": "pairs may be neighbors: notebook 02",
    "rope_kernel: if WHOLE_ROWS": "rows whose halves aren't aligned, as in d = 72",
    "rope_kernel: if TAIL > 0": "a part of each row turns, and the rest passes",
    "rope_kernel: if slots_ptr is None": "k and v may go into a cache: notebook 14",
    "rope_kernel: tl.debug_barrier": "keeps your loads first: the next line loops",
    "rope_kernel: position, in_sequence =": "packed sequences, and positions of any kind",
    "find_cos_sin: if table_ptr.dtype.element_ty ==": "angles without a table",
    "cos_sin: if FAST_SINE and HAS_WHOLE_TURNS": "a sine without the slow branch",
    'turn: if ROUNDING == "once"': "one rounding, or a model's: notebook 12",
}


@dataclass(repr=False)
class Beside:
    """Two columns, code and code or words, that a page shows as a table and a terminal as text."""

    rows: list[tuple[str, str]]
    right: str = "code"  # the tag of what is in the right column

    def __repr__(self) -> str:
        width = max(len(left) for left, _ in self.rows)
        return "\n".join(f"{left:{width}} | {right}" for left, right in self.rows)

    def _repr_html_(self) -> str:
        cell = '<td style="text-align: left; vertical-align: top">'
        rows = "".join(
            f"<tr>{cell}<code>{html.escape(left)}</code></td>"
            f"{cell}<{self.right}>{html.escape(right)}</{self.right}></td></tr>"
            for left, right in self.rows
        )
        return f'<table class="source">{rows}</table>'


def side_by_side() -> Beside:
    """Each line of rung 7 beside the package's, each of these with its function.

    Raises:
        ValueError: rung 7 has other lines than `PARTNERS`, or the package has lost one.
    """
    mine = lines_of(rung_7_loads_first)["my_rope_kernel"]
    if len(mine) != len(PARTNERS):
        raise ValueError(f"rung 7 has {len(mine)} lines, and {len(PARTNERS)} have a partner")
    rows = []
    for line, (beginning, partners) in zip(mine, PARTNERS.items(), strict=True):
        left = [quoted([line], beginning)] + [""] * (len(partners) - 1)
        rows += zip(left, map(_of_the_package, partners), strict=True)
    return Beside(rows)


def what_it_has_more() -> Beside:
    """What has no partner in rung 7, and why it is there.

    Raises:
        ValueError: the package has lost one.
    """
    return Beside([(_of_the_package(place), why) for place, why in MORE.items()], right="span")


def _of_the_package(place: str) -> str:
    """'function: the line', for 'function: its beginning'."""
    function, beginning = place.split(": ", maxsplit=1)
    return f"{function}: {quoted(lines_of(kernel)[function], beginning)}"


def quoted(lines: list[str], beginning: str) -> str:
    """The first line that begins so; of a call that is wide, not its arguments.

    Raises:
        ValueError: none does.
    """
    found = next((line for line in lines if line.startswith(beginning)), None)
    if found is None:
        raise ValueError(f"no line begins with {beginning!r}")
    is_long = len(found) > WIDTH and found.endswith(")")
    return found[: found.index("(") + 1] + "...)" if is_long else found


def lines_of(module: ModuleType) -> dict[str, list[str]]:
    """Function -> its statements, each in one line, without comments and what is in its block."""
    source, found = inspect.getsource(module), {}
    rows = [row.partition("  #")[0].strip() for row in source.splitlines()]
    for function in ast.parse(source).body:
        if isinstance(function, ast.FunctionDef):
            inside = [node for child in function.body for node in ast.walk(child)]
            statements = [node for node in inside if isinstance(node, ast.stmt)]
            found[function.name] = [_in_one_line(rows, one) for one in statements]
    return found


def _in_one_line(rows: list[str], statement: ast.stmt) -> str:
    last = statement.end_lineno
    if isinstance(statement, ast.If | ast.For):
        last = statement.body[0].lineno - 1
    own = rows[statement.lineno - 1 : last]
    return " ".join(filter(None, own)).replace("( ", "(").replace(" )", ")")
