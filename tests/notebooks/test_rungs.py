"""The climb: every kernel of ours is on its rung, the one below isn't, and mistakes have names."""

import importlib.util

import pytest

import rope_lab as lab
from rope_lab.rungs import RUNGS, kept
from wrong_rungs import WRONG_RUNGS

pytest.importorskip("triton", reason="needs Triton")

IMPORTS = "import torch\nimport triton\nimport triton.language as tl\n\n\n"


def changed(text, instead):
    for ours, other in instead.items():
        assert ours in text, f"not in our kernel any more: {ours}"
        text = text.replace(ours, other)
    return text


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


@pytest.mark.parametrize("rung", RUNGS)
def test_our_kernel_is_on_its_rung(rung, tmp_path):
    verdict = lab.check_rung(rung, written(RUNGS[rung].source, tmp_path))
    assert verdict.state == "right", verdict
    assert repr(verdict).startswith(f"RIGHT: rung {rung}, ")


@pytest.mark.parametrize("rung", [rung for rung in RUNGS if rung > 1])
def test_the_kernel_below_is_not(rung, tmp_path):
    verdict = lab.check_rung(rung, written(RUNGS[rung - 1].source, tmp_path))
    assert verdict.state == "not yet", verdict


@pytest.mark.parametrize("wrong", WRONG_RUNGS, ids=str)
def test_a_mistake_is_named(wrong, tmp_path):
    text = changed(RUNGS[wrong.rung].source, wrong.instead)
    verdict = lab.check_rung(wrong.rung, written(text, tmp_path))
    print(verdict)
    assert repr(verdict).startswith(wrong.state), verdict
    assert wrong.told and wrong.told in repr(verdict), verdict
