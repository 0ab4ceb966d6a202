"""Wrong answers, and right ones in other words, in their notebook, after the cells before them.

The cells before an answer have run, in a kernel, and what they left behind is in the way; but for
those that only show something, which nbval runs. Each notebook runs once. Answers are pasted over
their stub, each in a cell of its own, the solution last. A number or a choice is asked for by its
stub, so there the solution comes first, and proves that the stub takes it.
"""

import ast
import re
from dataclasses import dataclass

import nbformat
import pytest
from nbclient import NotebookClient

import wrong_answers
import wrong_answers_first
from notebook_form import FOLDER
from rope_lab.grading.judge import QUIET
from test_wrong_answers import EXAM, GRADED, SOLVED, of_rung
from wrong_numbers import WRONG_NUMBERS
from wrong_rungs import WRONG_RUNGS

triton = pytest.importorskip("triton", reason="needs Triton")

EXAM_CELLS = "10-b1", "10-b2"
REPAIR = {"out.numel() // (positions * d)": "t.shape[1] * heads"}
SECONDS_A_CELL = 300

# Triton 3.9's interpreter takes a flag that isn't a constant, as the compiler always has. And 3.9
# itself refuses the wrong name, where the kernel is decorated, before there is an answer to judge.
UNTIL_3_9 = "a flag that isn't a constant", "the launcher's name for the tensor"
IS_3_9 = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 9)

NOTEBOOKS = sorted({number for number, _, _ in GRADED})


@dataclass(frozen=True)
class Answer:
    """A cell to put after a stub, and what it must be told."""

    name: str
    source: str
    state: str = "RIGHT"
    told: str = ""


def changed(source, instead):
    for text, other in instead.items():
        assert text in source, f"the solution has changed: {text!r} is not in it"
        source = source.replace(text, other)
    return source


def exam():
    """The exam of notebook 10, which is repaired where it stands."""
    path = next(FOLDER.glob("10_*.ipynb"))
    cells = {cell.id: cell.source for cell in nbformat.read(path, as_version=4).cells}
    text = "\n\n\n".join(cells[name] for name in EXAM_CELLS)
    return text[: text.index("passed = 0")] + "lab.check_exercise(exam_rope, exercises.rope)"


def another_choice(stub, answer):
    """The stub has run and has worked out what is right: an answer, and the check once more."""
    check = ast.parse(stub.source).body[-1].value
    return f"{check.args[0].id} = {answer!r}\n{ast.unparse(check)}"


def of_this_triton(answers):
    return [one for one in answers if not (IS_3_9 and getattr(one, "mistake", "") in UNTIL_3_9)]


def other_texts(key):
    """What replaces text of a solution, with the state of the verdict."""
    if key == EXAM:
        return [("WRONG", one) for one in wrong_answers.WRONG_REPAIRS]
    if key[2] == "check_timer":
        return [("WRONG", one) for one in wrong_answers.WRONG_TIMERS]
    if key[2] == "check_rung":
        return [(one.state, one) for one in of_this_triton(of_rung(GRADED[key]))]
    found = []
    for module in (wrong_answers, wrong_answers_first):
        found += [(one.state, one) for one in of_this_triton(module.WRONG_ANSWERS)]
        found += [("RIGHT, but", one) for one in module.WASTEFUL_ANSWERS]
        found += [("RIGHT", one) for one in module.RIGHT_ANSWERS]
    return [(state, one) for state, one in found if (one.notebook, one.exercise) == key[:2]]


def answers_to(key):
    """The answers to one stub; the right one is the last, for later cells may call it."""
    number, exercise, check = key
    solution = exam() if key == EXAM else SOLVED[key].source
    right = changed(solution, REPAIR) if key == EXAM else solution
    right = [Answer(f"the solution of {number}-{exercise}", right)]
    if check in ("check_answer", "check_choices"):
        answers = [
            Answer(
                f"{number}-{exercise} {given}", another_choice(GRADED[key], given), "WRONG", told
            )
            for given, told in WRONG_NUMBERS[number, exercise]
        ]
        return answers + right
    answers = [
        Answer(f"{number}-{exercise}: {one}", changed(solution, one.instead), state, one.told)
        for state, one in other_texts(key)
    ]
    return answers + right


