"""docs/package.md says in one table what each function can't do: each cell is true.

What an entry of `ops.py` says of its function is read there, for `test_ops*.py` hold it to that.
"""

import re
from pathlib import Path

import pytest
import torch
from torch import func

from counted import paths_taken
from ops import AXES, BF16, FP16, FP32, FP64, OPS
from processes import ROOT, run_python

PAGE = ROOT / "docs/package.md"
WORDS = {"kernel": "kernel", "operator": "operator", "pytorch": "PyTorch"}


def table_of_limits():
    """Row -> function -> what the page says. A line may have several rows, divided by "; "."""
    _, _, after = PAGE.read_text("utf-8").partition("\n## What each function supports\n")
    section, _, _ = after.partition("\n## ")
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    functions = [re.findall(r"`(\w+)`", cell) for cell in head[1:]]
    return {
        row: {name: cell for names, cell in zip(functions, cells, strict=True) for name in names}
        for together, *cells in rows
        for row in together.split("; ")
    }


def yes(condition):
    return "yes" if condition else "no"


OF_THE_ENTRY = {
    "`torch.compile(fullgraph=True)`": lambda op: "operator" if op.is_operator else "PyTorch",
    "`inplace=True`": lambda op: {(): "no", op.tensors: "yes"}.get(
        op.inplace, "of " + ", ".join(op.inplace)
    ),
    "fp32, fp16, bf16, fp64": lambda op: yes(
        {FP32, FP16, BF16, FP64} == {*(AXES | op.axes)["dtype"]}
    ),
    "`(cos, sin)` of several axes": lambda op: yes(
        "cos and sin of each entry" in (AXES | op.axes)["freqs"]
    ),
    "DTensors": lambda op: "refused",  # `test_dtensors.py` asks every argument
}


def by(call):
    """What computes it."""
    with paths_taken() as taken:
        call()
    return WORDS[taken[0].by]


def first_derivative(sample, interpreter):
    leaves = sample.leaves()
    outs = sample.call(leaves)
    if not outs[0].requires_grad:
        return "none"
    before = interpreter.launches
    torch.autograd.grad(outs, [*leaves.values()], sample.gradients_like(outs))
    return "kernel" if interpreter.launches > before else "PyTorch"


def second_derivative(sample, interpreter):
    """Of a sum of squares, whose gradient depends on the tensors."""
    leaves = sample.leaves()
    outs = sample.call(leaves)
    if not outs[0].requires_grad:
        return "none"
    upstream = [torch.randn_like(x).requires_grad_() for x in outs]
    grads = torch.autograd.grad(outs, [*leaves.values()], upstream, create_graph=True)
    before = interpreter.launches
    sum(x.square().sum() for x in grads).backward()
    return "kernel" if interpreter.launches > before else "PyTorch"


def gradient_of_a_table(sample, interpreter):
    sample = sample.op.sample("cpu")
    sample.freqs.requires_grad_()
    computed_by = by(sample.call)
    return computed_by if sample.call()[0].requires_grad else "none"


def vmap(sample, interpreter):
    names, tensors = zip(*sample.leaves().items(), strict=True)

    def call(*tensors):
        return sample.call(dict(zip(names, tensors, strict=True)))

    return by(lambda: func.vmap(call)(*(x.detach().expand(2, *x.shape) for x in tensors)))


def forward_mode(sample, interpreter):
    name = sample.op.tensors[0]
    x = sample.given[name]
    return by(lambda: func.jvp(lambda x: sample.call({name: x})[0], (x,), (x.clone(),)))


def of_fp8(sample, interpreter):
    sample.call({name: x.to(torch.float8_e4m3fn) for name, x in sample.given.items()})


def several_axes(sample, interpreter):
    sample.call(position_ids=torch.zeros(3, sample.b, 5, dtype=torch.int64))


ASKED = {
    "gradients of tensors and weights": first_derivative,
    "second derivatives": second_derivative,
    "a gradient of the table": gradient_of_a_table,
    "`torch.func.vmap`": vmap,
    "forward mode, `torch.func.jvp`": forward_mode,
    "fp8": of_fp8,
    "`position_ids` on several axes": several_axes,
}
ON_A_CPU = "tensors on a CPU"


def test_the_table_has_what_is_asked_and_all_functions():
    rows = table_of_limits()
    assert set(rows) == {*ASKED, *OF_THE_ENTRY, ON_A_CPU}
    assert all(set(functions) == {op.name for op in OPS} for functions in rows.values())


@pytest.mark.parametrize("row", OF_THE_ENTRY)
def test_a_row_is_what_the_entries_say(row):
    assert {op.name: OF_THE_ENTRY[row](op) for op in OPS} == table_of_limits()[row]


@pytest.mark.parametrize("row", ASKED)
@pytest.mark.parametrize("op", OPS, ids=str)
def test_a_cell_is_true(op, row, interpreter):
    if interpreter is None:
        pytest.skip("counts launches of the interpreter")
    sample = op.sample("cpu", tensor_format="bshd", freqs="on the fly")
    try:
        found = ASKED[row](sample, interpreter)
    except (ValueError, TypeError, RuntimeError):
        found = "refused"
    assert found == table_of_limits()[row][op.name]


def test_what_runs_on_a_cpu_is_true():
    """Without the interpreter."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_limits import OPS, by\n"
        "for op in OPS:\n    print(op, by(op.sample('cpu').call))"
    )
    found = dict(line.split() for line in run_python(code, TRITON_INTERPRET="").splitlines())
    assert found == table_of_limits()[ON_A_CPU]
