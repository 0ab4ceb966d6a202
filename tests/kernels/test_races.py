"""The same bits in every run: nothing is left unwritten, nothing is read after it was overwritten.

New memory is filled with NaN before it is written (PyTorch does that on request). On a GPU every
call runs a thousand times, and with more warps than it asks for: warps of one program that shared
an element would overwrite each other's inputs. The interpreter runs one program after the other, so
on a CPU only a race between programs can show: there they run in reverse order too.
"""

import pytest
import torch

from inputs import contiguous, packed_qkv, sequence_starts, shape_of, transposed
from rope_kernels import RotaryPositionEmbedding, rope_bw, rope_fw, rope_qk
from yardstick import assert_rounded_once, gradient_fp64, rotate_fp64

pytest.importorskip("triton", reason="needs Triton")
from rope_kernels.kernels import rope_kernel, whole_rows_kernel

RUNS = 1000
OURS = (rope_kernel, "rope_kernel"), (whole_rows_kernel, "whole_rows_kernel")
INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}

bf16, fp32 = torch.bfloat16, torch.float32
CASES = {  # dtype, format, (s, b, heads, d), d2; then what is not the usual
    "many rows": (bf16, "sbhd", (64, 2, [16], 128), 128, {}),
    "many rows in place": (fp32, "bshd", (33, 3, [17], 128), 64, {"inplace": True}),
    "slices in place": (
        *(bf16, "bshd", (33, 3, [17], 128), 96),
        {"inplace": True, "interleaved": True, "layout": packed_qkv},
    ),
    "few rows": (fp32, "sbhd", (3, 1, [1], 64), 32, {"interleaved": True}),
    "few rows in place": (bf16, "bhsd", (5, 1, [2], 64), 64, {"inplace": True, "backward": True}),
    "q and k in place": (
        *(bf16, "bshd", (20, 2, [8, 2], 64), 64),
        {"inplace": True, "interleaved": True, "freqs": "on the fly"},
    ),
    "packed sequences in place": (
        *(fp32, "thd", (50, 2, [6], 80), 40),
        {"inplace": True, "layout": transposed, "freqs": "(cos, sin)"},
    ),
    "wide rows in place": (
        *(fp32, "sbhd", (4, 1, [3], 2048), 2048),
        {"inplace": True, "interleaved": True},
    ),
    "whole rows in place": (bf16, "bshd", (33, 3, [17], 120), 120, {"inplace": True}),
    "whole rows, q and k in place": (
        *(bf16, "sbhd", (33, 2, [8, 2], 72), 72),
        {"inplace": True, "freqs": "on the fly"},
    ),
    "wide whole rows in place": (  # of two warps each
        *(fp32, "sbhd", (4, 1, [3], 2044), 2044),
        {"inplace": True, "backward": True},
    ),
}

each_case = pytest.mark.parametrize("name", CASES)


class Call:
    """A call that can be made again and again with the same inputs."""

    def __init__(self, name, device):
        dtype, self.tensor_format, (s, b, heads, d), d2, unusual = CASES[name]
        if device == "cpu" and d < 1000:
            s, heads, d, d2 = min(s, 5), [min(h, 3) for h in heads], min(d, 16), min(d2, 12)
        shapes = [shape_of(self.tensor_format, s, b, h, d) for h in heads]
        layout, interleaved = unusual.get("layout", contiguous), unusual.get("interleaved", False)
        self.inputs, self.buffers = (
            [layout(shape, dtype, device) for shape in shapes] for _ in range(2)
        )
        self.inplace, self.backward = (unusual.get(key, False) for key in ("inplace", "backward"))
        self.options = {"interleaved": interleaved}
        if self.tensor_format == "thd":
            self.options["cu_seqlens"] = sequence_starts("thd", s, b, device)
        table = 1e4 * torch.randn(s * b, 1, 1, d2, device=device)  # where sines are slow
        kind = unusual.get("freqs", "angles")
        if kind == "(cos, sin)":
            table = table[:, 0, 0].cos(), table[:, 0, 0].sin()
        elif kind == "on the fly":
            table = RotaryPositionEmbedding(d2, interleaved=interleaved).to(device)
            self.options["start_positions"] = 333_333 * torch.arange(b, device=device)
        self.freqs = table

    def __call__(self, inplace=None):
        """The results: in memory that held NaN, or in place in copies of the inputs."""
        inplace = self.inplace if inplace is None else inplace
        tensors = self.buffers if inplace else self.inputs
        if inplace:
            for buffer, t in zip(self.buffers, self.inputs, strict=True):
                buffer.copy_(t)
        function = rope_qk if len(tensors) == 2 else rope_bw if self.backward else rope_fw
        outs = function(*tensors, self.freqs, self.tensor_format, inplace=inplace, **self.options)
        return outs if isinstance(outs, tuple) else (outs,)

    def expected(self):
        for t in self.inputs:
            if self.backward:
                yield gradient_fp64(t, self.freqs, self.tensor_format, t, **self.options)
            else:
                yield rotate_fp64(t, self.freqs, self.tensor_format, **self.options)