def pasted_over(stub, key):
    """What is in the stub's place: cells, each with its answer or None."""
    answers = answers_to(key)
    if key[2] in ("check_answer", "check_choices"):  # a wrong answer is the stub with another value
        answers = [answers[-1], None, *answers[:-1]]
    return [(nbformat.v4.new_code_cell(one.source) if one else stub, one) for one in answers]


def with_answers(number):
    """A notebook up to its last exercise with the answers in it, and cell -> answer."""
    (path,) = FOLDER.glob(f"{number}_*.ipynb")
    notebook = nbformat.read(path, as_version=4)
    stubs = {cell.id: key for key, cell in GRADED.items() if key[0] == number}
    stub_ids = set(stubs)
    cells, answers = [], {}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        if cell.id not in stubs:
            cells.append(cell)
            continue
        for pasted, answer in pasted_over(cell, stubs.pop(cell.id)):
            cells.append(pasted)
            if answer:
                answers[pasted.id] = answer
        if not stubs:
            break  # no exercise comes after
    notebook.cells = without_shows(cells, kept=stub_ids | answers.keys())
    return notebook, answers


def without_shows(cells, kept):
    """Leave out the cells that leave nothing behind which a later one of those that stay names."""
    stay, named = [], set()
    for cell in reversed(cells):
        names = [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Name)]
        bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
        bound |= {node.name for node in ast.walk(ast.parse(cell.source)) if is_definition(node)}
        if cell.id in kept or cell is cells[0] or "import " in cell.source or bound & named:
            stay.insert(0, cell)
            named |= {node.id for node in names}
    return stay


def is_definition(node):
    return isinstance(node, ast.FunctionDef | ast.ClassDef)


def execute(notebook):
    """All of its cells, those after one that fails as well."""
    resources = {"metadata": {"path": str(FOLDER)}}
    options = {"kernel_name": "python3", "allow_errors": True, "timeout": SECONDS_A_CELL}
    NotebookClient(notebook, resources=resources, **options).execute()


def shown(cell):
    """What a cell printed and showed, and the error that it stopped with."""
    texts = []
    for output in cell.outputs:
        if output.output_type == "error":
            texts.append(f"{output.ename}: {output.evalue}")
        texts.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
    return "\n".join(filter(None, texts))


def stopped(cell):
    return any(output.output_type == "error" for output in cell.outputs)


def complaint(cell, answer):
    """What is wrong with a cell's outcome; nothing if it is as it should be."""
    text = shown(cell)
    if stopped(cell):
        expected = answer is None and "raises-exception" in cell.metadata.get("tags", [])
        return "" if expected else f"{answer.name if answer else cell.id} stops with {text}"
    if answer is None:
        return ""
    states = set(re.findall(r"^(RIGHT, but|RIGHT|WRONG|NOT YET)\b", text, re.MULTILINE))
    others = states - {answer.state}  # of an exercise that checks two functions
    as_wanted = answer.state in states and (answer.told or not others)
    if as_wanted and answer.told in text:
        return ""
    return f"{answer.name}: wanted {answer.state} {answer.told!r}, and it is told\n{text}"


def complaints(notebook, answers):
    found = [complaint(cell, answers.get(cell.id)) for cell in notebook.cells]
    return [one for one in found if one]


