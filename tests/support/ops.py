"""The public functions as a table, as PyTorch's OpInfo: what to call each with, and what comes out.

An entry of `OPS` makes a `Sample` of every case of its axes: tensors, options, and the definition
in fp64. `test_ops.py` asks all entries the same questions; what one function alone has is in the
file of its name. A new function is one more entry.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

import pytest
import torch

import pairwise
import rope_kernels
from inputs import FORMATS, LAYOUTS, angles, sequence_starts, shape_of
from norm_yardstick import most_of_row, norm_rope_fp64, rstd_fp64
from pairwise import all_pairs
from rope_kernels import RotaryPositionEmbedding, norms, serving
from yardstick import assert_near, gradient_fp64, heads_of, in_format, rotate_fp64

FP32, BF16, FP16, FP64 = torch.float32, torch.bfloat16, torch.float16, torch.float64
B = 3
MOST_ELEMENTS = 2**24  # of all heads together: where s and d are large, batch and heads shrink


def one_element_in(shape, dtype, device):
    """Contiguous, but its first element is the second in memory: no wide access is aligned."""
    return torch.randn(1 + math.prod(shape), dtype=dtype, device=device)[1:].view(shape)


PLACES = {**LAYOUTS, "one_element_in": one_element_in}
del PLACES["expanded_scalar"]  # what arrives as a gradient


def every_second(x):
    return x.repeat_interleave(2, dim=-1)[..., ::2]


def transposed(x):
    return x.transpose(0, -1).contiguous().transpose(0, -1)


def first_column(x):
    """All are one, with stride 0."""
    return x[..., :1].expand_as(x)


def one_entry(x):
    """Which stands for all."""
    return x[:1] if x.dim() == 3 else x


def first_entry(x):
    return one_entry(x).expand_as(x)


def as_given(x):
    return x


# What a table is in memory, and what says where tokens are
TABLES = {x.__name__: x for x in (as_given, every_second, transposed, first_column)}
TABLES |= {x.__name__: x for x in (one_entry, first_entry)} | {"negative": torch._neg_view}
LISTS = {x.__name__: x for x in (as_given, every_second, first_column)}

# What every function that rotates understands; the first value is what most callers do.
AXES = {
    "tensor_format": FORMATS,
    "dtype": (FP32, BF16, FP16, FP64),
    "layout": tuple(PLACES),
    "gradient": ("contiguous", "transposed", "expanded_scalar", "negative_view"),
    "freqs": ("angles", "cos and sin", "cos and sin of each entry", "on the fly"),
    "table": tuple(TABLES),
    "sine": ("alike", "transposed"),  # in memory
    "dtype_of_cos": (None, FP32, BF16, FP16, FP64),  # None: that of what turns
    "positions": (
        "in order",
        "one start",
        "starts",
        "ids",
        "shared ids",
        "a row of ids",
        "zigzag",  # this and the following: of a rank
        "contiguous",
        "round_robin",
    ),
    "lists": tuple(LISTS),  # of ids, starts, bounds of sequences and slots
    "interleaved": (False, True, None),  # None: a module says it
    "d": (20, 32, 64, 72, 92, 120, 160, 30, 100),
    "rotary": (1.0, 0.5, 0.25, 0.75, 8),  # a share of d, or elements
    "start": (
        "at 0",
        "at 5",
        "at 5",
        "at the end",
    ),  # of the elements that turn; as far as there is room
    "columns": ("as many as turn", "rotary_dim", "one per pair"),  # of a table
    "rows": ("more", "just enough"),
    "trained": (False, True),  # is a table
    "inverse": (False, True),
    "output_pairing": ("same", "half"),
    "fused": (True, False),
    "s": (5, 1, 2, 6),
    "heads": ((3,), (1,), (5,)),
}
OF_PAIRS = {
    "heads": ((4, 2), (2, 5), (1, 1), (17, 2)),
    "layout_of_k": ("same", "contiguous", "head_dim_strided", "expanded_heads"),
}
OF_NORMS = {
    "weight": ("row", "none", "fp32", "strided", "negative", "expanded"),
    "norm_after": (False, True),
    "weight_offset": (0.0, 1.0, -0.25),
    "eps": (1e-6, 1e-5, 1.0, 0.0),
    "size": ("one", "tiny", "mixed", "zeros"),  # rows: about 1, 2^-9, from 0 to 4, the first 0
}
UNTRAINED = {"trained": (False,)}
MEET = [  # in one line of a kernel
    ("interleaved", "inverse", "output_pairing"),
    ("tensor_format", "positions"),
    ("rotary", "start", "columns"),
    ("positions", "lists", "fused"),
    ("freqs", "table", "fused"),
]

# All public names: those of the package itself, and of the two rooms beside it.
PUBLIC = {
    name: getattr(room, name) for room in (rope_kernels, norms, serving) for name in room.__all__
}


@dataclass(frozen=True)
class Op:
    """A public function. `OPS` has one of each."""

    name: str
    tensors: tuple[str, ...]  # arguments of `d` columns that turn, by name
    define: Callable  # (sample, tensors in fp64) -> results in fp64
    axes: dict = field(default_factory=dict)  # its own, and those of AXES that differ
    weights: tuple[str, ...] = ()
    differentiable: bool = True
    inplace: tuple[str, ...] = ()  # what `inplace` overwrites
    is_operator: bool = True  # under a trace; else plain PyTorch
    launches: tuple[int, int] = (1, 1)  # forward and backward

    def __str__(self):
        return self.name

    @property
    def function(self):
        return PUBLIC[self.name]

    @property
    def arguments(self):
        return self.tensors + self.weights

    @property
    def kind(self):
        """Functions of one kind run the same code."""
        return SAMPLES.get(self.name, Sample), self.differentiable

    def sample(self, device, **case):
        """What is not said, or not a value of this function, is the first value of its axis."""
        axes = AXES | self.axes
        chosen = {x: case[x] if x in case and case[x] in xs else xs[0] for x, xs in axes.items()}
        any_value = "d", "s", "heads", "layout", "gradient", "rotary"
        chosen |= {x: value for x, value in case.items() if x in any_value}
        return self.kind[0](self, chosen, device)

    def cases(self, **more):
        """Every legal pair of values, and all of the values that MEET."""
        axes = AXES | self.axes | more
        triples = [x for x in MEET if all(len(axes[axis]) > 1 for axis in x)]
        return all_pairs(axes, is_legal, triples=triples)


def by_turns(ops, cases, names="case"):
    """Parametrize a test: functions of one kind share the cases, with `--every` each takes all.

    Each kind takes each case, and each function one at least.
    """
    kinds, each = {}, [*product(ops, enumerate(cases))]
    for op in ops:
        kinds.setdefault(op.kind, []).append(op)
    if not pairwise.EVERY:
        each = [
            (kind[(i + i // len(kind)) % len(kind)], (i % len(cases), cases[i % len(cases)]))
            for kind in kinds.values()
            for i in range(max(len(kind), len(cases)))
        ]
    given = [(op, *(case if "," in names else [case])) for op, (_, case) in each]
    ids = [f"{op}-{'-'.join(map(str, x)) if ',' in names else i}" for op, (i, x) in each]
    return pytest.mark.parametrize(f"op, {names}", given, ids=ids)


def last_of_each_kind(ops):
    """For what takes a second; all with `--every`."""
    lasts = {op.kind: op for op in ops}
    return [op for op in ops if pairwise.EVERY or lasts[op.kind] is op]


def is_legal(case):
    """Can this case, or this part of a case, be asked for?"""
    if "d" in case and "rotary" in case and rotary_dim(case) % 2:
        return False
    dense, two_chunks = case.get("tensor_format") != "thd", case.get("positions") == "zigzag"
    if dense and two_chunks and case.get("s", 2) % 2 and "tensor_format" in case:
        return False
    if case.get("tensor_format") == "thd" and case.get("output_format") == "thd":
        return False  # said by "same"
    if case.get("tensor_format") == "thd" and case.get("positions") == "a row of ids":
        return False  # as all ids of packed tokens are
    if case.get("size") in ("mixed", "zeros") and case.get("eps") == 0:
        return False
    if case.get("trained") and case.get("freqs") == "on the fly":
        return False  # a module's frequencies are no parameters
    if case.get("weight") == "negative" and case.get("dtype") == BF16:
        return False  # there are no such complex numbers
    return "fp32" not in case.get("weight", "") or case.get("dtype") not in (FP32, FP64)


def rotary_dim(case):
    d, rotary = case["d"], case["rotary"]
    return rotary if isinstance(rotary, int) else int(d * rotary)


def name_of(case):
    def said(value):
        return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)

    return ", ".join(said(value).removeprefix("torch.") for value in case.values())


# one call


class Sample:
    """The tensors of a case, in memory of their own, its options, and the definition."""

    def __init__(self, op, case, device):
        self.op, self.case, self.device = op, case, device
        self.format, self.dtype = case["tensor_format"], case["dtype"]
        self.d, self.d2 = case["d"], rotary_dim(case)
        self.start = {"at 0": 0, "at 5": 5, "at the end": self.d}[case["start"]]
        self.start = min(self.start, self.d - self.d2)
        self.b, self.heads = self.batch_and_heads()
        self.given = self.make_tensors()
        self.where, self.positions = self.place_tokens()
        self.how = self.which_elements_turn()
        self.freqs = self.make_freqs()
        self.tables = self.trained_tables()
        self.more = {}  # options that the definition doesn't know
        self.written = {}  # tensors that a call writes into, which come back as results too

    def batch_and_heads(self):
        heads, of_one_entry = self.case["heads"], self.case["s"] * self.d * sum(self.case["heads"])
        if B * of_one_entry <= MOST_ELEMENTS:
            return B, heads
        share = min(1, MOST_ELEMENTS / of_one_entry)
        return 1, tuple(max(1, int(share * h)) for h in heads)

    def shapes(self):
        return [shape_of(self.format, self.case["s"], self.b, h, self.d) for h in self.heads]

    def make_tensors(self):
        """Random numbers from -2 to 2, for which one tolerance does; around them in memory NaN."""
        given = {}
        for name, shape in zip(self.op.tensors, self.shapes(), strict=True):
            given[name] = t = PLACES[self.layout_of(name)](shape, self.dtype, self.device)
            memory_of(t).clamp_(-2, 2)
            if not self.layout_of(name).startswith("expanded"):
                value = t.clone()
                memory_of(t).fill_(math.nan)
                t.copy_(value)
        return given

    def layout_of(self, name):
        of_k = self.case.get("layout_of_k", "same") if name == "k" else "same"
        return self.case["layout"] if of_k == "same" else of_k

    def place_tokens(self):
        """The options that say where tokens are, and how many positions they speak of."""
        kind, s, device, packed = self.case["positions"], self.case["s"], self.device, self.packed
        options, cp_size = {}, 1
        if kind in ("zigzag", "contiguous", "round_robin"):
            cp_size, rank = (4, 3) if kind == "round_robin" else (2, 1)
            options = {"cp_size": cp_size, "cp_rank": rank, "cp_order": kind}
        tokens, sequences = s * (self.b if packed else 1), self.b
        positions = tokens * cp_size
        if packed or kind.endswith("ids"):
            # Cosines with a row for each token are refused: these rows may be those of the
            # positions already.
            positions += self.case["freqs"].startswith("cos and sin")
        if kind.endswith("ids"):
            entries = self.b if kind == "ids" else 1
            dtype = torch.int64 if kind == "ids" else torch.int32
            in_a_row = packed or kind == "a row of ids"
            shape = (tokens,) if in_a_row else (entries, tokens)
            ids = torch.randint(positions, shape, dtype=dtype, device=device)
            return {"position_ids": LISTS[self.case["lists"]](ids)}, positions
        if packed:
            starts = sequence_starts("thd", s, self.b, device)
            starts = starts if cp_size == 1 else starts // 2 * 2 * cp_size
            options["cu_seqlens"] = self.spread(starts.long() if kind == "starts" else starts)
            sequences = len(starts) - 1
        below_0 = 50 * (self.case["freqs"] == "on the fly")  # no table has such positions
        if cp_size > 1 and self.case["lists"] == "first_column":  # of a whole sequence, too
            return options | {"start_positions": 5}, positions + 5
        if kind == "one start":
            number = 5 - below_0
            first = {
                "as_given": number,
                "every_second": torch.tensor(number, device=device),
                "first_column": torch.tensor([number], dtype=torch.int8, device=device),
            }
            return options | {"start_positions": first[self.case["lists"]]}, positions + 50
        if kind == "starts":
            first = torch.randint(100, (sequences,), device=device) - below_0
            return options | {"start_positions": LISTS[self.case["lists"]](first)}, positions + 100
        return options, positions

    def spread(self, numbers):
        """Unlike each other, whatever they are in memory."""
        return every_second(numbers) if self.case["lists"] == "every_second" else numbers

    @property
    def packed(self):
        return self.format == "thd"

    def which_elements_turn(self):
        """And how; but for the defaults."""
        case, options = self.case, {}
        if case["interleaved"] is not None:
            options["interleaved"] = case["interleaved"]
        needed = self.d2 < self.d and case["freqs"].startswith("cos and sin")
        if needed or case["columns"] != "as many as turn":
            options["rotary_dim"] = self.d2
        if self.start:
            options["rotary_start"] = self.start
        if case["inverse"]:
            options["inverse"] = True
        if case["output_pairing"] == "half":
            options["output_pairing"] = "half"
        return options

    def make_freqs(self):
        kind = self.case["freqs"]
        if kind == "on the fly":
            interleaved = self.case["interleaved"] is not False
            options = {"interleaved": interleaved, "attention_factor": 1.25}
            return RotaryPositionEmbedding(self.d2, **options).to(self.device)
        place, rows = TABLES[self.case["table"]], self.positions + 3 * (self.case["rows"] == "more")
        columns = self.d2 // 2 if self.case["columns"] == "one per pair" else self.d2
        if kind == "angles":
            return place(angles(rows, columns, self.device, FP64 if self.dtype == FP64 else FP32))
        entries = 1 if self.packed else self.b
        angle = angles(entries * rows, columns, self.device, FP64)
        angle = angle.view(entries, rows, columns)
        dtype = self.case["dtype_of_cos"] or self.dtype
        cos, sin = (1.4 * x.to(dtype) for x in (angle.cos(), angle.sin()))
        if not kind.endswith("entry"):
            cos, sin = torch.cat((cos[0], sin[0]), dim=-1).chunk(2, dim=-1)  # as vLLM keeps them
        cos, sin = place(cos), place(sin)
        return cos, sin if self.case["sine"] == "alike" else transposed(sin)

    def trained_tables(self):
        """By name, where a gradient is asked of them."""
        if not self.case["trained"] or self.case["freqs"] == "on the fly":
            return {}
        tables = (self.freqs,) if self.case["freqs"] == "angles" else self.freqs
        return dict(zip(("freqs",) if len(tables) == 1 else ("cos", "sin"), tables, strict=True))

    def options(self):
        """Of the call, but for those that are none of the definition's."""
        fused = self.case["fused"]
        way = {} if fused else {"fused": False}
        if not fused and not self.op.weights:
            way["rounding"] = "once"
        return {"tensor_format": self.format, **self.where, **self.how, **way, **self.more}

    def call(self, given=None, written=None, freqs=None, **changes):
        """The results as a tuple, and after them what was written into: by default copies."""
        written = copies_of(self.written) if written is None else written
        given, freqs = self.apart({**self.given, **(given or {}), **written}, freqs)
        outs = self.op.function(**given, freqs=freqs, **{**self.options(), **changes})
        return (*(outs if isinstance(outs, tuple) else (outs,)), *written.values())

    def defined(self, given=None, freqs=None):
        """The results as they should be, in fp64, differentiable."""
        given = {n: x if x is None else x.double() for n, x in (given or self.given).items()}
        return self.op.define(self, *self.apart(given, freqs))

    def apart(self, given, freqs=None):
        """What is given without tables, and these, as a function takes them."""
        tables = tuple(x for name, x in given.items() if name in self.tables)
        if tables:
            freqs = tables[0] if len(tables) == 1 else tables
        given = {name: x for name, x in given.items() if name not in self.tables}
        return given, self.freqs if freqs is None else freqs

    def rotated(self, x, freqs):
        return rotate_fp64(x, freqs, self.format, **self.where_tokens(), **self.how)

    def where_tokens(self):
        """With a number for each sequence, as the definition wants it."""
        first = self.where.get("start_positions")
        if first is None:
            return self.where
        count = len(self.where["cu_seqlens"]) - 1 if self.packed else self.b
        starts = torch.as_tensor(first, dtype=torch.int64).reshape(-1).expand(count)
        return self.where | {"start_positions": starts}

    def leaves(self, wanted=None):
        """What a gradient is asked of, in memory as it was given, and everything else."""
        given = {n: self.given[n] for n in self.op.arguments} | self.tables
        wanted = [n for n, x in given.items() if x is not None] if wanted is None else wanted
        return {n: given[n].detach().requires_grad_() for n in wanted}

    def gradients_like(self, outs):
        """What arrives from the rest of the network, where something wants a gradient."""
        make = (LAYOUTS | PLACES)[self.case["gradient"]]
        made = [make(out.shape, out.dtype, out.device) for out in outs]
        for grad in made:
            memory_of(grad).clamp_(-2, 2)
        return made

    # the comparison

    def slack(self):
        """On the fly, up to 3 units of 2^-64 turns a position are lost: seen in fp64 alone."""
        loses = self.dtype == FP64 and self.case["freqs"] == "on the fly"
        return 3 * 2 * math.pi * 2.0**-64 * self.positions * loses * 8

    def slack_of_tables(self, dtype):
        """A sum over heads and tokens; those of q and of k are rounded each, and added."""
        if dtype == self.dtype == FP64:
            return 1e-12
        return max(1e-5, torch.finfo(dtype).eps if len(self.op.tensors) > 1 else 0)

    def check(self, **changes):
        """Values and gradients are the definition's, rounded once; nothing given is written to."""
        before = bits_of(self.tensors())
        leaves = self.leaves() if self.op.differentiable else {}
        outs = self.call(leaves, **changes)
        for t, out in zip(self.like(), outs, strict=True):
            assert out.dtype == t.dtype
        new = outs[: len(outs) - len(self.written)]
        for t, out in zip(self.in_memory_like(), new, strict=False):
            like = t if t is None else torch.empty_like(t)  # as a pointwise operator's result
            assert strides_of(out) == strides_of(out.contiguous() if like is None else like)
        memories = [memory_of(x).data_ptr() for x in new if x.numel()]
        others = {memory_of(x).data_ptr() for x in self.tensors()}
        assert len({*memories} - others) == len(memories), "a result shares memory"
        self.check_values(outs)
        if leaves:
            grads = self.gradients_like(outs)
            self.check_gradients(
                leaves, grads, torch.autograd.grad(outs, [*leaves.values()], grads)
            )
        assert all_equal(bits_of(self.tensors()), before), "the caller's memory was written to"
        return outs

    def check_values(self, outs):
        for out, want in zip(outs, self.defined(), strict=True):
            assert_near(out.detach(), want, self.scale_of(want), self.slack())

    def check_gradients(self, leaves, grads, found):
        exact = {n: x.detach().double().requires_grad_() for n, x in leaves.items()}
        outs = self.defined({**self.given, **exact})
        wants = torch.autograd.grad(outs, [*exact.values()], [x.double() for x in grads])
        scales = self.scales_of_gradients(grads)
        for (name, leaf), got, want in zip(leaves.items(), found, wants, strict=True):
            assert got.dtype == leaf.dtype and got.shape == leaf.shape
            scale, slack = scales.get(name, 1.0), self.slack()
            if name in self.tables:
                scale, slack = 1 + want.abs().max(), self.slack_of_tables(got.dtype)
            assert_near(got, want, scale, slack, name)

    def scale_of(self, want):
        return 1.0

    def scales_of_gradients(self, grads):
        return {}

    def tensors(self):
        return [x for x in (*self.given.values(), *self.tables.values()) if x is not None]

    def like(self):
        """Of each result, a tensor with its dtype."""
        return [self.given[name] for name in self.op.tensors]

    def in_memory_like(self):
        """Of each new result, the tensor that has its order of strides; None: it is contiguous."""
        return self.like()


