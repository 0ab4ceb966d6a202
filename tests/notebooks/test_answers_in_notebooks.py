"""Wrong answers, and right ones in other words, in their notebook, after the cells before them.

The cells before an answer have run, and what they left behind is in the way; but for those that
only show something, which nbval runs. Each notebook runs once. Answers are pasted over their stub,
each in a cell of its own, the solution last. Of the rows of `wrong_answers.txt`, the first of each
exercise is judged, and all with `--every`.
What wrong numbers and choices are told is in `test_wrong_answers.py`.

Cells run in this process, because a kernel, a judge and a compiler of each notebook's own would
take longer to start than most answers to judge. nbval runs them in a kernel.
"""

import re
import symtable
from dataclasses import dataclass

import nbformat
import pytest

from cells import run
from exercise_form import EXAM, NUMBERS, exercises_in
from notebook_form import FOLDER
from rope_lab.judge import check_exercise
from rope_lab.judge.inspect import small_sizes
from rope_lab.judge.why import why
from rope_lab.records import QUIET
from wrong_answers import replaced, wrong_answers

pytest.importorskip("triton", reason="needs Triton")

EXAM_CELLS = "10-b1", "10-b2"
BUG, REPAIR = "out.numel() // (positions * d)", "t.shape[1] * heads"


@dataclass(frozen=True)
class Answer:
    """A cell to put after a stub, and what it must be told.

    Attributes:
        kind: of its evidence; '' if there is none, or it is known by words.
        part: of a line of the evidence, or of the verdict.
    """

    name: str
    source: str
    state: str = "RIGHT"
    kind: str = ""
    part: str = ""


def repaired_exam(book):
    """The exam of notebook 10 without its bug."""
    cells = {cell.id: cell.source for cell in book.code}
    text = "\n\n\n".join(cells[name] for name in EXAM_CELLS)
    text = text[: text.index("passed = 0")] + "lab.check_exercise(exam_rope, exercises.rope)"
    return replaced(text, (BUG, REPAIR))


def answers_to(exercises, cell, every):
    """The right one is the last, for later cells may call it."""
    is_exam = cell == EXAM
    solution = repaired_exam(exercises.book) if is_exam else exercises.solutions[cell].source
    answers = [
        Answer(f"{cell} {x.changes}", x.made_in(solution), x.state, x.kind, x.part)
        for x in wrong_answers()
        if x.cell == cell
    ]
    return [*(answers if every else answers[:1]), Answer(f"the solution of {cell}", solution)]


def with_answers(number, every):
    """The cells of a notebook up to its last exercise, and id -> the answer that a cell holds."""
    exercises = exercises_in(number)
    *_, last = exercises.stubs
    cells, answers = [], {}
    for cell in exercises.book.code:
        if cell.id not in exercises.stubs:
            cells.append(cell)
            continue
        for answer in answers_to(exercises, cell.id, every):
            cells.append(nbformat.v4.new_code_cell(answer.source))
            answers[cells[-1].id] = answer
        if cell.id == last:
            break
    return without_shows(cells, kept=answers.keys()), answers


def without_shows(cells, kept):
    """Leave out the cells that leave nothing behind which a later one of those that stay names."""
    stay, named = [], set()
    for cell in reversed(cells):
        table = symtable.symtable(cell.source, cell.id, "exec")
        binds = {x.get_name() for x in table.get_symbols() if x.is_assigned()}
        if cell.id in kept or cell is cells[0] or "import " in cell.source or binds & named:
            stay.insert(0, cell)
            named |= globals_read_in(table)
    return stay


def globals_read_in(table):
    """Also by its functions; not their own variables."""
    symbols = table.get_symbols()
    is_module = table.get_type() == "module"
    read = {x.get_name() for x in symbols if x.is_referenced() and (is_module or x.is_global())}
    return read.union(*map(globals_read_in, table.get_children()))


def complaint(cell, answer, text, error, found):
    """What is wrong with a cell's outcome; nothing if it is as it should be."""
    if error:
        expected = answer is None and "raises-exception" in cell.metadata.get("tags", [])
        return "" if expected else f"{answer.name if answer else cell.id} stops with {error}"
    if answer is None:
        return ""
    # an exercise that checks two functions has two
    states = set(re.findall(r"^(RIGHT, but|RIGHT|WRONG|NOT YET)\b", text, re.MULTILINE))
    if answer.kind:
        is_told = any(x.kind == answer.kind and answer.part in "\n".join(x.lines) for x in found)
    elif answer.part:
        is_told = answer.part in text
    else:
        is_told = states == {answer.state} and not found
    if answer.state in states and is_told:
        return ""
    wanted = f"{answer.state}, {answer.kind!r}, {answer.part!r}"
    return f"{answer.name}: wanted {wanted}, but the verdict is\n{text}"


@pytest.fixture
def found(monkeypatch):
    """All evidence that is looked for, in order."""
    noted = []

    def noting(*wrong):
        noted.append(why(*wrong))
        return noted[-1]

    monkeypatch.setattr(check_exercise, "why", noting)
    monkeypatch.setattr(small_sizes, "why", noting)
    return noted


@pytest.mark.parametrize("number", NUMBERS)
def test_answers_are_judged_rightly(number, monkeypatch, pytestconfig, tmp_path, found):
    monkeypatch.setenv(QUIET, "1")
    monkeypatch.setenv("MPLBACKEND", "agg")  # nobody looks at its figures
    monkeypatch.chdir(FOLDER)
    cells, answers = with_answers(number, pytestconfig.getoption("every"))
    names = {"__name__": "__main__"}
    complaints = []
    for cell in cells:
        found.clear()
        text, error = run(cell, names, tmp_path)
        complaints.append(complaint(cell, answers.get(cell.id), text, error, found))
    assert not any(complaints), "\n\n".join(filter(None, complaints))
