"""A kernel runs where its tensors are, and as it is written now; the compiler is left as it was."""

import importlib
import os
import sys
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from IPython.extensions import autoreload

import rope_lab as lab
from cells import Cell, names_in
from processes import run_python
from rope_lab.judge import definitions
from rope_lab.n00.exercises import scaled_copy
from rope_lab.run import IN_THE_INTERPRETER, Now, is_interpreted
from rope_lab.rungs import RUNGS

triton = pytest.importorskip("triton", reason="needs Triton")

import triton.language as tl  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

from rope_lab.compiler.compile import compile_for, compiles_here  # noqa: E402

X, N = torch.arange(8.0), 8
META = torch.empty(8, device="meta")  # somewhere else, without a GPU
Pair = namedtuple("Pair", ("x", "y"))


@pytest.fixture
def notebook(tmp_path):
    """Runs a cell, and returns the names of all cells."""
    names = {"__name__": "__main__", "torch": torch, "triton": triton, "tl": tl}
    return lambda text: names_in(text, tmp_path, names)


@pytest.fixture
def as_before():
    """The compiler's language is in the end what it was."""

    def language():
        return {
            (x, name): id(part) for x in (tl, tl.core, tl.tensor) for name, part in vars(x).items()
        }

    before = language()
    yield
    assert language() == before


# which launches are interpreted


@triton.jit
def kernel(x_ptr, y_ptr, n):
    tl.store(y_ptr + tl.arange(0, 8), 2 * tl.load(x_ptr + tl.arange(0, 8)))


ON_THE_CPU = "y_ptr is on the CPU, and x_ptr on the GPU: make it where the inputs are, as by dev"
PLACES = {  # arguments, and whether they are interpreted, or an error's words
    "on a CPU": ((X, X, N), True),
    "elsewhere": ((META, META, N), False),
    "in a tuple": ((Pair(X, X), (META,), N), "y_ptr.0 on the GPU"),
    "in tuples": ((Pair(META, META), (META,), N), False),
    "in a descriptor": ((TensorDescriptor.from_tensor(X, [8]), None, N), True),
    "a result on the CPU": ((META, X, N), ON_THE_CPU),
    "none": ((None, None, N), lab.device == "cpu"),
}


@pytest.mark.needs_compiler
@pytest.mark.parametrize("what", PLACES)
def test_a_launch_runs_where_its_tensors_are(what):
    arguments, wanted = PLACES[what]
    if isinstance(wanted, bool):
        assert is_interpreted(kernel, arguments, {}) is wanted
        return
    with pytest.raises(ValueError, match=f"^kernel: .*{wanted}"):
        kernel[(1,)](*arguments)


def test_pinned_memory_is_where_the_other_tensors_are(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda x: x.is_cpu)
    assert is_interpreted(kernel, (X, X, N), {})
    assert not is_interpreted(kernel, (X, META, N), {})


def test_where_there_is_a_gpu_the_first_interpreted_launch_says_so_once(monkeypatch, recwarn):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(Now, "warns", True)
    for _ in range(2):
        kernel[(1,)](X, X.clone(), N)
    assert [str(one.message) for one in recwarn] == [IN_THE_INTERPRETER]
    assert recwarn[0].filename == __file__


# as the kernel is written now

KERNEL = """
@triton.jit
def kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, {y})

def run(x):
    out = torch.empty_like(x)
    kernel[(1,)](x, out, BLOCK=8)
    return out
"""
PART = "@triton.jit\ndef part(x):\n    return {y}\n"
OUTER = "@triton.jit\ndef outer(x):\n    return part(x)\n"
INNER = KERNEL.format(y="part(x) * F").replace("\n", "\n    ")
MADE = f"def made(F: tl.constexpr):\n    {INNER}\n    return kernel, run\n"
TUNER = "@triton.autotune([triton.Config({}), triton.Config({}, num_warps=2)], [])"
CELLS = {  # cells, one after the other, and what is made of 0, 1, ..., 7 in the end
    "a method": ([KERNEL.format(y="x.sum() + 0 * i")], torch.full((8,), 28.0)),
    "a sort": ([KERNEL.format(y="-tl.sort(-x)")], X.flip(0)),
    "a helper that is defined again": (
        [PART.format(y="x"), KERNEL.format(y="part(x)"), PART.format(y="3 * x")],
        3 * X,
    ),
    "a helper's helper": (
        [PART.format(y="x"), OUTER + KERNEL.format(y="outer(x)"), PART.format(y="5 * x")],
        5 * X,
    ),
    "a constant that changes": (
        ["F = tl.constexpr(2)", KERNEL.format(y="x * F"), "F = tl.constexpr(7)"],
        7 * X,
    ),
    "a closure, and what is around it": (
        [PART.format(y="x") + MADE + "kernel, run = made(tl.constexpr(3))", PART.format(y="x + 1")],
        3 * (X + 1),
    ),
    "a tensor of the notebook": (
        ["rows = torch.ones(8)\n" + KERNEL.format(y="x").replace("](x,", "](rows,")],
        torch.ones(8),
    ),
    "an autotuned kernel": ([TUNER + KERNEL.format(y="2 * x")], 2 * X),
}


