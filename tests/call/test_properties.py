"""What holds for every rotation, tried on inputs that Hypothesis makes up.

On a CPU any combination of kinds of input is drawn, with tiny tensors. On a GPU each combination is
one more kernel to compile: there a few are picked at random, once, and lengths, batches, values and
positions vary within them, and are larger.
"""

import random
from dataclasses import dataclass

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inputs import FORMATS, LAYOUTS, shape_of
from rope_kernels import RotaryPositionEmbedding, rope_bw, rope_fw, rope_qk
from yardstick import (
    TO_BSHD,
    assert_rounded_once,
    gradient_fp64,
    members,
    positions_of_rank,
    rotate_fp64,
)

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
LONGEST, MOST = (150, 4) if HAS_GPU else (7, 3)  # positions, batch entries
FEW, SEED = 10, 1153  # kinds of input on a GPU
SPARE = 9  # positions of a table that come after the last token, if it starts at 0
FAR = {torch.float64: 2**10}  # positions on the fly, where fp64 is still exact to 1e-15 radians

properties = settings(
    derandomize=True,  # no chance from run to run
    database=None,
    deadline=None,
    max_examples=60 if HAS_GPU else 16,
    suppress_health_check=[HealthCheck.too_slow],
)


# kinds of input

KINDS = {
    "tensor_format": FORMATS,
    "interleaved": (False, True),
    "dtype": (torch.float32, torch.bfloat16, torch.float16, torch.float64),
    "freqs": ("angles", "(cos, sin)", "(cos, sin) of each entry", "on the fly"),
    "alike": (False, True),  # do both members of a pair turn by the same angle?
    "positions": ("from 0", "starts", "ids", "shared ids"),
    "layout": tuple(LAYOUTS),
    "inplace": (False, True),
    "sizes": ((1, 64, 64), (17, 80, 40), (32, 128, 96))  # heads, d, d2
    if HAS_GPU
    else ((1, 2, 2), (3, 16, 16), (2, 13, 8)),
}


def is_legal(kind):
    if kind["tensor_format"] == "thd" and kind["freqs"] == "(cos, sin) of each entry":
        return False
    if kind["freqs"] == "on the fly" and not kind["alike"]:
        return False
    return not (kind["inplace"] and kind["layout"].startswith("expanded"))


def axes_with(fixed):
    return {**KINDS, **{name: (value,) for name, value in fixed.items()}}


def some_kinds(few, **fixed):
    """That many kinds with these properties, picked at random, always the same ones."""
    rng, picked = random.Random(SEED), []
    while len(picked) < few:
        kind = {name: rng.choice(values) for name, values in axes_with(fixed).items()}
        picked += [kind] if is_legal(kind) else []
    return picked


def kinds(few, **fixed):
    """Any kind with these properties; on a GPU one of a few."""
    if HAS_GPU:
        return st.sampled_from(some_kinds(few, **fixed))
    choices = {name: st.sampled_from(values) for name, values in axes_with(fixed).items()}
    return st.fixed_dictionaries(choices).filter(is_legal)


def test_the_few_kinds_of_a_gpu_hold_every_value():
    picked = some_kinds(FEW)
    for name, values in KINDS.items():
        assert {kind[name] for kind in picked} == set(values)