def judged_in(number, monkeypatch):
    """Run a notebook with its answers; what is wrong with the verdicts."""
    monkeypatch.setenv(QUIET, "1")
    monkeypatch.setenv("MPLBACKEND", "agg")  # nobody looks at its figures
    notebook, answers = with_answers(number)
    execute(notebook)
    assert all(cell.execution_count for cell in notebook.cells), "a cell did not run"
    return complaints(notebook, answers)


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_answers_are_judged_rightly(number, monkeypatch):
    found = judged_in(number, monkeypatch)
    assert not found, "\n\n".join(found)


# the tests above, on what they must not pass


def cell_with(*outputs, tags=()):
    cell = nbformat.v4.new_code_cell("lab.check(...)", metadata={"tags": list(tags)})
    cell.outputs = [nbformat.v4.new_output(kind, **fields) for kind, fields in outputs]
    return cell


def verdict(text):
    return "execute_result", {"data": {"text/plain": text}}


ERROR = "error", {"ename": "TypeError", "evalue": "program_id is a Tensor", "traceback": []}
RIGHT, WRONG = Answer("right", ""), Answer("wrong", "", "WRONG", "the tail is forgotten")
WASTEFUL = Answer("wasteful", "", "RIGHT, but", "it loads twice")


@pytest.mark.parametrize(
    "cell, answer, fine",
    (
        (cell_with(verdict("RIGHT: 7 cases")), RIGHT, True),
        (cell_with(verdict("RIGHT: 7 cases")), WRONG, False),
        (cell_with(verdict("RIGHT: 7 cases")), WASTEFUL, False),
        (cell_with(verdict("RIGHT, but it loads twice the bytes")), WASTEFUL, True),
        (cell_with(verdict("RIGHT, but it loads twice the bytes")), RIGHT, False),
        (cell_with(verdict("RIGHT: 7 cases"), verdict("WRONG: a sign")), RIGHT, False),
        (cell_with(verdict("NOT YET: replace")), RIGHT, False),
        (cell_with(), RIGHT, False),
        (cell_with(verdict("WRONG: the tail is forgotten")), WRONG, True),
        (cell_with(verdict("WRONG: a sign")), WRONG, False),
        (cell_with(verdict("WRONG: the tail is forgotten")), RIGHT, False),
        (cell_with(ERROR), RIGHT, False),
        (cell_with(ERROR), WRONG, False),
        (cell_with(ERROR), None, False),
        (cell_with(ERROR, tags=["raises-exception"]), None, True),
        (cell_with(), None, True),
    ),
)
def test_what_is_complained_about(cell, answer, fine):
    assert (complaint(cell, answer) == "") is fine


def test_every_answer_has_its_cell():
    modules = wrong_answers, wrong_answers_first
    lists = [x for m in modules for x in (m.WRONG_ANSWERS, m.WASTEFUL_ANSWERS, m.RIGHT_ANSWERS)]
    lists += [wrong_answers.WRONG_TIMERS, wrong_answers.WRONG_REPAIRS, WRONG_RUNGS]
    answers = [one.name for number in NOTEBOOKS for one in with_answers(number)[1].values()]
    solutions = [name for name in answers if name.startswith("the solution of ")]
    lists = [*map(of_this_triton, lists), *WRONG_NUMBERS.values()]
    assert len(answers) - len(solutions) == sum(map(len, lists))
    assert len(solutions) == len(GRADED)


def test_cells_that_only_show_something_are_left_out():
    sources = (
        "x = 1",
        "import math\nmath.pi",
        "print(x)",
        "def f(): return x",
        "f()",
        "y = f()",
        "y",
    )
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    stay = without_shows(cells, kept={cells[-1].id})
    assert [cell.source for cell in stay] == [sources[i] for i in (0, 1, 3, 5, 6)]


def test_a_cell_that_fails_does_not_hide_the_next():
    sources = "1 / 0", "print('RIGHT: it ran')"
    notebook = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, sources)])
    execute(notebook)
    first, second = notebook.cells
    assert "ZeroDivisionError" in complaint(first, None)
    assert complaint(first, RIGHT) and not complaint(second, RIGHT)
