"""Exercises of notebooks 04 to 09 and 11 to 13: a kind stub, a solution, and wrong answers told so.

What stubs and solutions print is stored in the notebooks, and nbval holds it; here it is read.
"""

import ast
import re
import types
from dataclasses import replace

import nbformat
import pytest

import notebook_form
import notebook_index
import rope_lab as lab
import wrong_kernels
from decoys import decoys_for
from rope_kernels import rope_fw, rope_qk
from rope_lab.grading import exercises
from rope_lab.grading.pretend_gpu import check_timer
from wrong_answers import RIGHT_ANSWERS, WASTEFUL_ANSWERS, WRONG_ANSWERS, WRONG_TIMERS

NUMBERS = ("04", "05", "06", "07", "08", "09", "11", "12", "13")
SOLUTIONS = notebook_form.FOLDER / "solutions"


def notebook(number):
    (name,) = (n for n in notebook_form.names_of_notebooks() if n.startswith(number))
    return notebook_form.load(name)


def solutions(number):
    (path,) = SOLUTIONS.glob(f"{number}_*_solutions.ipynb")
    node = nbformat.read(path, as_version=4)
    return notebook_form.Notebook(path.name, node, SOLUTIONS)


def cell(book, suffix):
    (found,) = (c for c in book.node.cells if c.id.endswith(suffix))
    return found


def texts(code_cell):
    """What a cell printed and returned, output by output."""
    return [o.get("text") or o["data"]["text/plain"] for o in code_cell.outputs]


def titles(book, level):
    return re.findall(
        rf"^{level} Exercise (\d): (.+?)(?: \(\d+ minutes.*\))?$",
        "\n".join(c.source for c in book.markdown),
        re.MULTILINE,
    )


EXERCISES = [(number, int(k)) for number in NUMBERS for k, _ in titles(notebook(number), "###")]


# stubs and solutions


@pytest.mark.parametrize("number", NUMBERS)
def test_there_are_three_to_five_and_each_has_a_solution(number):
    found = titles(notebook(number), "###")
    assert 3 <= len(found) <= 6
    assert [int(k) for k, _ in found] == list(range(1, len(found) + 1))
    assert found == titles(solutions(number), "##")


@pytest.mark.parametrize("number, k", EXERCISES)
def test_a_stub_says_kindly_what_to_do(number, k):
    book = notebook(number)
    task, stub = cell(book, f"-ex{k}-task").source, cell(book, f"-ex{k}")
    assert "<details><summary>Hint</summary>" in task
    title = f"Exercise {k}: {dict(titles(book, '###'))[str(k)]}"
    link = f"{solutions(number).name}#{notebook_index.anchor(title)}"
    assert f"[Solution](solutions/{link})" in task
    headings = [c.source.splitlines()[0] for c in solutions(number).markdown]
    assert f"## {title}" in headings  # where the link leads
    assert stub.outputs and all(text.startswith("NOT YET: ") for text in texts(stub))


@pytest.mark.parametrize("number, k", EXERCISES)
def test_a_solution_is_right(number, k):
    outputs = texts(cell(solutions(number), f"-ex{k}"))
    assert outputs and all(text.startswith("RIGHT: ") for text in outputs)
    assert check_of(notebook(number), k) == check_of(solutions(number), k)


def check_of(book, k):
    """The lines of a cell from the check on."""
    source = cell(book, f"-ex{k}").source
    return source[source.index("lab.check") :]


@pytest.mark.parametrize("number", NUMBERS)
def test_solutions_keep_the_form(number):
    book = solutions(number)
    assert notebook_form.first_code_cell_picks_the_engine(book) == []
    for source in (c.source for c in book.markdown):
        for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", source):
            assert (SOLUTIONS / target).exists(), target


@pytest.mark.parametrize("number", NUMBERS)
def test_solutions_are_stored_in_the_normal_form(number):
    stored = notebook_form.load_stored(f"solutions/{solutions(number).name}")
    if stored is None:
        pytest.skip("there is no git here to ask for what is stored")
    for check in (
        notebook_form.small_and_normal,
        notebook_form.executed_from_top_to_bottom,
        notebook_form.nothing_of_the_machine,
    ):
        assert check(stored) == []


def test_all_that_they_show_is_compared():
    for number in NUMBERS:
        assert not any(notebook_form.tags_of(c) for c in solutions(number).code)


# wrong answers


def functions_of(source):
    """Imports and functions of a cell, and the kernel that they call, without what it runs."""
    lines, kept = source.splitlines(), []
    for node in ast.parse(source).body:
        takes_kernel = ast.unparse(node) == "my_rope = mine_or_ours()"
        if takes_kernel or isinstance(node, ast.FunctionDef | ast.Import | ast.ImportFrom):
            begin = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            kept.append("\n".join(lines[begin - 1 : node.end_lineno]))
    return "\n\n\n".join(kept) + "\n"


def candidate_and_spec(wrong, folder):
    """A function as a reader would have it in a notebook, and what it is judged by.

    Around it are decoys, as if all other cells had left names that it does not use.
    """
    book = solutions(wrong.notebook)
    source = functions_of(cell(book, f"-ex{wrong.exercise}").source)
    for right, instead in wrong.instead.items():
        assert right in source, f"not in the solution any more: {right}"
        source = source.replace(right, instead)
    path = folder / "answer.py"
    path.write_text(functions_of(book.code[0].source) + "\n\n" + source)
    module = types.ModuleType("answer")
    vars(module).update(decoys_for(path.read_text()))
    exec(compile(path.read_text(), path, "exec"), module.__dict__)
    checks = dict(
        re.findall(
            r"lab\.check_exercise\((\w+), lab\.exercises\.(\w+)", check_of(book, wrong.exercise)
        )
    )
    name = wrong.candidate or next(iter(checks))
    return getattr(module, name), getattr(exercises, checks[name])


