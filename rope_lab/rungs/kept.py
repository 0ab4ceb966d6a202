"""A reader's own kernels: kept when a rung is judged right, and put where the next one begins.

Each is a file beside the reader's copies of the notebooks, `my_notebooks/rungs/rung_3.py`, with
the imports that it needs: `from rung_3 import my_rope` works there.
"""

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

from ..shipment import Shipment
from . import RUNGS, rung_of

FOLDER = "ROPE_LAB_RUNGS"  # a folder to take instead, for tests
_COPIES = "my_notebooks"  # as tools/readers_copies.py calls it
_ROOT = Path(__file__).resolve().parents[2]
_OTHER_ARGUMENTS = (2, 3)  # rungs whose kernels are called otherwise than those below
_WITH_A_BACKWARD = 4  # the first such rung
_IMPORTS = "import torch\nimport triton\nimport triton.language as tl\n"


def folder() -> Path:
    """Where the kernels are kept: with the reader's copies, wherever a notebook runs."""
    if FOLDER in os.environ:
        return Path(os.environ[FOLDER])
    here = Path.cwd()
    for place in (here, *here.parents):
        if place.name == _COPIES:
            return place / "rungs"
        if (place / "notebooks" / "00_start_here.ipynb").exists():
            return place / _COPIES / "rungs"
    return (_ROOT if (_ROOT / "notebooks").is_dir() else here) / _COPIES / "rungs"


def keep(rung: int, candidate: Callable) -> None:
    """Keep the source of a kernel that was judged right, but not a worked solution's."""
    if Path.cwd().name == "solutions" and FOLDER not in os.environ:
        return
    shipment = Shipment()
    shipment.add("my_rope", candidate)
    imports = [part for part in shipment.parts.values() if _is_import(part)]
    others = [part.strip() for part in shipment.parts.values() if part and not _is_import(part)]
    extra = "".join(f"{line}\n" for line in imports if line not in _KNOWN)
    path = folder() / f"rung_{rung}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n\n".join([_IMPORTS + extra, *others]) + "\n", encoding="utf-8")


def climbed() -> list[int]:
    """The rungs that have a kept kernel."""
    return sorted(int(path.stem.removeprefix("rung_")) for path in folder().glob("rung_?.py"))


def source_of(rung: int) -> str:
    """The text of a kept kernel with its imports."""
    return (folder() / f"rung_{rung}.py").read_text(encoding="utf-8")


def my_rope_of(rung: int) -> Callable:
    """The launcher of a kept kernel; raises what its file raises."""
    found = importlib.util.spec_from_file_location(f"rung_{rung}", folder() / f"rung_{rung}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.my_rope


def mine_or_ours() -> Callable:
    """The launcher of the reader's last kernel that has a backward; our last one without it."""
    own = [rung for rung in climbed() if rung >= _WITH_A_BACKWARD]
    return my_rope_of(own[-1]) if own else RUNGS[max(RUNGS)].module.my_rope


def offer(rung: int) -> str:
    """What a reader is told who has not begun yet; '' if there is nothing to begin with."""
    earlier = [number for number in climbed() if number < rung]
    if not earlier:
        return ""
    words = f"your own kernel of rung {earlier[-1]} is kept. To begin with it, uncomment"
    return f"{words} lab.mine({rung}) in the first line"


def mine(rung: int) -> None:
    """Put the reader's own kernel of a rung below into this cell, with the check of this rung.

    Rungs 2 and 3 have other arguments: there the cell gets their frame, and the kernel as comments
    to take lines from. Without a kept kernel, ours. What the cell had before is kept in a file. In
    a terminal the text is printed.

    Args:
        rung: the one to reach, 2 to 7; 8 for the kernel of the last one.
    """
    rung_of(rung - 1)
    earlier = [number for number in climbed() if number < rung]
    if not earlier:
        first = f"# no kernel of yours below rung {rung} is kept: this is our rung {rung - 1}"
        _put(rung, first, RUNGS[rung - 1].source, f"our kernel of rung {rung - 1}")
        return
    first = f"# lab.ours({rung})  # to begin with our kernel of rung {rung - 1} instead"
    text = source_of(earlier[-1]).removeprefix(_IMPORTS)
    _put(rung, first, text, f"your own kernel of rung {earlier[-1]}")


def ours(rung: int) -> None:
    """Put our kernel of the rung below into this cell, as `mine` does with the reader's own."""
    first = f"# lab.mine({rung})  # to begin with your own kernel instead"
    _put(rung, first, rung_of(rung - 1).source, f"our kernel of rung {rung - 1}")


def brought_here() -> bool:
    """Whether `mine` or `ours` gave the running cell a new text."""
    shell = _shell()
    return shell is not None and shell.get_parent()["header"]["msg_id"] in _brought


_brought: set[str] = set()  # executions of cells that called `mine` or `ours`


def _put(rung: int, first: str, text: str, what: str) -> None:
    """Give the running cell another text, and keep what it had: it may be the reader's work."""
    text = text.strip()
    if rung in _OTHER_ARGUMENTS:
        lines = (f"# {line}".rstrip() for line in text.splitlines())
        text = "\n".join([_frame(rung), "", "", "# the kernel to take lines from:", *lines])
        what += ", as comments below an empty body"
    check = f"\n\n\nlab.check_rung({rung}, my_rope)" if rung in RUNGS else ""
    cell = f"{first}\n{text}{check}"
    shell = _shell()
    if shell is None:
        print(cell)
        return
    running, path = shell.get_parent(), folder() / f"replaced_{rung}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{running['content']['code'].strip()}\n\n\n")
    shell.set_next_input(cell, replace=True)
    print(
        f"This cell now has {what}. Edit it, then run the cell again. "
        f"What it had before is at the end of {os.path.relpath(path)}."
    )
    _brought.add(running["header"]["msg_id"])


def _shell():
    """IPython's, in a Jupyter kernel; elsewhere None."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    shell = get_ipython()
    return shell if hasattr(shell, "kernel") else None


def _frame(rung: int) -> str:
    """Signature and launcher of a rung, and an empty body."""
    head, _, rest = RUNGS[rung].source.partition("):\n")
    launcher = rest[rest.index("def my_rope(") :].strip()
    return f"{head}):\n    pass  # your lines\n\n\n{launcher}"


def _is_import(part: str) -> bool:
    return all(line.startswith(("import ", "from ")) for line in part.splitlines()) and bool(part)


_KNOWN = (
    "import torch as torch",
    "import triton as triton",
    "import triton.language as tl",
)
