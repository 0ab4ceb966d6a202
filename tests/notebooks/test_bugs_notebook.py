"""Notebook 10: its text and its records say what its cells show.

The cells themselves are nbval's, and the answers to its exercises `test_answers_in_notebooks.py`'s.
"""

import difflib
import inspect
import json
import re

import pytest

from notebook_form import FOLDER, load
from rope_lab.rungs import rung_2_row
from rope_lab.steps.collision import unmasked_row_kernel

NOTEBOOK = load("10_spot_the_bug.ipynb")
CELLS = {cell.id: cell for cell in NOTEBOOK.code}
SECTIONS = range(1, 9)  # those after have no hunt


def shown(cell_id):
    """What a cell printed, and its value."""
    texts = []
    for output in CELLS[cell_id].outputs:
        texts.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
    return "\n".join(texts)


def test_the_text_shows_the_mask_that_the_kernel_under_the_sanitizer_lacks():
    right, wrong = (
        inspect.getsource(kernel.fn).splitlines()
        for kernel in (rung_2_row.my_rope_kernel, unmasked_row_kernel)
    )
    lines = [line for line in difflib.ndiff(right[2:], wrong[2:]) if line[0] in "+-"]
    text = next(cell.source for cell in NOTEBOOK.markdown if cell.id == "10-c0")
    assert len(lines) == 2 and all(line in text for line in lines)


def test_records_show_the_collision_and_the_silence_of_racecheck():
    records = json.loads((FOLDER / "records" / "10.json").read_text())
    launches, said = (records[f"10/{name}"]["values"] for name in ("collision", "sanitizer"))
    for d in (64, 80, 96, 112):
        wrong = [launches[f"d {d}, warps {warps}"]["wrong"] for warps in (1, 2, 4)]
        assert wrong == ([0, 0, 0] if d == 64 else [0, 200, 200])
        assert f"d {d:3}: with 1, 2 and 4 warps {wrong} of 200" in shown("10-c1")
    assert launches["d 96, warps 4"]["columns"] == [48, 63]
    assert launches["barriers in the PTX of d 96, warps 4"] == 0
    for run in ("racecheck, collision", "memcheck, collision", "initcheck, collision"):
        assert "wrong: 0 of" not in str(said[run]) and " 0 " in said[run][-1]
    assert "1 error" in said["racecheck, staged"][-1]
    for line in said["racecheck, collision"] + said["racecheck, staged"]:
        assert line in shown("10-c3")


@pytest.mark.parametrize("section", SECTIONS)
def test_each_bug_has_its_hunt_and_its_story(section):
    text = "\n".join(cell.source for cell in NOTEBOOK.markdown)
    text = text[text.index(f"## {section}. ") : text.index(f"## {section + 1}. ")]
    for part in (f"## {section}. ", "**Predict.**", "<summary>Hint", "**Look back.**"):
        assert part in text, part
    assert "**The story.**" in text and "*The habit:*" in text


def test_every_argument_of_a_kernel_says_what_it_is():
    for cell in NOTEBOOK.code:
        for head in re.findall(r"^@triton\.jit\ndef \w+\(\n(.*?)^\):", cell.source, re.M | re.S):
            assert all(re.search(r",  # \S", line) for line in head.splitlines()), head