def copies_of(tensors):
    """In the same strides, whatever they are."""
    return {
        n: torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device).copy_(x)
        for n, x in tensors.items()
    }


def memory_of(t):
    """All of the memory that `t` is a part of, as one long tensor."""
    return torch.empty(0, dtype=t.dtype, device=t.device).set_(t.untyped_storage())


def strides_of(x):
    """But for dimensions where they have no effect."""
    return [step for n, step in zip(x.shape, x.stride(), strict=True) if n > 1]


def bits_of(tensors):
    return [memory_of(t).view(torch.uint8).clone() for t in tensors]


def all_equal(ones, others):
    pairs = zip(ones, others, strict=True)
    return all(one.dtype == other.dtype and torch.equal(one, other) for one, other in pairs)


# rotations


def define_rotation(sample, given, freqs):
    return tuple(sample.rotated(given[name], freqs) for name in sample.op.tensors)


def define_transpose(sample, given, freqs):
    grad, where = given["grad"], sample.where_tokens()
    return (gradient_fp64(grad, freqs, sample.format, grad, **where, **sample.how),)


# a norm and a rotation


class NormSample(Sample):
    def __init__(self, op, case, device):
        super().__init__(op, case, device)
        self.change_sizes()
        for i, name in enumerate(op.weights):
            self.given[name] = self.weight(i)
        self.norm = {name: case[name] for name in ("norm_after", "weight_offset", "eps")}

    def change_sizes(self):
        """Rows so small that eps decides, of many sizes, or without any."""
        for name, t in self.given.items():
            alone = self.layout_of(name).startswith("expanded")
            if self.case["size"] == "tiny":
                (memory_of(t) if alone else t).mul_(2.0**-9)
            elif self.case["size"] == "mixed" and not alone:
                rows = torch.rand(t.shape[:-1], device=t.device)[..., None]
                t.mul_((8 * rows - 4).clamp_min(0).to(t.dtype))
            elif self.case["size"] == "zeros" and not alone:
                t[0] = 0

    def weight(self, index):
        """(d,), from 2 to 3 and of both signs."""
        kind = self.case["weight"]
        if " and " in kind:
            kind = kind.split(" and ")[index]
        if kind == "none":
            return None
        size = 2.0 + torch.rand(self.d, device=self.device, dtype=FP64)
        size = size * torch.randn_like(size).sign()
        weight = size.to(FP32 if kind == "fp32" else self.dtype)
        twice = torch.stack([weight, weight], -1)
        kept = {
            "strided": lambda: twice[..., 0],
            "negative": lambda: torch.view_as_complex(twice).conj().imag,
            "expanded": lambda: weight[:1].expand(weight.shape),
        }
        return kept[kind]() if kind in kept else weight

    def options(self):
        return super().options() | self.norm

    def pairs(self, given):
        names = zip(self.op.tensors, self.op.weights, strict=True)
        return [(given[tensor], given[weight]) for tensor, weight in names]

    def scale_of(self, want):
        return most_of_row(want)

    def scales_of_gradients(self, grads):
        scales, eps = {}, self.norm["eps"]
        for (t, weight), grad, *names in zip(
            self.pairs(self.given), grads, self.op.tensors, self.op.weights, strict=True
        ):
            rstd, largest = rstd_fp64(t, eps), most_of_row(grad)
            normal = most_of_row(t) * rstd
            offset = self.norm["weight_offset"]
            factor = 1 if weight is None else (weight.double() + offset).abs().max()
            along = largest * normal * factor  # in a row's gradient along itself
            scales[names[0]] = rstd * (largest * factor + along * normal)
            terms = sums_of_repeated_rows(largest * normal, t, grad)
            # A program's sum rounds once for each of its rows: the more rows, the larger the error.
            # For 88 000 rows 4.1 was too little (H200, torch 2.11, Triton 3.6, 2026-11-26).
            rounded = max(1, terms.numel() ** 0.25 / 2)
            scales[names[1]] = terms.square().sum().sqrt() * rounded
        return scales


