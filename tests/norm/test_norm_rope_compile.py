"""`norm_rope` under torch.compile, in CUDA graphs, and counted: few kernels, the same bits always.

Traced with derivatives and all (`aot_eager`), which needs no compiler; on a GPU by Inductor too.
"""

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from inputs import FORMATS, angles, packed_qkv, sequence_starts, shape_of
from norm_yardstick import check, norm_rope_fp64, outs_and_grads
from pairwise import all_pairs, first_of
from rope_kernels import RotaryPositionEmbedding, norm_rope, qk_norm_rope, sum_of_squares
from rope_kernels.launch import kernel_plans
from test_compile import (
    DTYPE,
    LENGTHS,
    Recorder,
    assert_compiled_at_most_twice,
    assert_same_bits,
    capture,
    compiled,
    freqs_of,
    operator_calls,
    positions_of,
)
from test_compile import nothing_compiled_before as nothing_compiled_before  # a fixture
from test_counts import queued_by

S, B, D, D2 = 4, 2, 10, 6
BY_NAME = {None: None, "(d,)": lambda h: (D,), "(h, d)": lambda h: (h, D)}
AXES = {
    "tensor_format": FORMATS,
    "interleaved": (False, True),
    "freqs": ("angles", "(cos, sin)", "on the fly"),
    "positions": ("from 0", "starts", "ids", "a rank"),
    "call": ("t", "q and k", "in place", "q and k in place"),
    "weights": tuple(BY_NAME),
    "norm": ("once", "model", "after", "sumsq"),
    "grad": (False, True),
}
NORMS = {
    "once": {"weight_offset": 1.0},
    "model": {"rounding": "model"},
    "after": {"norm_after": True, "eps": 1e-3},
    "sumsq": {"norm_dim": 3 * D},
}


def is_legal(case):
    return not (case.get("grad") and case.get("call", "").endswith("in place"))


CASES = all_pairs(AXES, is_legal)


def name_of(case):
    return ", ".join(str(value) for value in case.values())


class Case:
    """What to call, and fresh random tensors to call it with."""

    def __init__(self, case, device):
        self.case, self.device, self.format = case, device, case["tensor_format"]
        self.inplace = case["call"].endswith("in place")
        self.heads = (3, 1) if case["call"].startswith("q and k") else (3,)
        self.freqs = freqs_of(case["freqs"], case["interleaved"], device)
        self.options = positions_of(case["positions"], self.format, device) | NORMS[case["norm"]]
        self.options["interleaved"] = case["interleaved"]

    def inputs(self):
        """Tensors, weights and sums of squares, flat."""
        shape_of_weight, dtype = BY_NAME[self.case["weights"]], DTYPE[self.format]
        exact = torch.promote_types(dtype, torch.float32)
        inputs = [self.random(shape_of(self.format, S, B, h, D)).to(dtype) for h in self.heads]
        shapes = [t.shape[:-1] for t in inputs]
        if shape_of_weight is not None:
            inputs += [1 + self.random(shape_of_weight(h)).to(dtype) for h in self.heads]
        if self.case["norm"] == "sumsq":
            inputs += [20 + self.random(shape).to(exact) for shape in shapes]
        return [x.requires_grad_(self.case["grad"]) for x in inputs]

    def random(self, shape):
        return torch.randn(shape, device=self.device)

    def rotate(self, *inputs):
        inputs, n = list(inputs), len(self.heads)
        tensors, inputs = inputs[:n], inputs[n:]
        weights = [None] * n
        if self.case["weights"] is not None:
            weights, inputs = inputs[:n], inputs[n:]
        options = {**self.options, "inplace": self.inplace}
        if n == 1:
            sumsq = inputs[0] if inputs else None
            return (norm_rope(*tensors, *weights, self.freqs, self.format, sumsq=sumsq, **options),)
        sumsq = tuple(inputs) if inputs else None
        return qk_norm_rope(*tensors, *weights, self.freqs, self.format, sumsq=sumsq, **options)


def run(function, inputs, grads):
    """Its results, what it leaves in its inputs, and gradients."""
    inputs = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
    outs = function(*inputs)
    grads = torch.autograd.grad(outs, inputs, grads) if grads else ()
    return [*outs, *inputs, *grads]


@pytest.mark.parametrize("case", first_of(CASES), ids=name_of)
def test_the_same_bits_as_eager_in_one_graph(case, device):
    case = Case(case, device)
    function, counter = compiled(case.rotate)
    for _ in range(2):
        inputs = case.inputs()
        outs = inputs[: len(case.heads)] if case.case["grad"] else ()
        grads = [torch.randn_like(t) for t in outs]
        assert_same_bits(run(function, inputs, grads), run(case.rotate, inputs, grads))
    assert counter.frame_count == 1


