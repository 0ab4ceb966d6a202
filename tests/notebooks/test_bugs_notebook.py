"""Notebook 10: its text shows what its kernels differ in.

The cells themselves are nbval's, and the answers to its exercises `test_answers_in_notebooks.py`'s.
"""

import difflib
import inspect

from notebook_form import load
from rope_lab.rungs import rung_2_row
from rope_lab.steps.collision import unmasked_row_kernel


def test_the_text_shows_the_mask_that_the_kernel_under_the_sanitizer_lacks():
    right, wrong = (
        inspect.getsource(kernel.fn).splitlines()
        for kernel in (rung_2_row.my_rope_kernel, unmasked_row_kernel)
    )
    lines = [line for line in difflib.ndiff(right[2:], wrong[2:]) if line[0] in "+-"]
    cells = load("10_spot_the_bug.ipynb").markdown
    text = next(cell.source for cell in cells if cell.id == "10-c0")
    assert len(lines) == 2 and all(line in text for line in lines)
