"""The exercises of notebooks 00 to 03: stubs are kind, solutions right, wrong answers are named."""

import re
from dataclasses import replace

import nbformat
import pytest

import notebook_index
import rope_lab as lab
from decoys import decoys_for
from notebook_form import FOLDER
from rope_kernels import reference
from wrong_answers_first import RIGHT_ANSWERS, WASTEFUL_ANSWERS, WRONG_ANSWERS

NAMES = ("00_start_here", "01_roformer_math", "02_rotate_half", "03_first_triton_kernel")
_TITLE = re.compile(r"^###? (Exercise (\d): .+?)(?: \((\d+) minutes.*\))?$", re.MULTILINE)
_CHECK = re.compile(r"^(?:\w+ = )?lab\.check(?:_answer|_exercise)?\(", re.MULTILINE)


def cells_of(name):
    folder = FOLDER / "solutions" if name.endswith("_solutions") else FOLDER
    return nbformat.read(folder / f"{name}.ipynb", as_version=4).cells


def titles(cells):
    """(title, minutes) of each exercise, in order; minutes are empty in solutions."""
    found = [_TITLE.findall(cell.source) for cell in cells if cell.cell_type == "markdown"]
    return [(title, minutes) for each in found for title, _, minutes in each]


def checks(cells):
    """(number, cell) for each cell of an exercise, by its id, that asks for a verdict."""
    number, found = None, []
    for cell in cells:
        if cell.cell_type == "markdown" and _TITLE.search(cell.source):
            number = int(_TITLE.search(cell.source)[2])
        elif cell.cell_type == "code" and "-ex" in cell.id and _CHECK.search(cell.source):
            found.append((number, cell))
    return found


def stored(cell):
    return cell.outputs[-1].data["text/plain"] if "data" in cell.outputs[-1] else ""


def answer_of(notebook, exercise):
    """The first check of an exercise among the solutions."""
    name = next(name for name in NAMES if name.startswith(notebook)) + "_solutions"
    cells = cells_of(name)
    return next(cell for number, cell in checks(cells) if number == exercise), cells


def run(sources, path):
    """Cells as one module, from a file, because kernels are read from there; its names.

    Around them are decoys, as if all other cells had left names that these do not use.
    """
    text = "\n\n".join(_CHECK.split(source)[0] for source in sources)
    path.write_text(text)
    names = decoys_for(text) | {"__name__": "an_answer"}
    exec(compile(text, path, "exec"), names)
    return names


@pytest.mark.parametrize("name", NAMES)
def test_three_to_six_exercises_numbered_in_order(name):
    exercises = titles(cells_of(name))
    assert 3 <= len(exercises) <= 6
    assert [title.split(":")[0][-1] for title, _ in exercises] == list("123456"[: len(exercises)])


@pytest.mark.parametrize("name", NAMES)
def test_every_exercise_has_a_hint_and_a_solution_of_its_name(name):
    cells = cells_of(name)
    solutions = cells_of(f"{name}_solutions")
    assert [title for title, _ in titles(cells)] == [title for title, _ in titles(solutions)]
    for cell in cells:
        if cell.cell_type == "markdown" and _TITLE.search(cell.source):
            assert "<details><summary>Hint</summary>\n\n" in cell.source
            place = notebook_index.anchor(_TITLE.search(cell.source)[1])
            assert f"[Solution](solutions/{name}_solutions.ipynb#{place})" in cell.source
    for cell in solutions:
        if cell.cell_type == "markdown" and _TITLE.search(cell.source):
            assert f"](../{name}.ipynb)" in cell.source


@pytest.mark.parametrize("name", NAMES)
def test_every_stub_says_kindly_what_to_do(name):
    found = checks(cells_of(name))
    assert {number for number, _ in found} == set(range(1, len(titles(cells_of(name))) + 1))
    for _, cell in found:
        assert re.fullmatch(r"NOT YET: [a-z][^\n]+", stored(cell)), cell.id
        # a stub says where to write; how is in the hint, which a reader may leave closed
        says = re.findall(r'NotImplementedError\("(.+)"\)', cell.source)
        assert all(re.search(r"(delete this line| here)$", words) for words in says), cell.id


@pytest.mark.parametrize("name", NAMES)
def test_every_stub_says_so_today_too(name, tmp_path):
    """Not only in the stored output: with the imports of the first cell and nothing else."""
    cells = cells_of(name)
    imports = next(cell for cell in cells if cell.cell_type == "code").source
    for number, (_, cell) in enumerate(checks(cells)):
        if "lab.check_exercise(" not in cell.source:
            continue
        names = run([imports, cell.source], tmp_path / f"stub_{number}.py")
        candidate, wanted = re.search(
            r"lab\.check_exercise\((\w+), lab\.exercises\.(\w+)\)", cell.source
        ).groups()
        verdict = lab.check_exercise(names[candidate], getattr(lab.exercises, wanted))
        assert repr(verdict) == stored(cell)


