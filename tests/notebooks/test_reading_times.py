"""The minutes that notebooks and pages say are those that are computed from what is in them."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import reading_times
from notebook_form import FOLDER, names_of_detours, names_of_notebooks
from reading_times import Times, times_of

STALE = "run `make times`, which writes the minutes of now"


@pytest.mark.parametrize("name", [*names_of_notebooks(), *names_of_detours()])
def test_a_notebook_says_what_is_computed(name):
    times = times_of(FOLDER / name)
    assert f"\n{times.row}\n" in times.node.cells[0].source, STALE
    said = {part.name: part.stated for part in times.parts if part.name}
    assert said == {part.name: part.exercise_minutes for part in times.parts if part.name}, STALE


@pytest.mark.parametrize("page", reading_times.PAGES, ids=lambda page: page.name)
def test_a_page_says_what_is_computed(page):
    text = page.read_text(encoding="utf-8")
    assert reading_times.PAGES[page](text) == text, STALE


# the rule


def times_of_cells(tmp_path, *cells, core="1", solutions=()) -> Times:
    """Of a notebook with these cells; its first one has three words, and the time."""
    first = f"# 03 · Title\n\n**Why?**\n\n| Time | 1 minutes for the core, sections {core} |\n"
    path = tmp_path / "03_title.ipynb"
    nbformat.write(new_notebook(cells=[new_markdown_cell(first), *cells]), path)
    if solutions:
        (tmp_path / "solutions").mkdir()
        nbformat.write(
            new_notebook(cells=solutions), tmp_path / "solutions/03_title_solutions.ipynb"
        )
    return times_of(path)


def minutes(times: Times) -> float:
    return sum(part.minutes for part in times.parts)


@pytest.mark.parametrize(
    "cell, more",
    [
        (new_markdown_cell("word " * 200), 1),
        (new_markdown_cell("a [long link](to/a/file.ipynb#A-place) | --- | $x$"), 4 / 200),
        (new_markdown_cell("**Predict.** Why?"), 2 / 200 + 0.75),
        (new_markdown_cell("$$x = y \\tag{1}$$"), 3 / 200 + 0.5),
        (new_code_cell("x = 1\n\ny = 2"), 2 * 1.5 / 60),
        (new_markdown_cell("<details><summary>Hint</summary>\n\nmany words\n\n</details>"), 0),
        (new_markdown_cell("## References\n\n- many words"), 0),
        (
            new_code_cell("draw()", outputs=[new_output("display_data", {"image/png": "..."})]),
            1.5 / 60 + 0.5,
        ),
    ],
)
def test_what_a_cell_adds(tmp_path, cell, more):
    alone = minutes(times_of_cells(tmp_path))
    assert minutes(times_of_cells(tmp_path, cell)) == pytest.approx(alone + more)


STUB = """\
def double(x):
    raise NotImplementedError("write it")


check(double)
"""
SOLUTION = '''\
def double(x):
    """Twice x."""
    two = torch.tensor(
        2,
    )  # one statement
    # a comment
    a = two + 0
    return a * x


check(double)
'''


def exercise(stub, title="### Exercise 1: Twice (1 minutes)"):
    return new_markdown_cell(f"## 1. Section\n\n{title}"), new_code_cell(stub, id="03-ex1")


@pytest.mark.parametrize(
    "solution, right",
    [(SOLUTION, 6), (SOLUTION.replace("a = two + 0\n    return a * x", "return two * x"), 5)],
    ids=["three statements", "two"],
)
def test_an_exercise_takes_two_minutes_a_statement_and_five_at_least(tmp_path, solution, right):
    solutions = [new_code_cell(solution, id="03-ex1")]
    times = times_of_cells(tmp_path, *exercise(STUB), solutions=solutions)
    assert [part.exercise_minutes for part in times.parts if part.name] == [right]


@pytest.mark.parametrize("before, right", [("lab.show_rung(4)", 5), ("print(4)", 6)])
def test_what_is_copied_from_the_rung_below_is_not_written(tmp_path, before, right):
    body = "    n = 2\n    grid = (n,)\n    return kernel[grid](t, num_warps={})\n\n\n"
    rung = f"def my_rope(t):\n{body}"
    cells = {
        "03-ex0": rung.format(4) + "lab.check_rung(4, my_rope)",
        "03-ex1": rung.format(1) + "lab.check_rung(5, my_rope)",
    }
    solutions = [new_code_cell(source, id=name) for name, source in cells.items()]
    stub = "def my_rope(t):\n    raise NotImplementedError()\n\n\nlab.check_rung(5, my_rope)"
    task, cell = exercise(stub)
    times = times_of_cells(tmp_path, task, new_code_cell(before), cell, solutions=solutions)
    assert [part.exercise_minutes for part in times.parts if part.name] == [right]


@pytest.mark.parametrize("solutions", [(), [new_code_cell(SOLUTION, id="03-ex1")]])
def test_a_title_may_say_more(tmp_path, solutions):
    cells = exercise(STUB, "### Exercise 1: Twice (20 minutes)")
    times = times_of_cells(tmp_path, *cells, solutions=solutions)
    assert [part.exercise_minutes for part in times.parts if part.name] == [20]


def test_the_core_has_its_sections_without_optional_exercises(tmp_path):
    thousand = new_markdown_cell("## 2. Second\n\n" + "word " * 1000)
    solutions = [new_code_cell(SOLUTION, id="03-ex1")]
    title = "### Exercise 1: Twice (6 minutes, optional)"
    times = times_of_cells(
        tmp_path, *exercise(STUB, title), thousand, core="1", solutions=solutions
    )
    assert (times.core, times.whole) == (1, 12)
    assert times.row == "| Time | 1 minutes for the core, section 1; 12 with all that is optional |"


def test_what_is_written_is_what_is_computed(tmp_path):
    """Once written, nothing is left to write, and no other line has changed."""
    solutions = [new_code_cell(SOLUTION, id="03-ex1")]
    times = times_of_cells(tmp_path, *exercise(STUB), solutions=solutions)
    before = [line for cell in times.node.cells for line in cell.source.splitlines()]
    assert times.write()
    written = times_of(times.path)
    after = [line for cell in written.node.cells for line in cell.source.splitlines()]
    changed = [line for line, old in zip(after, before, strict=True) if line != old]
    assert changed == [written.row, "### Exercise 1: Twice (6 minutes)"]
    assert not written.write()
