"""The form that every notebook keeps (cell 0, rhythm, last cell, what is compared).

Each check takes a `Notebook` and returns complaints, so that a test can also give it a broken one.
Checks of outputs and metadata look at what git has: a reader who runs an original and saves it
changes both, and breaks nothing.
"""

import base64
import io
import json
import os
import re
import statistics
from dataclasses import dataclass
from pathlib import Path

import nbformat
from PIL import Image

import edited_notebooks
import notebook_index
import reading_time

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks"

UNCOMPARED = {"nbval-ignore-output", "nbval-skip"}
TAGS = UNCOMPARED | {"measures", "raises-exception"}  # conftest.py reads `measures`
INDEX = notebook_index.read()
# notebooks that measure much may leave more cells uncompared
MEASURING = {"03", "05", "08", "09", "11", "12"}
# where a notebook's experiments are, if not in its cells
EXPERIMENTS = {
    "06": "steps/tunings.py",
    "10": "profiling/record_races.py",
    "12": "profiling/record_context.py",
}
MAX_BYTES = 1_000_000
LONG = {"05", "08", "09"}  # these may have 4000 words
MAX_CELLS = 60
MAX_MEDIAN_LINES = 10
PLATE = (250, 250, 250, 255)  # what figures are drawn on
FEWEST_WORDS = 8  # of a picture's description


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
    text = edited_notebooks.in_git(f"notebooks/{name}")
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


def little_is_left_uncompared(notebook: Notebook) -> list[str]:
    """On a GPU, few cells and only those that measure; elsewhere, only those that need no GPU."""
    ignored = [c for c in notebook.code if tags_of(c) & (UNCOMPARED | {"measures"})]
    limit = 0.40 if notebook.number in MEASURING else 0.15
    complaints = []
    if len(ignored) > limit * len(notebook.code):
        complaints.append(f"{len(ignored)} of {len(notebook.code)} code cells are not compared")
    measured = "|".join(names_that_hold_measurements(notebook)) or "$^"
    reason = re.compile(rf"lab\.(?:bench|observe)\b|\b(?:{measured})\b")
    for cell in ignored:
        if not reason.search(cell.source):
            complaints.append(f"{cell.id} is ignored, and does not measure")
        if tags_of(cell) & UNCOMPARED and "gpus=0" not in cell.source:
            complaints.append(f"{cell.id} is never compared, and without a GPU it replays")
    return complaints


def first_cell_introduces(notebook: Notebook) -> list[str]:
    """Title, question, aims, what is needed, time, hardware, and the way back and on."""
    first = notebook.node.cells[0].source
    wanted = {
        "a title with its number": rf"\A# {re.escape(entry_of(notebook).label)} · \S",
        "the question in bold": r"^\*\*.+\?\*\*$",
        "what the reader will be able to do": r"^You will be able to$",
        "what is needed": r"^\| You need \| .+ \|$",
        "the time": r"^\| Time \| \d+ minutes.* \|$",
        "the hardware": r"^\| Hardware \| .+ \|$",
        "previous and next": r"^\| Previous · next \| .+ · .+ \|$|^\| Back to \| .+ \|$",
    }
    return [f"no {what}" for what, sign in wanted.items() if not re.search(sign, first, re.M)]


def last_cell_concludes(notebook: Notebook) -> list[str]:
    """Recap, three to five questions, references with equation numbers, the way on."""
    last = notebook.node.cells[-1].source
    wanted = {
        "a recap": r"^## Recap$",
        "questions": r"^## To think about \(optional\)$",
        "references": r"^## References$",
        "an equation number in the references": r"## References[\s\S]*\(\d+\)",
        "the way on": r"^\*\*Next:\*\* ",
    }
    if entry_of(notebook).is_deeper:
        wanted = {"a recap": wanted["a recap"], "references": r"^## References$"}
    complaints = [f"no {what}" for what, sign in wanted.items() if not re.search(sign, last, re.M)]
    questions = re.search(r"## To think about([\s\S]*?)(?=^## |\Z)", last, re.M)
    count = len(re.findall(r"^\d+\. ", questions.group(1), re.M)) if questions else 0
    if not 3 <= count <= 5 and not entry_of(notebook).is_deeper:
        complaints.append(f"{count} questions")
    return complaints


