"""Without a GPU, a notebook that is run again keeps what only a GPU can show."""

import copy

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from rope_lab.run_notebooks import keep_what_a_gpu_showed, main


def cell(name, printed):
    return new_code_cell("x", id=name, outputs=[new_output("stream", text=printed)])


def printed(notebook):
    return {cell.id: cell.outputs[0].text for cell in notebook.cells}


def test_the_engines_name_stays_and_what_differs_is_new():
    before = new_notebook(
        cells=[
            cell("engine", "Engine: compiled\n"),
            cell("two", "Engine: compiled\nsum 1\n"),
            cell("sum", "1\n"),
        ]
    )
    run = copy.deepcopy(before)
    run.cells.append(cell("new", "3 us\n"))
    now = "Engine: here\n", "Engine: here\nsum 2\n", "2\n", "3 us\n"
    for made, text in zip(run.cells, now, strict=True):
        made.outputs[0].text = text
    keep_what_a_gpu_showed(run, before)
    assert printed(run) == printed(before) | {"two": now[1], "sum": "2\n", "new": "3 us\n"}


@pytest.mark.parametrize("name", ["--all", "nowhere.ipynb"])
def test_what_is_no_notebook_is_refused_in_a_sentence(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name])
    assert ended.value.code == 2
    assert name in capsys.readouterr().err
