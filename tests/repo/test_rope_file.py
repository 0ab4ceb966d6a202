"""`rope.py`, the kernel in one file, beside `rope_kernels`; and what it refuses."""

import ast
import inspect
import runpy

import pytest
import torch

import rope
from processes import ROOT, run_python
from rope_kernels import apply_rotary_pos_emb
from rope_lab.rungs import RUNGS

DTYPES = {torch.float32: 1e-5, torch.bfloat16: 2**-7, torch.float16: 2**-10}
SIZES = {  # (s, b, h, d) -> how many of the d elements rotate
    (5, 2, 3, 64): 64,
    (7, 1, 9, 72): 24,
    (1, 3, 1, 2): 2,
    (3, 2, 17, 256): 256,
    (2, 1, 1, 35): 34,
}
STRIDES = {
    "sbhd": lambda t: t,
    "a view of bshd": lambda t: t.transpose(0, 1).contiguous().transpose(0, 1),
    "a view of bhsd": lambda t: t.permute(1, 2, 0, 3).contiguous().permute(2, 0, 1, 3),
    "every other element": lambda t: t.repeat_interleave(2, -1)[..., ::2],
    "one entry for all": lambda t: t[:, :1].expand(t.shape),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("strides", STRIDES)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_result_and_gradients_are_the_packages(sizes, strides, dtype, device):
    s, d2 = sizes[0], SIZES[sizes]
    t = STRIDES[strides](torch.randn(sizes, device=device).to(dtype)).detach().requires_grad_()
    freqs = rope.angles(s + 2, d2, device=device)
    freqs = freqs + 0.1 * torch.randn_like(freqs)  # both members of a pair have their own angle
    grad = STRIDES[strides](torch.randn(sizes, device=device).to(dtype)).requires_grad_()
    found = []
    for rotate in (rope.rope, apply_rotary_pos_emb):
        out = rotate(t, freqs)
        (back,) = torch.autograd.grad(out, t, grad, create_graph=True)
        (again,) = torch.autograd.grad(back, grad, torch.ones_like(back))
        found.append((out, back, again))
    tolerance = DTYPES[dtype]
    torch.testing.assert_close(*found, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("t", "freqs", "words"),
    (
        (torch.ones(3, 1, 1, 5), torch.ones(3, 1, 1, 5), "freqs has shape"),
        (torch.ones(3, 1, 4), torch.ones(3, 1, 1, 4), "t is torch.float32 of shape"),
        (torch.ones(3, 1, 1, 4).double(), torch.ones(3, 1, 1, 4), "t is torch.float64"),
        (torch.ones(3, 1, 1, 4).int(), torch.ones(3, 1, 1, 4), "t is torch.int32"),
        (torch.ones(3, 1, 1, 4), torch.ones(2, 1, 1, 4), "freqs has shape"),
        (torch.ones(3, 1, 1, 4), torch.ones(3, 1, 1, 6), "freqs has shape"),
        (torch.ones(3, 1, 1, 4), torch.ones(3, 1, 1, 4, requires_grad=True), "requires a grad"),
        (torch.ones(3, 1, 1, 4), torch.ones(3, 1, 1, 4, device="meta"), "another device"),
    ),
)
def test_what_it_does_not_take_is_refused(t, freqs, words):
    with pytest.raises(ValueError, match=words):
        rope.rope(t, freqs)


def test_its_kernel_is_that_of_the_last_rung():
    """But for its name and comments."""

    def without_name(kernel):
        (function,) = ast.parse(inspect.getsource(kernel.fn)).body
        function.name = "kernel"
        return ast.unparse(function)

    assert without_name(rope.rope_kernel) == without_name(RUNGS[7].module.my_rope_kernel)


def test_it_is_short_and_checks_itself(capsys):
    path = ROOT / "rope.py"
    lines = len(path.read_text("utf-8").splitlines())
    assert lines < 165
    assert f"the kernel in one file of {lines} lines" in (ROOT / "README.md").read_text("utf-8")
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.count("result and gradient are correct") == 3


def test_imported_after_triton_it_changes_no_variable():
    """It would change later kernels alone, and not the functions of Triton that they call."""
    code = "import os, triton, rope; print(os.environ.get('TRITON_INTERPRET'))"
    assert run_python(code).split() == ["None"]


@pytest.mark.gpu
def test_a_view_of_bshd_with_more_than_2_32_elements():
    t = torch.empty(128, 8192, 32, 128, device="cuda", dtype=torch.bfloat16).normal_()
    t = t.transpose(0, 1)
    freqs = rope.angles(8192, 128, device="cuda")
    out = rope.rope(t, freqs)
    for entry in (0, 63, 64, 127):
        entries = slice(entry, entry + 1)
        expected = rope.reference(t[:, entries], freqs)
        torch.testing.assert_close(out[:, entries], expected, rtol=2**-7, atol=2**-7)