@dataclass
class Case:
    """Tensors of one kind, of random values."""

    kind: dict
    s: int
    b: int
    seed: int

    def __post_init__(self):
        torch.manual_seed(self.seed)
        self.tensor_format, self.interleaved = self.kind["tensor_format"], self.kind["interleaved"]
        self.heads, self.d, self.d2 = self.kind["sizes"]
        self.packed = self.tensor_format == "thd"
        self.s2 = SPARE + (self.s * self.b if self.packed else self.s)
        self.t, self.grad = self.tensor(self.heads), self.tensor(self.heads)
        self.freqs = self.make_freqs()
        self.options = {"interleaved": self.interleaved, **self.make_positions()}

    def tensor(self, heads):
        shape = shape_of(self.tensor_format, self.s, self.b, heads, self.d)
        return LAYOUTS[self.kind["layout"]](shape, self.kind["dtype"], DEVICE)

    def twice(self, x):
        """A value for each pair, for both members of each pair."""
        return x.repeat_interleave(2, -1) if self.interleaved else torch.cat((x, x), -1)

    def make_freqs(self):
        entries, s2, d2 = self.b if "each" in self.kind["freqs"] else 1, self.s2, self.d2
        if self.kind["freqs"] == "on the fly":
            return RotaryPositionEmbedding(d2, interleaved=self.interleaved).to(DEVICE)
        dtype = self.kind["dtype"]
        if self.kind["freqs"] == "angles" and dtype != torch.float64:
            dtype = torch.float32
        table = 10 * torch.randn(entries, s2, d2, device=DEVICE, dtype=dtype)
        if self.kind["alike"]:
            table = self.twice(table[..., : d2 // 2])
        if self.kind["freqs"] == "angles":
            return table[0, :, None, None]
        table = table if entries > 1 else table[0]
        # a pair whose members differ need not lie on the circle
        return table.cos(), (table if self.kind["alike"] else table.flip(-2)).sin()

    def make_positions(self):
        s, b, tokens = self.s, self.b, self.s * self.b
        on_the_fly = self.kind["freqs"] == "on the fly"
        far = FAR.get(self.kind["dtype"], 2**24) if on_the_fly else self.s2
        where = self.kind["positions"]
        if not self.packed:
            return {
                "from 0": {},
                "starts": {"start_positions": self.integers(far - s + 1, b)},
                "ids": {"position_ids": self.integers(far, b, s)},
                "shared ids": {"position_ids": self.integers(far, 1, s).int()},
            }[where]
        cuts = self.integers(tokens + 1, b).sort().values.int()  # what is past the last is padding
        cu_seqlens = torch.cat((torch.zeros_like(cuts[:1]), cuts))
        return {
            "from 0": {"cu_seqlens": cu_seqlens},
            "starts": {
                "cu_seqlens": cu_seqlens,
                "start_positions": self.integers(far - tokens + 1, b),
            },
            "ids": {"position_ids": self.integers(far, tokens)},
            "shared ids": {"cu_seqlens": cu_seqlens, "position_ids": self.integers(far, tokens)},
        }[where]

    def integers(self, end, *shape):
        return torch.randint(0, end, shape, device=DEVICE)

    def forward(self, t, **options):
        return rope_fw(t, self.freqs, self.tensor_format, **{**self.options, **options})

    def backward(self, grad, **options):
        return rope_bw(grad, self.freqs, self.tensor_format, **{**self.options, **options})


def cases(few=2, **fixed):
    """Cases of any kind with the `fixed` properties."""
    lengths, batches = st.integers(1, LONGEST), st.integers(1, MOST)
    return st.builds(Case, kinds(few, **fixed), lengths, batches, st.integers(0, 2**32 - 1))


def assert_close_in_fp64(got, want):
    torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-10)


fp64 = torch.float64


# the properties


@properties
@given(cases(FEW))
def test_it_is_rope_by_its_definition(case):
    want = rotate_fp64(case.t, case.freqs, case.tensor_format, **case.options)
    want_grad = gradient_fp64(case.t, case.freqs, case.tensor_format, case.grad, **case.options)
    inplace = case.kind["inplace"]
    assert_rounded_once(case.forward(case.t, inplace=inplace), want)
    assert_rounded_once(case.backward(case.grad, inplace=inplace), want_grad)


@properties
@given(cases(dtype=fp64), st.floats(-8, 8), st.floats(-8, 8))
def test_it_is_linear(case, a, b):
    x, y = case.t, case.grad
    assert_close_in_fp64(case.forward(a * x + b * y), a * case.forward(x) + b * case.forward(y))
    assert_close_in_fp64(case.backward(a * x + b * y), a * case.backward(x) + b * case.backward(y))


@properties
@given(cases(dtype=fp64))
def test_backward_is_the_adjoint(case):
    """<R t, g> = <t, R^T g>, whether or not a pair's members turn alike."""
    one_way = (case.forward(case.t) * case.grad).sum()
    other_way = (case.t * case.backward(case.grad)).sum()
    torch.testing.assert_close(one_way, other_way, rtol=1e-9, atol=1e-8)


@properties
@given(cases(dtype=fp64, alike=True))
def test_backward_undoes_forward_and_pairs_keep_their_length(case):
    out = case.forward(case.t)
    assert_close_in_fp64(case.backward(out), case.t)
    assert_close_in_fp64(case.forward(case.backward(case.t)), case.t)
    assert torch.equal(out[..., case.d2 :], case.t[..., case.d2 :])
    first, second = members(case.d2, case.interleaved)
    lengths = [
        torch.hypot(x[..., : case.d2][..., first], x[..., : case.d2][..., second])
        for x in (out, case.t)
    ]
    assert_close_in_fp64(*lengths)


@properties
@given(
    cases(few=1, dtype=fp64, alike=True, tensor_format="bshd", positions="ids", freqs="on the fly"),
    st.integers(0, 2**40),
)
def test_scores_depend_on_how_far_apart_two_tokens_are(case, shift):
    """<R_m q, R_n k> is the same where both are `shift` further on, however far that is.

    And to be turned on by `shift` twice is to be turned on by twice as much.
    """
    q, k, m = case.t, case.grad, case.options["position_ids"]
    n = m.flip(0, 1)

    def scores(shift):
        rotated_q = case.forward(q, position_ids=m + shift)
        return (rotated_q * case.forward(k, position_ids=n + shift)).sum(-1)

    assert_close_in_fp64(scores(shift), scores(0))
    twice = case.forward(q)
    for _ in range(2):
        twice = case.forward(twice, position_ids=torch.full_like(m, shift))
    assert_close_in_fp64(twice, case.forward(q, position_ids=m + 2 * shift))


@properties
@given(
    cases(few=1, dtype=fp64, tensor_format="sbhd", freqs="angles", positions="ids"),
    st.integers(0, SPARE),
)
def test_scores_with_a_table_too(case, shift):
    """Where its angles grow evenly."""
    turns = case.twice(torch.randn(case.d2 // 2, device=DEVICE, dtype=fp64))
    case.freqs = (torch.arange(case.s2 + SPARE, device=DEVICE)[:, None] * turns)[:, None, None]
    m = case.options["position_ids"]

    def scores(shift):
        rotated_q = case.forward(case.t, position_ids=m + shift)
        rotated_k = case.forward(case.grad, position_ids=m.flip(0, 1) + shift)
        return (rotated_q * rotated_k).sum(-1)

    torch.testing.assert_close(scores(shift), scores(0), rtol=1e-9, atol=1e-9)


@properties
@given(cases(few=3, tensor_format="bshd", layout="contiguous"))
def test_the_formats_differ_in_the_order_of_dimensions_only(case):
    """Bit by bit; packed sequences too, if the batch entries are packed one after the other."""
    want = case.forward(case.t)
    for tensor_format in ("sbhd", "bhsd"):
        there = [TO_BSHD[tensor_format].index(dim) for dim in range(4)]
        t = case.t.permute(there)
        for layout in (t, t.contiguous()):
            out = rope_fw(layout, case.freqs, tensor_format, **case.options)
            assert torch.equal(out.permute(TO_BSHD[tensor_format]), want)
    if "each" in case.kind["freqs"]:
        return
    options = dict(case.options)
    if "position_ids" in options:
        options["position_ids"] = options["position_ids"].expand(case.b, case.s).flatten()
    else:
        options["cu_seqlens"] = torch.arange(case.b + 1, device=DEVICE) * case.s
    out = rope_fw(case.t.flatten(0, 1), case.freqs, "thd", **options)
    assert torch.equal(out.view_as(want), want)


@properties
@given(cases(), st.sampled_from((1, 3)), st.sampled_from((False, True)))
def test_q_and_k_together_are_each_alone(case, k_heads, swapped):
    """Bit by bit, into new memory and in place, whichever has more heads."""
    tensors = case.t, case.tensor(k_heads)
    tensors = tensors[::-1] if swapped else tensors
    wants = [case.forward(t) for t in tensors]
    inplace = case.kind["inplace"]
    outs = rope_qk(*tensors, case.freqs, case.tensor_format, inplace=inplace, **case.options)
    for out, want, t in zip(outs, wants, tensors, strict=True):
        assert torch.equal(out, want) and (out is t) == inplace


@properties
@given(cases(positions="from 0", layout="transposed"), st.integers(0, SPARE))
def test_ways_to_say_where_the_tokens_are(case, start):
    """A start, position ids that begin there, and the table cut off before it."""
    if case.packed:
        lengths = case.options["cu_seqlens"].diff()
        position = torch.cat([start + torch.arange(int(n), device=DEVICE) for n in lengths])
        case.t = case.t[: len(position)]  # without padding
        ids, starts = position, torch.full_like(lengths, start)
    else:
        ids = (start + torch.arange(case.s, device=DEVICE)).expand(case.b, -1)
        starts = torch.full((case.b,), start, device=DEVICE)
    out = case.forward(case.t, start_positions=starts)
    assert torch.equal(case.forward(case.t, position_ids=ids), out)
    if not case.packed:
        assert torch.equal(case.forward(case.t, position_ids=ids[:1]), out)
    if isinstance(case.freqs, tuple):
        case.freqs = tuple(x[..., start:, :] for x in case.freqs)
    elif isinstance(case.freqs, torch.Tensor):
        case.freqs = case.freqs[start:]
    else:
        return
    assert torch.equal(case.forward(case.t), out)


@properties
@given(
    cases(few=1, positions="from 0", layout="contiguous"),
    st.sampled_from((2, 3)),
    st.sampled_from((False, True)),
)
def test_the_ranks_put_together_are_the_whole(case, cp_size, starts):
    """Every rank has two chunks of each sequence; in bits they are what one device computes."""
    chunks = 2 * cp_size
    if starts:
        case.options["start_positions"] = case.integers(SPARE, case.b)
    lengths = [chunks * (1 + (case.seed + i) % 3) for i in range(case.b)]  # unequal if packed
    lengths = lengths if case.packed else [chunks * case.s] * case.b
    ends = torch.tensor([0, *lengths]).cumsum(0)
    case.s2 += max(lengths)
    case.freqs = case.make_freqs()
    if case.packed:
        case.options["cu_seqlens"] = ends.to(DEVICE)
        case.b, case.s = 1, sum(lengths)
    else:
        case.s = lengths[0]
    whole = case.tensor(case.heads)
    want = case.forward(whole)
    s_dim = case.tensor_format.index("t" if case.packed else "s")
    for rank in range(cp_size):
        if case.packed:
            mine = [
                start + positions_of_rank(length, cp_size, rank)
                for start, length in zip(ends.tolist(), lengths, strict=False)
            ]
            mine = torch.cat(mine)
        else:
            mine = positions_of_rank(case.s, cp_size, rank)
        mine = mine.to(DEVICE)
        out = case.forward(whole.index_select(s_dim, mine), cp_size=cp_size, cp_rank=rank)
        assert torch.equal(out, want.index_select(s_dim, mine))
