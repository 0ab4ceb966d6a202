"""Wrong answers, and right ones in other words, in their notebook, after the cells before them.

The cells before an answer have run, in a kernel, and what they left behind is in the way; but for
those that only show something, which nbval runs. Each notebook runs once. Answers are pasted over
their stub, each in a cell of its own, the solution last. A number or a choice is asked for by its
stub, so there the solution comes first, and proves that the stub takes it.

Of the wrong answers to an exercise two run, and more until every rule has told one; with `--every`
all of them do.
"""

import ast
import re
import symtable
from dataclasses import dataclass
from functools import cache

import nbformat
import pytest
import torch
from nbclient import NotebookClient

import pairwise
import wrong_answers
import wrong_answers_first
from notebook_form import FOLDER
from rope_lab.grading.diagnose import RULES
from rope_lab.grading.judge import QUIET
from test_wrong_answers import EXAM, GRADED, SOLVED, of_rung
from wrong_numbers import WRONG_NUMBERS
from wrong_rungs import WRONG_RUNGS

triton = pytest.importorskip("triton", reason="needs Triton")

EXAM_CELLS = "10-b1", "10-b2"
REPAIR = {"out.numel() // (positions * d)": "t.shape[1] * heads"}
MEASURED = (("08", 4),)  # the exercise whose right answer a GPU measures
SECONDS_A_CELL = 300

# Triton 3.9's interpreter takes a flag that isn't a constant, as the compiler always has. And 3.9
# itself refuses the wrong name, where the kernel is decorated, before there is an answer to judge.
UNTIL_3_9 = "a flag that isn't a constant", "the launcher's name for the tensor"
IS_3_9 = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 9)

NOTEBOOKS = sorted({number for number, _, _ in GRADED})

SAID = {  # words of each rule that guesses at a mistake
    "stored_by_programs": "write collision: program",
    "unchanged": "unchanged: the result is",
    "unwritten": "the tail is forgotten",
    "masked_off": "NaN: an element that is masked off is used",
    "ignored": "is ignored",
    "tail": "the tail is wrong",
    "zero": "zero: what is wrong is zero",
    "known_mistake": "half of D, where half of D2 decides",
    "rounding": "rounding: compute in fp32",
    "sign": "every element has the opposite sign",
    "swapped": "neighbors swapped",
    "pairing": "the wrong pairing",
    "overwritten_members": "overwritten too early",
    "minus": "a sign: it rotates by minus the angle",
    "of_the_table": "the wrong angle: the first half takes the second half's angle",
    "sine_of_a_part": "a sign: that of the sine in",
    "of_the_partner": "each half takes the sine that the other",
    "other_function": "the wrong function",
    "step_of_the_table": "the step of the table",
    "weights": "the weights are applied after the rotation",
    "root": "the root is missing",
    "of_all": "a factor: everything is",
    "position": "the angle is that of 0, the first position",
    "row": "the wrong row",
    "strides_of_the_input": "the last one is forgotten",
    "case_alone": "right for a table that ends with the sequence",
}
UNSAID = {"rest_of_block", "strides_exchanged", "large", "head"}  # to none of these answers
ADVISED = (  # on the climb
    "each element of t is loaded",
    "a sine of the whole tile",
    "every row evaluates its own",
    "us to start",
    "lanes share the angles of a row",
    "is the sine taken after the broadcast",
    "t_ptr is loaded after a sine",
)


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
    found += [("RIGHT, but", one) for one in wrong_answers_first.WASTEFUL_ANSWERS]
    found += [("RIGHT", one) for one in wrong_answers.RIGHT_ANSWERS]
    return [(state, one) for state, one in found if (one.notebook, one.exercise) == key[:2]]


def answers_to(key):
    """The answers to one stub that run; the right one is the last, for later cells may call it."""
    answers = every_answer_to(key)
    if pairwise.EVERY:
        return answers
    return [one for one in answers if one is answers[-1] or one in by_day()]