def sums_of_repeated_rows(of_rows, t, grad):
    """What rows contribute at most, those together that are one row, repeated with stride 0.

    Different rows' contributions cancel, and a sum of them stays small. The same row over and over
    does not: a partial sum grows with the number of rows, and what each addition loses with it. By
    8192 repeated rows in fp64, PyTorch's own sum was off by 4.6 of the bounds that hold for
    different rows (H200, torch 2.11, 2026-11-29).
    """
    repeated = [dim for dim in range(t.dim() - 1) if t.stride(dim) == grad.stride(dim) == 0]
    return of_rows.sum(repeated, keepdim=True) if repeated else of_rows


def define_norm(sample, given, freqs):
    options = sample.where_tokens() | sample.how | sample.norm
    return tuple(
        norm_rope_fp64(t, weight, freqs, sample.format, **options)
        for t, weight in sample.pairs(given)
    )


# out of a projection


class SplitSample(Sample):
    HEADS, KV_HEADS = 6, 3

    def __init__(self, op, case, device):
        super().__init__(op, case, device)
        self.formats = self.format, self.format
        if case["output_format"] != "same":
            self.formats = self.format, case["output_format"]

    def shapes(self):
        *tokens, _, _ = shape_of(self.format, self.case["s"], self.b, 1, self.d)
        return [(*tokens, (self.HEADS + 2 * self.KV_HEADS) * self.d)]

    def options(self):
        heads = {"num_heads": self.HEADS, "num_kv_heads": self.KV_HEADS}
        formats = {"output_format": self.formats[1], "packing": self.case["packing"]}
        return super().options() | heads | formats

    def like(self):
        return [self.given["qkv"]] * 3

    def in_memory_like(self):
        return [None] * 3


