"""The blocks of Python in README and on the page of the kernels: each runs by itself.

`test_types.py` has mypy check them. Llama is a stand-in here; tests/huggingface has real models.
"""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
LLAMA = "transformers.models.llama.modeling_llama"


def blocks_of(page):
    """The blocks of Python on a page, by its name and their order."""
    found = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return {f"{Path(page).stem.lower()}_{number}": code for number, code in enumerate(found)}


PAGES = ("README.md", "docs/kernels.md", "docs/hugging_face.md")
BLOCKS = {name: code for page in PAGES for name, code in blocks_of(page).items()}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_runs_by_itself(name, monkeypatch):
    monkeypatch.setitem(sys.modules, LLAMA, ModuleType(LLAMA))
    found = {}
    exec(BLOCKS[name].replace("4096", "6"), found)  # positions: the interpreter is slow
    results = [x for x in found.values() if isinstance(x, torch.Tensor)]
    assert all(x.isfinite().all() for x in results)
    if name == "readme_0":
        torch.testing.assert_close(found["q1"], found["q2"], rtol=0, atol=0.05)
        assert torch.equal(found["q"], found["q2"]) and torch.equal(found["k"], found["k2"])
    elif "patch" in found:
        assert found["patched"].replaced == ()  # the stand-in has no function
    else:
        assert len(results) >= 3


def test_no_block_is_missed():
    assert list(BLOCKS) == ["readme_0", *(f"kernels_{i}" for i in range(6)), "hugging_face_0"]
    assert (ROOT / "README.md").read_text().count("```python") == 1
