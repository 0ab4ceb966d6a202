"""Launches in cells and on pages are written as in Triton's own tutorials: readers copy them.

Arguments of run time come by position, then constexprs by name: `kernel[grid](x, n, BLOCK=64)`.
"""

import ast
import re

import pytest

from notebook_form import FOLDER, ROOT, load

OPTIONS = {"num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion"}  # of a launch


def complaints_about(code: str) -> list[str]:
    """About launches in Python; cells that are no Python by themselves have magics, and none."""
    complaints = []
    for node in ast.walk(ast.parse(code)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)):
            continue
        launch = ast.unparse(node.func)
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            complaints.append(f"{launch}: arguments by *(...)")
        names = [keyword.arg for keyword in node.keywords]
        if None in names:
            complaints.append(f"{launch}: arguments by **{{...}}")
        by_name = [n for n in names if n and not n.isupper() and n not in OPTIONS]
        if by_name and node.args:
            complaints.append(f"{launch}: {', '.join(by_name)} by name, and no constexpr")
    return complaints


@pytest.mark.parametrize(
    "code, told",
    [
        ("kernel[grid](x, out, n, BLOCK=64, num_warps=4)", []),
        ("function(*(x, out), **{'BLOCK': 64})", []),
        ("kernel[(1,)](*(x, out), BLOCK=64)", ["kernel[1,]: arguments by *(...)"]),
        ("kernel[grid](x, *t.stride())", ["kernel[grid]: arguments by *(...)"]),
        ("kernel[grid](x, **{'BLOCK': 64})", ["kernel[grid]: arguments by **{...}"]),
        ("kernel[grid](x, n=3)", ["kernel[grid]: n by name, and no constexpr"]),
    ],
)
def test_a_launch(code, told):
    assert [" ".join(one.replace("(1,)", "1,").split()) for one in complaints_about(code)] == told


PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted(ROOT.glob("docs/*.md")))]


@pytest.mark.parametrize("page", PAGES)
def test_launches_on_a_page(page):
    blocks = re.findall(r"```py\w*\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    assert [one for block in blocks for one in complaints_about(block)] == []


NOTEBOOKS = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("**/[0-9]*.ipynb"))


@pytest.mark.parametrize("name", [n for n in NOTEBOOKS if ".ipynb_checkpoints" not in n])
def test_launches_in_a_notebook(name):
    found = {cell.id: complaints_about(cell.source) for cell in load(name).code}
    assert {cell: told for cell, told in found.items() if told} == {}


RUNGS = sorted(ROOT.glob("rope_lab/rungs/rung_*.py"))


@pytest.mark.parametrize("rung", RUNGS, ids=lambda path: path.stem)
def test_launches_of_a_rung(rung):
    """Readers see them in cells that show their source."""
    assert complaints_about(rung.read_text(encoding="utf-8")) == []
