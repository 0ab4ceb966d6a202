"""What holds of every notebook, as checks that take a `Notebook` and return complaints.

Checks of outputs and metadata look at what git has: a reader who runs an original and saves it
changes both, and breaks nothing.
"""

import base64
import io
import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import nbformat
from PIL import Image

import reading_time

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks"

TAGS = {"measures", "raises-exception"}  # conftest.py reads `measures`
# where a notebook's experiments are, if not in its cells
EXPERIMENTS = {
    "06": "rope_lab/steps/tunings.py",
    "10": "tools/recording/races.py",
}
MAX_BYTES = 1_000_000
PLATE = (250, 250, 250, 255)  # what figures are drawn on


@dataclass
class Notebook:
    """A parsed notebook and the folder it lies in."""

    name: str
    node: nbformat.NotebookNode
    folder: Path = FOLDER

    @property
    def number(self) -> str:
        return self.name[:2]

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


def names_that_hold_measurements(notebook: Notebook) -> set[str]:
    source = "\n".join(cell.source for cell in notebook.code)
    return set(re.findall(r"^(\w+) = lab\.(?:bench|observe)\(", source, re.MULTILINE))


def what_is_left_uncompared_measures(notebook: Notebook) -> list[str]:
    """On a GPU only cells that measure are not compared; elsewhere, all are."""
    ignored = [c for c in notebook.code if "measures" in tags_of(c)]
    complaints = []
    measured = "|".join(names_that_hold_measurements(notebook)) or "$^"
    reason = re.compile(rf"lab\.(?:bench|observe)\b|\b(?:{measured})\b")
    for cell in ignored:
        if not reason.search(cell.source):
            complaints.append(f"{cell.id} is ignored, and does not measure")
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


def numbers_follow_one_another(notebook: Notebook) -> list[str]:
    """Of displayed equations and of sections, which the first cell names by number."""
    text = "\n".join(cell.source for cell in notebook.markdown)
    formulas = re.findall(r"\$\$(.+?)\$\$", text, re.DOTALL)
    tags = [re.search(r"\\tag\{(\d+)\}", formula) for formula in formulas]
    equations = [int(tag[1]) if tag else None for tag in tags]
    sections = [int(number) for number in re.findall(r"^## (\d+)\. ", text, re.M)]
    complaints = []
    for what, numbers in {"equations": equations, "sections": sections}.items():
        if numbers != list(range(1, len(numbers) + 1)):
            complaints.append(f"{what} are numbered {numbers}")
    _, core = reading_time.stated_time(notebook.markdown[0].source)
    if not set(core) <= set(sections):
        complaints.append(f"of the core {core} some sections are not there")
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


def predictions_are_looked_back_at(notebook: Notebook) -> list[str]:
    """Predict, then a code cell, then a look back, in turn."""
    complaints, open_prediction = [], None
    cells = notebook.node.cells
    for place, cell in enumerate(cells):
        if cell.cell_type != "markdown":
            continue
        for word in re.findall(r"\*\*(Look back|Predict)[.*]", cell.source):
            if word == "Predict" and open_prediction:
                complaints.append(f"{open_prediction}: a prediction without a look back")
            if word == "Look back" and not open_prediction:
                complaints.append(f"{cell.id}: a look back at no prediction")
            open_prediction = cell.id if word == "Predict" else None
        if open_prediction == cell.id and cells[place + 1].cell_type != "code":
            complaints.append(f"{cell.id}: no code cell follows the prediction")
    if open_prediction:
        complaints.append(f"{open_prediction}: a prediction without a look back")
    return complaints


def is_figure(data: dict) -> bool:
    """Matplotlib's, and not the picture of a widget."""
    return "<Figure" in data.get("text/plain", "<Figure")


def pictures_have_words(notebook: Notebook) -> list[str]:
    """Images in the text have alt text; figures are shown, not returned."""
    complaints = []
    for cell in notebook.markdown:
        if re.search(r"!\[\s*\]\(|<img(?![^>]*\balt=\"[^\"]+\")", cell.source):
            complaints.append(f"{cell.id}: an image without alt text")
    for cell in notebook.code:
        for output in cell.outputs:
            data = output.get("data", {})
            if "image/png" in data and output.output_type == "execute_result" and is_figure(data):
                complaints.append(f"{cell.id}: a picture as the value of a cell")
    return complaints


def pictures_can_be_read(notebook: Notebook) -> list[str]:
    """They have the plate of `rope_lab.figures.style`, and words for those who do not see them."""
    complaints = []
    for cell in notebook.code:
        for output in cell.outputs:
            picture = output.get("data", {}).get("image/png")
            if picture is None:
                continue
            image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGBA")
            if image.getpixel((0, 0)) != PLATE:
                complaints.append(f"{cell.id}: a picture without its plate")
            if not output.get("metadata", {}).get("image/png", {}).get("alt"):
                complaints.append(f"{cell.id}: a picture without a description")
    return complaints


