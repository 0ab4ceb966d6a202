"""Every notebook keeps the form, and every check finds a notebook that breaks it."""

import base64
import copy
import dataclasses
import io

import nbformat
import pytest
from PIL import Image

import notebook_form
from notebook_form import (
    CHECKS,
    CHECKS_OF_WHAT_IS_STORED,
    INDEX,
    Notebook,
    load,
    load_stored,
    names_of_detours,
    names_of_notebooks,
)

NAMES = names_of_notebooks()
ALL = [*NAMES, *names_of_detours()]


def notebook_for(check, name):
    """What a check looks at: what git has, or the file, which a reader may have saved."""
    if check not in CHECKS_OF_WHAT_IS_STORED:
        return load(name)
    return load_stored(name) or pytest.skip("there is no git here to ask for what is stored")


def test_the_index_has_every_notebook_and_no_other():
    """It numbers them without a gap, those that are in preparation and not there yet included."""
    assert [entry.file for entry in INDEX.road if not entry.in_preparation] == NAMES
    assert sorted(entry.file for entry in INDEX.deeper) == names_of_detours()
    assert len(NAMES) >= 3


def test_the_road_takes_six_hours():
    assert INDEX.minutes_of_the_road <= 360
    assert [entry.number for entry in INDEX.road if entry.beyond] == ["11", "12", "13"]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", ALL)
def test_form(name, check):
    assert check(notebook_for(check, name)) == []


# One or more ways to break the form for each check. `n` is a copy of a real notebook.


def replace_in(cell, old, new):
    assert old in cell.source, f"{old!r} is not in the cell: the sample no longer breaks anything"
    cell.source = cell.source.replace(old, new)


def first_with(notebook, cell_type, text):
    return next(c for c in notebook.node.cells if c.cell_type == cell_type and text in c.source)


