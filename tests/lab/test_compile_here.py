"""The compiler in this process: it leaves a kernel, Triton and the process as they were."""

import os
import re
import sys

import pytest
import torch

from cells import names_in

triton = pytest.importorskip("triton", reason="needs Triton")

from triton.runtime import driver  # noqa: E402

from rope_lab.compiler.compile import compile_for, job_of  # noqa: E402
from rope_lab.compiler.compile_here import forget_compiled, kernels_in  # noqa: E402
from rope_lab.compiler.launch_limits import Refused  # noqa: E402
from rope_lab.compiler.stages import STAGES, kernel_lines, opcodes, operations  # noqa: E402

pytestmark = pytest.mark.needs_compiler
X = torch.arange(128.0)
CELL = """
import triton
import triton.language as tl

FACTOR = tl.constexpr(3)

@triton.jit
def part(x):
    return tl.sin(x) + x

@triton.jit
def kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, part(tl.load(x_ptr + i)) * FACTOR)
"""


@pytest.fixture
def kernel(tmp_path):
    return names_in(CELL, tmp_path)["kernel"]


def compiled(kernel, gpu="sm_90"):
    return compile_for(gpu, kernel, X, X, BLOCK=128)


@pytest.mark.parametrize("ends", ("in code", "in a refusal", "in a check"))
def test_a_kernel_and_triton_are_as_before(ends, kernel, capfd):
    def state():
        own = [
            (one.hash, one.used_global_vals, dict(one.device_caches)) for one in kernels_in(kernel)
        ]
        return own, dict(vars(driver)), dict(os.environ), os.listdir(), sys.stdout, sys.stderr

    before = state()
    if ends == "in code":
        assert compiled(kernel).registers > 0
    elif ends == "in a check":
        assert job_of("sm_90", kernel, X, X, BLOCK=128).done(check=True) == {"shared": 0}
    else:
        with pytest.raises(Refused):
            compile_for("sm_90", kernel, X, X, BLOCK=100)
    assert state() == before
    assert capfd.readouterr() == ("", "")


def test_lines_are_those_of_the_cell(kernel):
    text = CELL.splitlines()
    assert all(text[number - 1] == line for number, line in kernel_lines(compiled(kernel)).items())


# A load is inline PTX of several lines. Triton 3.9 gives them the lines below the kernel's own.
knows_lines = pytest.mark.skipif(
    tuple(map(int, triton.__version__.split(".")[:2])) > (3, 7),
    reason="newer than Triton 3.7, which knows the line of each instruction",
)


@knows_lines
@pytest.mark.parametrize("stage", STAGES)
def test_what_is_inlined_belongs_to_the_line_that_called_it(stage, kernel):
    code = compiled(kernel)
    of_store = operations(code, stage, "tl.store")
    assert [o for o in of_store if re.search(r"arith\.addf|add\.f32|FADD", o.opcode)], of_store
    assert {operation.line for operation in operations(code, stage)} <= {0, *kernel_lines(code)}


def test_what_is_defined_again_is_compiled_again(kernel, tmp_path):
    """Triton itself takes a hash of all that a kernel uses once."""
    around = kernel.fn.__globals__
    key = kernel.cache_key
    around["part"] = names_in(CELL.replace("tl.sin", "tl.cos"), tmp_path)["part"]
    around["FACTOR"] = triton.language.constexpr(5)
    assert [*opcodes(compiled(kernel), "ttir", keep="^math")] == ["math.cos"]
    assert kernel.cache_key == key
    forget_compiled(kernel)
    assert kernel.cache_key != key