@pytest.mark.parametrize("case", [case for case in CASES if not case["grad"]][::4], ids=name_of)
def test_opcheck(case, device):
    case = Case(case, device)
    for operator, args, kwargs in operator_calls(case.rotate, *case.inputs()):
        assert ("inplace" in str(operator)) == case.inplace
        torch.library.opcheck(operator, args, kwargs)


def test_a_frozen_k_in_one_graph(device):
    q, k = torch.randn(2, S, B, 3, D, device=device)
    q, weight, freqs = q.requires_grad_(), torch.randn(D, device=device), angles(S, D2, device)
    function, _ = compiled(lambda q: qk_norm_rope(q, k, weight, weight, freqs))
    outs, grad = function(q), torch.randn_like(q)
    assert [out.requires_grad for out in outs] == [True, False]
    wants = qk_norm_rope(q, k, weight, weight, freqs)
    got, want = (torch.autograd.grad(found[0], q, grad) for found in (outs, wants))
    assert_same_bits([*outs, *got], [*wants, *want])


def test_one_weight_for_q_and_k_in_one_graph(device):
    """And one tensor as both: its gradient is the sum."""
    leaves = [torch.randn(S, B, 3, D, device=device), torch.randn(D, device=device)]
    leaves, freqs = [x.requires_grad_() for x in leaves], angles(S, D2, device)
    grads = [torch.randn_like(leaves[0]) for _ in "qk"]

    def rotate(t, weight):
        return qk_norm_rope(t, t, weight, weight, freqs)

    assert_same_bits(run(compiled(rotate)[0], leaves, grads), run(rotate, leaves, grads))


def test_a_norm_over_all_heads_in_one_graph(device):
    """The sum over heads is PyTorch's, and its gradient goes through the operator.

    In a graph squares are added by other operators than in eager mode: not bit for bit.
    """
    t, weight = torch.randn(S, B, 3, D, device=device), torch.randn(3, D, device=device)
    freqs = angles(S, D2, device)

    def rotate(t, weight):
        sumsq = sum_of_squares(t).sum(-1, keepdim=True)
        return (norm_rope(t, weight, freqs, sumsq=sumsq, norm_dim=3 * D),)

    function, counter = compiled(rotate)
    inputs, grads = [t.requires_grad_(), weight.requires_grad_()], [torch.randn_like(t)]
    torch.testing.assert_close(
        run(function, inputs, grads), run(rotate, inputs, grads), rtol=2e-6, atol=2e-6
    )
    assert counter.frame_count == 1


def test_a_new_length_compiles_no_new_graph(device):
    tensor_format = "thd"
    weight, freqs = torch.randn(D, device=device), angles(40, D2, device)

    def rotate(t, options):
        return norm_rope(t, weight, freqs, tensor_format, **options)

    inputs = []
    for s in LENGTHS:
        t = torch.randn(shape_of(tensor_format, s, B, 3, D), device=device)
        inputs.append((t, {"cu_seqlens": sequence_starts(tensor_format, s, B, device)}))
    assert_compiled_at_most_twice(rotate, inputs)


# on a GPU: counted, captured, repeated


def qk(
    tensor_format="sbhd", layout=None, dtype=torch.bfloat16, s=64, d=128, per_head=False, **options
):
    """Queries, keys, weights, a table, and a function of the first four."""
    shapes = [shape_of(tensor_format, s, 2, h, d) for h in (8, 2)]
    make = layout or (lambda shape, dtype, device: torch.randn(shape, dtype=dtype, device=device))
    leaves = [make(shape, dtype, "cuda") for shape in shapes]
    shapes = [(h, d) if per_head else (d,) for h in (8, 2)]
    leaves += [torch.randn(shape, device="cuda", dtype=dtype) for shape in shapes]
    leaves = [x.detach().requires_grad_() for x in leaves]
    freqs = angles(2 * s, d, "cuda")
    options["cu_seqlens"] = sequence_starts(tensor_format, s, 2, "cuda")
    return leaves, lambda *leaves: qk_norm_rope(*leaves, freqs, tensor_format, **options)


OURS = [kernel_plans.FORWARD, kernel_plans.BACKWARD, kernel_plans.SUM]
COUNTED = {
    **{tensor_format: {"tensor_format": tensor_format} for tensor_format in FORMATS},
    "packed qkv": {"layout": packed_qkv},
    "norm after": {"norm_after": True},
    "model": {"rounding": "model"},
}


@pytest.mark.gpu
@pytest.mark.parametrize("through", ("eager", "compiled"))
@pytest.mark.parametrize("name", COUNTED)
def test_one_kernel_forward_and_two_backward(name, through):
    leaves, rotate = qk(**COUNTED[name])
    function = torch.compile(rotate, fullgraph=True) if through == "compiled" else rotate
    assert queued_by(lambda: function(*leaves)) == (OURS[:1], [], [])
    outs = function(*leaves)
    grads = [torch.randn_like(out) for out in outs]
    backward = lambda: torch.autograd.grad(outs, leaves, grads, retain_graph=True)  # noqa: E731
    assert queued_by(backward) == (OURS[1:], [], [])
    wants = torch.autograd.grad(rotate(*leaves), leaves, grads)
    assert_same_bits([*outs, *backward()], [*rotate(*leaves), *wants])


