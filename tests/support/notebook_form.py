"""What holds of every notebook, as checks that take a `Notebook` and return complaints.

Checks of outputs and metadata look at what git has: a reader who runs an original and saves it
changes both, and breaks nothing. `test_hosted_copies.py` follows links.
"""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import nbformat

from processes import ROOT

FOLDER = ROOT / "notebooks"

THREE_EDITS = "three_edits.ipynb"  # it comes before the road

# conftest.py reads `measures`, and tools/readers_copies.py reads `answer`
TAGS = {"measures", "raises-exception", "answer"}
MAX_BYTES = 1_000_000


@dataclass
class Notebook:
    """A parsed notebook and the folder it lies in."""

    name: str
    node: nbformat.NotebookNode
    folder: Path = FOLDER

    @property
    def begins_with_a_table(self) -> bool:
        """Of minutes, sections and links: those of the road do, and detours."""
        return self.folder.name != "solutions" and self.name != THREE_EDITS

    @property
    def code(self) -> list:
        return [cell for cell in self.node.cells if cell.cell_type == "code"]

    @property
    def markdown(self) -> list:
        return [cell for cell in self.node.cells if cell.cell_type == "markdown"]

    @property
    def outputs(self) -> list:
        return [output for cell in self.code for output in cell.outputs]


def names_of_notebooks() -> list[str]:
    """Those of the road."""
    return sorted(path.name for path in FOLDER.glob("[0-9][0-9]_*.ipynb"))


def names_of_detours() -> list[str]:
    return sorted(f"deeper/{path.name}" for path in FOLDER.glob("deeper/[0-9][0-9]_*.ipynb"))


def load(name: str) -> Notebook:
    path = FOLDER / name
    return Notebook(path.name, nbformat.read(path, as_version=4), path.parent)


def load_stored(name: str) -> Notebook | None:
    """The notebook as it is in git's index; None where there is no git to ask.

    In CI, where nobody has opened a notebook, the file itself will do. The name may be that of a
    notebook in a subfolder.
    """
    path = FOLDER / name
    command = ["git", "show", f":notebooks/{name}"]
    try:
        text = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        text = None
    if text is None and os.environ.get("CI"):
        text = path.read_text(encoding="utf-8")
    if text is None:
        return None
    return Notebook(path.name, nbformat.reads(text, as_version=4), path.parent)


def tags_of(cell) -> set[str]:
    return set(cell.metadata.get("tags", []))


def small_and_normal(notebook: Notebook) -> list[str]:
    """Valid, under 1 MB, and with no metadata but tags: as `make notebooks` leaves it."""
    complaints = []
    try:
        nbformat.validate(notebook.node)
    except nbformat.ValidationError as error:
        complaints.append(f"invalid: {error.message}")
    size = len(nbformat.writes(notebook.node).encode())
    if size > MAX_BYTES:
        complaints.append(f"{size} bytes")
    if set(notebook.node.metadata) - {"kernelspec", "language_info"}:
        complaints.append("metadata of its own")
    if set(notebook.node.metadata.get("language_info", {})) - {"name"}:
        complaints.append("the version of a language in the metadata")
    for cell in notebook.node.cells:
        if set(cell.metadata) - {"tags"} or tags_of(cell) - TAGS:
            complaints.append(f"{cell.id}: metadata {dict(cell.metadata)}")
    for output in notebook.outputs:
        shown = output.get("metadata", {})
        of_picture = set(shown.get("image/png", {}))
        if set(shown) - {"image/png"} or of_picture - {"width", "height", "alt"}:
            complaints.append("an output with metadata")
    return complaints


def executed_from_top_to_bottom(notebook: Notebook) -> list[str]:
    """An unexecuted cell is not compared by nbval at all."""
    counts = [cell.execution_count for cell in notebook.code]
    wanted = list(range(1, len(counts) + 1))
    return [] if counts == wanted else [f"execution counts {counts}"]


def nothing_of_the_machine(notebook: Notebook) -> list[str]:
    """No stderr, no path, no traceback, nothing that differs between two machines."""
    complaints = []
    for output in notebook.outputs:
        text = json.dumps({k: v for k, v in output.items() if k != "data"}, ensure_ascii=False)
        shown = output.get("data", {})
        text += "".join(str(value) for kind, value in shown.items() if not kind.startswith("image"))
        if output.get("name") == "stderr":
            complaints.append(f"stderr: {output.text[:60]}")
        if output.get("traceback"):
            complaints.append("a traceback")
        if re.search(r"(?:^|[\s\"'(])(?:/[A-Za-z_.-]+){2,}|[A-Z]:\\\\", text):
            complaints.append(f"a path: {text[:80]}")
        if re.search(r"\bat 0x[0-9a-f]{6,}", text):
            complaints.append("an address in memory")
        if "image/svg+xml" in shown:
            complaints.append("an SVG, which nbval compares letter by letter")
    return complaints


def first_code_cell_picks_the_engine(notebook: Notebook) -> list[str]:
    """`lab` comes first; a notebook that imports Triton asks for it before, in one sentence."""
    first = notebook.code[0].source
    complaints = []
    if not first.startswith("import rope_lab as lab\n\nprint(lab.ENGINE)"):
        complaints.append("lab is not imported first")
    imports = re.compile(r"^(?:import|from) (?:triton|rope_lab\.steps)", re.MULTILINE)
    if any(imports.search(cell.source) for cell in notebook.code):
        before = imports.split(first)[0]
        if "lab.need_triton()" not in before:
            complaints.append("Triton is imported without lab.need_triton() before it")
    return complaints


