"""`make exercise`: cells of a draft, in a copy of notebook 05 and of its solutions."""

import shutil
from dataclasses import replace

import nbformat
import pytest

import add_exercise
import exercise_form
from notebook_form import CHECKS_OF_WHAT_IS_WRITTEN, FOLDER
from rope_lab.judge.exercise import Exercise, WrongAnswer
from rope_lab.n05 import exercises

NAME = "05_fused_half_split"
ENTRIES = add_exercise.exercises_of(exercises)
FREE = add_exercise.free_id(ENTRIES, "05")
DRAFT = """\
<!-- what to do -->
# The first half again (5 minutes, optional)

after: 05-87
<!-- an id -->

## Task

Load *half* a table.

## Hint

Half of it.

## Stub

```python
def again(t, freqs):
    raise NotImplementedError("write a kernel here")


lab.check_exercise(again, exercises.rope_by_first_half)
```

## Solution

```python
def again(t, freqs):
    return rung_2_row.my_rope(t, freqs)


lab.check_exercise(again, exercises.rope_by_first_half)
```

## Look back

It was half.
"""
ENTRY = Exercise(
    cell=FREE,
    judged_by=exercises.rope_by_first_half,
    wrong_answers=(
        WrongAnswer(
            mistake="minus the angle",
            instead={"my_rope(t, freqs)": "my_rope(t, -freqs)"},
            told="it rotates by minus the angle",
        ),
        WrongAnswer(
            mistake="unchanged",
            instead={"rung_2_row.my_rope(t, freqs)": "t"},
            told="it comes out as it came",
        ),
    ),
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "solutions").mkdir()
    for name in (f"{NAME}.ipynb", f"solutions/{NAME}_solutions.ipynb"):
        shutil.copy(FOLDER / name, tmp_path / name)
    return tmp_path


def mention_an_exercise(folder):
    """Its number changes, and the command can't know what the sentence says of it."""
    path = folder / f"{NAME}.ipynb"
    book = nbformat.read(path, 4)
    recap = [cell for cell in book.cells if cell.cell_type == "markdown"][-1]
    recap.source += "\n\nIt rotates as the kernel of exercise 3 does."
    nbformat.write(book, path)


def added(folder, draft=DRAFT, entries=(*ENTRIES, ENTRY)):
    return add_exercise.add(add_exercise.read(draft), folder / f"{NAME}.ipynb", entries)


def copied(folder, entries=(*ENTRIES, ENTRY)):
    """The exercises of the copy, whose links are looked for beside the originals."""
    found = exercise_form.exercises_in("05", folder)
    book = replace(found.book, folder=FOLDER)
    solved = replace(found.solved, folder=FOLDER / "solutions")
    return replace(found, entries=entries, book=book, solved=solved)


def test_an_added_exercise_has_the_form_of_the_others(folder):
    mention_an_exercise(folder)
    lines = added(folder)
    found = copied(folder)
    assert [fault for check in exercise_form.CHECKS for fault in check(found)] == []
    for notebook in (found.book, found.solved):
        faults = [fault for check in CHECKS_OF_WHAT_IS_WRITTEN for fault in check(notebook)]
        assert faults == []
    assert lines[0] == f"Added {FREE}, exercise 3, to {NAME}.ipynb and its solutions."
    assert any("as the kernel of exercise 3 does" in line for line in lines[1:])


def test_exercises_after_it_get_the_next_number(folder):
    before = copied(folder, ENTRIES)
    added(folder)
    after = copied(folder)
    titles = [
        cell.source.partition("### ")[2].partition(" (")[0]
        for cell in after.book.markdown
        if "### Exercise" in cell.source
    ]
    assert titles[2:4] == ["Exercise 3: The first half again", "Exercise 4: Half a table"]
    assert "#Exercise-4:-Half-a-table" in str(after.book.node)
    for old, new in ((before.book, after.book), (before.solved, after.solved)):
        kept = [cell for cell in new.node.cells if not cell.id.startswith(FREE)]
        assert [cell.id for cell in kept] == [cell.id for cell in old.node.cells]
        pairs = zip(old.code, (cell for cell in kept if cell.cell_type == "code"), strict=True)
        assert all(one == other for one, other in pairs)


