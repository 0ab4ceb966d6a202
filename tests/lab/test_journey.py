"""The kernels on the way: right where they claim to be, and the same in notebook and package."""

import ast
import re

import pytest
import torch

import rope_lab as lab
from inputs import angles, contiguous
from notebook_form import FOLDER, load, names_of_detours, names_of_notebooks
from rope_kernels import rotate_half
from rope_lab.rungs import RUNGS, rung_2_row
from rope_lab.steps import journey
from rope_lab.steps.two_bounds import part_of_row
from yardstick import assert_rounded_once, rotate_fp64

SHAPE = (5, 2, 3, 24)


@pytest.mark.parametrize("block", (16, 64, 1024))
def test_rotate_half(block, device):
    x = torch.randn(7, 3, 10, device=device)
    assert torch.equal(journey.rotate_half_gather(x, block), rotate_half(x))


def test_first_rope_where_it_is_right(device):
    t, freqs = contiguous((5, 3, 16), torch.float32, device), angles(5, 16, device)
    assert_rounded_once(journey.first_rope(t, freqs), rotate_fp64(t[:, None], freqs, "sbhd")[:, 0])


@pytest.mark.parametrize("rotary_dim", (24, 10))
@pytest.mark.parametrize("block", (16, 64, 1024))
def test_naive_rope(block, rotary_dim, device):
    t, freqs = contiguous(SHAPE, torch.float32, device), angles(5, rotary_dim, device)
    assert_rounded_once(journey.naive_rope(t, freqs, block), rotate_fp64(t, freqs, "sbhd"))
    turned = t.transpose(1, 2).contiguous().transpose(1, 2)
    assert_rounded_once(journey.naive_rope(turned, freqs, block), rotate_fp64(t, freqs, "sbhd"))


@pytest.mark.parametrize("function", (journey.half_split_row, journey.half_split_tile))
def test_half_split(function, device):
    t, freqs = contiguous(SHAPE, torch.float32, device), angles(5, 24, device)
    assert_rounded_once(function(t, freqs), rotate_fp64(t, freqs, "sbhd"))


def test_half_split_in_place(device):
    t, freqs = contiguous(SHAPE, torch.float32, device), angles(5, 24, device)
    want = rotate_fp64(t, freqs, "sbhd")
    journey.half_split_row(t, freqs, out=t)
    assert_rounded_once(t, want)


@pytest.mark.parametrize("num_warps", (1, 4))
def test_the_row_kernel_with_a_part_left_out(num_warps, device):
    """It leaves out cos and sin, and nothing else."""
    t, freqs = contiguous(SHAPE, torch.float32, device), angles(5, 24, device)
    # compiled twice, products and sums are not always contracted alike
    assert lab.compare(part_of_row(t, freqs, num_warps=num_warps), rung_2_row.my_rope(t, freqs))
    want = t * freqs + rotate_half(t) * freqs
    assert lab.compare(part_of_row(t, freqs, trig=False, num_warps=num_warps), want)


def test_naive_rope_in_place_is_wrong_in_the_interpreter(device):
    """Programs run one after the other there: a block that cuts rows reads what it has written."""
    if lab.ENGINE.kind != "interpreted":
        pytest.skip("on a GPU it is wrong only sometimes")
    freqs = angles(4, 64, device)
    for block, right in ((16, False), (32, False), (64, True), (128, True)):
        t = contiguous((4, 1, 2, 64), torch.float32, device)
        want = journey.naive_rope(t, freqs)
        assert torch.equal(journey.naive_rope(t, freqs, block, out=t), want) == right


def functions_in(source):
    """Name -> the function's syntax tree as text, comments, docstrings and annotations dropped."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            if ast.get_docstring(node) is not None:
                node.body = node.body[1:]
            node.returns = None
            for argument in node.args.args:
                if ast.unparse(argument.annotation or ast.Constant("")) != "tl.constexpr":
                    argument.annotation = None
            found[node.name] = ast.dump(node)
    return found


def functions_in_notebooks():
    """Name -> list of (notebook, syntax tree): a name may be built more than once on the way.

    Some are built by the reader, in an exercise: then the solution has them.
    """
    found = {}
    solutions = [f"solutions/{path.name}" for path in FOLDER.glob("solutions/*.ipynb")]
    for name in [*names_of_notebooks(), *names_of_detours(), *solutions]:
        for cell in load(name).code:
            for function, tree in functions_in(cell.source).items():
                found.setdefault(function, []).append((name, tree))
    return found


def differences(kept, built):
    """Functions of the journey that no notebook builds so."""
    return [
        name
        for name, tree in kept.items()
        if not any(tree == other for _, other in built.get(name, []))
    ]


def functions_shown_in_notebooks():
    """Names that a notebook imports from the journey and prints, or whose kernel it prints."""
    sources = [cell.source for name in names_of_notebooks() for cell in load(name).code]
    kernels = re.findall(r"^lab\.show_source\((\w+)\)$", "\n".join(sources), re.MULTILINE)
    return {*kernels, *(kernel.removesuffix("_kernel") for kernel in kernels)}


# What the reader writes as a rung, in other words: other notebooks compare with these.
LIKE_A_RUNG = {"naive_rope": 1, "half_split_row": 2}


def test_notebooks_and_package_have_the_same_kernels():
    """A notebook builds each in a cell, or prints the package's own; or it is like a rung."""
    with open(journey.__file__, encoding="utf-8") as file:
        kept = functions_in(file.read())
    missing = differences(kept, functions_in_notebooks())
    like_a_rung = {*LIKE_A_RUNG, *(f"{name}_kernel" for name in LIKE_A_RUNG)}
    assert set(missing) == like_a_rung | set(missing) & functions_shown_in_notebooks()


@pytest.mark.parametrize("name", LIKE_A_RUNG)
def test_what_is_like_a_rung_has_its_results(name, device):
    t, freqs = contiguous(SHAPE, torch.bfloat16, device), angles(5, 24, device)
    rung = RUNGS[LIKE_A_RUNG[name]].module
    assert torch.equal(getattr(journey, name)(t, freqs), rung.my_rope(t, freqs))


def test_a_kernel_that_differs_is_found():
    source = 'def f(x: int):\n    """Says."""\n    return x + 1  # one more\n'
    kept = functions_in(source)
    same = functions_in("def f(x):\n    return x + 1\n")
    assert differences(kept, {"f": [("00", same["f"])]}) == []
    other = functions_in(source.replace("+", "-"))
    assert differences(kept, {"f": [("00", other["f"])]}) == ["f"]
    assert differences(kept, {}) == ["f"]
