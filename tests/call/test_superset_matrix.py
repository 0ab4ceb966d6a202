"""Every option with every other: the matrix of all peers' test matrices, forward and backward.

The full product has hundreds of millions of cases. Here every value of every axis occurs, and every
pair of values of two axes that can go together; a test proves it. Results are compared with fp64.
The sizes are those of Dao-AILab/flash-attention, quack, flashinfer, Liger-Kernel and
TransformerEngine. What one option does by itself is in the files of their names.
"""

import math

import pytest
import torch

from inputs import FORMATS, LAYOUTS, angles, expanded_scalar, sequence_starts, shape_of, transposed
from ops import all_equal, bits_of, memory_of, one_element_in
from pairwise import all_pairs, pairs_between, pairs_of, with_axis
from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, rope_bw, rope_qk
from rope_kernels.call.positions import CP_ORDERS
from yardstick import assert_rounded_once, gradient_fp64, rotate_fp64

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
DTYPES["fp64"] = torch.float64
KEPT_LAYOUTS = ("contiguous", "transposed", "head_dim_strided", "sliced_with_offset")
PLACES = {name: LAYOUTS[name] for name in (*KEPT_LAYOUTS, "expanded_heads")}
PLACES["one_element_in"] = one_element_in

# What decides which kernel is compiled. Each combination that is chosen runs at several lengths.
AXES = {
    "dtype": tuple(DTYPES),
    "format": FORMATS,
    "pairing": ("half_split", "interleaved"),
    "d": (32, 64, 80, 92, 96, 112, 120, 128, 160, 192, 256, 512, 30, 100),
    "rotary": (8, 0.25, 0.5, 0.75, 1.0),  # elements, or a share of d
    "heads": ("1", "17", "41", "64", "32/8", "28/4", "73/155", "128/1"),  # of t; of q and k
    "offset": ("none", "int", "tensor"),  # all sequences start at one position; each at its own
    "ids": ("none", "int32", "int64"),
    "cp": ("1/0", "2/0", "4/3"),  # cp_size and cp_rank
    "layout": (*PLACES, "packed"),  # packed: some heads of one projection; q and k side by side
    "gradient": ("random", "random_strided", "expanded_scalar"),
    "freqs": ("angles", "cos_sin", "cos_sin_per_batch", "on_the_fly"),
    "place": ("out_of_place", "in_place"),
    "table": ("as_wide_as_it_is", "rotary_dim", "one_per_pair"),
    "start": ("at_0", "at_1", "at_the_end"),  # of the elements that turn; as far as there is room
    "angle": ("plus", "inverse"),
    "output": ("same", "half"),
}
LENGTHS = (1, 2, 7, 11, 128, 131, 217, 423, 2048, 4096, 8192)
LONGEST = 65536
MOST_ELEMENTS = 2**24  # in q and k together; where s and d are large, batch and heads shrink

D_OF_OTHERS = 8, 104, 384, 576
SMALL_AXES = AXES | {"heads": ("1", "3", "5", "4/2", "2/5"), "s": (1, 2, 5, 6)}
SMALL_AXES["d"] = (32, 64, 80, 92, 120, 256, 30, 100)
SMALL_AXES |= {
    "cp_order": CP_ORDERS,
    "engine": ("kernel", "pytorch"),
    "rows": ("more", "just_enough"),  # of a table
    "trained": ("nothing", "table"),
}

ODD_ROTARY_DIM = ((30, 0.25), (30, 0.5), (92, 0.25), (92, 0.75), (100, 0.25), (100, 0.75))
IMPOSSIBLE = {(("d", d), ("rotary", rotary)) for d, rotary in ODD_ROTARY_DIM}
# two answers to the question where a token is
IMPOSSIBLE |= {(("ids", i), ("offset", o)) for i in ("int32", "int64") for o in ("int", "tensor")}
# one place in memory for the results of all heads
IMPOSSIBLE |= {(("layout", "expanded_heads"), ("place", "in_place"))}
# one thread writes where another has yet to read
IMPOSSIBLE |= {(("output", "half"), ("place", "in_place"))}


def rotary_dim(case):
    d, rotary = case["d"], case["rotary"]
    return rotary if isinstance(rotary, int) else int(d * rotary)


def rotary_start(case):
    room = case["d"] - rotary_dim(case)
    return {"at_0": 0, "at_1": min(1, room), "at_the_end": room}[case["start"]]


