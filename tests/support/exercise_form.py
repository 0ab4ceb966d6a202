"""What holds of a notebook's exercises, as checks that take them and return complaints."""

import re
from dataclasses import dataclass
from importlib import import_module

import nbformat

import make_site
from exercise import Exercise, exercises_of
from notebook_form import FOLDER, Notebook, names_of_notebooks

EXAM = "10-ex2"  # is repaired where it is, and its solution is not among the solutions
NUMBERS = [name[:2] for name in names_of_notebooks()]

TITLE = re.compile(r"^###? (Exercise (\d): .+?)(?: \(\d+ minutes.*\))?$", re.MULTILINE)
CHECK = re.compile(r"\b(check_(?:answer|choices|exercise|rung|timer)|inspect)\(")


@dataclass(frozen=True)
class Exercises:
    """Those of a notebook: their entries, and the cells that these are about."""

    entries: list[Exercise]
    book: Notebook
    solved: Notebook

    @property
    def stubs(self) -> dict[str, nbformat.NotebookNode]:
        """Id -> cell of the notebook, of each entry that has one there."""
        return self._cells_of(self.book)

    @property
    def solutions(self) -> dict[str, nbformat.NotebookNode]:
        """Id -> cell of the solutions."""
        return self._cells_of(self.solved)

    def _cells_of(self, notebook: Notebook) -> dict[str, nbformat.NotebookNode]:
        ids = {entry.cell for entry in self.entries}
        return {cell.id: cell for cell in notebook.code if cell.id in ids}


def exercises_in(number: str) -> Exercises:
    """A notebook's, as '05'."""
    (path,) = FOLDER.glob(f"{number}_*.ipynb")
    solved = FOLDER / f"solutions/{path.stem}_solutions.ipynb"
    books = [Notebook(p.name, nbformat.read(p, as_version=4), p.parent) for p in (path, solved)]
    return Exercises(exercises_of(import_module(f"answers_{number}")), *books)


def _tasks(notebook: Notebook) -> dict[str, str]:
    """Title -> text of each exercise, in order."""
    found = ((TITLE.search(cell.source), cell.source) for cell in notebook.markdown)
    return {title[1]: text for title, text in found if title}


def tasks_have_a_hint_and_a_solution_of_their_name(exercises: Exercises) -> list[str]:
    asked, solved = _tasks(exercises.book), list(_tasks(exercises.solved))
    numbers = [int(re.search(r"\d", title)[0]) for title in asked]
    complaints = []
    if numbers != list(range(1, len(asked) + 1)):
        complaints.append(f"exercises are numbered {numbers}")
    wanted = list(asked)[: -1 if EXAM in exercises.stubs else None]
    if solved != wanted:
        complaints.append(f"asked are {wanted}, solved {solved}")
    for title in wanted:
        if "<details><summary>Hint</summary>\n\n" not in asked[title]:
            complaints.append(f"{title}: no hint")
        link = f"solutions/{exercises.solved.name}#{make_site.anchor(title)}"
        if f"[Solution]({link})" not in asked[title]:
            complaints.append(f"{title}: no link to {link}")
    return complaints


def stubs_have_an_entry_each(exercises: Exercises) -> list[str]:
    """A stub is a cell with a check between a task and the next text, or one called `05-ex3`.

    `test_solved.py` sees that an entry has a stub.
    """
    stubs, after_a_task = [], False
    for cell in exercises.book.node.cells:
        if cell.cell_type == "markdown":
            after_a_task = bool(TITLE.search(cell.source))
        elif (after_a_task or "-ex" in cell.id) and CHECK.search(cell.source):
            stubs.append(cell.id)
    return [
        f"{name} is a stub, and no entry of answers_NN.py"
        for name in stubs
        if name not in exercises.stubs
    ]


def solutions_have_the_check_of_their_stub(exercises: Exercises) -> list[str]:
    def from_the_check_on(cell) -> str:
        return cell.source[
            re.search(r"lab\.(?:check|inspect)|^check_timer\(", cell.source, re.MULTILINE).start() :
        ]

    return [
        f"{name}: its solution has another check"
        for name, solution in exercises.solutions.items()
        if name in exercises.stubs
        and from_the_check_on(solution) != from_the_check_on(exercises.stubs[name])
    ]


CHECKS = (
    tasks_have_a_hint_and_a_solution_of_their_name,
    stubs_have_an_entry_each,
    solutions_have_the_check_of_their_stub,
)