def printed(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


def shown(data, kind="display_data"):
    return nbformat.v4.new_output(kind, data=data)


def ignore_all(notebook):
    for cell in notebook.code:
        cell.metadata["tags"] = ["nbval-ignore-output"]


def lengthen(notebook):
    for cell in notebook.code:
        cell.source += "\npass" * 20


def forget_equation(notebook, number):
    for cell in notebook.code:
        cell.source = cell.source.replace(f"equation ({number})", "an equation")


def remove_figures(notebook):
    for cell in notebook.code:
        cell.outputs = [o for o in cell.outputs if "image/png" not in o.get("data", {})]


def picture(color, words):
    drawn = io.BytesIO()
    Image.new("RGBA", (4, 4), color).save(drawn, format="png")
    output = shown({"image/png": base64.b64encode(drawn.getvalue()).decode()})
    output.metadata = nbformat.from_dict({"image/png": {"alt": words}})
    return output


def listing(text):
    """As `lab.show_source` displays it."""
    return shown({"text/markdown": f"```python\n{text}\n```", "text/plain": text})


PREDICTIONS = "\n\n**Predict.** How many?" * 4
WORDS = "Bars of device time: the copy 63 us, ours 65 us."

START = "00_start_here.ipynb"
LAST = "02_rotate_half.ipynb"
MATH = "01_roformer_math.ipynb"
KERNEL = "03_first_triton_kernel.ipynb"

BREAKS = {
    "small_and_normal": [
        (MATH, lambda n: n.code[0].outputs.append(printed("x" * 2_000_001))),
        (MATH, lambda n: n.node.metadata.update(widgets={})),
        (MATH, lambda n: n.node.metadata.language_info.update(version="3.12.3")),
        (MATH, lambda n: n.code[0].metadata.update(collapsed=True)),
        (MATH, lambda n: n.code[0].metadata.update(tags=["hide-output"])),
        (MATH, lambda n: n.node.cells[0].pop("source")),
    ],
    "executed_from_top_to_bottom": [
        (MATH, lambda n: n.code[3].update(execution_count=None)),
        (MATH, lambda n: n.code[3].update(execution_count=99)),
    ],
    "nothing_of_the_machine": [
        (MATH, lambda n: n.code[0].outputs.append(printed("careful", "stderr"))),
        (MATH, lambda n: n.code[0].outputs.append(printed("/home/me/x.py\n"))),
        (MATH, lambda n: n.code[0].outputs.append(shown({"text/plain": "'/usr/lib/python3'"}))),
        (MATH, lambda n: n.code[0].outputs.append(printed("<f at 0x7f12ab34cd>"))),
        (MATH, lambda n: n.code[0].outputs.append(shown({"image/svg+xml": "<svg/>"}))),
        (
            MATH,
            lambda n: n.code[0].outputs.append(
                nbformat.v4.new_output("error", ename="E", evalue="x", traceback=["File"])
            ),
        ),
    ],
    "little_is_left_uncompared": [
        (MATH, ignore_all),
        (MATH, lambda n: n.code[1].metadata.update(tags=["measures"])),
        (KERNEL, lambda n: n.code[11].metadata.update(tags=["nbval-ignore-output"])),
        (MATH, lambda n: n.code[1].metadata.update(tags=["nbval-skip"])),
    ],
    "first_cell_introduces": [
        (MATH, lambda n: replace_in(n.node.cells[0], "# 01 · ", "# ")),
        (MATH, lambda n: replace_in(n.node.cells[0], "Why rotate at all?", "Why")),
        (MATH, lambda n: replace_in(n.node.cells[0], "You will be able to", "Aims")),
        (MATH, lambda n: replace_in(n.node.cells[0], "| You need |", "| Needs |")),
        (MATH, lambda n: replace_in(n.node.cells[0], "| Time |", "| Lasts |")),
        (MATH, lambda n: replace_in(n.node.cells[0], "| Hardware |", "| On |")),
        (MATH, lambda n: replace_in(n.node.cells[0], "Previous · next", "Links")),
    ],
    "last_cell_concludes": [
        (MATH, lambda n: replace_in(n.node.cells[-1], "## Recap", "## Done")),
        (START, lambda n: replace_in(n.node.cells[-1], "\n3. ", "\n")),
        (MATH, lambda n: replace_in(n.node.cells[-1], "## To think about", "To think about")),
        (MATH, lambda n: replace_in(n.node.cells[-1], "## References", "Sources")),
        (MATH, lambda n: replace_in(n.node.cells[-1], "**Next:**", "Then")),
    ],
    "first_code_cell_picks_the_engine": [
        (MATH, lambda n: n.code[0].update(source="import torch\n" + n.code[0].source)),
        (MATH, lambda n: n.code[0].update(source=n.code[0].source + "\nimport triton")),
        (MATH, lambda n: n.code[2].update(source="from triton import language as tl")),
    ],
    "cells_are_short": [(MATH, lengthen)],
    "short_enough": [
        (MATH, lambda n: n.markdown[1].update(source="word " * 3500)),
        (MATH, lambda n: n.node.cells.extend(nbformat.v4.new_markdown_cell() for _ in range(60))),
    ],
    "minutes_are_counted": [
        (MATH, lambda n: n.markdown[1].update(source=n.markdown[1].source + " word" * 300)),
        (MATH, lambda n: n.code[1].update(source="x = 1\n" * 12)),
        (MATH, lambda n: n.code[1].outputs.append(listing("x = 1\n" * 12))),
        (MATH, lambda n: n.markdown[1].update(source=n.markdown[1].source + PREDICTIONS)),
        (MATH, lambda n: replace_in(first_with(n, "markdown", "## 2. "), "## 2. ", "## 9. ")),
        (MATH, lambda n: replace_in(first_with(n, "markdown", "(5 minutes)"), "(5 ", "(15 ")),
    ],
    "exercises_stand_in_sections": [
        (MATH, lambda n: replace_in(first_with(n, "markdown", "(5 minutes)"), "(5 ", "(6 ")),
        (MATH, lambda n: replace_in(first_with(n, "markdown", "(5 minutes)"), "(5 ", "(40 ")),
        (MATH, lambda n: n.node.cells.sort(key=lambda cell: "### Exercise" in cell.source)),
    ],
    "every_equation_is_evaluated": [
        (MATH, lambda n: forget_equation(n, 3)),
        (MATH, lambda n: replace_in(first_with(n, "markdown", r"\tag{4}"), r"\tag{4}", "")),
        (MATH, lambda n: replace_in(first_with(n, "markdown", r"\tag{4}"), r"\tag{4}", r"\tag{5}")),
    ],
    "predictions_are_looked_back_at": [
        (MATH, lambda n: replace_in(first_with(n, "markdown", "**Look back."), "Look back", "So")),
        (MATH, lambda n: replace_in(first_with(n, "markdown", "**Predict."), "Predict", "Guess")),
        (START, lambda n: n.node.cells.remove(first_with(n, "code", "torch.full("))),
    ],
    "pictures_have_words": [
        (MATH, lambda n: n.markdown[1].update(source="![](picture.png)")),
        (MATH, lambda n: n.markdown[1].update(source='<img src="picture.png">')),
        (
            MATH,
            lambda n: n.code[0].outputs.append(
                nbformat.v4.new_output(
                    "execute_result",
                    data={"image/png": "AA==", "text/plain": "<Figure size 1x1>"},
                    execution_count=1,
                )
            ),
        ),
    ],
    "pictures_can_be_read": [
        (MATH, lambda n: n.code[0].outputs.append(picture((250, 250, 250, 0), WORDS))),
        (MATH, lambda n: n.code[0].outputs.append(picture("#fafafa", "A figure."))),
    ],
    "widgets_say_where_they_move": [
        (MATH, lambda n: replace_in(first_with(n, "markdown", "In JupyterLab"), "In Jup", "Jup")),
    ],
    "widgets_have_a_figure": [(MATH, remove_figures)],
    "links_lead_somewhere": [
        (MATH, lambda n: n.markdown[1].update(source="[gone](99_gone.ipynb)")),
        (
            MATH,
            lambda n: replace_in(
                n.node.cells[0], "· [02 Rotate half](02_rotate_half.ipynb)", "· 02"
            ),
        ),
        (MATH, lambda n: replace_in(n.node.cells[-1], "(02_rotate_half.ipynb)", "")),
        (LAST, lambda n: replace_in(n.node.cells[0], "(01_roformer_math.ipynb) ·", "() ·")),
    ],
    "measurements_are_on_record": [
        (LAST, lambda n: replace_in(first_with(n, "code", "lab.bench("), '"02/', '"02/other-')),
        (
            KERNEL,
            lambda n: replace_in(first_with(n, "code", "lab.bench("), '"every eighth"', '"eighth"'),
        ),
        (LAST, lambda n: first_with(n, "code", "lab.bench(").update(source="pass")),
    ],
}


def test_a_notebook_in_preparation_is_announced_by_its_neighbors(monkeypatch):
    planned = dataclasses.replace(INDEX.road[2], in_preparation=True)
    road = (*INDEX.road[:2], planned, *INDEX.road[3:])
    monkeypatch.setattr(notebook_form, "INDEX", dataclasses.replace(INDEX, road=road))
    before, behind = load(MATH), load("03_first_triton_kernel.ipynb")
    wanted = ["no 02 Rotate half (in preparation) in the first cell"]
    assert notebook_form.links_lead_somewhere(behind) == wanted
    wanted.append("no 02 Rotate half (in preparation) in the last cell")
    assert notebook_form.links_lead_somewhere(before) == wanted
    link, said = "[02 Rotate half](02_rotate_half.ipynb)", "02 Rotate half (in preparation)"
    for notebook in (before, behind):
        for cell in (notebook.node.cells[0], notebook.node.cells[-1]):
            cell.source = cell.source.replace(link, said)
        assert notebook_form.links_lead_somewhere(notebook) == []


def test_every_check_has_a_broken_sample():
    assert set(BREAKS) == {check.__name__ for check in CHECKS}


@pytest.mark.parametrize(
    ("check", "name", "break_form"),
    [
        pytest.param(check, name, break_form, id=f"{check.__name__}-{number}")
        for check in CHECKS
        for number, (name, break_form) in enumerate(BREAKS[check.__name__])
    ],
)
def test_broken_form_is_found(check, name, break_form):
    intact = notebook_for(check, name)
    broken = Notebook(name, copy.deepcopy(intact.node))
    break_form(broken)
    assert check(broken) != check(intact)
    assert check(broken)
