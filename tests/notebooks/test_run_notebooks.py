"""`make notebooks` runs what it is given, and stores it in one form on every machine."""

import nbformat
import pytest

from rope_lab.records import QUIET, RECORD_SWITCH
from rope_lab.run_notebooks import main

STORED = "Engine: compiled for cuda (NVIDIA H200)"
CELLS = {  # what a cell is, and what a GPU has stored for it
    "print('Engine: this machine')\nprint(1 + 1)": f"{STORED}\n2\n",
    "print('Engine, which has no such line: two')": "Engine, which has no such line: one\n",
}


@pytest.mark.parametrize("name", ["--all", "nowhere.ipynb"])
def test_what_is_no_notebook_is_refused_in_a_sentence(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name])
    assert ended.value.code == 2
    assert name in capsys.readouterr().err


@pytest.fixture
def executed(tmp_path, monkeypatch):
    """What the cells of a notebook print after a run, whose outputs were stored on a GPU."""
    monkeypatch.setenv(QUIET, "1")  # `main` sets both
    monkeypatch.setenv("KINETO_LOG_LEVEL", "6")
    path = tmp_path / "00_made_up.ipynb"
    notebook = nbformat.v4.new_notebook()
    for source, text in CELLS.items():
        outputs = [nbformat.v4.new_output("stream", text=text)]
        notebook.cells.append(nbformat.v4.new_code_cell(source, outputs=outputs))
    nbformat.write(notebook, path)

    def execute():
        assert main([str(path)]) == 0
        cells = nbformat.read(path, as_version=4).cells
        return [cell.outputs[0].text for cell in cells]

    return execute


def test_the_engine_that_measured_stays_where_its_measurements_are_replayed(executed, monkeypatch):
    """Or a change of one word, run on a laptop, would change the first cells of its neighbors."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)  # with one, a run records
    changed = "Engine, which has no such line: two\n"
    monkeypatch.delenv(RECORD_SWITCH, raising=False)
    assert executed() == [f"{STORED}\n2\n", changed]
    monkeypatch.setenv(RECORD_SWITCH, "1")
    assert executed() == ["Engine: this machine\n2\n", changed]