@cache
def by_day():
    """Of each exercise two that are told apart and all that are right, and one of every rule."""
    answers = [of_one for key in GRADED if (of_one := every_answer_to(key)[:-1])]
    chosen = [one for of_one in answers for one in of_one if one.state.startswith("RIGHT")]
    for of_one in answers:
        first, *others = [one for one in of_one if one not in chosen]
        chosen += [first, next(x for x in others if is_told_apart(x, first))]
    for words in (*SAID.values(), *ADVISED):
        if not any(words in one.told for one in chosen):
            chosen += [one for of_one in answers for one in of_one if words in one.told][:1]
    return chosen


def is_told_apart(one, other):
    return one.told not in other.told and other.told not in one.told


def numbers_of(number, exercise):
    """None where a GPU measures the right ones: these are wrong on the record's GPU."""
    is_measured = (number, exercise) in MEASURED and torch.cuda.is_available()
    return [] if is_measured else WRONG_NUMBERS[number, exercise]


@cache
def every_answer_to(key):
    """The solution is the last."""
    number, exercise, check = key
    solution = exam() if key == EXAM else SOLVED[key].source
    right = changed(solution, REPAIR) if key == EXAM else solution
    right = [Answer(f"the solution of {number}-{exercise}", right)]
    if check in ("check_answer", "check_choices"):
        answers = [
            Answer(
                f"{number}-{exercise} {given}", another_choice(GRADED[key], given), "WRONG", told
            )
            for given, told in numbers_of(number, exercise)
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
        binds = bound_by(ast.parse(cell.source))
        if cell.id in kept or cell is cells[0] or "import " in cell.source or binds & named:
            stay.insert(0, cell)
            named |= globals_read_in(symtable.symtable(cell.source, cell.id, "exec"))
    return stay


def bound_by(tree):
    """Globals; not what functions bind for themselves, nor a comprehension's, in any Python."""
    if isinstance(tree, ast.FunctionDef | ast.ClassDef):
        return {tree.name}
    if isinstance(tree, ast.Lambda | ast.comprehension):
        return set()
    own = {tree.id} if isinstance(tree, ast.Name) and isinstance(tree.ctx, ast.Store) else set()
    return own.union(*map(bound_by, ast.iter_child_nodes(tree)))


def globals_read_in(table):
    """Also by its functions; not their own variables."""
    symbols = table.get_symbols()
    is_module = table.get_type() == "module"
    read = {x.get_name() for x in symbols if x.is_referenced() and (is_module or x.is_global())}
    return read.union(*map(globals_read_in, table.get_children()))


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


def test_by_day_every_rule_has_an_answer():
    """A rule that comes has words in the list, so an answer to it always runs."""
    assert {rule.__name__ for rule in RULES} == {*SAID} | UNSAID
    for words in (*SAID.values(), *ADVISED):
        assert any(words in one.told for one in by_day()), words


def test_every_answer_has_its_cell(monkeypatch):
    monkeypatch.setattr(pairwise, "EVERY", True)
    first, later = wrong_answers_first, wrong_answers
    lists = [first.WRONG_ANSWERS, first.WASTEFUL_ANSWERS, later.WRONG_ANSWERS, later.RIGHT_ANSWERS]
    lists += [later.WRONG_TIMERS, later.WRONG_REPAIRS, WRONG_RUNGS]
    answers = [one.name for number in NOTEBOOKS for one in with_answers(number)[1].values()]
    solutions = [name for name in answers if name.startswith("the solution of ")]
    lists = [*map(of_this_triton, lists), *(numbers_of(*place) for place in WRONG_NUMBERS)]
    assert len(answers) - len(solutions) == sum(map(len, lists))
    assert len(solutions) == len(GRADED)


def test_cells_that_only_show_something_are_left_out():
    sources = (
        "x = 1",
        "import math\nmath.pi",
        "print(x)",
        "def f(): return x",
        "f()",
        "z = 1; [y for y in range(3)]",
        "y = f()",
        "y + (lambda z: z)(1)",
    )
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    stay = without_shows(cells, kept={cells[-1].id})
    assert [cell.source for cell in stay] == [sources[i] for i in (0, 1, 3, 6, 7)]


def test_a_cell_that_fails_does_not_hide_the_next():
    sources = "1 / 0", "print('RIGHT: it ran')"
    notebook = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, sources)])
    execute(notebook)
    first, second = notebook.cells
    assert "ZeroDivisionError" in complaint(first, None)
    assert complaint(first, RIGHT) and not complaint(second, RIGHT)
