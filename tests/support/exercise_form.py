"""What holds of a notebook's exercises, as checks that take them and return complaints."""

import re
from dataclasses import dataclass

import nbformat

import make_site
from notebook_form import FOLDER, Notebook, names_of_notebooks

EXAM = "10-ex2"  # is repaired where it is, and its solution is not among the solutions
NUMBERS = [name[:2] for name in names_of_notebooks()]

TITLE = re.compile(r"^###? (Exercise (\d): .+?)(?: \(\d+ minutes.*\))?$", re.MULTILINE)
STUB = re.compile(r"\d\d-ex\d")  # the id of its cell, and of the cell with its solution
CHECK = re.compile(r"\b(check_(?:answer|choices|exercise|rung|timer|layer)|inspect)\(")


@dataclass(frozen=True)
class Exercises:
    """Those of a notebook, and their solutions."""

    book: Notebook
    solved: Notebook

    @property
    def stubs(self) -> dict[str, nbformat.NotebookNode]:
        """Id -> cell of the notebook, in order."""
        return _cells_of(self.book)

    @property
    def solutions(self) -> dict[str, nbformat.NotebookNode]:
        """Id -> cell of the solutions."""
        return _cells_of(self.solved)


def _cells_of(notebook: Notebook) -> dict[str, nbformat.NotebookNode]:
    return {cell.id: cell for cell in notebook.code if STUB.fullmatch(cell.id)}


def exercises_in(number: str) -> Exercises:
    """A notebook's, as '05'."""
    (path,) = FOLDER.glob(f"{number}_*.ipynb")
    solved = FOLDER / f"solutions/{path.stem}_solutions.ipynb"
    return Exercises(
        *(Notebook(p.name, nbformat.read(p, as_version=4), p.parent) for p in (path, solved))
    )


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


def checks_after_a_task_are_in_stubs(exercises: Exercises) -> list[str]:
    """The first cells after a task, up to the next text, and those called like one of its cells."""
    checks, after_a_task = [], False
    for cell in exercises.book.node.cells:
        if cell.cell_type == "markdown":
            after_a_task = bool(TITLE.search(cell.source))
        elif (after_a_task or "-ex" in cell.id) and CHECK.search(cell.source):
            checks.append(cell.id)
    return [
        f"{name} checks an answer, and has no name of a stub, as 05-ex3"
        for name in checks
        if name not in exercises.stubs
    ]


def solutions_have_the_check_of_their_stub(exercises: Exercises) -> list[str]:
    def from_the_check_on(cell) -> str:
        begin = re.search(
            r"lab\.(?:check|inspect)|^check_(?:timer|layer)\(", cell.source, re.MULTILINE
        ).start()
        # Where a stub's verdict doesn't say why, its solution's does, for who is stuck.
        return cell.source[begin:].replace(", explain=False)", ")")

    return [
        f"{name}: its solution has another check"
        for name, solution in exercises.solutions.items()
        if name in exercises.stubs
        and from_the_check_on(solution) != from_the_check_on(exercises.stubs[name])
    ]


CHECKS = (
    tasks_have_a_hint_and_a_solution_of_their_name,
    checks_after_a_task_are_in_stubs,
    solutions_have_the_check_of_their_stub,
)
