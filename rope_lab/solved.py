"""Which exercises of all notebooks a reader has solved, and which is next.

An exercise is solved when the check at the end of its cell says RIGHT. IPython reports each cell
that has run, and the line with the check identifies the exercise, because no two have the same
line. The ids of solved cells are stored with the reader's kernels, so new copies of the notebooks
don't change them. The list of exercises is read from the original notebooks.
"""

import functools
import html
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from IPython import get_ipython

from .records import QUIET
from .rungs import kept

ORIGINALS = Path(__file__).resolve().parents[1] / "notebooks"
DONE, OPEN = "✓", "○"
_TITLE = re.compile(r"^### Exercise (\d: .+?)(?: \([^()]*minutes(, optional)?\))?$", re.MULTILINE)
_STUB = re.compile(r"\d\d-ex\d")  # its id
_CHECK = re.compile(r"\b(?:check_\w+|inspect)\(")
_GET_A_NEW_COPY = "Rename the copy, and open the lab again to get the new one"


@dataclass(frozen=True)
class Exercise:
    """A notebook's exercise, read from its title and its cells."""

    notebook: str  # the file's name
    title: str  # '1: A scaled copy'
    optional: bool
    task: str  # the id of the cell with its title
    stubs: dict[str, str]  # the id of each of its cells -> the line with the check

    @property
    def name(self) -> str:
        """'Exercise 1: A scaled copy', and whether it is optional."""
        return f"Exercise {self.title}" + " (optional)" * self.optional


@functools.cache
def exercises_in(folder: Path) -> tuple[Exercise, ...]:
    """The exercises of all notebooks in a folder, in order."""
    return tuple(one for path in sorted(folder.glob("[0-9][0-9]_*.ipynb")) for one in _of(path))


def _of(path: Path) -> Iterator[Exercise]:
    task = None
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if titles := _TITLE.findall(source):
            if task:
                yield task
            title, optional = titles[-1]
            task = Exercise(path.name, title, bool(optional), task=cell["id"], stubs={})
        elif task and cell["cell_type"] == "code" and _STUB.fullmatch(cell["id"]):
            task.stubs[cell["id"]] = check_in(source)
    if task:
        yield task


def check_in(source: str) -> str:
    """The last line of a cell that checks something; '' if none does."""
    return next((x.strip() for x in reversed(source.splitlines()) if _CHECK.search(x)), "")


# what is kept


def _file() -> Path:
    return kept.folder() / "exercises.json"


def solved_cells() -> set[str]:
    """The ids of the cells that were judged right."""
    return set(json.loads(_file().read_text(encoding="utf-8"))) if _file().exists() else set()


def note(source: str, result: object) -> None:
    """Store that a cell with this source solved an exercise, unless it is a worked solution.

    Args:
        result: the value of the cell's last line; in an exercise, what its check returned.
    """
    # 'right in the interpreter' is the best verdict on a system without Triton's compiler
    is_right = bool(result) or getattr(result, "state", "").startswith("right")
    check = check_in(source)
    if not (is_right and check) or kept.is_a_worked_solution():
        return
    for exercise in exercises_in(ORIGINALS):
        for stub, its_check in exercise.stubs.items():
            if check == its_check and stub not in solved_cells():
                cells = json.dumps(sorted({*solved_cells(), stub}))
                _file().parent.mkdir(parents=True, exist_ok=True)
                _file().write_text(cells + "\n", encoding="utf-8")


def note_cells_from_now_on() -> None:
    """Have IPython report each cell, except where outputs are stored or compared.

    What is no longer in the lab can't tell an old copy that it is old, so this does.
    """

    def note_cell(ran) -> None:
        if words := outdated_import(ran.error_in_exec):
            print(words)
        try:
            if type(ran.result).__module__.startswith("rope_lab."):  # a tensor has no truth value
                note(ran.info.raw_cell, ran.result)
        except OSError as error:
            print(f"lab.progress() will not know of this exercise: {error}")

    shell = get_ipython()
    if shell and QUIET not in os.environ:
        shell.events.register("post_run_cell", note_cell)


# what is shown


@dataclass(frozen=True)
class Link:
    """Words that link to a cell of another notebook, if that file exists."""

    words: str
    notebook: str
    cell: str = ""  # '': the notebook's top

    @property
    def html(self) -> str:
        """A link that works in JupyterLab, from the running notebook."""
        up = "../" if Path.cwd().name in ("deeper", "solutions") else ""
        if not Path(up + self.notebook).exists():  # this notebook was copied without the others
            return html.escape(self.words)
        place = self.notebook + (f"#cell-id={self.cell}" if self.cell else "")
        return f'<a href="{up}{place}">{html.escape(self.words)}</a>'


