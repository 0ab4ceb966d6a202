"""The house of `rope_kernels`: what `lint-imports` (see pyproject.toml) cannot see."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "rope_kernels"
KERNELS = sorted(path.stem for path in (PACKAGE / "kernels").glob("*_kernel.py"))


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_not_specialized_is_an_argument(name):
    """Triton passes over a name that the kernel doesn't have, and compiles for each length anew."""
    tree = ast.parse((PACKAGE / f"kernels/{name}.py").read_text(encoding="utf-8"))
    (kernel,) = (x for x in tree.body if getattr(x, "name", "") == name)
    for decorator in kernel.decorator_list:
        for keyword in getattr(decorator, "keywords", ()):
            assert keyword.arg == "do_not_specialize"
            assert set(ast.literal_eval(keyword.value)) <= {x.arg for x in kernel.args.args}
