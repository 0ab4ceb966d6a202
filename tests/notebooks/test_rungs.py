"""The climb: the kernel of the rung below isn't on a rung yet."""

import importlib.util

import pytest

import rope_lab as lab
from rope_lab.rungs import RUNGS, kept

pytest.importorskip("triton", reason="needs Triton")

IMPORTS = "import torch\nimport triton\nimport triton.language as tl\n\n\n"


def written(text, folder, name="answer"):
    """`my_rope` as a reader has it: from text that no other process can import."""
    path = folder / f"{name}.py"
    path.write_text(IMPORTS + text)
    found = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.my_rope


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch, tmp_path):
    monkeypatch.setenv(kept.FOLDER, str(tmp_path / "kept"))


@pytest.mark.parametrize("rung", [rung for rung in RUNGS if rung > 1])
def test_the_kernel_below_is_not(rung, tmp_path):
    verdict = lab.check_rung(rung, written(RUNGS[rung - 1].source, tmp_path))
    assert verdict.state == "not yet", verdict
