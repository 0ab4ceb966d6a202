"""`lab.draw_launch`: whose each element is, and what its picture shows of it."""

import random
from collections import defaultdict, namedtuple

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch

import rope_lab as lab
from rope_lab.figures import style
from rope_lab.figures.style import PROGRAM_COLORS

pytest.importorskip("triton", reason="needs Triton")

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from rope_lab.judge.picture import draw_launch as draw_launch_module
from rope_lab.judge.picture.drawing import draw_panels


@pytest.fixture
def pictures(monkeypatch):
    """The panels of each picture, its figure, and its description, in place of showing it."""
    found = []

    def draw(panels, kernel):
        draw_panels(panels, kernel)
        found[-1] = panels, *found[-1]

    matplotlib.use("agg")
    shown = lambda figure, metadata: found.append((figure, metadata["image/png"]["alt"]))  # noqa: E731
    monkeypatch.setattr(style, "display", shown)
    monkeypatch.setattr(draw_launch_module, "draw_panels", draw)
    with matplotlib.rc_context():
        style.style()
        yield found
        plt.close("all")


@pytest.fixture
def sheet_of(pictures):
    """Draw a launch, and return the sheet of its stores."""

    def draw(call, *arguments, **options):
        lab.draw_launch(call, *arguments, **options)
        return pictures[-1][0][-1].sheet

    return draw


# random launches beside their owners by plain Python


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


def strided(layout, rows, columns, device):
    if layout == "transposed":
        return torch.zeros(columns, rows, device=device).T
    padding = {"contiguous": 0, "padded": 3}[layout]
    return torch.zeros(rows, columns + padding, device=device)[:, :columns]