@pytest.mark.parametrize("wrong", WRONG_ANSWERS, ids=str)
def test_a_wrong_answer_is_told_what_it_looks_like(wrong, tmp_path):
    verdict = lab.check_exercise(*candidate_and_spec(wrong, tmp_path))
    assert not verdict and verdict.state == "wrong"
    assert wrong.told in verdict.reason, verdict


@pytest.mark.parametrize("wasteful", WASTEFUL_ANSWERS, ids=str)
def test_a_right_answer_that_does_too_much_is_told_so(wasteful, tmp_path):
    verdict = lab.check_exercise(*candidate_and_spec(wasteful, tmp_path))
    assert verdict and repr(verdict).startswith("RIGHT, but ")
    assert wasteful.told in verdict.remark, verdict


@pytest.mark.parametrize("right", RIGHT_ANSWERS, ids=str)
def test_a_right_answer_in_other_words_is_right(right, tmp_path):
    verdict = lab.check_exercise(*candidate_and_spec(right, tmp_path))
    assert repr(verdict).startswith(right.told), verdict


@pytest.mark.parametrize("wrong", WRONG_TIMERS, ids=str)
def test_a_wrong_timer_is_told_what_it_forgot(wrong):
    source = cell(solutions("08"), "-ex2").source
    for right, instead in wrong.instead.items():
        assert right in source, f"not in the solution any more: {right}"
        source = source.replace(right, instead)
    names = {}
    exec(functions_of(source), names)
    verdict = check_timer(names["timer"])
    assert verdict.state == "wrong" and wrong.told in repr(verdict), verdict


# what was added to the judge for them


def neighbors_for_halves(t, freqs):
    return wrong_kernels.launch(t, freqs, mistake=11)


def test_which_pairing_was_taken_for_which():
    kind = lab.check_exercise(neighbors_for_halves, exercises.rope).reason
    assert "pairs neighbors (2i, 2i + 1), where halves (i, i + d2/2) are asked" in kind
    kind = lab.check_exercise(rope_fw, exercises.rope_of_neighbors).reason
    assert "pairs halves (i, i + d2/2), where neighbors (2i, 2i + 1) are asked" in kind


def test_launches_are_counted_where_that_is_asked():
    """And two are too many: see the wrong answers to exercise 5 of notebook 05."""
    assert exercises.rope_of_q_and_k_at_once.launches == 1
    assert lab.check_exercise(rope_qk, exercises.rope_of_q_and_k_at_once)


def test_how_many_of_how_many_are_wrong():
    verdict = lab.check_exercise(rope_fw, exercises.rope_gradient)
    assert "wrong: 64 of 64; largest error" in repr(verdict)


# numbers that a reader predicts


@pytest.mark.parametrize(
    "answer, right, said",
    [
        (None, 3, "NOT YET: put your answer in place of None"),
        ([8, None], [8, 2], "NOT YET: put your answer in place of each None"),
        (16384, 16384, "RIGHT: 16 384 bytes"),
        (990, 1000, "WRONG: 990 is too small, but not far off"),
        (300, 1000, "WRONG: 300 is too small"),
        (4000, 1000, "WRONG: 4 000 is too large, by far"),
        (1.5, 1, "WRONG: 1.5 is too large"),
        (0, 5, "WRONG: 0 is too small"),
        ([8, 4], [8, 2], "WRONG in answer 2 of 2: 4 is too large"),
        ([8], [8, 2], "WRONG: 2 answers are wanted, 1 came"),
        (8, [8, 2], "WRONG: 2 answers are wanted, in a list"),
        ((8, 2), [8, 2], "RIGHT: 8, 2 bytes"),
        ("many", 3, "WRONG: a number is wanted, 'many' came"),
        (True, 1, "WRONG: a number is wanted, True came"),
        (" Gather ", "gather", "RIGHT: Gather"),
        ("scatter", "gather", "WRONG: it is not scatter"),
        (1, True, "WRONG: True or False is wanted, 1 came"),
        (False, True, "WRONG: it is not False"),
    ],
)
def test_an_answer(answer, right, said):
    verdict = lab.check_answer(answer, right, unit="bytes")
    assert repr(verdict) == said
    assert bool(verdict) is said.startswith("RIGHT")


def test_an_answer_may_be_a_little_off_where_that_is_allowed():
    assert lab.check_answer(990, 1000, tolerance=0.01)
    assert not lab.check_answer(989, 1000, tolerance=0.01)
    assert lab.check_answer([990, 2], [1000, 2], tolerance=0.01)


def test_a_hint_is_said_only_where_it_helps():
    assert "think of: the mask" in repr(lab.check_answer(1, 2, hint="the mask"))
    assert "think" not in repr(lab.check_answer(2, 2, hint="the mask"))
    assert "think" not in repr(lab.check_answer(None, 2, hint="the mask"))


def test_a_verdict_does_not_give_the_answer_away():
    for answer in (None, 7, "x", [1, 2], True):
        assert "12345" not in repr(lab.check_answer(answer, 12345))


# among the names of other cells, as all candidates above

SOLVED = {(one.notebook, one.exercise, one.candidate): one for one in WRONG_ANSWERS}


@pytest.mark.parametrize("wrong", SOLVED.values(), ids=lambda one: f"{one.notebook}-{one.exercise}")
def test_a_solution_is_right_among_decoys(wrong, tmp_path):
    verdict = lab.check_exercise(*candidate_and_spec(replace(wrong, instead={}), tmp_path))
    assert verdict, verdict
