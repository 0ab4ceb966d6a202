"""*Three edits*: its cells, edited as a reader would edit them, and what each edit is told."""

import re

import nbformat
import pytest

import readers_copies
from cells import run
from notebook_form import FOLDER, THREE_EDITS, load
from rope_lab.compiler import compile as compile_module
from rope_lab.compiler.stages import layout_of
from rope_lab.edits.check import verdict_on
from rope_lab.edits.picture import times
from rope_lab.figures import style as draw
from rope_lab.n09.kernels import compiled
from rope_lab.records import QUIET
from rope_lab.rungs import kept

pytest.importorskip("triton", reason="needs Triton")
pytestmark = pytest.mark.usefixtures("kept_here")

EDITS = {1: "edits-06", 2: "edits-08", 3: "edits-10"}  # the cells that are edited
STORED = {cell.id: cell.source for cell in load(THREE_EDITS).code}  # with the answers
COPY = nbformat.reads(readers_copies.readers_copy(FOLDER / THREE_EDITS), as_version=4)
CELLS = {cell.id: cell.source for cell in COPY.cells}  # what a reader gets


def line_of(number, begins):
    """A line of the kernel in the cell of an edit."""
    return next(x for x in CELLS[EDITS[number]].splitlines(True) if x.startswith(f"    {begins}"))


def warps(count, rows=8):
    return lambda text: text.replace(
        "block_r, num_warps = 8, 4", f"block_r, num_warps = {rows}, {count}"
    )


def off_the_loads(text):
    return re.sub(r"(angle\d = tl\.load\(.*\))\[None, :\]", r"\1", text)


def onto_the_sines(text):
    return re.sub(r"(tl\.(?:cos|sin)\(angle\d\))", r"\1[None, :]", text)


def half_of_edit_2(text):
    """For the first angle alone."""
    lines = [
        onto_the_sines(off_the_loads(x)) if x.lstrip().startswith(("angle1 =", "cos1,")) else x
        for x in text.splitlines(True)
    ]
    return "".join(lines)


def above(place, *moved):
    """Lines of the kernel of edit 3, moved above another one."""

    def edit(text):
        for begins in moved:
            text = text.replace(line_of(3, begins), "")
        lines = "".join(line_of(3, begins) for begins in moved)
        return text.replace(line_of(3, place), lines + line_of(3, place))

    return edit


def nothing(text):
    return text


def as_stored(number):
    """The answer that GitHub and the site show."""
    return lambda text: STORED[EDITS[number]]


# Edit, what a reader does, and the first words of the verdict. Of each edit the right one comes
# last, because the cells after it run with it.
CORRECT = "NOT YET: results are correct, but "
ROWS = [
    (1, nothing, "NOT YET: the kernel is unchanged. Change num_warps"),
    (1, warps(8), f"{CORRECT}8 warps compute the same sines and cosines. Try fewer"),
    (1, warps(3), "WRONG: right in the interpreter, but my_rope_kernel does not compile"),
    (1, warps(1, rows=16), f"{CORRECT}a program no longer has 8 rows. Set block_r to 8"),
    (1, warps(2), f"{CORRECT}2 warps compute the same sines and cosines. Try fewer"),
    # With several warps edit 2 repeats no sine, but the page's times are those of edits in turn.
    (2, off_the_loads, f"{CORRECT}num_warps is 2. Make edit 1 first"),
    (1, warps(1), "RIGHT: edit 1\n  instructions per program: "),
    (1, as_stored(1), "RIGHT: edit 1\n  instructions per program: "),
    (2, nothing, "NOT YET: the kernel is unchanged. Move [None, :]"),
    (2, onto_the_sines, "WRONG: the cosines and sines have three dimensions"),
    (2, half_of_edit_2, f"{CORRECT}[None, :] still comes before this computation:\n  cos2, sin2 ="),
    (2, off_the_loads, "RIGHT: edit 2\n  instructions per program: "),
    (2, lambda text: onto_the_sines(off_the_loads(text)), "RIGHT: edit 2\n  instructions per "),
    (2, as_stored(2), "RIGHT: edit 2\n  instructions per program: "),
    (3, nothing, "NOT YET: the kernel is unchanged. Move three lines up"),
    (3, above("cos2", "offset", "x1", "x2"), f"{CORRECT}this line still comes after the first cos"),
    (3, above("angle_ptrs", "x1", "x2"), "WRONG in the case 'small and plain'"),
    (
        3,
        above("angle_ptrs", "offset", "x1", "x2"),
        "RIGHT: edit 3\n  loads before the first cosine: 2 of 4 -> all 4\n",
    ),
    (3, as_stored(3), "RIGHT: edit 3\n  loads before the first cosine: 2 of 4 -> all 4\n"),
]
TIMES = {1: "161 -> 84 us", 2: "84 -> 68 us", 3: "68 -> 65 us"}