@pytest.mark.gpu
@pytest.mark.parametrize("norm_after", (False, True))
@pytest.mark.parametrize("per_head", (False, True), ids=("(d,)", "(h, d)"))
@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float32), ids=str)
@pytest.mark.parametrize("tensor_format", FORMATS)
def test_gradients_of_weights_are_equal_bit_for_bit_in_100_runs(
    tensor_format, dtype, per_head, norm_after
):
    """With atomics no two runs on a GPU agree."""
    leaves, rotate = qk(tensor_format, None, dtype, 1000, per_head=per_head, norm_after=norm_after)
    outs = rotate(*leaves)
    grads = [torch.randn_like(out) for out in outs]
    first = torch.autograd.grad(outs, leaves, grads, retain_graph=True)
    between = torch.randn(1024, 1024, device="cuda")
    for i in range(100):
        if i % 2:  # other work, so that programs end in another order
            between = between @ between
        assert_same_bits(torch.autograd.grad(outs, leaves, grads, retain_graph=True), first)


@pytest.mark.gpu
@pytest.mark.parametrize("rounding", ("once", "model"))
@pytest.mark.parametrize("tensor_format", ("bshd", "thd"))
def test_a_cuda_graph_of_forward_and_backward(tensor_format, rounding):
    leaves, rotate = qk(tensor_format, rounding=rounding)
    grads = [torch.randn_like(t) for t in leaves[:2]]

    def step():
        outs = rotate(*leaves)
        return [*outs, *torch.autograd.grad(outs, leaves, grads)]

    graph, results = capture(step)
    for _ in range(3):
        for buffer in (*leaves, *grads):
            buffer.data.normal_()
        graph.replay()
        assert_same_bits(results, step())


@pytest.mark.gpu
@pytest.mark.parametrize("tensor_format", FORMATS)
def test_many_tokens(tensor_format):
    """More tiles than programs: every program of the backward adds up several."""
    tensors = [torch.randn(shape_of(tensor_format, 2000, 2, h, 128), device="cuda") for h in (8, 2)]
    weights = [torch.randn(128, device="cuda") for _ in "qk"]
    options = {"cu_seqlens": sequence_starts(tensor_format, 2000, 2, "cuda")}
    check(tensors, weights, angles(4000, 128, "cuda"), tensor_format, **options)


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    """Offsets past 2^31 need 64 bits; the last positions of a large tensor show a wrapped one."""
    s, b, h, d = 8448, 16, 64, 256
    assert s * b * h * d > 2**31
    freqs, weight = angles(s, d, "cuda"), torch.randn(d, device="cuda")
    t = torch.empty(s, b, h, d, device="cuda", dtype=torch.bfloat16).normal_()
    (got,) = outs_and_grads([t], [weight], freqs, "sbhd", [t])
    for part in (slice(0, 8), slice(s - 8, s)):
        want = norm_rope_fp64(t[part], weight, freqs[part])
        torch.testing.assert_close(got["out"][part].double(), want, rtol=4e-3, atol=1e-5)
        (few,) = outs_and_grads([t[part]], [weight], freqs[part], "sbhd", [t[part]])
        assert_same_bits([got["t"][part]], [few["t"]])


def test_another_rank_is_traced_anew():
    """Then sizes are symbols, and a weight is compared with them."""
    torch._dynamo.reset()
    rope, weight = RotaryPositionEmbedding(16), torch.ones(16)
    x = torch.randn(4, 2, 2, 16)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def normalize(t, tensor_format, ids):
        return norm_rope(t, weight, rope, tensor_format, position_ids=ids)

    ids = torch.arange(4)
    for given in ((x, "sbhd", ids[None].expand(2, 4)), (x[:, 0], "thd", ids)):
        wanted = norm_rope(given[0], weight, rope, given[1], position_ids=given[2])
        torch.testing.assert_close(normalize(*given), wanted)


@pytest.mark.parametrize("case", [case for case in CASES if case["grad"]][::6], ids=name_of)
def test_opcheck_of_the_backward(case, device):
    """What is traced has the shapes and dtypes of what is computed, and Inductor allocates it."""
    case, calls = Case(case, device), []
    backend = aot_autograd(
        fw_compiler=lambda graph, _: make_boxed_func(graph.forward),
        bw_compiler=lambda graph, _: make_boxed_func(
            lambda *args: Recorder(graph, calls).run(*args)
        ),
    )
    inputs = case.inputs()
    outs = torch.compile(case.rotate, backend=backend, fullgraph=True)(*inputs)
    sum(out.sum() for out in outs).backward()
    assert calls
    for operator, args, kwargs in calls:
        torch.library.opcheck(operator, args, kwargs, test_utils=("test_schema", "test_faketensor"))