REFUSED = {  # what is changed in the draft, and words of the refusal
    "no title": ("# The first half again (5 minutes, optional)", "", "no title like '# Half"),
    "no minutes": (" (5 minutes, optional)", "", "no title like '# Half"),
    "no place": ("after: 05-87", "after:", "does not say where: 'after: 05-41'"),
    "an unknown cell": (
        "05-87",
        "05-none",
        "after: 05-none is no cell of the notebook:\n    05-00 ",
    ),
    "a task and its stub": ("05-87", "05-ex2-task", "a task, and its stub, 05-ex2, has to follow"),
    "no hint": ("Half of it.", "<!-- what -->", "has nothing in '## Hint': What to think of"),
    "no part": ("## Look back\n", "", "has nothing in '## Look back'"),
    "words in the stub": ("## Stub\n", "## Stub\n\nHere:", "'## Stub' has to be one block"),
    "no Python": (
        "def again(t, freqs):\n    return",
        "def again(t:\n    return",
        "of '## Solution'",
    ),
    "no check": ("lab.check_exercise", "print", "'## Stub' has no check, such as lab.check_"),
    "other checks": ("first_half)\n```\n\n## Look", "half)\n```\n\n## Look", "different checks"),
    "another solution": ("my_rope(t, freqs)", "my_rope(t, table)", "'minus the angle': 'my_rope(t"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_draft_that_does_not_fit_is_refused_and_nothing_written(what, folder):
    old, new, said = REFUSED[what]
    assert old in DRAFT
    refused(folder, said, draft=DRAFT.replace(old, new))


ENTRIES_REFUSED = {  # the new entries, and words of the refusal
    "none": ([], f'write the new one first: Exercise(cell="{FREE}", ...)'),
    "two": ([ENTRY, replace(ENTRY, cell="05-ex99")], f"2 entries without a cell, {FREE}, 05-ex99"),
    "another form": ([replace(ENTRY, cell="05-a6")], "'05-a6' is no id like '05-ex6'"),
    "another notebook's": ([replace(ENTRY, cell="04-ex6")], "'04-ex6' is no id like '05-ex6'"),
}


@pytest.mark.parametrize("what", ENTRIES_REFUSED)
def test_an_entry_that_does_not_fit_is_refused_and_nothing_written(what, folder):
    new, said = ENTRIES_REFUSED[what]
    refused(folder, said, entries=(*ENTRIES, *new))


def test_a_specification_that_fails_by_itself_is_refused_and_nothing_written(folder):
    """Else each answer is WRONG, the solution too, for something that it has not done."""

    def forgets_an_import(t, freqs):
        return forgotten.cat((t, freqs))  # noqa: F821

    for judged_by in (
        replace(exercises.rope_by_first_half, function=forgets_an_import),
        (exercises.RUNGS[2], replace(exercises.rope_by_first_half, function=forgets_an_import)),
    ):
        entry = replace(ENTRY, judged_by=judged_by)
        said = f"{FREE}: what judges it fails by itself: NameError: name 'forgotten' is not defined"
        refused(folder, said, entries=(*ENTRIES, entry))


def test_an_id_is_not_taken_twice(folder):
    added(folder)
    notebook = folder / f"{NAME}.ipynb"
    text = notebook.read_text(encoding="utf-8")
    notebook.write_text(text.replace(f'"id": "{FREE}"', '"id": "05-06"'), encoding="utf-8")
    refused(folder, f"the id {FREE} is taken")


def refused(folder, said, **given):
    files = [path for path in folder.rglob("*") if path.is_file()]
    before = [path.read_bytes() for path in files]
    with pytest.raises(ValueError) as raised:
        added(folder, **given)
    assert said in str(raised.value)
    assert [path.read_bytes() for path in files] == before