@pytest.mark.parametrize("what", CELLS)
def test_a_kernel_is_interpreted_and_compiled_by_turns_as_it_is_now(what, notebook, as_before):
    cells, wanted = CELLS[what]
    for text in cells:
        names = notebook(text)
        known = {*names, "interpreter_semantic"}
        if "run" in names:
            for _ in range(2):
                found = names["run"](X)
                if compiles_here():
                    compile_for("sm_90", names["kernel"], X, X, BLOCK=8)
        assert names.keys() <= known and not getattr(names.get("kernel"), "cache", {})
    torch.testing.assert_close(found, wanted)


def test_after_an_interrupt_in_a_kernel_all_is_as_before(notebook, as_before):
    names = notebook("def stop():\n    raise KeyboardInterrupt\n" + KERNEL.format(y="stop()"))
    with pytest.raises(KeyboardInterrupt):
        names["run"](X)
    assert torch.equal(notebook(KERNEL.format(y="-x"))["run"](X), -X)


def test_threads_launch_compile_and_judge_by_turns(notebook, as_before):
    names = notebook(KERNEL.format(y="x + tl.max(x, 0)"))

    def work(number):
        if number % 4 == 0:
            return bool(lab.check_exercise(RUNGS[7].module.my_rope, definitions.rope))
        if number % 4 == 1 and compiles_here():
            return compile_for("sm_90", names["kernel"], X, X, BLOCK=8).registers > 0
        return torch.equal(names["run"](number + X), 2 * number + X + 7)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(12)))


# what came before, and what is edited

VERDICT = """
import rope_lab as lab
lab.need_triton()
import torch
from inspected_kernels import scaled_tanh
from rope_lab.compiler.compile import compiles_here
from rope_lab.judge import definitions
from rope_lab.rungs import RUNGS
x = torch.randn(2, 8)
print(lab.check_exercise(RUNGS[7].module.my_rope, definitions.rope).state, compiles_here())
print(torch.allclose(scaled_tanh(x), torch.tanh(0.5 * x)), "torch._dynamo" in sys.modules)
"""
FRESH = {  # what comes before, TRITON_INTERPRET, and whether Triton compiles
    "nothing": ("", "", True),
    "a variable": ("", "1", True),
    "Triton": ("import triton", "", True),
    "Triton, for its interpreter": ("import triton", "1", False),
    "a kernel with a function of libdevice": ("import inspected_kernels", "", True),
}


@pytest.mark.needs_compiler
@pytest.mark.parametrize("what", FRESH)
def test_a_verdict_whatever_came_before(what):
    """And PyTorch's compiler is not loaded, which takes a second."""
    before, variable, compiles = FRESH[what]
    said = run_python(f"import sys\n{before}\n{VERDICT}", TRITON_INTERPRET=variable).split()
    assert said == ["right", str(compiles), "True", "False"]


MINE = Cell("y = part(x)", above="@triton.jit\ndef part(x):\n    return FACTOR * x").text


@pytest.mark.parametrize("how", ("reload", "autoreload"))
def test_an_edited_file_gets_the_verdict_on_what_it_says_now(how, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    name, reloader, found = f"mine_to_{how}", autoreload.ModuleReloader(), []
    for factor in (2, 3, 2):
        file = tmp_path / f"{name}.py"
        file.write_text(MINE.replace("FACTOR", str(factor)), encoding="utf-8")
        os.utime(file, (len(found), len(found)))
        if not found:
            scaled = importlib.import_module(name).doubled
            reloader.mark_module_reloadable(name)
            reloader.enabled = True
        elif how == "reload":
            scaled = importlib.reload(sys.modules[name]).doubled
        reloader.check()  # what %autoreload does before each cell
        found.append(lab.check_exercise(scaled, scaled_copy).state)
    assert found == ["right", "wrong", "right"]
