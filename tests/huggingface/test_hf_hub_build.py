"""What `make hub` writes: metadata that the package kernels reads, and code that stands alone."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import hub_layer
from hub_layers import need_kernels

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    hub_layer.write(folder)
    return folder


def builds(repository):
    return {path.name: path for path in (repository / "build").iterdir()}


def read_metadata(build):
    return json.loads((build / "metadata.json").read_text(encoding="utf-8"))


def test_each_backend_has_a_build_with_metadata_of_its_own(repository):
    found = {name: read_metadata(build) for name, build in builds(repository).items()}
    assert set(found) == {"torch-cpu", "torch-cuda", "torch-rocm"}
    assert len({one["id"] for one in found.values()}) == 3
    for name, one in found.items():
        backend = name.partition("-")[2]
        assert one["backend"] == {"type": backend}
        assert re.fullmatch(rf"_rope_kernels_{backend}_[0-9a-f]{{10}}", one["id"])
        assert one["version"] == 1 and one["license"] == "MIT" and one["python-depends"] == []


def test_the_package_kernels_reads_the_metadata_and_finds_the_build(repository, monkeypatch):
    need_kernels()
    from kernels.backends import CPU, CUDA, ROCm

    from kernels import Metadata, variants

    for build in builds(repository).values():
        metadata = Metadata.read_from_file(build / "metadata.json")
        assert metadata.name.python_name == "rope_kernels" and metadata.version == 1
    for backend, name in (
        (CPU(), "torch-cpu"),
        (CUDA.parse("cu126"), "torch-cuda"),
        (CUDA.parse("cu130"), "torch-cuda"),
        (ROCm.parse("rocm70"), "torch-rocm"),
    ):
        monkeypatch.setattr(variants, "_select_backend", lambda _, found=backend: found)
        found, _ = variants.resolve_variant(variants.get_variants_local(repository / "build"))
        assert found.variant_str == name


def absolute_imports(source):
    """What a file imports from outside its own package."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module.partition(".")[0])
    return found


def test_a_build_imports_torch_triton_and_itself(repository):
    files = [*builds(repository)["torch-cpu"].rglob("*.py")]
    assert len(files) > 60
    found = set().union(*(absolute_imports(x.read_text(encoding="utf-8")) for x in files))
    assert found - sys.stdlib_module_names == {"torch", "triton"}


def test_a_build_works_where_rope_kernels_cannot_be_imported(repository):
    """As the package kernels imports it, and as a kernel is launched from it."""
    build = builds(repository)["torch-cpu"]
    code = f"""
        import importlib.util, sys
        sys.modules["rope_kernels"] = None  # importing it is an error
        name, path = {read_metadata(build)["id"]!r}, {str(build / "__init__.py")!r}
        spec = importlib.util.spec_from_file_location(name, path)
        build = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(build)
        loaded = {{name.partition(".")[0] for name in sys.modules}}
        assert not loaded & {{"transformers", "kernels"}}
        assert build.layers.apply_rotary_transformers.has_backward
        import torch
        q, table = torch.randn(3, 1, 1, 8, requires_grad=True), torch.randn(3, 1, 1, 8)
        if importlib.util.find_spec("triton") is not None:
            build.rope_kernels.apply_rotary_pos_emb(q, table).sum().backward()
            assert q.grad.any()
        assert hasattr(getattr(torch.ops, name), "rotate")
        assert not hasattr(torch.ops.rope_kernels, "rotate")
    """
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables |= {"TRITON_INTERPRET": "1"}
    command = [sys.executable, "-c", dedent(code)]
    done = subprocess.run(command, env=variables, cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_id_changes_with_the_code():
    files = hub_layer.files_of_a_build()
    before = hub_layer.digest_of(files)
    assert before == hub_layer.digest_of(dict(files))
    assert before != hub_layer.digest_of(files | {"layers.py": files["layers.py"] + b"\n"})
    assert before != hub_layer.digest_of(files | {"more.py": b""})


def test_writing_again_leaves_nothing_of_what_was_there(tmp_path):
    hub_layer.write(tmp_path)
    old = tmp_path / "build/torch-cpu/rope_kernels/old.py"
    old.write_text("")
    hub_layer.write(tmp_path)
    assert not old.exists()


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "build").mkdir()
    kept = tmp_path / "build/mine.txt"
    kept.write_text("mine")
    with pytest.raises(ValueError, match="is not empty, and holds no kernel"):
        hub_layer.write(tmp_path)
    assert [*tmp_path.rglob("*")] == [tmp_path / "build", kept]
    with pytest.raises(ValueError, match="is not empty"):
        hub_layer.write(ROOT)