def define_split(sample, given, freqs):
    packing, heads = sample.case["packing"], (sample.HEADS, sample.KV_HEADS)
    q, k, v = heads_of(given["qkv"], packing, sample.d, *heads)
    q, k = (sample.rotated(x, freqs) for x in (q, k))
    return tuple(in_format(x, *sample.formats) for x in (q, k, v))


# into a cache


def vllm(blocks, page, heads, d):
    return torch.randn(2, blocks, page, heads, d).unbind()


def vllm_heads_first(blocks, page, heads, d):
    """k and v side by side, each head's positions together: LBHNC."""
    return torch.randn(blocks, heads, page, 2 * d).transpose(1, 2).chunk(2, dim=-1)


def vllm_blocks_inside(blocks, page, heads, d):
    return torch.randn(page, 2, heads, blocks, d).permute(1, 3, 0, 2, 4).unbind()


def sglang(blocks, page, heads, d):
    """Flat: a page has one position."""
    return [x.unsqueeze(1) for x in torch.randn(2, blocks * page, heads, d)]


def static(blocks, page, heads, d):
    """transformers': (b, h, s, d), a block is a sequence."""
    return torch.randn(2, blocks, heads, page, d).transpose(2, 3).unbind()


def unaligned(blocks, page, heads, d):
    """No address of a row is divided by 16, whatever queries and keys are."""
    return torch.randn(2, blocks, page, heads, d + 1)[..., :d].unbind()