def all_bits_equal(outs, wants):
    """One boolean, on the device of the tensors."""
    pairs = zip(outs, wants, strict=True)
    bits = INTEGERS[outs[0].element_size()]
    return torch.stack([(x.view(bits) == y.view(bits)).all() for x, y in pairs]).all()


@pytest.fixture(autouse=True)
def new_memory_is_nan(device):
    torch.use_deterministic_algorithms(True)  # which fills it, too
    assert torch.empty(3, device=device).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@each_case
def test_every_element_is_written_once(name, device):
    """Into new memory and in place, to the same bits: an element rotated twice would differ."""
    call = Call(name, device)
    outs = [out.clone() for out in call(inplace=False)]
    for out, want in zip(outs, call.expected(), strict=True):
        assert_rounded_once(out, want)
    assert all_bits_equal(call(inplace=True), outs)


# programs in reverse order


class InReverse:
    """The interpreted kernel, its last program first."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        from triton.runtime.interpreter import interpreter_builder

        def launch(*args, **options):
            (programs,) = grid
            go_to = interpreter_builder.set_grid_idx
            interpreter_builder.set_grid_idx = lambda x, y, z: go_to(programs - 1 - x, y, z)
            try:
                self.kernel[grid](*args, **options)
            finally:
                del interpreter_builder.set_grid_idx

        return launch


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU has an order of its own")
@each_case
def test_the_order_of_programs_does_not_matter(name, monkeypatch, whole_way):
    call = Call(name, "cpu")
    want = [out.clone() for out in call()]
    for module, kernel in OURS:
        monkeypatch.setattr(module, kernel, InReverse(getattr(module, kernel)))
    assert all_bits_equal(call(), want)


# a thousand runs


class WithWarps:
    """The kernel, launched with a number of warps of our choice."""

    def __init__(self, kernel, num_warps):
        self.kernel, self.num_warps = kernel, num_warps

    def __getitem__(self, grid):
        launch = self.kernel[grid]
        return lambda *args, **options: launch(*args, **{**options, "num_warps": self.num_warps})


@pytest.mark.gpu
@pytest.mark.parametrize("num_warps", (1, 2, 4, 8))
@each_case
def test_a_thousand_runs_are_the_same_bits(name, num_warps, monkeypatch, whole_way):
    call = Call(name, "cuda")
    want = [out.clone() for out in call(inplace=False)]
    for module, kernel in OURS:
        monkeypatch.setattr(module, kernel, WithWarps(getattr(module, kernel), num_warps))
    same = torch.ones((), dtype=torch.bool, device="cuda")
    for _ in range(RUNS):
        same &= all_bits_equal(call(), want)
    assert same


@pytest.mark.gpu
def test_a_run_that_differs_is_noticed():
    """So that the test above can fail."""
    call = Call("many rows", "cuda")
    want = [out.clone() for out in call()]
    want[0].view(torch.int16)[-1, -1, -1, -1] += 1
    assert not all_bits_equal(call(), want)
