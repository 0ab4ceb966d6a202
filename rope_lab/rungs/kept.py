"""A reader's own kernels: stored when a rung is judged right, and used in a model later.

Each is a file next to the reader's copies of the notebooks, `my_notebooks/rungs/rung_3.py`, with
the imports that it needs: `from rung_3 import my_rope` works there.
"""

import os
from collections.abc import Callable
from pathlib import Path

from ..records import QUIET, records_folder
from ..source import FoldedSource
from ..standalone import Standalone, module_of_file
from . import RUNGS, rung_of

FOLDER = "ROPE_LAB_RUNGS"  # another folder to use; tools/hosted.py and tests set it
_WITH_A_BACKWARD = 4  # the first such rung
# The first line of a kept kernel. It counts up when the numbers of rungs change their meaning.
_LADDER = "# ladder 2"
_IMPORTS = f"{_LADDER}\nimport torch\nimport triton\nimport triton.language as tl\n"
_KNOWN = ("import torch as torch", "import triton as triton", "import triton.language as tl")


def folder() -> Path:
    """Where the kernels are kept: with the reader's copies, or where `FOLDER` says."""
    if FOLDER in os.environ:
        return Path(os.environ[FOLDER])
    notebooks = records_folder().resolve().parent  # the copies have a link to their records
    return notebooks.with_name("my_notebooks") / "rungs"  # the name in tools/readers_copies.py


def keep(rung: int, candidate: Callable) -> None:
    """Keep the source of a kernel that was judged right, but not a worked solution's."""
    if is_a_worked_solution():
        return
    module = Standalone()
    module.add("my_rope", candidate)
    parts = [part.strip() for part in module.parts.values() if part not in _KNOWN]
    path = folder() / f"rung_{rung}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n\n".join([_IMPORTS, *parts]) + "\n", encoding="utf-8")


def is_a_worked_solution() -> bool:
    """Whether a notebook of solutions runs, whose answers are not the reader's."""
    return Path.cwd().name == "solutions" and FOLDER not in os.environ


def climbed() -> list[int]:
    """The rungs that have a kept kernel."""
    return sorted(rung for path, rung in _files() if _is_of_this_ladder(path))


def set_aside() -> str:
    """Move kernels of an older ladder into a folder of their own; a sentence if there are any."""
    older = [path for path, _ in _files() if not _is_of_this_ladder(path)]
    for path in older:
        path.parent.joinpath("older").mkdir(exist_ok=True)
        path.replace(path.parent / "older" / path.name)
    words = "rungs have other numbers now, so your kernels of before are in"
    return f"{words} {older[0].parent.name}/older" if older else ""


def _files() -> list[tuple[Path, int]]:
    return [(path, int(path.stem.removeprefix("rung_"))) for path in folder().glob("rung_?.py")]


def _is_of_this_ladder(path: Path) -> bool:
    return path.read_text(encoding="utf-8").startswith(_LADDER)


def mine_or_ours() -> Callable:
    """The launcher of the reader's last kernel that has a backward.

    It is our last one if the reader has none, or if outputs are compared or records are taken.
    Raises the errors of the file with the reader's kernel.
    """
    own = [rung for rung in climbed() if rung >= _WITH_A_BACKWARD]
    if QUIET in os.environ or not own:
        return RUNGS[max(RUNGS)].module.my_rope
    return module_of_file(folder() / f"rung_{own[-1]}.py").my_rope


def show_rung(rung: int) -> FoldedSource:
    """The kernel and launcher of a rung, folded, to copy into a cell and edit.

    They are your own if your rung was right. Otherwise, and in tests of outputs, they are ours.

    Raises:
        ValueError: there is no such rung.
    """
    ours = rung_of(rung)
    path = folder() / f"rung_{rung}.py"
    if QUIET not in os.environ and rung in climbed():
        text = path.read_text(encoding="utf-8").removeprefix(_IMPORTS)
        return FoldedSource(f"Rung {rung} to copy: your own", text.strip())
    return FoldedSource(f"Rung {rung} to copy: ours", ours.source.strip())