def is_legal(case):
    """Can this case, or this part of a case, be asked for?"""
    if "d" in case and "rotary" in case and rotary_dim(case) % 2:
        return False
    if case.get("ids", "none") != "none" and case.get("offset", "none") != "none":
        return False
    not_in_place = case.get("layout") == "expanded_heads" or case.get("output") == "half"
    if not_in_place and case.get("place") == "in_place":
        return False
    # the gradient of a table needs what was overwritten; and a module's turns are integers
    not_trained = case.get("place") == "in_place" or case.get("freqs") == "on_the_fly"
    if not_trained and case.get("trained") == "table":
        return False
    # a rank has two chunks of equal length; no dense sequence of odd length falls into two
    is_shared = case.get("cp", "1/0") != "1/0" and case.get("format", "thd") != "thd"
    is_zigzag = case.get("cp_order", "zigzag") == "zigzag"
    return not (is_shared and is_zigzag and case.get("s", 2) % 2)


KERNELS = all_pairs(AXES, is_legal)
CASES = with_axis(KERNELS, "s", LENGTHS, is_legal, each=4)
CASES += with_axis(KERNELS[:16], "s", (LONGEST,), is_legal, each=1)  # have every value among them
CASES += all_pairs(AXES | {"d": D_OF_OTHERS, "s": (17, 198)}, is_legal)
MEET = [  # in one line of a kernel
    ("pairing", "angle", "output"),
    ("format", "offset", "cp"),
    ("format", "ids", "cp"),
    ("format", "cp_order", "cp"),
    ("rotary", "start", "table"),
]
SMALL_CASES = all_pairs(SMALL_AXES, is_legal, triples=MEET)


def name_of(case):
    return "-".join(
        f"{axis}{case[axis]}" if axis in ("d", "s") else str(case[axis]) for axis in case
    )


def test_every_pair_of_values_occurs_but_the_impossible():
    axes = AXES | {"s": (*LENGTHS, LONGEST)}
    covered = {pair for case in CASES for pair in pairs_of(case)}
    assert set(pairs_between(axes)) - covered == IMPOSSIBLE
    assert all(is_legal(case) and case.keys() == axes.keys() for case in CASES)
    assert 400 <= len({name_of(case) for case in CASES}) == len(CASES) <= 600


# from a case to a call


