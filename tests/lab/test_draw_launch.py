"""`lab.draw_launch`: whose each element is, and what its picture shows of it."""

from collections import defaultdict, namedtuple
from unittest.mock import patch

import matplotlib
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import rope_lab as lab
from rope_lab.figures import style
from rope_lab.figures.style import PROGRAM_COLORS

pytest.importorskip("triton", reason="needs Triton")

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from cells import Cell
from inspected_kernels import tuned
from rope_lab.judge.picture import draw_launch as draw_launch_module


def panels_of(call, *arguments, **options):
    """What would be drawn of a launch; nothing if it is refused."""
    with patch.object(draw_launch_module, "draw_panels") as draw:
        lab.draw_launch(call, *arguments, **options)
    return draw.call_args[0][0] if draw.called else []


# whose each element is


@triton.jit
def fill_kernel(
    out_ptr,
    rows,  # that are filled
    columns,
    row_step,  # of the tensor
    column_step,
    PROGRAM_ROWS: tl.constexpr,  # from a program to the next; fewer than ROWS overlap
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0) * PROGRAM_ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    exists = (row < rows) & (column < columns)
    tl.store(out_ptr + row * row_step + column * column_step, 1.0, mask=exists)


def strided(layout, rows, columns):
    if layout == "transposed":
        return torch.zeros(columns, rows, device=lab.device).T
    padding = {"contiguous": 0, "padded": 3}[layout]
    return torch.zeros(rows, columns + padding, device=lab.device)[:, :columns]


SIZES, BLOCKS = st.integers(2, 7), st.sampled_from((2, 4))


@given(
    layout=st.sampled_from(("contiguous", "padded", "transposed")),
    sizes=st.tuples(SIZES, SIZES),
    masked=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    blocks=st.tuples(BLOCKS, BLOCKS),
    overlap=st.booleans(),
)
def test_each_element_has_the_programs_that_store_it(layout, sizes, masked, blocks, overlap):
    (rows, columns), (block_rows, block_columns) = sizes, blocks
    filled = max(1, rows - masked[0]), max(1, columns - masked[1])
    program_rows = block_rows // 2 if overlap else block_rows
    grid = triton.cdiv(rows, program_rows), triton.cdiv(columns, block_columns)
    out = strided(layout, rows, columns)
    (panel,) = panels_of(
        fill_kernel[grid],
        out,
        *filled,
        *out.stride(),
        PROGRAM_ROWS=program_rows,
        ROWS=block_rows,
        COLUMNS=block_columns,
    )
    sheet = panel.sheet
    by, left_out = defaultdict(list), defaultdict(list)
    for down in range(grid[0]):
        for across in range(grid[1]):
            for row in range(down * program_rows, down * program_rows + block_rows):
                for column in range(across * block_columns, (across + 1) * block_columns):
                    found = by if row < filled[0] and column < filled[1] else left_out
                    found[row, column].append(down * grid[1] + across)
    cells = {(row, column) for row in range(rows) for column in range(columns)}
    assert {cell: programs for cell, programs in sheet.by.items() if programs} == by
    assert sheet.masked == left_out and set(sheet.elements) == cells
    assert set(sheet.untouched) == cells - set(by)
    assert set(sheet.several) == {cell for cell, programs in by.items() if len(programs) > 1}


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = i < n
    x = tl.load(x_ptr + i, mask=exists)
    tl.store(out_ptr + i, x, mask=exists)


