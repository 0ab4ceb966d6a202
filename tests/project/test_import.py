"""What importing loads, and that the package works where Triton is absent.

Each case runs in a process of its own: here Triton is loaded long since.
"""

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest

from rope_kernels.machine.engine import interpreter_is_on

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "rope_kernels"
LAB = ROOT / "rope_lab"


def run_python(code, **variables):
    """Run code in a fresh process, as a reader who has set nothing; what it printed."""
    environment = {name: value for name, value in os.environ.items() if "TRITON" not in name}
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment |= {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore", **variables}
    result = subprocess.run(
        [sys.executable, "-c", dedent(code)], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("said", ("1", "true", "Yes", "on", "Y", "0", "off", "no", "2", ""))
def test_the_interpreter_is_on_where_triton_says_so(said, monkeypatch):
    knobs = pytest.importorskip("triton.knobs", reason="needs Triton")
    monkeypatch.setenv("TRITON_INTERPRET", said)
    assert interpreter_is_on() == knobs.runtime.interpret


# what is loaded


@pytest.mark.parametrize("module", ("rope_kernels", "rope_lab"))
def test_importing_loads_neither_triton_nor_matplotlib(module):
    run_python(f"""
        import sys
        import {module}
        loaded = {{name.partition(".")[0] for name in sys.modules}}
        assert not loaded & {{"triton", "matplotlib"}}, loaded & {{"triton", "matplotlib"}}
    """)


def test_shards_are_loaded_when_a_dtensor_comes():
    """The import of torch.distributed.tensor takes half a second."""
    run_python("""
        import sys
        import rope_kernels
        assert "torch.distributed.tensor" not in sys.modules
        import torch
        from rope_kernels import RotaryPositionEmbedding, norm_rope, rope_qk
        t, rope = torch.randn(3, 2, 2, 8), RotaryPositionEmbedding(8)
        rope_qk(t, t, rope)
        norm_rope(t, None, rope)
        loaded = {name for name in sys.modules if name.startswith("rope_kernels.sharded")}
        assert "torch.distributed.tensor" not in sys.modules and not loaded
    """)


def test_patching_a_module_loads_no_transformers():
    run_python("""
        import sys
        import types
        from rope_kernels.huggingface import patch
        assert patch(types.ModuleType("empty")).replaced == ()
        assert not {"triton", "transformers"} & {name.partition(".")[0] for name in sys.modules}
    """)


def test_importing_the_package_changes_no_environment_variable():
    run_python("""
        import os
        before = dict(os.environ)
        import rope_kernels
        assert dict(os.environ) == before
    """)


def test_the_operators_are_there_once_it_is_imported():
    """For torch.compile; registering them loads no Triton either, nor does asking what they do."""
    run_python("""
        import sys
        import torch
        import rope_kernels
        for name in ("rotate", "rotate_inplace"):
            operator = getattr(torch.ops.rope_kernels, name)
            assert "start_positions" in str(operator.default._schema)
        assert "triton" not in sys.modules
    """)


def test_plain_pytorch_loads_no_triton():
    """All that has no kernel: the module's table, errors, vmap, the unfused function."""
    run_python(
        """
        import sys
        import torch
        from torch import func
        from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, rope_qk
        t, freqs = torch.randn(3, 2, 2, 8), RotaryPositionEmbedding(8)
        for call in (apply_rotary_pos_emb, rope_qk):
            try:
                call(t, t, freqs(2)) if call is rope_qk else call(t, freqs(2))
            except ValueError:
                pass
            else:
                raise AssertionError("a table that is too short will do")
        func.vmap(lambda t: apply_rotary_pos_emb(t, freqs))(t[None])
        rope_qk(t, t, freqs, fused=False)
        assert "triton" not in sys.modules
        """,
        TRITON_INTERPRET="1",
    )


def test_the_first_launch_loads_triton():
    run_python(
        """
        import sys
        import torch
        from rope_kernels import apply_rotary_pos_emb, RotaryPositionEmbedding
        t = torch.randn(3, 2, 2, 8, requires_grad=True)
        freqs = RotaryPositionEmbedding(8)(3)
        apply_rotary_pos_emb(t, freqs, fused=False).sum().backward()
        assert "triton" not in sys.modules
        apply_rotary_pos_emb(t, freqs)
        assert "triton" in sys.modules
        """,
        TRITON_INTERPRET="1",
    )


def test_without_the_interpreter_a_cpu_tensor_is_rotated_by_the_reference():
    """With one rounding, as the kernel does; and Triton stays where it is."""
    run_python("""
        import sys
        import torch
        from rope_kernels import apply_rotary_pos_emb, reference, rope_bw, rope_fw
        torch.manual_seed(0)
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            t, freqs = torch.randn(7, 2, 3, 10, dtype=dtype), 10 * torch.randn(7, 1, 1, 6)
            cu_seqlens = torch.tensor([0, 3, 6])
            for x, arguments in ((t, {}), (t[:, 0], {"cu_seqlens": cu_seqlens})):
                form = "thd" if arguments else "sbhd"
                want, transposed = (
                    reference.apply_rotary_pos_emb(
                        x, freqs, form, round_once=True, transpose=transpose, **arguments
                    )
                    for transpose in (False, True)
                )
                assert torch.equal(rope_fw(x, freqs, form, **arguments), want)
                assert torch.equal(rope_bw(x, freqs, form, **arguments), transposed)
                leaf = torch.zeros_like(x).copy_(x).requires_grad_()
                out = apply_rotary_pos_emb(leaf, freqs, form, **arguments)
                assert torch.equal(out, want)
                assert torch.equal(torch.autograd.grad(out, leaf, x)[0], transposed)
        twice = reference.apply_rotary_pos_emb(t.bfloat16(), freqs)
        assert not torch.equal(rope_fw(t.bfloat16(), freqs), twice)
        assert "triton" not in sys.modules
    """)


# without Triton

WITHOUT_TRITON = """
import sys
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec
PathFinder.find_spec = classmethod(lambda cls, name, path=None, target=None: (
    None if name.partition(".")[0] == "triton" else find_spec(name, path, target)
))
try:
    import triton
except ModuleNotFoundError:
    pass
else:
    raise AssertionError("Triton is there all the same")
"""


def run_without_triton(code, **variables):
    return run_python(WITHOUT_TRITON + dedent(code), **variables)


@pytest.mark.parametrize("interpreter", ("0", "1"))
def test_without_triton_everything_works_on_the_cpu(interpreter):
    run_without_triton(
        """
        import torch
        from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, reference
        from rope_kernels import rope_bw, rope_fw, rope_qk
        freqs = RotaryPositionEmbedding(4)(6)
        t = torch.randn(6, 1, 2, 6, dtype=torch.float64, requires_grad=True)
        want = reference.apply_rotary_pos_emb(t, freqs)
        transposed = reference.apply_rotary_pos_emb(t, freqs, transpose=True)
        assert "triton" not in sys.modules
        for fused in (True, False):
            assert torch.equal(apply_rotary_pos_emb(t, freqs, fused=fused), want)
            assert torch.autograd.gradcheck(
                lambda t: apply_rotary_pos_emb(t, freqs, fused=fused), (t,)
            )
        assert torch.equal(rope_fw(t, freqs), want)
        assert torch.equal(rope_bw(t, freqs), transposed)
        cu_seqlens = torch.tensor([0, 2, 5])
        packed = t.detach()[:, 0]
        for function in (rope_fw, rope_bw, apply_rotary_pos_emb):
            function(packed, freqs, "thd", cu_seqlens=cu_seqlens)
        starts, ids = torch.tensor([2]), torch.tensor([[5, 0, 1, 1, 2, 3]])
        tables = [(f.cos(), f.sin()) for f in (freqs[:, 0, 0], freqs[:, 0, 0][None])]
        x, module = t.detach(), RotaryPositionEmbedding(4)
        for kind in (freqs, *tables, module):
            for options in (
                {"position_ids": ids},
                {"start_positions": starts},
                {"cp_size": 3, "cp_rank": 1},
            ):
                enough = x[:4] if "start_positions" in options else x
                enough = x[:2] if "cp_size" in options else enough
                options = {k: v[:, : len(enough)] if v is ids else v for k, v in options.items()}
                table = module.turns(None) if kind is module else kind
                want = reference.apply_rotary_pos_emb(enough, table, round_once=True, **options)
                assert torch.equal(apply_rotary_pos_emb(enough, kind, **options), want)
                q, k = rope_qk(enough, enough[:, :, :1], kind, **options)
                assert torch.equal(q, want) and torch.equal(k, want[:, :, :1])
                q, k = enough.clone(), enough[:, :, :1].clone()
                assert rope_qk(q, k, kind, inplace=True, **options)[0] is q
                assert torch.equal(q, want) and torch.equal(k, want[:, :, :1])
        interleaved = apply_rotary_pos_emb(x, freqs, interleaved=True)
        assert not torch.equal(interleaved, want)
        table = freqs.double().clone().requires_grad_()
        assert torch.autograd.gradcheck(apply_rotary_pos_emb, (t, table))
        assert torch.autograd.gradgradcheck(apply_rotary_pos_emb, (t, table))
        """,
        TRITON_INTERPRET=interpreter,
    )


def test_without_triton_the_lab_says_in_one_sentence_what_is_needed():
    said = run_without_triton("""
        import rope_lab as lab
        from rope_lab.engine import problems
        assert lab.ENGINE.kind == "PyTorch alone", lab.ENGINE.kind
        assert lab.device == lab.ENGINE.device == "cpu"
        about_triton = [line for line in problems(lab.ENGINE.machine) if "Triton" in line]
        assert len(about_triton) == 1
        assert about_triton[0] in repr(lab.ENGINE)
        try:
            lab.need_triton()
        except ImportError as error:
            assert str(error) == about_triton[0]
        else:
            raise AssertionError("a notebook with kernels would go on")
        print(about_triton[0])
    """).strip()
    assert said.startswith("Triton ") and said.endswith(".") and ". " not in said
    if sys.platform == "linux":
        assert said == "Triton is not installed: `make lab` installs it."


def test_without_triton_figures_still_name_their_versions():
    """PyTorch alone can be measured too, on Windows with a GPU say."""
    run_without_triton("""
        from rope_lab.records import versions
        assert "torch" in versions()
    """)


# the direction of imports


def imported(source):
    """Every name that a module's source imports; relative ones with their dots."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names |= {module} | {f"{module.rstrip('.')}.{alias.name}" for alias in node.names}
    return names


def test_the_package_does_not_import_the_lab():
    found = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any("rope_lab" in name.split(".") for name in imported(path.read_text("utf-8")))
    ]
    assert found == []


def test_the_kernels_import_triton_and_nothing_but_each_other():
    files = sorted((PACKAGE / "kernels").glob("*.py"))
    assert len(files) > 5
    for path in files:
        names = imported(path.read_text(encoding="utf-8"))
        inside = "triton", "typing", *(f".{file.stem}" for file in files)
        assert [found for found in names if not found.startswith(inside)] == [], path.name


def test_the_reference_stands_on_torch_alone_and_checks_nothing():
    """Its arguments were checked elsewhere, and a reader needs no other room than these."""
    rooms = (PACKAGE / name for name in ("reference", "call", "embedding", "machine"))
    for path in (file for room in rooms for file in room.glob("*.py")):
        found = imported(path.read_text(encoding="utf-8"))
        outside = {name.split(".")[0] for name in found if not name.startswith(".")}
        assert outside - sys.stdlib_module_names <= {"torch"}, path.name


# rope_lab's rooms


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_of(folder):
    """Name -> source of every module of a package in the repository's root."""
    return {name_of(path): path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}


def target_of(name, modules):
    """The module that `name` is, or is an attribute of."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def import_graph(modules, packages):
    """Module -> the others that it imports, at its top or inside a function.

    A string constant that names a module counts too: `import_module(".figures.style", ...)`.
    """
    graph = {}
    for name, source in modules.items():
        package = name if name in packages else name.rpartition(".")[0]
        found = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                found |= {target_of(alias.name, modules) for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*(above if node.level else []), *filter(None, [node.module])])
                found |= {target_of(f"{base}.{alias.name}", modules) for alias in node.names}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                absolute = package + node.value if node.value.startswith(".") else node.value
                found |= {absolute} & modules.keys()
        graph[name] = found - {"", name}
    return graph


def circle_in(graph):
    """Modules that import one another in a circle; empty if none do."""
    done = set()

    def visit(name, path):
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph.get(name, ())):
            if found := visit(other, [*path, name]):
                return found
        done.add(name)
        return []

    return next(filter(None, (visit(name, []) for name in sorted(graph))), [])


def between_rooms(graph):
    """The same graph of folders; files of rope_lab itself are rooms of their own."""

    def room(name):
        return ".".join(name.split(".")[:2])

    rooms = {room(name): set() for name in graph}
    for name, others in graph.items():
        rooms[room(name)] |= {room(other) for other in others} - {room(name)}
    return rooms


PACKAGES = {name_of(path) for path in LAB.rglob("__init__.py")}


def test_the_lab_has_no_circle_of_imports():
    graph = import_graph(modules_of(LAB), PACKAGES)
    assert len(graph) > 30 and any(graph.values())
    assert circle_in(graph) == []
    assert circle_in(between_rooms(graph)) == []


def test_every_room_can_be_imported_from_the_notebooks_folder():
    """As an installed package, as a notebook does it: the root is not the current folder."""
    modules = sorted(modules_of(LAB).keys() - {"rope_lab.compiler.compile_process"})
    run_python(
        f"""
        import importlib, os
        os.chdir({str(ROOT / "notebooks")!r})
        for name in {modules!r}:
            importlib.import_module(name)
        """,
        TRITON_INTERPRET="1",
    )


def test_the_lab_lists_each_of_its_rooms():
    """An unlisted package would be missing where rope_lab is installed without `-e`."""
    project = tomllib.loads((LAB / "pyproject.toml").read_text(encoding="utf-8"))
    setuptools = project["tool"]["setuptools"]
    assert set(setuptools["packages"]) == PACKAGES
    assert setuptools["package-dir"] == {"rope_lab": "."}
    assert not [line for line in project["project"]["dependencies"] if "rope" in line]