CACHES = (vllm, vllm_heads_first, vllm_blocks_inside, sglang, static, unaligned)
CACHES = {x.__name__: x for x in CACHES}


class CacheSample(Sample):
    """Tokens in any order of slots; one of them has none, and the last no entry at all."""

    BLOCKS, PAGE = 6, 4

    def __init__(self, op, case, device):
        super().__init__(op, case, device)
        caches = CACHES[case["cache"]](self.BLOCKS, self.PAGE, self.heads[1], self.d)
        names = ("k_cache", "v_cache")
        self.written = dict(zip(names, map(self.moved, caches), strict=True))
        tokens = len(self.given["q"])
        last = self.BLOCKS * self.PAGE - 1  # of all slots, which the first token has
        slots = torch.cat((torch.tensor([last]), torch.randperm(last))).to(device)
        slots = slots[: max(min(1, tokens), tokens - 1)]
        slots[tokens // 2 :][:1] = -1
        self.slots = self.spread(slots.to(case["slots"]))

    def moved(self, cache):
        """To the device and dtype, in the strides that it has."""
        there = torch.empty_strided(
            cache.shape, cache.stride(), dtype=self.dtype, device=self.device
        )
        return there.copy_(cache)

    def options(self):
        options = super().options() | {"slot_mapping": self.slots}
        options.pop("tensor_format")
        return options


def define_cache(sample, given, freqs):
    q, k = (sample.rotated(given[name], freqs) for name in "qk")
    caches = []
    for rows, cache in zip((k, given["v"]), sample.written.values(), strict=True):
        cache = cache.double()
        for token, slot in enumerate(sample.slots.tolist()):
            if slot >= 0:
                cache[slot // cache.shape[1], slot % cache.shape[1]] = rows[token]
        caches.append(cache)
    return q, *caches


SAMPLES = {
    "norm_rope": NormSample,
    "qk_norm_rope": NormSample,
    "split_qkv_rope": SplitSample,
    "rope_to_cache": CacheSample,
}
OPS = (
    Op(
        name="apply_rotary_pos_emb",
        tensors=("t",),
        define=define_rotation,
        inplace=("t",),
    ),
    Op(
        name="rope_qk",
        tensors=("q", "k"),
        define=define_rotation,
        axes=OF_PAIRS,
        inplace=("q", "k"),
    ),
    Op(
        name="rope_fw",
        tensors=("t",),
        define=define_rotation,
        axes=UNTRAINED,
        differentiable=False,
        inplace=("t",),
    ),
    Op(
        name="rope_bw",
        tensors=("grad",),
        define=define_transpose,
        axes=UNTRAINED,
        differentiable=False,
        inplace=("grad",),
    ),
    Op(
        name="norm_rope",
        tensors=("t",),
        define=define_norm,
        axes=OF_NORMS,
        weights=("weight",),
        inplace=("t",),
        is_operator=False,
        launches=(1, 2),
    ),
    Op(
        name="qk_norm_rope",
        tensors=("q", "k"),
        define=define_norm,
        axes=OF_NORMS
        | OF_PAIRS
        | {"weight": (*OF_NORMS["weight"], "none and row", "fp32 and row")},
        weights=("q_weight", "k_weight"),
        inplace=("q", "k"),
        is_operator=False,
        launches=(1, 2),
    ),
    Op(
        name="split_qkv_rope",
        tensors=("qkv",),
        define=define_split,
        axes={
            "tensor_format": ("sbhd", "bshd", "thd"),
            "output_format": ("same", "sbhd", "bshd", "bhsd"),
            "packing": ("qkv", "grouped"),
            "d": (20, 64, 30, 72),
        },
    ),
    Op(
        name="rope_to_cache",
        tensors=("q", "k", "v"),
        define=define_cache,
        axes={
            "tensor_format": ("thd",),
            "positions": ("in order", "one start", "starts", "ids"),
            "output_pairing": ("same",),
            "trained": (False,),
            "heads": ((4, 2, 2), (5, 1, 1)),
            "slots": (torch.int64, torch.int32),
            "cache": tuple(CACHES),
        },
        differentiable=False,
        inplace=("q",),
    ),
)
DIFFERENTIABLE = tuple(op for op in OPS if op.differentiable)
# A case of each format and dtype, with other options each; a function takes what it knows of them.
FEW = (
    {"tensor_format": "sbhd", "dtype": FP32, "rotary": 0.5},
    {
        "tensor_format": "bshd",
        "dtype": BF16,
        "positions": "ids",
        "interleaved": True,
        "freqs": "cos and sin",
        "output_pairing": "half",
        "weight": "fp32",
        "packing": "grouped",
        "output_format": "bhsd",
        "columns": "one per pair",
    },
    {
        "tensor_format": "bhsd",
        "dtype": FP64,
        "freqs": "on the fly",
        "positions": "starts",
        "norm_after": True,
        "layout": "transposed",
        "weight_offset": 1.0,
        "interleaved": None,
    },
    {
        "tensor_format": "thd",
        "dtype": FP16,
        "positions": "round_robin",
        "inverse": True,
        "freqs": "cos and sin of each entry",
        "layout": "packed_qkv",
        "weight": "none",
        "start": "at the end",
        "rotary": 8,
        "slots": torch.int32,
    },
)