def first_code_cell_picks_the_engine(notebook: Notebook) -> list[str]:
    """`lab` comes first; a notebook that imports Triton asks for it before, in one sentence."""
    first = notebook_index.without_fetch(notebook.code[0].source)
    complaints = []
    if not first.startswith("import rope_lab as lab\n\nprint(lab.ENGINE)"):
        complaints.append("lab is not imported first")
    imports = re.compile(r"^(?:import|from) (?:triton|rope_lab\.steps)", re.MULTILINE)
    if any(imports.search(cell.source) for cell in notebook.code):
        before = imports.split(first)[0]
        if "lab.need_triton()" not in before:
            complaints.append("Triton is imported without lab.need_triton() before it")
    return complaints


def cells_are_short(notebook: Notebook) -> list[str]:
    median = statistics.median(len(cell.source.splitlines()) for cell in notebook.code)
    return [] if median <= MAX_MEDIAN_LINES else [f"median of {median} lines a code cell"]


def every_equation_is_evaluated(notebook: Notebook) -> list[str]:
    """Displayed equations are numbered 1, 2, ... and a later cell names each that it evaluates."""
    complaints, numbers = [], []
    cells = notebook.node.cells
    for place, cell in enumerate(cells):
        if cell.cell_type != "markdown":
            continue
        for formula in re.findall(r"\$\$(.+?)\$\$", cell.source, re.DOTALL):
            tag = re.search(r"\\tag\{(\d+)\}", formula)
            if tag is None:
                complaints.append(f"{cell.id}: an equation without a number")
                continue
            number = int(tag.group(1))
            numbers.append(number)
            later = [c.source for c in cells[place:] if c.cell_type == "code"]
            names_it = re.compile(rf"equations? (?:\(\d+\) and )?\({number}\)")
            if not any(names_it.search(source) for source in later):
                complaints.append(f"equation ({number}) is not evaluated")
    if numbers != list(range(1, len(numbers) + 1)):
        complaints.append(f"equations are numbered {numbers}")
    return complaints


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
    if "Predict" not in "".join(cell.source for cell in notebook.markdown):
        complaints.append("no prediction at all")
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
            words = output.get("metadata", {}).get("image/png", {}).get("alt", "")
            if len(words.split()) < FEWEST_WORDS:
                complaints.append(f"{cell.id}: a picture described as {words!r}")
    return complaints


EXPLORER = r"\b(?:\w*Explorer|WhoLoadsWhat)\("


def widgets_say_where_they_move(notebook: Notebook) -> list[str]:
    """Elsewhere the page has the picture alone, and its reader looks for the sliders."""
    complaints, before = [], ""
    for cell in notebook.node.cells:
        if cell.cell_type == "markdown":
            before = cell.source
        elif re.search(EXPLORER, cell.source) and "In JupyterLab, " not in before:
            complaints.append(f"{cell.id}: nothing says that its sliders are in JupyterLab")
    return complaints


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
    """Links between notebooks exist; previous and next are the neighbors, there or announced."""
    complaints = []
    for cell in notebook.markdown:
        for target in re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", cell.source):
            if not (notebook.folder / target.split("#")[0]).exists():
                complaints.append(f"{cell.id}: {target} does not exist")
    if entry_of(notebook).is_deeper:
        return complaints
    navigation = re.search(
        r"^\| Previous · next \| (.+?) · (.+) \|$", notebook.node.cells[0].source, re.M
    )
    entry = INDEX.road[int(notebook.number)]
    before, after = INDEX.neighbor(entry, -1), INDEX.neighbor(entry, 1)
    if before and before.link() not in (navigation.group(1) if navigation else ""):
        complaints.append(f"no {before.link()} in the first cell")
    if after and after.link() not in (navigation.group(2) if navigation else ""):
        complaints.append(f"no {after.link()} in the first cell")
    if after and after.link() not in notebook.node.cells[-1].source:
        complaints.append(f"no {after.link()} in the last cell")
    return complaints


_IMPORTED = re.compile(r"^from (rope_lab\.[\w.]+) import", re.M)


