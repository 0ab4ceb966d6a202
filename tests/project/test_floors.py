"""The house of `rope_kernels`: what `lint-imports` (see pyproject.toml) cannot see."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "rope_kernels"
KERNELS = sorted(path.stem for path in (PACKAGE / "kernels").glob("*_kernel.py"))


def test_two_functions_alone_import_by_name():
    """`import_module` hides from import-linter what it imports: a kernel, or a model's module."""
    found = [
        f"{path.relative_to(PACKAGE).as_posix()}: {function.name}"
        for path in PACKAGE.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        and re.search(r"\b(import_module|__import__)\(", ast.unparse(function))
    ]
    assert sorted(found) == ["huggingface/patch.py: _modules_of", "launch/launch.py: kernel_of"]


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_found_by_its_name_in_its_own_file(name):
    pytest.importorskip("triton", reason="needs Triton")
    from rope_kernels.launch.launch import kernel_of
    from rope_kernels.launch.plan import Plan

    plan = Plan(name, programs=1, num_warps=1, sizes={}, strides=None, constants={})
    kernel = kernel_of(plan)
    assert (kernel.fn.__name__, kernel.fn.__module__) == (name, f"rope_kernels.kernels.{name}")


def test_a_file_of_kernels_has_one_kernel_or_none():
    for path in (PACKAGE / "kernels").glob("*.py"):
        found = re.findall(r"^def (\w+_kernel)\(", path.read_text(encoding="utf-8"), re.M)
        assert found == ([path.stem] if path.stem in KERNELS else []), path.name


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_not_specialized_is_an_argument(name):
    """Triton passes over a name that the kernel doesn't have, and compiles for each length anew."""
    tree = ast.parse((PACKAGE / f"kernels/{name}.py").read_text(encoding="utf-8"))
    (kernel,) = (x for x in tree.body if getattr(x, "name", "") == name)
    for decorator in kernel.decorator_list:
        for keyword in getattr(decorator, "keywords", ()):
            assert keyword.arg == "do_not_specialize"
            assert set(ast.literal_eval(keyword.value)) <= {x.arg for x in kernel.args.args}
