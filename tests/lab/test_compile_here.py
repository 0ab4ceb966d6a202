"""The compiler in this process: it leaves a kernel, Triton and the process as they were."""

import os
import sys

import pytest
import torch

from cells import names_in

triton = pytest.importorskip("triton", reason="needs Triton")

from triton.runtime import driver  # noqa: E402

from rope_lab.compiler.compile import compile_for, job_of  # noqa: E402
from rope_lab.compiler.compile_here import forget_compiled, kernels_in  # noqa: E402
from rope_lab.compiler.launch_limits import Refused  # noqa: E402
from rope_lab.compiler.stages import kernel_lines, opcodes, operations  # noqa: E402

pytestmark = pytest.mark.needs_compiler
X = torch.arange(128.0)
CELL = """
import triton
import triton.language as tl

FACTOR = tl.constexpr(3)

@triton.jit
def part(x):
    return tl.sin(x)

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
    code = compiled(kernel)
    text = CELL.splitlines()
    assert all(text[number - 1] == line for number, line in kernel_lines(code).items())
    stores = operations(code, "ptx", "tl.store")
    assert {text[one.line - 1].strip() for one in stores} == {text[-1].strip()}


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
