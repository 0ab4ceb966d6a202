"""Add an exercise's cells to a notebook and to its solutions: `make exercise N=05` runs this.

    python tools/add_exercise.py 05

The texts are those of a draft in Markdown, exercise_05.md; where there is none, an empty one is
written, which says what to fill in. The cells' id is that of the entry in rope_lab/n05/exercises.py
that has no cell yet. Exercises after it get the next number. Nothing is written unless all fits.
"""

import ast
import re
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell

from make_site import anchor
from rope_lab.judge.exercise import Exercise, WrongValue, exercises_of
from rope_lab.judge.spec import Spec

ROOT = Path(__file__).resolve().parents[1]
PARTS = {
    "Task": "What to do. It may have equations and tables, and a **Predict.**",
    "Hint": "What to think of, not what to write.",
    "Stub": "A block ```python that raises NotImplementedError, or has None for a number.\n"
    "It ends in its check, such as lab.check_exercise(mine, exercises.NAME).",
    "Solution": "A block ```python that ends in the same check.",
    "Look back": "What is to be learned from it, and from what is often wrong.",
}
TEMPLATE = """\
<!-- Fill this in, and write the entry of exercise {free} in rope_lab/n{number}/exercises.py. Then
`make exercise N={number}` adds the cells. Git ignores this file; comments are left out. -->

# Title (10 minutes, optional)

after:
<!-- The id of the cell that it comes after, the last one of what it follows:

{cells}
-->
{parts}"""
_TITLE = re.compile(r"^# (?P<title>.+?) \((?P<minutes>\d+ minutes(?:, optional)?)\)$", re.MULTILINE)
_AFTER = re.compile(r"^after: (\S+)$", re.MULTILINE)
_BLOCK = re.compile(r"```python\n(.*?)\n*```", re.DOTALL)
_TASK = re.compile(r"^##+ Exercise (\d): ", re.MULTILINE)
_NUMBER = re.compile(r"(?<=# Exercise )\d(?=: )|(?<=#Exercise-)\d(?=:-)")  # a heading's, a link's


@dataclass(frozen=True)
class Draft:
    """What the cells say."""

    title: str
    minutes: str  # '10 minutes' or '10 minutes, optional'
    after: str  # the id of a cell
    parts: dict[str, str]  # `PARTS` -> Markdown, or Python


def read(text: str) -> Draft:
    """A draft in the form of `TEMPLATE`.

    Raises:
        ValueError: a part is missing, or isn't what it should be.
    """
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    head, *rest = re.split(rf"^## ({'|'.join(PARTS)})$", text, flags=re.MULTILINE)
    parts = {name: part.strip() for name, part in zip(rest[::2], rest[1::2], strict=True)}
    title, after = _TITLE.search(head), _AFTER.search(head)
    if not title:
        raise ValueError("the draft has no title like '# Half a table (5 minutes, optional)'")
    if not after:
        raise ValueError("the draft does not say where: 'after: 05-41', the id of a cell")
    for name, what in PARTS.items():
        if not parts.get(name):
            raise ValueError(f"the draft has nothing in '## {name}': {what}")
    for name in ("Stub", "Solution"):
        block = _BLOCK.fullmatch(parts[name])
        if not block:
            raise ValueError(f"'## {name}' has to be one block that begins with ```python")
        try:
            ast.parse(block[1])
        except SyntaxError as error:
            raise ValueError(f"line {error.lineno} of '## {name}': {error.msg}") from error
        parts[name] = block[1]
    return Draft(title["title"], title["minutes"], after[1], parts)


def add(draft: Draft, path: Path, entries: list[Exercise]) -> list[str]:
    """Write the cells.

    Args:
        path: of the notebook; its solutions are beside it, in a folder of their own.
        entries: those of its `exercises.py`, one of them new.

    Returns:
        What to look at now, a line each.

    Raises:
        ValueError: something does not fit, and nothing is written.
    """
    solved_path = path.parent / f"solutions/{path.stem}_solutions.ipynb"
    notebook, solved = (nbformat.read(file, as_version=4) for file in (path, solved_path))
    entry = _new_one(entries, notebook, solved, path.name[:2])
    _check(draft, entry)
    place = _place(draft.after, notebook.cells)
    number = 1 + sum(bool(_TASK.search(cell.source)) for cell in notebook.cells[:place])
    moved = [*_moved_up(notebook, number), *_moved_up(solved, number)]

    name = f"Exercise {number}: {draft.title}"
    notebook.cells[place:place] = [
        new_markdown_cell(
            f"### {name} ({draft.minutes})\n\n{draft.parts['Task']}\n\n"
            f"<details><summary>Hint</summary>\n\n{draft.parts['Hint']}\n\n</details>\n\n"
            f"[Solution](solutions/{solved_path.name}#{anchor(name)})",
            id=f"{entry.cell}-task",
        ),
        new_code_cell(draft.parts["Stub"], id=entry.cell),
    ]
    following = (
        at for at, cell in enumerate(solved.cells) if f"## Exercise {number + 1}: " in cell.source
    )
    place = next(following, len(solved.cells))
    solved.cells[place:place] = [
        new_markdown_cell(
            f"## {name}\n\n[Back to the exercise](../{path.name})", id=f"{entry.cell}-task"
        ),
        new_code_cell(draft.parts["Solution"], id=entry.cell),
        new_markdown_cell(draft.parts["Look back"], id=f"{entry.cell}-after0"),
    ]
    nbformat.write(notebook, path)
    nbformat.write(solved, solved_path)
    return [f"Added {entry.cell}, exercise {number}, to {path.name} and its solutions.", *moved]