def chosen(every):
    """All rows; or the unchanged cells, the right edits and half of edit 2."""
    right = {row[0]: row for row in ROWS}
    by_day = (nothing, half_of_edit_2)
    return [row for row in ROWS if every or row[1] in by_day or row is right[row[0]]]


@pytest.fixture
def page(monkeypatch, tmp_path):
    """Runs a cell of the page, edited, and returns what it shows."""
    monkeypatch.delenv(QUIET)  # as for a reader, whose rungs are kept
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(FOLDER)
    names, count = {"__name__": "__main__"}, iter(range(100))

    def run_edited(name, edit=nothing):
        cell = nbformat.v4.new_code_cell(edit(CELLS[name]), id=f"{name}-{next(count)}")
        shown, error = run(cell, names, tmp_path)
        assert not error, error
        return shown

    run_edited("edits-02")
    run_edited("edits-04")
    return run_edited


def test_each_edit_is_told_what_it_did(page, pytestconfig):
    for number, edit, told in chosen(pytestconfig.getoption("every")):
        shown = page(EDITS[number], edit)
        assert shown.startswith(told), shown
        if told.startswith("RIGHT"):
            assert f"\n  on an H200: {TIMES[number]} (recorded 2" in shown and "Figure(" in shown
        else:
            assert " us" not in shown and "Figure(" not in shown
    assert kept.climbed() == []
    copied = page("edits-12")
    assert "num_warps = 8, 1" in copied
    assert copied.index("x2 = tl.load(") < copied.index("tl.cos(angle1)[None, :]")


@pytest.mark.slow
def test_without_a_compiler_wrong_edits_are_told_and_unknown_ones_get_no_time(page, monkeypatch):
    monkeypatch.setattr(compile_module, "compiler_is_installed", lambda: False)
    assert page(EDITS[1], warps(8)).startswith(f"{CORRECT}8 warps compute")
    assert TIMES[1] in page(EDITS[1], warps(1))  # whose machine code is stored
    assert page(EDITS[2], half_of_edit_2).startswith(f"{CORRECT}[None, :] still comes")
    shown = page(EDITS[2], lambda text: off_the_loads(text).replace("exists", "are_there"))
    assert shown.startswith("RIGHT IN THE INTERPRETER: edit 2\n"), shown
    assert " us" not in shown and "Figure(" not in shown


@pytest.mark.needs_compiler
def test_the_page_counts_sines_and_bytes_as_the_compiler_makes_them():
    """Of the kernel as it is, and after edits 1 and 2."""
    text = "\n".join(cell.source for cell in load(THREE_EDITS).markdown)
    found = {}
    for edits, rung in enumerate((2, 3, 5)):  # a flag that is false changes nothing
        code = compiled(rung)
        each = layout_of(code, "cos1, sin1 =").size_per_thread[-1]
        found[edits] = 4 * 32 * code.num_warps * each
    assert list(found.values()) == [4096, 1024, 512]
    assert (
        "4096 per program. But all 8 rows need the same 512" in text
        and "still computes 1024 cosines" in text
    )
    assert (min(compiled(2).loads), min(compiled(3).loads)) == (4, 16)
    assert "its angles 16 bytes at a time, instead of 4" in text


@pytest.mark.parametrize("edits", range(4))
def test_the_picture_has_the_times_of_the_edits_that_were_made(edits):
    _, alt = draw.drawn(times, edits=edits)
    bars = ["the kernel 161 µs", "edit 1 84 µs", "edit 2 68 µs", "edit 3 65 µs"]
    still_open = [f"edit {number} ?" for number in range(edits + 1, 4)]
    assert ", ".join([*bars[: edits + 1], *still_open, "a memory copy 64 µs"]) in alt


def test_a_function_without_a_source_is_judged_too():
    verdict = verdict_on(1, abs)
    assert "abs() takes exactly one argument" in repr(verdict)