@given(
    shape=st.one_of(st.tuples(st.integers(1, 80)), st.tuples(st.just(3), SIZES, SIZES)),
    block=st.sampled_from((4, 8)),
)
def test_rows_of_a_vector_and_of_more_than_two_dimensions(shape, block):
    x = torch.zeros(shape, device=lab.device)
    n = x.numel()
    columns = min(n, 32) if len(shape) == 1 else shape[-1]
    (panel,) = panels_of(copy_kernel[(triton.cdiv(n, block),)], x, x.clone(), n, BLOCK=block)
    sheet = panel.sheet
    assert sheet.by == {divmod(i, columns): [i // block] for i in range(n)}
    off = -n % block
    assert sum(map(len, sheet.masked.values())) + sheet.not_drawn == off
    beside = [divmod(n + lane, columns) for lane in range(off)]
    if len(shape) == 1 and n <= 32:
        beside = [(0, n + lane) for lane in range(off)]
    assert set(sheet.masked) == set(beside)
    assert sheet.index(divmod(n - 1, columns)) == tuple(size - 1 for size in shape)


@triton.jit
def counted_kernel(where_ptr, out_ptr, BLOCK: tl.constexpr):
    """Stores where a tensor says, by atomics."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + tl.load(where_ptr + i), 1)


@triton.jit
def tuple_kernel(outs, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(outs.inner.y + i, 1.0, mask=i < n)


@triton.jit
def descriptor_kernel(descriptor, n, BLOCK: tl.constexpr):
    descriptor.store([tl.program_id(0) * BLOCK], tl.full((BLOCK,), 1.0, tl.float32))


Pair, Outer = namedtuple("Pair", ("x", "y")), namedtuple("Outer", ("inner", "n"))
X, Y, NUMBERS = torch.zeros(8), torch.zeros(8), torch.zeros(6, dtype=torch.int32)
NEIGHBORS = torch.zeros(64)  # a masked lane of one might point to the other
HALVES = [[0]] * 4 + [[1]] * 4
LOADED = [[0, 1], [0], [0], [0], [0, 1], [1], [1], [1]]
BY_FOUR = {"64": "4"}
SHIFT = Cell(
    "y = x + tl.load(x_ptr + (i + 1) % n, mask=i < n)",
    instead={"torch.empty_like(x)": "x", **BY_FOUR},
)
TWICE = Cell("tl.store(out_ptr + i // 2, x)\ny = x", instead=BY_FOUR)
OWNERS = {  # a launch; options; the panels' names; the programs of the cells of each
    "loads, and stores in place": (
        lambda: (SHIFT, X),
        {"loads": "x_ptr"},
        {"x_ptr": LOADED, "out_ptr": HALVES},
    ),
    "an element that is stored again": (
        lambda: (TWICE, X[:4]),
        {},
        {"out_ptr": [[0, 0, 0], [0, 0, 0], [0], [0]]},
    ),
    "atomics, where a tensor says": (
        lambda: (counted_kernel[(2,)], torch.tensor([3, 0, 0, 5]), NUMBERS, 2),
        {},
        {"out_ptr": [[0, 1], [], [], [0], [], [1]]},
    ),
    "a launcher with a tuner": (
        lambda: (tuned, torch.zeros(4, 32, dtype=torch.bfloat16)),
        {},
        {"out_ptr": [[0]] * 64 + [[1]] * 64},
    ),
    "neighbors in memory": (
        lambda: (copy_kernel[(2,)], NEIGHBORS[:7].clone(), NEIGHBORS[32:39].clone(), 7, 4),
        {"loads": "x_ptr"},
        {"x_ptr": HALVES[:7], "out_ptr": HALVES[:7]},
    ),
    "a tuple": (
        lambda: (tuple_kernel[(2,)], Outer(Pair(X, Y), 7), 8, 4),
        {},
        {"outs.inner.y": HALVES},
    ),
    "a descriptor": (
        lambda: (descriptor_kernel[(2,)], TensorDescriptor.from_tensor(Y, [4]), 8, 4),
        {"of": "descriptor"},
        {"descriptor": HALVES},
    ),
}


@pytest.mark.parametrize("what", OWNERS)
def test_whose_the_cells_are(what, tmp_path):
    launch, options, owners = OWNERS[what]
    call, *given = launch()
    call = call.launcher(tmp_path) if isinstance(call, Cell) else call
    drawn = panels_of(call, *given, **options)
    assert [panel.name for panel in drawn] == [*owners]
    for panel in drawn:
        sheet = panel.sheet
        assert [sheet.by[cell] for cell in sheet.elements] == owners[panel.name]
        assert set(sheet.masked) == ({(0, 7)} if what == "neighbors in memory" else set())
    assert not (X.any() or Y.any() or NUMBERS.any())  # it ran on copies


# what a picture shows


def key_of(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_cells_have_numbers_colors_and_marks(shown, device):
    x, out = torch.arange(12.0, device=device), torch.zeros(12, device=device)
    lab.draw_launch(copy_kernel[(2,)], x, out, 10, BLOCK=4)
    lab.draw_launch(copy_kernel[(3,)], x[:10], out[:10], 10, BLOCK=4, loads="x_ptr")
    (two, alt), (three, _) = shown
    (ax,) = two.axes
    assert [text.get_text() for text in ax.texts] == list("00001111")
    fills = [patch.get_facecolor() for patch in ax.patches]
    colors = [matplotlib.colors.to_rgba(color) for color in PROGRAM_COLORS]
    assert fills[:8] == [colors[0]] * 4 + [colors[1]] * 4
    assert all(patch.get_hatch() for patch in ax.patches[8:]) and len(ax.patches) == 12
    assert two.get_suptitle() == "2 programs store 8 of 12 elements of out_ptr"
    assert key_of(two) == ["number, color: the program", "stored by no program"]
    assert alt == (
        "2 programs store 8 of 12 elements of out_ptr, in a launch of copy_kernel. out_ptr: "
        "program 0 stores 4 elements, from [0] to [3]; program 1 stores 4 elements, from [4] to "
        "[7]; 4 are stored by no program, the first is [8]."
    )
    assert key_of(three) == ["number, color: the program", "lane masked off"]
    titles = [ax.get_title("left") for ax in three.axes]
    assert titles == ["Loads from x_ptr, shape (10,)", "Stores in out_ptr, shape (10,)"]
    dashed = [patch for patch in three.axes[0].patches if not patch.get_fill()]
    assert [patch.get_x() for patch in dashed] == pytest.approx([10.04, 11.04])


@pytest.mark.parametrize("programs", (8, 9))
def test_programs_have_different_colors_or_the_key_says_that_colors_repeat(programs, shown):
    lab.draw_launch(copy_kernel[(programs,)], torch.zeros(9), torch.zeros(9), 9, BLOCK=1)
    ((figure, _),) = shown
    fills = [patch.get_facecolor() for patch in figure.axes[0].patches if not patch.get_hatch()]
    repeat = len({*fills}) < len(fills)
    assert len(fills) == programs and repeat == (programs > 8)
    assert ("number, color: the program (colors repeat)" in key_of(figure)) == repeat


def test_a_store_into_padding_and_one_by_several_programs_are_told(shown, device):
    rows, out = torch.zeros(3, 8, device=device)[:, :6], torch.zeros(4, 4, device=device)
    lab.draw_launch(fill_kernel[(1, 2)], rows, 3, 7, 8, 1, PROGRAM_ROWS=4, ROWS=4, COLUMNS=4)
    lab.draw_launch(fill_kernel[(2, 1)], out, 4, 4, 4, 1, PROGRAM_ROWS=1, ROWS=2, COLUMNS=4)
    (padded, of_padded), (shared, of_shared) = shown
    told = "2 programs store all 18 elements of out_ptr, and 3 that are not its own"
    assert of_padded.startswith(told) and "outside of the tensor" in key_of(padded)
    words = [text.get_text() for text in shared.axes[0].texts]
    assert words == ["2x"] * 4 + ["0,0"] * 4 + ["1,0"] * 4  # and no program's color
    assert sum(patch.get_hatch() == "////" for patch in shared.axes[0].patches) == 4
    assert "4 are stored more than once, the first is [1, 0], by 0,0 and 1,0" in of_shared


def test_a_picture_is_as_wide_as_its_cells_and_the_key_beside_them(shown):
    """Otherwise half of it would be empty. Without room for the key, the picture has full width."""
    for columns in (6, 32):
        x = torch.zeros(4, columns)
        lab.draw_launch(copy_kernel[(columns,)], x, torch.zeros(4, columns), x.numel(), BLOCK=4)
    narrow, wide = (figure.get_figwidth() for figure, _ in shown)
    assert narrow < 0.8 * style.WIDTH and wide == style.WIDTH
    for figure, _ in shown:
        figure.draw_without_rendering()
        (title,) = (text for text in figure.texts if text.get_text() == figure.get_suptitle())
        (key,) = figure.legends
        assert not key.get_window_extent().overlaps(title.get_window_extent())
    figure, _ = shown[0]
    cells, key = figure.axes[0].get_window_extent(), figure.legends[0].get_window_extent()
    assert 0 < key.x0 - cells.x1 < 0.4 * figure.dpi


def test_a_number_that_is_too_wide_for_a_cell_is_written_once_for_neighbors(shown):
    lab.draw_launch(copy_kernel[(128,)], torch.zeros(512), torch.zeros(512), 512, BLOCK=4)
    texts = shown[0][0].axes[0].texts
    assert [text.get_text() for text in texts[-3:]] == ["125", "126", "127"]
    assert [text.get_position()[0] for text in texts[-3:]] == [22, 26, 30]  # of columns 20 to 31
    assert len(texts) == 4 * 100 + 28


# what is not drawn


def stub(x):
    raise NotImplementedError("write the kernel above")


def two_launches(x):
    copy_kernel[(1,)](x, x.clone(), 4, BLOCK=4)
    copy_kernel[(1,)](x, x.clone(), 4, BLOCK=4)


def wrong_launch(x):
    return x.no_such_thing


@triton.jit
def unknown_name_kernel(out_ptr):
    tl.store(out_ptr, tl.no_such_function())


@triton.jit
def two_outputs_kernel(a_ptr, b_ptr):
    tl.store(a_ptr, 1.0)
    tl.store(b_ptr, 1.0)


FOUR = torch.zeros(4)
REFUSED = {
    "NOT YET: write the kernel above": (stub, FOUR),
    "there are 2 launches, and": (two_launches, FOUR),
    "there are no launches, and": (torch.neg, FOUR),
    "it raises AttributeError": (wrong_launch, FOUR),
    "a kernel needs its grid": (copy_kernel, FOUR, FOUR, 4),
    "257 programs, and a picture has at most 256": (copy_kernel[(257,)], FOUR, FOUR, 4, 4),
    "load and store more than 262144 elements": (copy_kernel[(9,)], FOUR, FOUR, 4, 1 << 15),
    "x_ptr has the shape (2, 33), and": (copy_kernel[(1,)], torch.zeros(2, 33), FOUR, 4, 4),
    "out_ptr has the shape (1025,), and": (copy_kernel[(1,)], FOUR, torch.zeros(1025), 4, 4),
    "out_ptr has the shape (33, 2), and": (copy_kernel[(1,)], FOUR, torch.zeros(33, 2), 4, 4),
    "out of bounds: program 1 reads element 4 of x_ptr": (copy_kernel[(2,)], FOUR, FOUR, 8, 4),
    "has no attribute 'no_such_function'": (unknown_name_kernel[(1,)], FOUR),
    "it stores in a_ptr and b_ptr": (two_outputs_kernel[(1,)], FOUR, FOUR.clone()),
    "no program stores in a tensor": (copy_kernel[(1,)], FOUR, FOUR.clone(), 0, 4),
}


@pytest.mark.parametrize("why", REFUSED)
def test_why_a_launch_is_not_drawn(why, capsys):
    drawn = panels_of(*REFUSED[why], loads="x_ptr" if "x_ptr has" in why else None)
    said = capsys.readouterr().out
    assert why in said and said.count("\n") == 1
    assert said.startswith(("Not drawn: ", "NOT YET: ")) and not drawn


@pytest.mark.parametrize("option", ("of", "loads"))
def test_a_name_that_is_no_tensor(option):
    accepted = r"'n' is not a tensor of the launch; accepted: \['x_ptr', 'out_ptr'\]"
    with pytest.raises(ValueError, match=accepted):
        lab.draw_launch(copy_kernel[(1,)], FOUR, FOUR.clone(), 4, BLOCK=4, **{option: "n"})