@pytest.mark.parametrize("layout", ("contiguous", "padded", "transposed"))
@pytest.mark.parametrize("seed", range(4))
def test_each_element_has_the_programs_that_store_it(layout, seed, sheet_of, device):
    draw = random.Random(f"{layout} {seed}")
    rows, columns = draw.randrange(2, 8), draw.randrange(2, 8)
    filled_rows, filled_columns = draw.randrange(1, rows + 1), draw.randrange(1, columns + 1)
    block_rows, block_columns = draw.choice((2, 4)), draw.choice((2, 4))
    program_rows = draw.choice((block_rows, block_rows // 2))
    grid = triton.cdiv(rows, program_rows), triton.cdiv(columns, block_columns)
    out = strided(layout, rows, columns, device)
    sheet = sheet_of(
        fill_kernel[grid],
        out,
        filled_rows,
        filled_columns,
        *out.stride(),
        PROGRAM_ROWS=program_rows,
        ROWS=block_rows,
        COLUMNS=block_columns,
    )
    by, masked = defaultdict(list), defaultdict(list)
    for down in range(grid[0]):
        for across in range(grid[1]):
            for row in range(down * program_rows, down * program_rows + block_rows):
                for column in range(across * block_columns, (across + 1) * block_columns):
                    exists = row < filled_rows and column < filled_columns
                    found = by if exists else masked
                    found[row, column].append(down * grid[1] + across)
    assert {cell: programs for cell, programs in sheet.by.items() if programs} == by
    assert sheet.masked == masked
    cells = {(row, column) for row in range(rows) for column in range(columns)}
    assert set(sheet.elements) == cells
    assert set(sheet.untouched) == cells - set(by)
    assert set(sheet.several) == {cell for cell, programs in by.items() if len(programs) > 1}


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = i < n
    x = tl.load(x_ptr + i, mask=exists)
    tl.store(out_ptr + i, x, mask=exists)


@pytest.mark.parametrize("shape", ((10,), (32,), (77,), (2, 3, 5), (1,)))
@pytest.mark.parametrize("block", (4, 8))
def test_rows_of_a_vector_and_of_more_than_two_dimensions(shape, block, sheet_of, device):
    x = torch.zeros(shape, device=device)
    n = x.numel()
    columns = min(n, 32) if len(shape) == 1 else shape[-1]
    sheet = sheet_of(copy_kernel[(triton.cdiv(n, block),)], x, x.clone(), n, BLOCK=block)
    assert sheet.by == {divmod(i, columns): [i // block] for i in range(n)}
    off = -n % block
    assert sum(map(len, sheet.masked.values())) + sheet.not_drawn == off
    beside = [divmod(n + lane, columns) for lane in range(off)]
    if len(shape) == 1 and n <= 32:
        beside = [(0, n + lane) for lane in range(off)]
    assert set(sheet.masked) == set(beside)
    assert sheet.index(divmod(n - 1, columns)) == tuple(size - 1 for size in shape)


def test_a_neighbor_in_memory_gets_no_lanes_of_another_tensor(pictures):
    """However close two tensors were in the reader's memory."""
    both = torch.zeros(64)
    x, out = both[:10].clone(), both[32:42].clone()
    lab.draw_launch(copy_kernel[(3,)], x, out, 10, BLOCK=4, loads="x_ptr")
    panels, _, _ = pictures[0]
    assert [panel.name for panel in panels] == ["x_ptr", "out_ptr"]
    assert all(panel.sheet.masked == {(0, 10): [2], (0, 11): [2]} for panel in panels)


@triton.jit
def shift_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + (i + 1) % n, mask=i < n)
    again = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + again, mask=i < n)


def test_loads_name_each_program_once_and_stores_may_be_in_place(pictures, device):
    x = torch.arange(8.0, device=device)
    lab.draw_launch(shift_kernel[(2,)], x, x, 8, BLOCK=4, loads="x_ptr")
    (loads, stores), figure, _ = pictures[0]
    titles = [ax.get_title("left") for ax in figure.axes]
    assert titles == ["Loads from x_ptr, shape (8,)", "Stores in out_ptr, shape (8,)"]
    assert loads.sheet.by == {
        **{(0, i): [0] for i in (1, 2, 3)},
        **{(0, i): [1] for i in (5, 6, 7)},
        (0, 0): [0, 1],
        (0, 4): [0, 1],
    }
    assert stores.name == "out_ptr" and stores.sheet.by == {(0, i): [i // 4] for i in range(8)}


@triton.jit
def twice_kernel(out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 1.0)
    tl.store(out_ptr + i // 2, 2.0)


def test_a_program_that_stores_an_element_again(sheet_of):
    sheet = sheet_of(twice_kernel[(1,)], torch.zeros(4), BLOCK=4)
    assert sheet.by == {(0, 0): [0, 0, 0], (0, 1): [0, 0, 0], (0, 2): [0], (0, 3): [0]}


@triton.jit
def counted_kernel(where_ptr, out_ptr, BLOCK: tl.constexpr):
    """Stores where a tensor says, by atomics."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + tl.load(where_ptr + i), 1)


def test_indices_are_those_of_the_call_and_atomics_are_stores(sheet_of, device):
    where = torch.tensor([3, 0, 0, 5], device=device)
    out = torch.zeros(6, dtype=torch.int32, device=device)
    sheet = sheet_of(counted_kernel[(2,)], where, out, BLOCK=2)
    assert {c: by for c, by in sheet.by.items() if by} == {(0, 3): [0], (0, 0): [0, 1], (0, 5): [1]}


def test_a_store_into_padding_is_told(pictures, device):
    rows = torch.zeros(3, 8, device=device)[:, :6]
    lab.draw_launch(fill_kernel[(1, 2)], rows, 3, 7, 8, 1, PROGRAM_ROWS=4, ROWS=4, COLUMNS=4)
    (panel,), figure, alt = pictures[0]
    assert panel.sheet.outside == 3
    assert [cell for cell in panel.sheet.by if cell[1] == 6] == [(0, 6), (1, 6), (2, 6)]
    assert alt.startswith("2 programs store all 18 elements of out_ptr, and 3 that are not its own")
    assert "outside of the tensor" in key_of(figure)


@triton.autotune([triton.Config({"BLOCK": 4}), triton.Config({"BLOCK": 8})], key=[])
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


def tuned(x):
    out = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out


def test_a_launcher_with_a_tuner_and_a_grid_of_its_choice(sheet_of, device):
    sheet = sheet_of(tuned, torch.zeros(8, dtype=torch.bfloat16, device=device))
    assert sheet.by == {(0, i): [i // 4] for i in range(8)}


# what a picture shows


def key_of(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_cells_have_numbers_colors_and_marks(pictures, device):
    x, out = torch.arange(12.0, device=device), torch.zeros(12, device=device)
    lab.draw_launch(copy_kernel[(2,)], x, out, 10, BLOCK=4)
    lab.draw_launch(copy_kernel[(3,)], x[:10], out[:10], 10, BLOCK=4)
    (_, two, alt), (_, three, _) = pictures
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
    dashed = [patch for patch in three.axes[0].patches if not patch.get_fill()]
    assert [patch.get_x() for patch in dashed] == pytest.approx([10.04, 11.04])


@pytest.mark.parametrize("programs", (8, 9))
def test_programs_have_different_colors_or_the_key_says_that_colors_repeat(programs, pictures):
    lab.draw_launch(copy_kernel[(programs,)], torch.zeros(9), torch.zeros(9), 9, BLOCK=1)
    ((_, figure, _),) = pictures
    fills = [patch.get_facecolor() for patch in figure.axes[0].patches if not patch.get_hatch()]
    repeat = len({*fills}) < len(fills)
    assert len(fills) == programs and repeat == (programs > 8)
    assert ("number, color: the program (colors repeat)" in key_of(figure)) == repeat


def test_a_picture_is_as_wide_as_its_cells_and_the_key_beside_them(pictures):
    """Otherwise half of it would be empty. Without room for the key, the picture has full width."""
    for columns in (6, 32):
        x = torch.zeros(4, columns)
        lab.draw_launch(copy_kernel[(columns,)], x, torch.zeros(4, columns), x.numel(), BLOCK=4)
    figures = [figure for _, figure, _ in pictures]
    narrow, wide = (figure.get_figwidth() for figure in figures)
    assert narrow < 0.8 * style.WIDTH and wide == style.WIDTH
    for figure in figures:
        figure.draw_without_rendering()
        (title,) = (text for text in figure.texts if text.get_text() == figure.get_suptitle())
        (key,) = figure.legends
        assert not key.get_window_extent().overlaps(title.get_window_extent())
    cells, key = figures[0].axes[0].get_window_extent(), figures[0].legends[0].get_window_extent()
    assert 0 < key.x0 - cells.x1 < 0.4 * figures[0].dpi


def test_a_number_that_is_too_wide_for_a_cell_is_written_once_for_neighbors(pictures):
    lab.draw_launch(copy_kernel[(128,)], torch.zeros(512), torch.zeros(512), 512, BLOCK=4)
    texts = pictures[0][1].axes[0].texts
    assert [text.get_text() for text in texts[-3:]] == ["125", "126", "127"]
    assert [text.get_position()[0] for text in texts[-3:]] == [22, 26, 30]  # of columns 20 to 31
    assert len(texts) == 4 * 100 + 28


def test_what_several_programs_store_is_no_programs_color(pictures, device):
    out = torch.zeros(4, 4, device=device)
    lab.draw_launch(fill_kernel[(2, 1)], out, 4, 4, 4, 1, PROGRAM_ROWS=1, ROWS=2, COLUMNS=4)
    (_, figure, alt) = pictures[0]
    words = [text.get_text() for text in figure.axes[0].texts]
    assert words == ["2x"] * 4 + ["0,0"] * 4 + ["1,0"] * 4
    assert sum(patch.get_hatch() == "////" for patch in figure.axes[0].patches) == 4
    assert "4 are stored more than once, the first is [1, 0], by 0,0 and 1,0" in alt


# what is not drawn, and what is left alone


def test_a_launch_is_drawn_on_copies(sheet_of, device):
    x, out = torch.arange(10.0, device=device), torch.full((10,), -1.0, device=device)
    sheet_of(copy_kernel[(3,)], x, out, 10, BLOCK=4)
    assert (out == -1).all()


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


@triton.jit
def named_tuple_kernel(outs, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(outs.inner.y + i, 1.0, mask=i < n)


@triton.jit
def descriptor_kernel(descriptor, n, BLOCK: tl.constexpr):
    descriptor.store([tl.program_id(0) * BLOCK], tl.full((BLOCK,), 1.0, tl.float32))


Pair, Outer = namedtuple("Pair", ("x", "y")), namedtuple("Outer", ("inner", "n"))
INSIDE = {
    "outs.inner.y": (named_tuple_kernel, lambda x, y: Outer(Pair(x, y), 7)),
    "descriptor": (descriptor_kernel, lambda x, y: TensorDescriptor.from_tensor(y, [4])),
}


@pytest.mark.parametrize("name", INSIDE)
def test_tensors_in_tuples_and_descriptors_have_names(name, pictures, device):
    kernel, put = INSIDE[name]
    x, y = torch.zeros(10, device=device), torch.zeros(8, device=device)
    for options in ({}, {"of": name}, {"loads": name}):
        lab.draw_launch(kernel[(2,)], put(x, y), 8, BLOCK=4, **options)
        panels, *_ = pictures[-1]
        assert [panel.name for panel in panels] == [name] * (2 if "loads" in options else 1)
        sheet = panels[-1].sheet
        assert sheet.tensor.shape == (8,) and not sheet.untouched
        assert [sheet.by[0, i] for i in range(8)] == [[0]] * 4 + [[1]] * 4
    assert len(pictures) == 3


X = torch.zeros(4)
REFUSED = {
    "NOT YET: write the kernel above": (stub, X),
    "there are 2 launches, and": (two_launches, X),
    "there are no launches, and": (torch.neg, X),
    "it raises AttributeError": (wrong_launch, X),
    "a kernel needs its grid": (copy_kernel, X, X, 4),
    "257 programs, and a picture has at most 256": (copy_kernel[(257,)], X, X, 4, 4),
    "load and store more than 262144 elements": (copy_kernel[(9,)], X, X, 4, 1 << 15),
    "x_ptr has the shape (2, 33), and": (copy_kernel[(1,)], torch.zeros(2, 33), X, 4, 4),
    "out_ptr has the shape (1025,), and": (copy_kernel[(1,)], X, torch.zeros(1025), 4, 4),
    "out_ptr has the shape (33, 2), and": (copy_kernel[(1,)], X, torch.zeros(33, 2), 4, 4),
    "out of bounds: program 1 reads element 4 of x_ptr": (copy_kernel[(2,)], X, X, 8, 4),
    "has no attribute 'no_such_function'": (unknown_name_kernel[(1,)], X),
    "it stores in a_ptr and b_ptr": (two_outputs_kernel[(1,)], X, X.clone()),
    "no program stores in a tensor": (copy_kernel[(1,)], X, X.clone(), 0, 4),
}


@pytest.mark.parametrize("why", REFUSED)
def test_why_a_launch_is_not_drawn(why, pictures, capsys):
    call, *arguments = REFUSED[why]
    lab.draw_launch(call, *arguments, loads="x_ptr" if "x_ptr has" in why else None)
    said = capsys.readouterr().out
    assert why in said and said.count("\n") == 1
    assert said.startswith(("Not drawn: ", "NOT YET: ")) and not pictures


@pytest.mark.parametrize("option", ("of", "loads"))
def test_a_name_that_is_no_tensor(option):
    accepted = r"'n' is not a tensor of the launch; accepted: \['x_ptr', 'out_ptr'\]"
    with pytest.raises(ValueError, match=accepted):
        lab.draw_launch(copy_kernel[(1,)], X, X.clone(), 4, BLOCK=4, **{option: "n"})
