"""The kernels on the way: right where they claim to be, and the same in notebook and package."""

import ast
import re
from pathlib import Path

import pytest
import torch

import rope_lab as lab
from inputs import angles, contiguous
from notebook_form import FOLDER, load, names_of_detours, names_of_notebooks
from rope_kernels import rotate_half
from rope_lab.rungs import rung_2_row
from rope_lab.steps import journey
from rope_lab.steps.two_bounds import part_of_row
from yardstick import assert_rounded_once, rotate_fp64

SHAPE = (5, 2, 3, 24)


@pytest.mark.parametrize("block", (16, 64, 1024))
def test_rotate_half(block, device):
    x = torch.randn(7, 3, 10, device=device)
    assert torch.equal(journey.rotate_half_gather(x, block), rotate_half(x))


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


def test_the_row_kernel_with_a_part_left_out(device):
    """It leaves out cos and sin, and nothing else."""
    t, freqs = contiguous(SHAPE, torch.float32, device), angles(5, 24, device)
    # compiled twice, products and sums are not always contracted alike
    assert lab.compare(part_of_row(t, freqs), rung_2_row.my_rope(t, freqs))
    want = t * freqs + rotate_half(t) * freqs
    assert lab.compare(part_of_row(t, freqs, trig=False), want)


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


def functions_of_notebooks():
    """Name -> syntax trees: a name may be built more than once on the way, or in a solution.

    And the names of kernels that a notebook imports and prints.
    """
    built, shown = {}, set()
    solutions = [f"solutions/{path.name}" for path in FOLDER.glob("solutions/*.ipynb")]
    for name in [*names_of_notebooks(), *names_of_detours(), *solutions]:
        for cell in load(name).code:
            shown |= set(re.findall(r"^lab\.show_source\((\w+)\)$", cell.source, re.MULTILINE))
            for function, tree in functions_in(cell.source).items():
                built.setdefault(function, []).append(tree)
    return built, shown


def test_notebooks_and_package_have_the_same_kernels():
    """A notebook builds each in a cell, or prints the package's own; or it is like a rung."""
    kept = functions_in(Path(journey.__file__).read_text("utf-8"))
    built, shown = functions_of_notebooks()
    differ = {name for name, tree in kept.items() if tree not in built.get(name, [])}
    shown |= {name.removesuffix("_kernel") for name in shown}
    like_a_rung = {"naive_rope", "naive_rope_kernel", "half_split_row"}
    like_a_rung |= {"half_split_tile", "half_split_tile_kernel"}  # 3
    assert differ - shown == like_a_rung - shown and len(kept) > 7
