r"""Displayed equations are set as they were meant: rows of a matrix end in `\\`, never in `\`."""

import re

import pytest

from notebook_form import load, names_of_detours, names_of_notebooks

_MATRIX = re.compile(r"\\begin\{([pb]?matrix|cases|aligned)\}(.*?)\\end\{\1\}", re.DOTALL)


def rows_run_together(text: str) -> list[str]:
    r"""Matrices with `\ `, a space in TeX, which is what is left of `\\ ` after a lost escape."""
    return [body for _, body in _MATRIX.findall(text) if re.search(r"(?<!\\)\\\s", body)]


@pytest.mark.parametrize("name", names_of_notebooks() + names_of_detours())
def test_rows_of_a_matrix_are_apart(name):
    assert [bad for cell in load(name).markdown for bad in rows_run_together(cell.source)] == []


def test_a_lost_backslash_is_found():
    assert rows_run_together(r"$$\begin{pmatrix} a \ b \end{pmatrix}$$")
    assert not rows_run_together(r"\begin{pmatrix} \cos a & b \\ c & \phantom{-}d \end{pmatrix}")