@dataclass(frozen=True)
class Progress:
    """All exercises, done and open: a table in a notebook, text in a terminal."""

    done: tuple[Exercise, ...]
    open: tuple[Exercise, ...]

    @property
    def next(self) -> Exercise | None:
        """The first open one that isn't optional; if there is none, the first open one."""
        return next((one for one in self.open if not one.optional), next(iter(self.open), None))

    @property
    def summary(self) -> str:
        count = len(self.done)
        return f"{count} of {count + len(self.open)} exercises are done"

    def _by_notebook(self) -> dict[str, list[tuple[str, Exercise]]]:
        """Title of a notebook -> mark and exercise."""
        rows: dict[str, list[tuple[str, Exercise]]] = {}
        marks = [(DONE, one) for one in self.done] + [(OPEN, one) for one in self.open]
        for mark, one in sorted(marks, key=lambda row: (row[1].notebook, row[1].title)):
            rows.setdefault(_name_of(one.notebook), []).append((mark, one))
        return rows

    def __repr__(self) -> str:
        lines = []
        for notebook, rows in self._by_notebook().items():
            lines += [notebook, *(f"  {mark} {one.name}" for mark, one in rows)]
        if self.next:
            lines.append(f"next: {_name_of(self.next.notebook)}, {self.next.name}")
        return "\n".join([self.summary, *lines])

    def _repr_html_(self) -> str:
        lines = []
        for notebook, rows in self._by_notebook().items():
            shown = [f"{mark} {Link(one.name, one.notebook, one.task).html}" for mark, one in rows]
            cells = Link(notebook, rows[0][1].notebook).html, "<br>".join(shown)
            style = 'style="text-align: left; vertical-align: top"'
            lines.append("<tr>" + "".join(f"<td {style}>{cell}</td>" for cell in cells) + "</tr>")
        one = self.next
        words = f"{_name_of(one.notebook)}, {one.name}" if one else ""
        ahead = f". Next: {Link(words, one.notebook, one.task).html}" if one else ""
        return f"<p>{self.summary}{ahead}</p><table><tbody>{''.join(lines)}</tbody></table>"


def progress() -> Progress:
    """All exercises of all notebooks, done and open, and the next one.

    An exercise is done when its cell has said RIGHT once. This is stored in `my_notebooks/rungs`,
    like your kernels, and updates don't delete it.
    """
    cells = solved_cells()
    done = [one for one in exercises_in(ORIGINALS) if cells >= {*one.stubs}]
    rest = [one for one in exercises_in(ORIGINALS) if one not in done]
    return Progress(tuple(done), tuple(rest))


def older_copy(rung: int) -> str:
    """Whether the running notebook is a copy from when this rung was another kernel, in words.

    The cell of a rung's exercise gets another id when its number changes its meaning.
    """
    check = f"lab.check_rung({rung}, my_rope)"
    for exercise in exercises_in(ORIGINALS):
        for stub, its_check in exercise.stubs.items():
            stem = exercise.notebook.removesuffix(".ipynb")
            for name in (f"{stem}.ipynb", f"{stem}_solutions.ipynb"):
                copy = Path(name)
                if its_check == check and copy.exists() and stub not in _ids_in(copy):
                    words = f"this copy of {name} is old, and rung {rung} is another kernel now"
                    return f"{words}. {_GET_A_NEW_COPY}"
    return ""


def outdated_import(error: BaseException | None) -> str:
    """What it means in a notebook that the lab doesn't have what a cell imports, in words."""
    if not isinstance(error, ImportError) or (error.name or "").split(".")[0] != __package__:
        return ""
    return f"If you didn't write this import, this copy of the notebook is old. {_GET_A_NEW_COPY}"


def _ids_in(notebook: Path) -> set[str]:
    return {cell.get("id") for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]}


def after_rung(rung: int) -> Link | None:
    """What follows the exercise of a rung: the next one, or the notebook that has it."""
    exercises = exercises_in(ORIGINALS)
    check = f"lab.check_rung({rung}, my_rope)"
    places = [place for place, one in enumerate(exercises) if check in one.stubs.values()]
    if not places or places[0] + 1 == len(exercises):
        return None
    here, following = exercises[places[0] : places[0] + 2]
    if here.notebook == following.notebook:
        return Link(following.name, following.notebook, following.task)
    return Link(_name_of(following.notebook), following.notebook)


@functools.cache
def _name_of(notebook: str) -> str:
    """'04 A naive RoPE kernel', from its file's name."""
    cells = json.loads((ORIGINALS / notebook).read_text(encoding="utf-8"))["cells"]
    return "".join(cells[0]["source"]).partition("\n")[0].removeprefix("# ").replace(" ·", "")