class Problem:
    """The tensors of a case, in memory of their own, and the arguments that rotate them."""

    def __init__(self, case, device):
        self.case, self.device = case, device
        self.format, self.dtype = case["format"], DTYPES[case["dtype"]]
        self.d2, self.start = rotary_dim(case), rotary_start(case)
        batch, heads = self.batch_and_heads()
        self.tensors = self.lay_out(batch, heads)
        self.options, self.positions = self.where_tokens_are(batch)
        self.options |= self.which_elements_turn()
        self.freqs = self.make_freqs(batch)
        self.trained = ()
        if case.get("trained") == "table":
            self.trained = (self.freqs,) if isinstance(self.freqs, torch.Tensor) else self.freqs
        for table in self.trained:
            table.requires_grad_()

    def batch_and_heads(self):
        """Three batch entries and all heads, or as many as may be."""
        heads = [int(number) for number in self.case["heads"].split("/")]
        of_one_entry = self.case["s"] * self.case["d"] * sum(heads)
        if 3 * of_one_entry <= MOST_ELEMENTS:
            return 3, heads
        share = min(1, MOST_ELEMENTS / of_one_entry)
        return 1, [max(1, int(share * number)) for number in heads]

    def lay_out(self, batch, heads):
        """Random numbers from -2 to 2, for which one tolerance does; around them in memory NaN."""
        s, d, layout = self.case["s"], self.case["d"], self.case["layout"]
        if layout == "packed":
            shape = shape_of(self.format, s, batch, sum(heads) + 2, d)
            projection = torch.randn(shape, dtype=self.dtype, device=self.device)
            *tensors, _ = projection.split([*heads, 2], dim=self.format.index("h"))
        else:
            shapes = [shape_of(self.format, s, batch, number, d) for number in heads]
            tensors = [PLACES[layout](shape, self.dtype, self.device) for shape in shapes]
        for t in tensors:
            memory_of(t).clamp_(-2, 2)
        if layout != "expanded_heads":
            values = [t.clone() for t in tensors]
            for t in tensors:
                memory_of(t).fill_(math.nan)
            for t, value in zip(tensors, values, strict=True):
                t.copy_(value)
        return tensors

    def where_tokens_are(self, batch):
        """The options of a call, and how many positions they speak of."""
        case, device, packed = self.case, self.device, self.format == "thd"
        cp_size, cp_rank = (int(number) for number in case["cp"].split("/"))
        options = {"cp_size": cp_size, "cp_rank": cp_rank}
        options["cp_order"] = case.get("cp_order", "zigzag")
        options["interleaved"] = case["pairing"] == "interleaved"
        tokens = case["s"] * (batch if packed else 1)
        sequences, positions = batch, tokens * cp_size
        if packed and case["ids"] != "int64":  # once without: position ids are enough
            starts = sequence_starts("thd", case["s"], batch, device)
            starts = starts if cp_size == 1 else starts // 2 * 2 * cp_size
            options["cu_seqlens"] = starts.long() if case["offset"] == "tensor" else starts
            sequences = len(starts) - 1
        if case["offset"] == "int":
            first = torch.full((sequences,), 5, dtype=torch.int32, device=device)
            return options | {"start_positions": first}, positions + 5
        if case["offset"] == "tensor":
            first = torch.randint(1000, (sequences,), device=device)
            return options | {"start_positions": first}, positions + 1000
        if case["ids"] != "none":
            entries = batch if case["ids"] == "int32" else 1
            shape = (tokens,) if packed else (entries, tokens)
            dtype = getattr(torch, case["ids"])
            ids = torch.randint(positions, shape, dtype=dtype, device=device)
            return options | {"position_ids": ids}, positions
        return options, positions

    def which_elements_turn(self):
        """And how; but for the defaults."""
        case, options = self.case, {}
        if case["table"] != "as_wide_as_it_is":
            options["rotary_dim"] = self.d2
        if case["start"] != "at_0":
            options["rotary_start"] = self.start
        if case["angle"] == "inverse":
            options["inverse"] = True
        if case["output"] == "half":
            options["output_pairing"] = "half"
        return options

    def make_freqs(self, batch):
        kind, fp64 = self.case["freqs"], self.dtype == torch.float64
        rows = self.positions + (0 if self.case.get("rows") == "just_enough" else 3)
        columns = self.d2 // 2 if self.case["table"] == "one_per_pair" else self.d2
        if kind == "on_the_fly":
            interleaved = self.options["interleaved"]
            return RotaryPositionEmbedding(self.d2, interleaved=interleaved).to(self.device)
        if kind == "angles":
            return angles(rows, columns, self.device, torch.float64 if fp64 else torch.float32)
        if kind == "cos_sin":
            angle = angles(rows, columns, self.device).view(rows, columns)
        else:
            entries = 1 if self.format == "thd" else batch
            angle = angles(entries * rows, columns, self.device, self.dtype)
            angle = angle.view(entries, rows, columns)
        return angle.cos(), angle.sin()

    def rotate(self, *tensors, **more):
        """Through the public function for one tensor, or for two; as a tuple."""
        options = {**self.options, **more}
        if self.case.get("engine") == "pytorch":
            options |= {"fused": False, "rounding": "once"}
        if len(tensors) == 2:
            return rope_qk(*tensors, self.freqs, self.format, **options)
        return (apply_rotary_pos_emb(*tensors, self.freqs, self.format, **options),)

    def gradient_like(self, out):
        """What arrives from the rest of the network: .sum() sends a scalar in all places."""
        kind = {"random_strided": transposed, "expanded_scalar": expanded_scalar}
        make = kind.get(self.case["gradient"], LAYOUTS["contiguous"])
        grad = make(out.shape, self.dtype, self.device)
        memory_of(grad).clamp_(-2, 2)
        return grad

    def put_back(self, values):
        """Into the rotary slice, which is all that a call in place may have changed."""
        for t, value in zip(self.tensors, values, strict=True):
            self.elements_that_turn(t)[:] = self.elements_that_turn(value)

    def elements_that_turn(self, t):
        return t[..., self.start : self.start + self.d2]

    def assert_rotated(self, t, got):
        want = rotate_fp64(t, self.freqs, self.format, **self.options)
        self.assert_close(got, want)
        for part in (slice(self.start), slice(self.start + self.d2, None)):
            assert torch.equal(got[..., part], t[..., part]), "all others pass as they are"

    def assert_gradient(self, t, grad, got):
        want = gradient_fp64(t, self.freqs, self.format, grad, **self.options)
        self.assert_close(got, want)

    def assert_gradient_of_table(self, grads, got):
        """Summed in fp32 or fp64 over heads and tokens, then rounded once."""
        exact = [x.detach().double().requires_grad_() for x in self.trained]
        freqs = exact[0] if len(exact) == 1 else tuple(exact)
        outs = [rotate_fp64(t, freqs, self.format, **self.options) for t in self.tensors]
        wants = torch.autograd.grad(outs, exact, [grad.double() for grad in grads])
        for table, one, want in zip(self.trained, got, wants, strict=True):
            assert one.dtype == table.dtype
            is_fp64 = one.dtype == self.dtype == torch.float64
            few = 1e-12 if is_fp64 else max(1e-5, 1.01 * torch.finfo(one.dtype).eps)
            atol = few * (1 + want.abs().max())
            torch.testing.assert_close(one.double(), want, rtol=few, atol=atol)

    def assert_close(self, got, want):
        if self.dtype == torch.float64 and self.case["freqs"] == "on_the_fly":
            # up to 3 units of 2^-64 turns a position are lost, of both elements of a pair
            atol = 1e-14 + 3 * 4 * 2 * math.pi * 2.0**-64 * self.positions
            torch.testing.assert_close(got, want, rtol=1e-13, atol=atol)
        else:
            assert_rounded_once(got, want)


