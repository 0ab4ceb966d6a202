"""Kernels that are written twice: lines that a notebook quotes, and solutions that it times."""

import ast
import io
import re
import tokenize

import pytest

from notebook_form import ROOT, load

NORM_KERNEL = "rope_kernels/norms/kernel.py"
NOTEBOOK_11 = "11_two_for_the_price_of_one.ipynb"


def lines_of(file, function):
    """The function's lines, without spaces and comments; what goes over several lines is one."""
    source = (ROOT / file).read_text(encoding="utf-8")
    parts = [part for part in ast.parse(source).body if getattr(part, "name", "") == function]
    assert parts, f"{file} has no function {function}"
    lines = [""]
    text = io.StringIO(ast.get_source_segment(source, parts[0]))
    for token in tokenize.generate_tokens(text.readline):
        if token.type == tokenize.NEWLINE:
            lines.append("")
        elif token.type != tokenize.COMMENT:
            lines[-1] += token.string.strip()
    return lines


def has(lines, quoted):
    """Of a call that ends in `(...)` only what comes before counts."""
    beginning, dots, _ = "".join(quoted.split()).partition("...")
    return any(line.startswith(beginning) if dots else line == beginning for line in lines)


def text_of(notebook, cell_id):
    (text,) = [cell.source for cell in load(notebook).node.cells if cell.id == cell_id]
    return text


def listing_of(notebook, cell_id):
    """The lines of the Python code in a cell's text."""
    text = text_of(notebook, cell_id)
    return re.search(r"```python\n(.+?)\n```", text, re.DOTALL)[1].splitlines()


QUOTED = {  # a kernel -> its file, and the cell of a notebook that quotes lines of it
    "norm_rope_backward_kernel": (NORM_KERNEL, NOTEBOOK_11, "11-ex3-back"),
    "pairs_kernel": ("rope_lab/rungs/pairs_of_a_row.py", "05_fused_half_split.ipynb", "05-02"),
}


@pytest.mark.parametrize("kernel", QUOTED)
def test_a_notebook_quotes_lines_of_a_kernel(kernel):
    file, notebook, cell = QUOTED[kernel]
    lines = lines_of(file, kernel)
    gone = [line for line in listing_of(notebook, cell) if not has(lines, line)]
    assert not gone, (
        f"{kernel} has no line {gone[0]!r}: edit cell {cell} of notebooks/{notebook}, and quote "
        f"the line of {file} that does the same now"
    )


OF_03 = "solutions/03_first_triton_kernel_solutions.ipynb", "rope_lab/n03/kernels.py"
OF_13 = "solutions/13_a_kernel_of_your_own_solutions.ipynb", "rope_lab/n13/kernels.py"
IN_BOTH = {  # a function of a notebook -> where it is, and the file in which the lab has it
    "softmax_kernel": OF_03,
    "swiglu_kernel": OF_13,
    "add_rms_norm_kernel": OF_13,
    "logsumexp_kernel": OF_13,
}


@pytest.mark.parametrize("kernel", IN_BOTH)
def test_a_kernel_that_is_measured_is_the_one_on_the_page(kernel):
    name, file = IN_BOTH[kernel]
    notebook = load(name)
    solved = "\n".join(cell.source for cell in notebook.code)
    ours = (ROOT / file).read_text(encoding="utf-8")
    one, other = (
        {x.name: ast.unparse(x) for x in ast.parse(text).body if isinstance(x, ast.FunctionDef)}
        for text in (solved, ours)
    )
    assert one[kernel] == other[kernel]
