"""Lines of kernels that notebooks quote, by hand: each is still there."""

import ast
import io
import re
import tokenize

import pytest

from notebook_form import ROOT, load

RUNG_7 = "rope_lab/rungs/rung_7_loads_first.py"
KERNELS_OF_08 = "rope_lab/n08/kernels.py"
KERNEL, NORM_KERNEL = "rope_kernels/kernel.py", "rope_kernels/norms/kernel.py"
NOTEBOOK_08 = "08_profiling.ipynb"
NOTEBOOK_09, NOTEBOOK_11 = "09_to_the_memory_limit.ipynb", "11_two_for_the_price_of_one.ipynb"


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


def table_of(cell_id):
    """The rows of a cell's table in notebook 09, without its head; a cell's text without quotes."""
    rows = [line for line in text_of(NOTEBOOK_09, cell_id).splitlines() if line.startswith("|")]
    cells = [re.split(r"(?<!\\)\|", row)[1:-1] for row in rows[2:]]
    return [[cell.strip(" `").replace(r"\|", "|") for cell in row] for row in cells]


QUOTED = [(partner, "09-98") for _, partner in table_of("09-98")]
QUOTED += [(line, "09-same-back") for line, _ in table_of("09-same-back")]


@pytest.mark.parametrize("quoted, cell_id", QUOTED, ids=[quoted for quoted, _ in QUOTED])
def test_notebook_09_quotes_a_line_of_the_package(quoted, cell_id):
    function, line = quoted.split(": ", maxsplit=1)
    is_there = has(lines_of(KERNEL, function), line)
    assert is_there, (
        f"{function} has no line {line!r}: notebook 09's table quotes it. Edit the table in cell "
        f"{cell_id} of notebooks/{NOTEBOOK_09}: quote the line of {KERNEL} that does the same now"
    )


def test_notebook_09_quotes_rung_7_whole():
    head, *body = filter(None, lines_of(RUNG_7, "my_rope_kernel"))
    assert head.startswith("defmy_rope_kernel(")
    quoted = ["".join(mine.split()) for mine, _ in table_of("09-98") if mine]
    assert quoted == body, (
        f"The left column of the table in cell 09-98 of notebooks/{NOTEBOOK_09} is the body of "
        f"my_rope_kernel in {RUNG_7}, line by line: edit the table"
    )


def listing_of(notebook, cell_id):
    """The lines of the Python code in a cell's text."""
    text = text_of(notebook, cell_id)
    return re.search(r"```python\n(.+?)\n```", text, re.DOTALL)[1].splitlines()


def test_notebook_08_quotes_the_loops_of_its_kernel():
    lines = lines_of(KERNELS_OF_08, "knobs_kernel")
    quoted = [line for line in listing_of(NOTEBOOK_08, "08-five") if "..." not in line]
    gone = [line for line in quoted if not has(lines, line)]
    assert quoted and not gone, (
        f"knobs_kernel in {KERNELS_OF_08} has no line {gone}: edit the listing in cell 08-five of "
        f"notebooks/{NOTEBOOK_08}"
    )


def test_notebook_11_quotes_lines_of_the_package():
    quoted = listing_of(NOTEBOOK_11, "11-ex3-back")
    lines = lines_of(NORM_KERNEL, "norm_rope_backward_kernel")
    gone = [line for line in quoted if not has(lines, line)]
    assert not gone, (
        f"norm_rope_backward_kernel has no line {gone[0]!r}: notebook 11 quotes it. Edit cell "
        f"11-ex3-back of notebooks/{NOTEBOOK_11}: quote the line of {NORM_KERNEL} that does the "
        "same now"
    )


OF_13 = "solutions/13_a_kernel_of_your_own_solutions.ipynb", "rope_lab/n13/kernels.py"
OF_05 = "05_fused_half_split.ipynb", "rope_lab/rungs/pairs_of_a_row.py"
IN_BOTH = {  # a function of a notebook -> where it is, and the file in which the lab has it
    "swiglu_kernel": OF_13,
    "add_rms_norm_kernel": OF_13,
    "logsumexp_kernel": OF_13,
    "pairs_kernel": OF_05,
    "rope_by_pairs": OF_05,
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