def first_cell_leads_to_the_words(notebook: Notebook) -> list[str]:
    """To the glossary and the sheet of `tl.`; the very first cell says which keys there are."""
    if not notebook.begins_with_a_table:
        return []
    up = "../../" if notebook.folder.name == "deeper" else "../"
    pages = f"[glossary]({up}docs/glossary.md) · [`tl.` and PyTorch]({up}docs/triton_sheet.md)"
    wanted = [f"\n| Words | {pages} |\n"]
    if notebook.name.startswith("00_"):
        wanted += ["Shift+Enter", "Tab", "Shift+Tab"]
    first = notebook.markdown[0].source
    return [f"the first cell has no {words.strip()!r}" for words in wanted if words not in first]


class Time(NamedTuple):
    """Minutes that a notebook's first cell states."""

    core: int
    whole: int  # with optional parts
    core_sections: list[int]  # empty if the notebook has no core


def stated_time(first_cell: str) -> Time:
    """What the table of a first cell says about time."""
    sections = r"(?: for the core, sections? (?P<sections>[\d, -]+))?"
    row = (
        rf"^\| Time \| (?P<core>\d+) minutes{sections}(?:; (?P<whole>\d+) with optional parts)? \|$"
    )
    stated = re.search(row, first_cell, re.MULTILINE)
    core_sections = []
    for span in stated["sections"].split(",") if stated["sections"] else ():
        begin, _, end = span.strip().partition("-")
        core_sections += range(int(begin), int(end or begin) + 1)
    return Time(int(stated["core"]), int(stated["whole"] or stated["core"]), core_sections)


def numbers_follow_one_another(notebook: Notebook) -> list[str]:
    """Of displayed equations and of sections, which the first cell names by number."""
    if not notebook.begins_with_a_table:
        return []
    text = "\n".join(cell.source for cell in notebook.markdown)
    formulas = re.findall(r"\$\$(.+?)\$\$", text, re.DOTALL)
    tags = [re.search(r"\\tag\{(\d+)\}", formula) for formula in formulas]
    equations = [int(tag[1]) if tag else None for tag in tags]
    sections = [int(number) for number in re.findall(r"^## (\d+)\. ", text, re.M)]
    complaints = []
    for what, numbers in {"equations": equations, "sections": sections}.items():
        if numbers != list(range(1, len(numbers) + 1)):
            complaints.append(f"{what} are numbered {numbers}")
    core = stated_time(notebook.markdown[0].source).core_sections
    if not set(core) <= set(sections):
        complaints.append(f"of the core {core} some sections are not there")
    return complaints


def optional_headings_say_so(notebook: Notebook) -> list[str]:
    """So that a reader in the middle of a notebook sees what can be left out."""
    if not notebook.begins_with_a_table:
        return []
    core = stated_time(notebook.markdown[0].source).core_sections
    text = "\n".join(cell.source for cell in notebook.markdown)
    complaints, section_is_optional = [], False
    for level, heading in re.findall(r"^(##|###) (.+)$", text, re.MULTILINE):
        says_so, number = heading.endswith("optional)"), re.match(r"(\d+)\. ", heading)
        if level == "##":
            section_is_optional = bool(core and number) and int(number[1]) not in core
        if heading.startswith("Exercise"):
            is_wrong = section_is_optional and not says_so
        elif heading.startswith("To think about"):
            is_wrong = not says_so
        else:
            is_wrong = bool(core and number) and says_so != section_is_optional
        if is_wrong:
            complaints.append(f"is this optional? {heading}")
    return complaints


def rows_of_a_matrix_are_apart(notebook: Notebook) -> list[str]:
    r"""They end in `\\`; `\ `, a space in TeX, is what is left of it after a lost escape."""
    matrix = re.compile(r"\\begin\{([pb]?matrix|cases|aligned)\}(.*?)\\end\{\1\}", re.DOTALL)
    return [
        f"{cell.id}: {body}"
        for cell in notebook.markdown
        for _, body in matrix.findall(cell.source)
        if re.search(r"(?<!\\)\\\s", body)
    ]


def pictures_have_words(notebook: Notebook) -> list[str]:
    """For those who do not see them: images in the text, and figures."""
    complaints = []
    for cell in notebook.markdown:
        if re.search(r"!\[\s*\]\(|<img(?![^>]*\balt=\"[^\"]+\")", cell.source):
            complaints.append(f"{cell.id}: an image without alt text")
    for cell in notebook.code:
        for output in cell.outputs:
            described = output.get("metadata", {}).get("image/png", {}).get("alt")
            if "image/png" in output.get("data", {}) and not described:
                complaints.append(f"{cell.id}: a picture without a description")
    return complaints


def sliders_have_a_picture_and_are_moved(notebook: Notebook) -> list[str]:
    """GitHub shows the picture in place of the widgets; the next cell's output is compared."""
    complaints = []
    for place, cell in enumerate(notebook.code):
        for name in re.findall(r"^(\w+) = lab\.explore\(", cell.source, re.MULTILINE):
            if not any("image/png" in output.get("data", {}) for output in cell.outputs):
                complaints.append(f"{cell.id}: no picture for the widget")
            following = [later.source for later in notebook.code[place + 1 : place + 2]]
            if not any(f"{name}.said" in source for source in following):
                complaints.append(f"{cell.id}: the next cell doesn't move a slider")
    return complaints


# What JupyterLab changes when it runs and saves a notebook.
CHECKS_OF_WHAT_IS_STORED = (
    small_and_normal,
    executed_from_top_to_bottom,
    nothing_of_the_machine,
    pictures_have_words,
    sliders_have_a_picture_and_are_moved,
)
CHECKS_OF_WHAT_IS_WRITTEN = (
    first_code_cell_picks_the_engine,
    first_cell_leads_to_the_words,
    numbers_follow_one_another,
    optional_headings_say_so,
    rows_of_a_matrix_are_apart,
)