def free_id(entries: list[Exercise], number: str) -> str:
    """The next one, '05-ex6'."""
    taken = [int(entry.cell.partition("-ex")[2] or 0) for entry in entries]
    return f"{number}-ex{max(taken, default=0) + 1}"


def _new_one(
    entries: list[Exercise],
    notebook: nbformat.NotebookNode,
    solved: nbformat.NotebookNode,
    number: str,
) -> Exercise:
    """The entry that has no cell yet."""
    here = {cell.id for cell in notebook.cells}
    new = [entry for entry in entries if entry.cell not in here]
    file = f"rope_lab/n{number}/exercises.py"
    if not new:
        wanted = f'Exercise(cell="{free_id(entries, number)}", ...)'
        raise ValueError(f"every entry of {file} has its cell; write the new one first: {wanted}")
    if len(new) > 1:
        names = ", ".join(entry.cell for entry in new)
        raise ValueError(f"{file} has {len(new)} entries without a cell, {names}: add one by one")
    (entry,) = new
    if not re.fullmatch(rf"{number}-ex\d+", entry.cell):
        raise ValueError(f"{entry.cell!r} is no id like '{number}-ex6' for a stub")
    ids = here | {cell.id for cell in solved.cells}
    if taken := ids & {entry.cell, f"{entry.cell}-task", f"{entry.cell}-after0"}:
        raise ValueError(f"the id {min(taken)} is taken; see {number}_*.ipynb and its solutions")
    return entry


def _check(draft: Draft, entry: Exercise) -> None:
    """Do stub, solution and entry belong together?"""
    checks = []
    for name in ("Stub", "Solution"):
        found = re.search(r"lab\.(check|inspect)", draft.parts[name])
        if not found:
            raise ValueError(f"'## {name}' has no check, such as lab.check_exercise(mine, ...)")
        checks.append(draft.parts[name][found.start() :])
    if checks[0] != checks[1]:
        raise ValueError("'## Stub' and '## Solution' end in different checks")
    for wrong in entry.wrong_answers:
        if not isinstance(wrong, WrongValue):
            try:
                wrong.made_of(draft.parts["Solution"])
            except ValueError as error:
                raise ValueError(f"{entry.cell}, {wrong.mistake!r}: {error}") from error
    judges = entry.judged_by if isinstance(entry.judged_by, tuple) else (entry.judged_by,)
    for judge in judges:
        if isinstance(judge, Spec):
            _refuse_to_fail(judge, entry.cell)


def _refuse_to_fail(judge: Spec, cell: str) -> None:
    """Raise `ValueError` if a specification fails by itself: each answer would be told that."""
    try:
        for case in judge.cases:
            judge(*judge.inputs(case))
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise ValueError(f"{cell}: what judges it fails by itself: {said}") from error


def _place(after: str, cells: list[nbformat.NotebookNode]) -> int:
    """That of the cell that follows."""
    ids = [cell.id for cell in cells]
    if after not in ids:
        raise ValueError(f"after: {after} is no cell of the notebook:\n{_listed(cells)}")
    place = ids.index(after) + 1
    if _TASK.search(cells[place - 1].source) and place < len(cells):
        raise ValueError(f"after: {after} is a task, and its stub, {ids[place]}, has to follow it")
    return place


def _listed(cells: list[nbformat.NotebookNode]) -> str:
    """Ids, and how the cells begin."""
    begins = ((cell.id, cell.source.partition("\n")[0][:60]) for cell in cells)
    return "\n".join(f"    {name:12} {begin}" for name, begin in begins)


def _moved_up(notebook: nbformat.NotebookNode, first: int) -> list[str]:
    """Give exercises from this number on the next one; return lines of text with an old one."""

    def next_one(found: re.Match) -> str:
        return str(int(found[0]) + (int(found[0]) >= first))

    with_an_old_one = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _NUMBER.sub(next_one, cell.source)
        for line in cell.source.splitlines():
            mentioned = re.findall(r"\b[Ee]xercise (\d)\b(?!: )", line)
            if any(int(number) >= first for number in mentioned):
                with_an_old_one.append(f"An old number in {cell.id}: {line.strip()}")
    return with_an_old_one


def main(number: str) -> None:
    """Add what is drafted, or write an empty draft."""
    paths = list((ROOT / "notebooks").glob(f"{number}_*.ipynb"))
    if len(paths) != 1:
        sys.exit(f"error: no notebook {number!r}; say which one: make exercise N=04")
    entries = exercises_of(import_module(f"rope_lab.n{number}.exercises"))
    file = ROOT / f"exercise_{number}.md"
    if not file.exists():
        cells = _listed(nbformat.read(paths[0], as_version=4).cells)
        parts = "".join(f"\n## {name}\n\n<!-- {what} -->\n" for name, what in PARTS.items())
        free = free_id(entries, number)
        text = TEMPLATE.format(free=free, number=number, cells=cells, parts=parts)
        file.write_text(text, encoding="utf-8")
        print(f"Wrote {file.name}. Fill it in, and write the entry of exercise {free} in")
        print(f"rope_lab/n{number}/exercises.py. Then run this again.")
        return
    try:
        lines = add(read(file.read_text(encoding="utf-8")), paths[0], entries)
    except ValueError as error:
        sys.exit(f"error: {error}")
    print(*lines, sep="\n")
    print("Now have the answers judged, until what you foresaw is told:")
    print(f"    pytest tests/notebooks/test_answers_in_notebooks.py -k {number}")
    print(f"Then `make times`, make notebook N={number}, and pytest tests/notebooks -k {number}.")
    print(f"{file.name} may go.")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