@pytest.mark.parametrize("name", NAMES)
def test_every_solution_is_right(name):
    """What is stored; nbval compares it with what comes out today."""
    found = checks(cells_of(f"{name}_solutions"))
    for exercise in range(1, len(titles(cells_of(name))) + 1):
        first = next(cell for number, cell in found if number == exercise)
        assert stored(first).startswith("RIGHT: "), first.id


@pytest.mark.parametrize("name", NAMES)
def test_exercise_and_solution_are_judged_alike(name):
    asked = {}
    for which in (name, f"{name}_solutions"):
        asked[which] = {}
        for number, cell in checks(cells_of(which)):
            spec = re.search(r"lab\.exercises\.\w+", cell.source)
            if spec:
                asked[which].setdefault(number, spec[0])
    assert asked[name] == asked[f"{name}_solutions"]


def verdict_on(answer, path):
    """What the check says where the solution's text is replaced."""
    cell, cells = answer_of(answer.notebook, answer.exercise)
    source = cell.source
    for text, instead in answer.instead.items():
        assert text in source, f"the solution has changed: {text!r} is not in it"
        source = source.replace(text, instead)
    before = [c.source for c in cells[: cells.index(cell)] if c.cell_type == "code"]
    names = run([*before, source], path)
    candidate, wanted = re.search(
        r"lab\.check_exercise\((\w+), lab\.exercises\.(\w+)\)", source
    ).groups()
    return lab.check_exercise(names[candidate], getattr(lab.exercises, wanted))


@pytest.mark.parametrize("wrong", WRONG_ANSWERS, ids=str)
def test_a_wrong_answer_is_told_what_it_is(wrong, tmp_path):
    verdict = verdict_on(wrong, tmp_path / "answer.py")
    assert not verdict and verdict.state == "wrong"
    assert wrong.told in repr(verdict), verdict


@pytest.mark.parametrize("wasteful", WASTEFUL_ANSWERS, ids=str)
def test_a_right_answer_that_does_too_much_is_told_so(wasteful, tmp_path):
    verdict = verdict_on(wasteful, tmp_path / "answer.py")
    assert verdict and repr(verdict).startswith("RIGHT, but ")
    assert wasteful.told in verdict.remark, verdict


@pytest.mark.parametrize("right", RIGHT_ANSWERS, ids=str)
def test_a_right_answer_in_other_words_is_right(right, tmp_path):
    verdict = verdict_on(right, tmp_path / "answer.py")
    assert repr(verdict).startswith(right.told), verdict


# an exercise that asks to do without a function


def by_attribute(t, freqs):
    return reference.apply_rotary_pos_emb(t, freqs, round_once=True)


def by_a_helper(t, freqs):
    return by_attribute(t, freqs)


@pytest.mark.parametrize("candidate", (by_attribute, by_a_helper))
def test_a_function_to_do_without_is_found_where_it_hides(candidate):
    verdict = lab.check_exercise(candidate, lab.exercises.rope_in_pytorch)
    assert "it uses apply_rotary_pos_emb, which you are asked to do without" in repr(verdict)


def test_the_same_name_for_a_function_of_ones_own_is_no_use_of_it(tmp_path):
    cell, _ = answer_of("02", 1)
    own = "\n\ndef apply_rotary_pos_emb(t, freqs):\n    return rope(t, freqs)\n\n\n"
    own += "def mine(t, freqs):\n    return apply_rotary_pos_emb(t, freqs)\n"
    imports = "import torch\nfrom rope_kernels import rotate_half\nimport rope_lab as lab\n"
    source = _CHECK.split(cell.source)[0] + own
    names = run([imports, source], tmp_path / "answer.py")
    assert lab.check_exercise(names["mine"], lab.exercises.rope_in_pytorch)


# among the names of other cells, as all answers above

SOLVED = {(one.notebook, one.exercise): one for one in WRONG_ANSWERS}


@pytest.mark.parametrize("wrong", SOLVED.values(), ids=lambda one: f"{one.notebook}-{one.exercise}")
def test_a_solution_is_right_among_decoys(wrong, tmp_path):
    assert verdict_on(replace(wrong, instead={}), tmp_path / "answer.py")