def measurements_are_on_record(notebook: Notebook) -> list[str]:
    """Each `lab.bench` key has a record with GPU, versions, date and this notebook's cases.

    A notebook, its detours and its solutions share a file of records, by their number. A case may
    be named in a module of rope_lab that they import.
    """
    call = re.compile(r"\b(?:bench|observe)\(\s*\"([^\"]+)\"")
    kin = [name for name in names_of_detours() if Path(name).name[:2] == notebook.number]
    main = next(entry for entry in INDEX.entries() if entry.number == notebook.number)
    kin.append(f"solutions/{Path(main.file).stem}_solutions.ipynb")
    code = notebook.code + [cell for name in kin for cell in load(name).code]
    source = "\n".join(cell.source for cell in code if call.search(cell.source))
    keys = set(call.findall(source))
    for module in {name for cell in code for name in _IMPORTED.findall(cell.source)}:
        path = (ROOT / module.replace(".", "/")).with_suffix(".py")
        source += path.read_text(encoding="utf-8") if path.exists() else ""
    if notebook.number in EXPERIMENTS:
        module = (ROOT / "rope_lab" / EXPERIMENTS[notebook.number]).read_text(encoding="utf-8")
        replayed = {key for cell in code for key in re.findall(r"recorded\(\"(.+?)\"", cell.source)}
        keys |= replayed & set(call.findall(module))
        source += module
    path = FOLDER / "records" / f"{notebook.number}.json"
    recorded = json.loads(path.read_text()) if path.exists() else {}
    complaints = [f"no record of {key}" for key in sorted(keys - set(recorded))]
    if entry_of(notebook).is_deeper:
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


def entry_of(notebook: Notebook) -> notebook_index.Entry:
    entries = {Path(entry.file).name: entry for entry in INDEX.entries()}
    return entries[notebook.name]


def short_enough(notebook: Notebook) -> list[str]:
    """Cells and words within their limits; detours may be as long as what they belong to."""
    words = sum(len(cell.source.split()) for cell in notebook.markdown)
    limit = 4000 if notebook.number in LONG else 3500
    complaints = []
    if words > limit:
        complaints.append(f"{words} words, {limit} at most")
    if len(notebook.node.cells) > MAX_CELLS:
        complaints.append(f"{len(notebook.node.cells)} cells, {MAX_CELLS} at most")
    return complaints


def minutes_are_counted(notebook: Notebook) -> list[str]:
    """The index says what `reading_time` counts, in the core of a notebook of the road."""
    entry = entry_of(notebook)
    counted = reading_time.core_minutes(notebook.node.cells, entry.core_sections)
    complaints = []
    if counted != entry.minutes:
        complaints.append(f"{counted} minutes by count, {entry.minutes} in {notebook_index.INDEX}")
    numbers = [part.number for part in reading_time.sections(notebook.node.cells) if part.number]
    if numbers != list(range(1, len(numbers) + 1)):
        complaints.append(f"sections are numbered {numbers}")
    if entry.core and not set(entry.core_sections) <= set(numbers):
        complaints.append(f"of the core {entry.core} some sections are not there")
    return complaints


def exercises_stand_in_sections(notebook: Notebook) -> list[str]:
    """Each is in a numbered section, the first one in the first third; minutes are 4 to 20."""
    if entry_of(notebook).is_deeper or notebook.number == "10":
        return []  # in 10, every section is one
    complaints, places, section = [], [], ""
    for place, cell in enumerate(notebook.node.cells):
        if cell.cell_type != "markdown":
            continue
        for heading in re.findall(r"^(#{2,3} .*)$", cell.source, re.M):
            if heading.startswith("## "):
                section = heading
            if not heading.startswith("### Exercise "):
                continue
            places.append(place)
            if not re.match(r"## \d+\. ", section):
                complaints.append(f"'{heading}' is under '{section}'")
            minutes = re.search(r"\((\d+) minutes(?:, optional)?\)$", heading)
            if minutes is None or int(minutes[1]) not in (4, 5, 7, 8, 10, 15, 20, 30, 40):
                complaints.append(f"the minutes of '{heading}'")
            elif int(minutes[1]) > 20 and "optional" not in heading:
                complaints.append(f"'{heading}' is long and not optional")
    if not places or places[0] > len(notebook.node.cells) / 3:
        complaints.append(f"exercises in cells {places} of {len(notebook.node.cells)}")
    return complaints


# What JupyterLab changes when it runs and saves a notebook.
CHECKS_OF_WHAT_IS_STORED = (
    small_and_normal,
    executed_from_top_to_bottom,
    nothing_of_the_machine,
    pictures_can_be_read,
    widgets_have_a_figure,
)
CHECKS_OF_WHAT_IS_WRITTEN = (
    little_is_left_uncompared,
    first_cell_introduces,
    last_cell_concludes,
    first_code_cell_picks_the_engine,
    cells_are_short,
    short_enough,
    minutes_are_counted,
    exercises_stand_in_sections,
    every_equation_is_evaluated,
    predictions_are_looked_back_at,
    pictures_have_words,
    widgets_say_where_they_move,
    links_lead_somewhere,
    measurements_are_on_record,
)
CHECKS = CHECKS_OF_WHAT_IS_STORED + CHECKS_OF_WHAT_IS_WRITTEN