def check(case, device, compiled=False):
    problem = Problem(case, device)
    rotate = torch.compile(problem.rotate, fullgraph=True) if compiled else problem.rotate
    if case["place"] == "in_place":
        check_in_place(problem, rotate)
    else:
        check_out_of_place(problem, rotate)


def check_out_of_place(problem, rotate):
    before = bits_of(problem.tensors)
    leaves = [t.detach().requires_grad_() for t in problem.tensors]
    outs = rotate(*leaves)
    for t, out in zip(problem.tensors, outs, strict=True):
        assert out.is_contiguous() and out.dtype == t.dtype
        problem.assert_rotated(t, out.detach())
    check_gradients(problem, leaves, outs)
    assert all_equal(bits_of(problem.tensors), before), "the caller's memory was written to"


def check_in_place(problem, rotate):
    before, values = bits_of(problem.tensors), [t.clone() for t in problem.tensors]
    with torch.no_grad():
        outs = rotate(*problem.tensors, inplace=True)
    for value, t, out in zip(values, problem.tensors, outs, strict=True):
        assert out is t
        problem.assert_rotated(value, t)
    problem.put_back(values)
    assert all_equal(bits_of(problem.tensors), before), "more than the rotary slice was written to"
    if len(values) == 1 and problem.case["gradient"] == "random":
        (value,), (grad,) = values, problem.tensors
        assert rope_bw(grad, problem.freqs, problem.format, inplace=True, **problem.options) is grad
        problem.assert_gradient(value, value, grad)
        problem.put_back(values)
        assert all_equal(bits_of(problem.tensors), before), "more than the slice was written to"
    else:
        leaves = [value.requires_grad_() for value in values]
        check_gradients(problem, leaves, rotate(*(leaf.clone() for leaf in leaves), inplace=True))


def check_gradients(problem, leaves, outs):
    grads = [problem.gradient_like(out) for out in outs]
    gradients = torch.autograd.grad(outs, [*leaves, *problem.trained], grads)
    for leaf, grad, got in zip(leaves, grads, gradients, strict=False):
        assert got.dtype == leaf.dtype
        problem.assert_gradient(leaf, grad, got)
    if problem.trained:
        problem.assert_gradient_of_table(grads, gradients[len(leaves) :])


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_matrix(case):
    check(case, "cuda")


@pytest.mark.parametrize("case", SMALL_CASES, ids=name_of)
def test_small_matrix(case, device):
    check(case, device)


# torch.compile takes seconds a case: a handful of cases, of what a graph treats differently

PLAIN = {"dtype": "bf16", "format": "sbhd", "pairing": "half_split", "d": 128, "rotary": 0.5}
PLAIN |= {"heads": "17", "offset": "none", "ids": "none", "cp": "1/0", "layout": "contiguous"}
PLAIN |= {"gradient": "random", "freqs": "angles", "place": "out_of_place", "s": 131}
PLAIN |= {"table": "as_wide_as_it_is", "start": "at_0", "angle": "plus", "output": "same"}
COMPILED = [
    {"gradient": "expanded_scalar"},
    {"format": "bhsd", "heads": "32/8", "freqs": "on_the_fly", "dtype": "fp16", "layout": "packed"},
    {"format": "thd", "offset": "tensor", "freqs": "cos_sin", "dtype": "fp32", "d": 92},
    {"format": "thd", "cp": "2/0", "freqs": "cos_sin_per_batch", "pairing": "interleaved"},
    {
        "format": "bshd",
        "ids": "int64",
        "heads": "28/4",
        "place": "in_place",
        "layout": "transposed",
    },
    {"cp": "4/3", "s": 128, "dtype": "fp64", "place": "in_place", "gradient": "random_strided"},
    {"table": "one_per_pair", "pairing": "interleaved", "output": "half", "start": "at_the_end"},
    {"table": "one_per_pair", "freqs": "cos_sin", "angle": "inverse", "d": 120, "rotary": 1.0},
    {"start": "at_1", "angle": "inverse", "place": "in_place", "heads": "28/4"},
]


@pytest.mark.gpu
@pytest.mark.parametrize(
    "changes", COMPILED, ids=lambda changes: "-".join(map(str, changes.values()))
)
def test_in_a_compiled_graph(changes):
    torch.compiler.reset()
    check(PLAIN | changes, "cuda", compiled=True)