EXPLORER = r"\b\w*Explorer\("


def widgets_have_a_figure(notebook: Notebook) -> list[str]:
    """A page that shows no widgets (GitHub) still shows a picture, in the same cell or the next."""
    complaints = []
    for place, cell in enumerate(notebook.code):
        if not re.search(EXPLORER, cell.source):
            continue
        following = [o for later in notebook.code[place : place + 2] for o in later.outputs]
        if not any("image/png" in output.get("data", {}) for output in following):
            complaints.append(f"{cell.id}: no figure for the widget")
    return complaints


def links_lead_somewhere(notebook: Notebook) -> list[str]:
    """To files; Sphinx looks at anchors when it builds the site."""
    complaints = []
    for cell in notebook.markdown:
        for target in re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", cell.source):
            if not (notebook.folder / target.split("#")[0]).exists():
                complaints.append(f"{cell.id}: {target} does not exist")
    return complaints


_IMPORTED = re.compile(r"^from (rope_lab\.[\w.]+) import", re.M)


def measurements_are_on_record(notebook: Notebook) -> list[str]:
    """Each `lab.bench` key has a record with GPU, versions, date and this notebook's cases.

    A notebook, its detours and its solutions share a file of records, by their number. A case may
    be named in a module of rope_lab that they import. Their exercises may replay a record, too.
    """
    call = re.compile(r"\b(?:bench|observe)\(\s*\"([^\"]+)\"")
    kin = [name for name in names_of_detours() if Path(name).name[:2] == notebook.number]
    main = next(name for name in names_of_notebooks() if name[:2] == notebook.number)
    kin.append(f"solutions/{Path(main).stem}_solutions.ipynb")
    code = notebook.code + [cell for name in kin for cell in load(name).code]
    source = "\n".join(cell.source for cell in code if call.search(cell.source))
    keys = set(call.findall(source))
    for module in {name for cell in code for name in _IMPORTED.findall(cell.source)}:
        path = (ROOT / module.replace(".", "/")).with_suffix(".py")
        source += path.read_text(encoding="utf-8") if path.exists() else ""
    if notebook.number in EXPERIMENTS:
        module = (ROOT / EXPERIMENTS[notebook.number]).read_text(encoding="utf-8")
        replayed = {key for cell in code for key in re.findall(r"recorded\(\"(.+?)\"", cell.source)}
        keys |= replayed & set(call.findall(module))
        source += module
    exercises = ROOT / f"rope_lab/grading/exercises/notebook_{notebook.number}.py"
    if exercises.exists():
        module = exercises.read_text(encoding="utf-8")
        keys |= set(re.findall(rf"\brecorded\(\"({notebook.number}/.+?)\"", module))
        source += module
    path = FOLDER / "records" / f"{notebook.number}.json"
    recorded = json.loads(path.read_text()) if path.exists() else {}
    complaints = [f"no record of {key}" for key in sorted(keys - set(recorded))]
    if notebook.folder.name == "deeper":
        return complaints
    complaints += [f"a record that nothing uses: {key}" for key in sorted(set(recorded) - keys)]
    for key in sorted(keys & set(recorded)):
        record = recorded[key]
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", record.get("date", "")):
            complaints.append(f"{key}: no date")
        if not record.get("gpu") or not {"torch", "triton"} <= set(record.get("versions", {})):
            complaints.append(f"{key}: no GPU or versions")
        for case in record.get("cases", record.get("values")):
            if not _is_named(case, source):
                complaints.append(f"{key}: the case {case!r} is not in the notebook")
    return complaints


def _is_named(case: str, source: str) -> bool:
    """Is a case's label in the source, as it stands or, its numbers filled in, as an f-string?"""
    if f'"{case}"' in source:
        return True
    parts = [re.escape(part) for part in re.split(r"\d+", case)]
    return re.search(r'f"' + r"(?:\{[^}]*\}|\d+)".join(parts) + '"', source) is not None


# What JupyterLab changes when it runs and saves a notebook.
CHECKS_OF_WHAT_IS_STORED = (
    small_and_normal,
    executed_from_top_to_bottom,
    nothing_of_the_machine,
    pictures_can_be_read,
    widgets_have_a_figure,
)
CHECKS_OF_WHAT_IS_WRITTEN = (
    what_is_left_uncompared_measures,
    first_code_cell_picks_the_engine,
    numbers_follow_one_another,
    rows_of_a_matrix_are_apart,
    predictions_are_looked_back_at,
    pictures_have_words,
    links_lead_somewhere,
    measurements_are_on_record,
)
