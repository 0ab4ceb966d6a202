"""Wrong answers, and right ones in other words, in their notebook, after the cells before them.

The cells before an answer have run, and what they left behind is in the way; but for those that
only show something, which nbval runs. Each notebook runs once. Answers are pasted over their stub,
each in a cell of its own, the solution last. Wrong ones are those of `answers_NN.py`: one of each
exercise, and all with `--every`.
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
from exercise import rows_of
from exercise_form import EXAM, NUMBERS, exercises_in
from notebook_form import FOLDER
from rope_lab.judge import check_exercise
from rope_lab.judge.inspect import small_sizes
from rope_lab.judge.why import why
from rope_lab.records import QUIET

pytest.importorskip("triton", reason="needs Triton")

EXAM_CELLS = "10-b1", "10-b2"
BUG, REPAIR = "out.numel() // (positions * d)", "t.shape[1] * heads"


@dataclass(frozen=True)
class Answer:
    """A cell to put after a stub, and what it must be told.

    Attributes:
        told: part of the verdict.
        kind, line: of the evidence, and part of one of its lines; '' if the verdict has none.
    """

    name: str
    source: str
    state: str = "RIGHT"
    told: str = ""
    kind: str = ""
    line: str = ""


def exam(book):
    """The exam of notebook 10 as it is there, with its bug."""
    cells = {cell.id: cell.source for cell in book.code}
    text = "\n\n\n".join(cells[name] for name in EXAM_CELLS)
    return text[: text.index("passed = 0")] + "lab.check_exercise(exam_rope, exercises.rope)"


def answers_to(exercises, entry, every):
    """The right one is the last, for later cells may call it."""
    is_exam = entry.cell == EXAM
    solution = exam(exercises.book) if is_exam else exercises.solutions[entry.cell].source
    right = Answer(
        f"the solution of {entry.cell}",
        solution.replace(BUG, REPAIR) if is_exam else solution,
    )
    answers = [
        Answer(
            name=f"{entry.cell} {x.words}",
            source=x.made_in(solution),
            state=x.state,
            told="" if x.kind else x.words,
            kind=x.kind,
            line=x.line,
        )
        for x in (*entry.wrong_answers, *rows_of(entry.cell))
    ]
    return [*(answers if every else answers[:1]), right]


def with_answers(number, every):
    """The cells of a notebook up to its last exercise, and id -> the answer that a cell holds."""
    exercises = exercises_in(number)
    entries = {entry.cell: entry for entry in exercises.entries}
    stub_ids = set(entries)
    cells, answers = [], {}
    for cell in exercises.book.code:
        if cell.id not in entries:
            cells.append(cell)
            continue
        for answer in answers_to(exercises, entries.pop(cell.id), every):
            cells.append(nbformat.v4.new_code_cell(answer.source))
            answers[cells[-1].id] = answer
        if not entries:
            break  # no exercise comes after
    return without_shows(cells, kept=stub_ids | answers.keys()), answers


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
    states = set(re.findall(r"^(RIGHT, but|RIGHT|WRONG|NOT YET)\b", text, re.MULTILINE))
    others = states - {answer.state}  # of an exercise that checks two functions
    as_wanted = answer.state in states and (answer.told or answer.kind or not others)
    is_told = answer.told in text
    if answer.kind:
        shown = any(one.kind == answer.kind and _names(one, answer.line) for one in found)
        is_told = is_told and shown
    elif answer.state == "RIGHT" and not others:
        is_told = is_told and not found
    if as_wanted and is_told:
        return ""
    wanted = answer.kind and f"the evidence {answer.kind!r} at {answer.line!r}"
    return f"{answer.name}: wanted {answer.state} {answer.told!r} {wanted}, and it is told\n{text}"


def _names(evidence, line):
    return any(line in one for one in evidence.lines) if line else True


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
