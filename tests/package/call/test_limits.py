"""docs/kernels.md says in one table what each function can't do: each cell is asked."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import func

from counted import paths_taken
from ops import PUBLIC
from processes import run_python
from rope_kernels import RotaryPositionEmbedding

PAGE = Path(__file__).resolve().parents[3] / "docs/kernels.md"
B, S, HEADS, KV_HEADS, D = 2, 3, 4, 2, 16


def table_of_limits():
    """Row -> function -> what the page says."""
    _, _, after = PAGE.read_text("utf-8").partition("\n## Limits by function\n")
    section, _, _ = after.partition("\n## ")
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    functions = [re.findall(r"`(\w+)`", cell) for cell in head[1:]]
    return {
        row: {name: cell for names, cell in zip(functions, cells, strict=True) for name in names}
        for row, *cells in rows
    }


class Call:
    """A small call of a function: what is wanted of it, and how."""

    def __init__(self, name, dtype=torch.float32, trained=False, freqs=None, **options):
        def new(*shape):
            return torch.randn(*shape).to(dtype).requires_grad_(trained)

        freqs = RotaryPositionEmbedding(D) if freqs is None else freqs
        q, k, weight = new(B, S, HEADS, D), new(B, S, KV_HEADS, D), new(D)
        tokens = [new(B * S, heads, D) for heads in (HEADS, KV_HEADS, KV_HEADS)]
        self.caches = torch.zeros(2, 2, B * S, KV_HEADS, D, dtype=dtype)
        slots = torch.arange(B * S)
        self.function, self.options = PUBLIC[name], options
        if name == "rope_to_cache":
            self.options = {"position_ids": slots} | options
        tensors, others = {
            "norm_rope": ((q, weight), (freqs, "bshd")),
            "qk_norm_rope": ((q, k, weight, weight), (freqs, "bshd")),
            "rope_qk": ((q, k), (freqs, "bshd")),
            "rope_to_cache": (tokens, (freqs, *self.caches, slots)),
            "split_qkv_rope": (
                [new(B, S, (HEADS + 2 * KV_HEADS) * D)],
                (freqs, HEADS, KV_HEADS),
            ),
        }.get(name, ((q,), (freqs, "bshd")))
        if name == "split_qkv_rope":
            self.options = {"tensor_format": "bshd"} | options
        self.tensors, self.others = tuple(tensors), others

    def __call__(self, *tensors):
        return self.function(*(tensors or self.tensors), *self.others, **self.options)

    def first(self, *tensors):
        result = self(*tensors)
        return result if isinstance(result, torch.Tensor) else result[0]


WORDS = {"kernel": "kernel", "operator": "operator", "pytorch": "PyTorch"}


def way(call):
    with paths_taken() as taken:
        call()
    return WORDS[taken[0].by]


def results_of(call):
    results = call()
    return results if isinstance(results, tuple) else (results,)


def first_derivative(name, interpreter):
    results = results_of(Call(name, trained=True))
    if not results[0].requires_grad:
        return "none"
    before = interpreter.launches
    torch.autograd.backward(results, [torch.randn_like(x) for x in results])
    return "kernel" if interpreter.launches > before else "PyTorch"


def second_derivative(name, interpreter):
    """Of a sum of squares, whose gradient depends on the tensors."""
    call = Call(name, trained=True)
    results = results_of(call)
    if not results[0].requires_grad:
        return "none"
    upstream = [torch.randn_like(x).requires_grad_() for x in results]
    grads = torch.autograd.grad(results, call.tensors, upstream, create_graph=True)
    before = interpreter.launches
    sum(x.square().sum() for x in grads).backward()
    return "kernel" if interpreter.launches > before else "PyTorch"


def gradient_of_a_table(name, interpreter):
    table = RotaryPositionEmbedding(D)(16).requires_grad_()
    call = Call(name, freqs=table)
    return way(call) if call.first().requires_grad else "none"


def compiled(name, interpreter):
    call, seen = Call(name), []

    def backend(graph, inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    torch._dynamo.reset()
    torch.compile(call.function, backend=backend, fullgraph=True)(
        *call.tensors, *call.others, **call.options
    )
    return "operator" if any("rope_kernels" in target for target in seen) else "PyTorch"


def vmap(name, interpreter):
    call = Call(name)
    before = interpreter.launches
    func.vmap(lambda *tensors: call(*tensors))(*(x.expand(2, *x.shape) for x in call.tensors))
    return "PyTorch" if interpreter.launches == before else "kernel"


def jvp(name, interpreter):
    call = Call(name)
    before = interpreter.launches
    x, *others = call.tensors
    func.jvp(lambda x: call.first(x, *others), (x,), (torch.randn_like(x),))
    return "PyTorch" if interpreter.launches == before else "kernel"


def in_place(name, interpreter):
    try:
        call = Call(name, inplace=True)
        out = call()
    except TypeError:
        return "no"
    results = out if isinstance(out, tuple) else (out,)
    same = [y.data_ptr() == x.data_ptr() for x, y in zip(call.tensors, results, strict=False)]
    assert all(same)
    return "of q" if name == "rope_to_cache" else "yes"


def of_dtypes(*dtypes):
    def ask(name, interpreter):
        for dtype in dtypes:
            assert Call(name, dtype=dtype).first().dtype == dtype
        return "yes"

    return ask


def several_axes(name, interpreter):
    return Call(name, position_ids=torch.zeros(3, B, S, dtype=torch.int64))()


def cos_sin_of_axes(name, interpreter):
    """A table of each entry, or of each token, as several axes make it."""
    shape = (B * S, D) if name == "rope_to_cache" else (B, S, D)
    angle = torch.rand(*shape)
    options = {"position_ids": torch.arange(B * S)} if name == "rope_to_cache" else {}
    call = Call(name, freqs=(angle.cos(), angle.sin()), **options)
    return "yes" if way(call) == "kernel" and call.first().isfinite().all() else "no"


def writes_a_cache(name, interpreter):
    call = Call(name)
    call()
    return "yes" if call.caches.count_nonzero() else "no"


def normalizes(name, interpreter):
    """A row 10 times as large comes out as it was."""
    call = Call(name)
    x, *others = call.tensors
    same = torch.allclose(call.first(x, *others), call.first(10 * x, *others), atol=1e-3)
    return "yes" if same else "no"


def on_a_cpu(name, interpreter):
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        f"from test_limits import Call, way\nprint(way(Call({name!r})))"
    )
    return run_python(code, TRITON_INTERPRET="").strip()


REFUSED = (ValueError, TypeError, RuntimeError)
ASKED = {
    "gradients of tensors and weights": first_derivative,
    "second derivatives": second_derivative,
    "a gradient of the table": gradient_of_a_table,
    "`torch.compile(fullgraph=True)`": compiled,
    "`torch.func.vmap`": vmap,
    "forward mode, `torch.func.jvp`": jvp,
    "`inplace=True`": in_place,
    "fp32, fp16, bf16, fp64": of_dtypes(
        torch.float32, torch.float16, torch.bfloat16, torch.float64
    ),
    "fp8": of_dtypes(torch.float8_e4m3fn),
    "`position_ids` on several axes": several_axes,
    "`(cos, sin)` of several axes": cos_sin_of_axes,
    "writes keys and values into a cache": writes_a_cache,
    "normalizes": normalizes,
}


def test_the_table_has_what_is_asked_and_all_functions():
    rows = table_of_limits()
    assert set(rows) == {*ASKED, "DTensors", "tensors on a CPU"}
    rotate = {name for name in PUBLIC if "rope" in name.lower()}
    rotate = {name for name in rotate if name.islower()} | {"apply_rotary_pos_emb"}
    for functions in rows.values():
        assert set(functions) == rotate


CELLS = [(row, name) for row, cells in table_of_limits().items() for name in cells]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row, name", [cell for cell in CELLS if cell[0] in ASKED])
def test_a_cell_is_true(row, name, interpreter):
    if interpreter is None:
        pytest.skip("counts launches of the interpreter")
    said = table_of_limits()[row][name]
    try:
        found = ASKED[row](name, interpreter)
    except REFUSED:
        found = "refused"
    assert found == said


def test_dtensors_are_refused():
    """`test_dtensors.py` asks every argument of every function."""
    assert set(table_of_limits()["DTensors"].values()) == {"refused"}


@pytest.mark.parametrize("name", table_of_limits()["tensors on a CPU"])
def test_what_runs_on_a_cpu_is_true(name):
    assert on_a_cpu(name, SimpleNamespace()) == table_of_limits()["tensors on a CPU"][name]
