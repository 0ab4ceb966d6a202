"""The blocks of Python in README and on the page of the kernels: each runs by itself.

`test_types.py` has mypy check them.
"""

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


def blocks_of(page):
    """The blocks of Python on a page, by its name and their order."""
    found = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return {f"{Path(page).stem.lower()}_{number}": code for number, code in enumerate(found)}


PAGES = ("README.md", "docs/kernels.md", "docs/hugging_face.md")
BLOCKS = {name: code for page in PAGES for name, code in blocks_of(page).items()}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_runs_by_itself(name):
    if "huggingface" in BLOCKS[name]:
        pytest.importorskip("transformers")
    found = {}
    exec(BLOCKS[name].replace("4096", "6"), found)  # positions: the interpreter is slow
    results = [x for x in found.values() if isinstance(x, torch.Tensor)]
    assert all(x.isfinite().all() for x in results)
    if name == "readme_0":
        torch.testing.assert_close(found["q1"], found["q2"], rtol=0, atol=0.05)
        assert torch.equal(found["q"], found["q2"]) and torch.equal(found["k"], found["k2"])
    elif "patch" in found:
        assert found["patched"].replaced and not found["patched"].left
    else:
        assert len(results) >= 3


def test_no_block_is_missed():
    of_pages = {"readme": 1, "kernels": 6, "hugging_face": 2}
    assert list(BLOCKS) == [f"{page}_{i}" for page, count in of_pages.items() for i in range(count)]
    assert (ROOT / "README.md").read_text().count("```python") == 1
