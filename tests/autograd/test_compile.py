"""Under torch.compile and in CUDA graphs: the same bits as eager, one graph, no needless compiling.

The cases hold every pair of a format, a pairing, a kind of freqs, a kind of positions and a way to
call. They are traced with derivatives and all (`aot_eager`), which needs no compiler. Inductor must
add no kernel to the one that eager launches: in its code on any machine, and counted on a GPU.
"""

import re
import warnings

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch._dynamo.utils import counters, warn_once_cache
from torch._inductor.utils import run_and_get_code
from torch.fx.experimental.proxy_tensor import make_fx

from inputs import FORMATS, angles, contiguous, sequence_starts, shape_of, transposed
from pairwise import all_pairs, first_of
from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, rope_bw, rope_qk
from test_counts import OURS, kernels_of
from yardstick import assert_rounded_once, rotate_fp64

S, B, H, D, D2 = 4, 2, 3, 10, 6
S2 = 20  # positions in the tables
DTYPE = {  # every dtype once, for each is compiled anew on a GPU
    "sbhd": torch.float32,
    "bshd": torch.bfloat16,
    "bhsd": torch.float64,
    "thd": torch.float16,
}
LENGTHS = (5, 9, 4, 16, 2, 7)
INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function, backend="aot_eager", **options):
    """`function` in one graph (a break is an error), and a counter of the graphs made."""
    counter = CompileCounterWithBackend(backend)
    return torch.compile(function, backend=counter, fullgraph=True, **options), counter


def assert_same_bits(got, want):
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        bits = INTEGERS[one.element_size()]
        one, other = (x.detach().contiguous().view(bits) for x in (one, other))
        assert torch.equal(one, other)


# every kind of input


def freqs_of(kind, interleaved, device, dtype=torch.float32):
    if kind == "on the fly":
        return RotaryPositionEmbedding(D2, interleaved=interleaved).to(device)
    if kind == "angles":
        return angles(S2, D2, device)
    shape = (B, S2, D2) if kind == "(cos, sin) of each entry" else (S2, D2)
    return contiguous(shape, dtype, device), contiguous(shape, dtype, device)


def positions_of(kind, tensor_format, device):
    if tensor_format != "thd":
        return {
            "from 0": {},
            "starts": {"start_positions": torch.tensor([3, 0], device=device)},
            "ids": {"position_ids": torch.randint(0, S2, (B, S), device=device)},
            "a rank, by turns": {"cp_size": 2, "cp_rank": 1, "cp_order": "round_robin"},
        }[kind]
    cu_seqlens = sequence_starts("thd", S, B, device)
    return {
        "from 0": {"cu_seqlens": cu_seqlens},
        "starts": {
            "cu_seqlens": cu_seqlens,
            "start_positions": torch.tensor([3, 0, 2, 1], device=device),
        },
        "ids": {"position_ids": torch.randint(0, S2, (S * B,), device=device)},
        "a rank, by turns": {
            "cu_seqlens": torch.tensor([0, 6, 6, 10], device=device),
            "cp_size": 2,
            "cp_rank": 1,
            "cp_order": "round_robin",
        },
    }[kind]


AXES = {
    "tensor_format": FORMATS,
    "interleaved": (False, True),
    "freqs": ("angles", "(cos, sin)", "(cos, sin) of each entry", "on the fly"),
    "positions": ("from 0", "starts", "ids", "a rank, by turns"),
    "call": ("apply", "q and k", "in place", "q and k in place", "backward alone"),
    "grad": (False, True),
}


def is_legal(case):
    packed = case.get("tensor_format") == "thd"
    if packed and case.get("freqs") == "(cos, sin) of each entry":
        return False  # packed tokens are one batch entry
    return not (case.get("call") == "backward alone" and case.get("grad"))


def name_of(case):
    return ", ".join(str(value) for value in case.values())


CASES = all_pairs(AXES, is_legal)


class Case:
    """What to call, and fresh random tensors to call it with, as often as asked."""

    def __init__(self, case, device):
        tensor_format, self.call, self.grad = case["tensor_format"], case["call"], case["grad"]
        self.shape = shape_of(tensor_format, S, B, H, D)
        self.k_shape = shape_of(tensor_format, S, B, 1, D)
        self.dtype, self.device, self.tensor_format = DTYPE[tensor_format], device, tensor_format
        self.freqs = freqs_of(case["freqs"], case["interleaved"], device)
        self.options = positions_of(case["positions"], tensor_format, device)
        self.options["interleaved"] = case["interleaved"]

    def inputs(self):
        shapes = [self.shape, self.k_shape] if self.call.startswith("q and k") else [self.shape]
        return [
            transposed(shape, self.dtype, self.device).requires_grad_(self.grad) for shape in shapes
        ]

    def rotate(self, *tensors):
        """In place: something that is no leaf, as autograd wants it."""
        inplace = self.call.endswith("in place")
        if inplace and self.grad:
            tensors = [t * 1 for t in tensors]
        rotate = {"q and k": rope_qk, "backward alone": rope_bw}
        rotate = rotate.get(self.call.removesuffix(" in place"), apply_rotary_pos_emb)
        outs = rotate(*tensors, self.freqs, self.tensor_format, inplace=inplace, **self.options)
        return outs if isinstance(outs, tuple) else (outs,)


def run(function, inputs, grads=()):
    """Its results, what it leaves in its inputs, and gradients."""
    inputs = [t.detach().clone().requires_grad_(t.requires_grad) for t in inputs]
    outs = function(*inputs)
    grads = torch.autograd.grad(outs, inputs, grads) if grads else ()
    return [*outs, *inputs, *grads]


@pytest.mark.parametrize("case", first_of(CASES), ids=name_of)
def test_the_same_bits_as_eager_in_one_graph(case, device):
    case = Case(case, device)
    function, counter = compiled(case.rotate)
    for _ in range(2):
        inputs = case.inputs()
        grads = [torch.randn_like(t) for t in inputs] if case.grad else ()
        assert_same_bits(run(function, inputs, grads), run(case.rotate, inputs, grads))
    assert counter.frame_count == 1


def test_a_gradient_for_freqs(device):
    """Of `q` and `k` together, by plain PyTorch, which may add up in another order."""
    cos, sin = freqs_of("(cos, sin) of each entry", False, device)
    q, k = (torch.randn(B, S, heads, D, device=device) for heads in (H, 1))
    inputs = [x.requires_grad_() for x in (q, k, cos, sin)]

    def rotate(q, k, *table):
        return rope_qk(q, k, table, "bshd", **positions_of("starts", "bshd", device))

    grads = [torch.randn_like(x) for x in (q, k)]
    function, counter = compiled(rotate)
    torch.testing.assert_close(run(function, inputs, grads), run(rotate, inputs, grads))
    assert counter.frame_count == 1


def test_compiling_warns_of_nothing(device):
    t, freqs = torch.randn(S, B, H, D, device=device), angles(S, D2, device)
    warn_once_cache.clear()  # what was said in another test would not be said again
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled(lambda t: apply_rotary_pos_emb(t, freqs))[0](t)
        compiled(lambda t: apply_rotary_pos_emb(t, freqs, inplace=True))[0](t)
    assert not [str(warning.message) for warning in caught if "rope" in str(warning.message)]


# compiled anew


def any_length(tensor_format, device, s, b=B):
    """t, freqs, and options that go with its length."""
    t = torch.randn(shape_of(tensor_format, s, b, H, D), device=device)
    if tensor_format != "thd":
        return t, angles(40, D2, device), {}
    starts = torch.tensor([0, s, *[s] * (s % 3), t.shape[0]], device=device)
    return t, angles(40, D2, device), {"cu_seqlens": starts}


def assert_compiled_at_most_twice(function, all_inputs):
    """Once for the first sizes, once for any."""
    function_compiled, counter = compiled(function)
    for inputs in all_inputs:
        copies = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
        assert torch.equal(function_compiled(*inputs), function(*copies))
    assert 1 <= counter.frame_count <= 2


@pytest.mark.parametrize(
    "tensor_format,inplace", (("sbhd", True), ("bshd", False), ("bhsd", False), ("thd", True))
)
def test_a_new_length_compiles_no_new_graph(tensor_format, inplace, device):
    def rotate(t, freqs, options):
        return apply_rotary_pos_emb(t, freqs, tensor_format, inplace=inplace, **options)

    inputs = [any_length(tensor_format, device, s) for s in LENGTHS]
    assert_compiled_at_most_twice(rotate, inputs)


def test_a_new_length_of_t_and_table_alike(device):
    """No guard on `s2 == s`, nor on a table that is longer."""
    lengths = [*zip(LENGTHS, LENGTHS, strict=True), (5, 30), (6, 31)]
    inputs = [(torch.randn(s, B, H, D, device=device), angles(s2, D2, device)) for s, s2 in lengths]
    assert_compiled_at_most_twice(apply_rotary_pos_emb, inputs)


def test_a_new_length_of_a_packed_qkv(device):
    freqs = angles(40, D2, device)

    def rotate(qkv):
        q, k, _ = qkv.chunk(3, -1)
        q, k = rope_qk(q, k, freqs, "bshd", inplace=True)
        return torch.cat((q, k, qkv), -1)

    inputs = [(torch.randn(B, s, H, 3 * D, device=device),) for s in LENGTHS]
    assert_compiled_at_most_twice(rotate, inputs)


@pytest.mark.parametrize("positions,lengths", (("starts", [1] * 6), ("ids", LENGTHS)))
def test_new_positions_compile_no_new_graph(positions, lengths, device):
    """Decoding: one token, one more each time. Prompts: other lengths, other starts."""
    freqs = angles(60, D2, device)

    def rotate(t, where):
        where = {"start_positions" if positions == "starts" else "position_ids": where}
        return apply_rotary_pos_emb(t, freqs, "bshd", **where)

    inputs = []
    for i, s in enumerate(lengths):
        where = torch.tensor([i, 7 * i], device=device)
        ids = where[:, None] + torch.arange(s, device=device)
        t = torch.randn(B, s, H, D, device=device)
        inputs.append((t, where if positions == "starts" else ids))
    assert_compiled_at_most_twice(rotate, inputs)


def test_a_new_length_with_a_gradient(device):
    freqs = angles(40, D2, device)
    function, counter = compiled(lambda t: apply_rotary_pos_emb(t, freqs))
    for s in LENGTHS:
        t = torch.randn(s, B, H, D, device=device, requires_grad=True)
        grad = torch.randn_like(t)
        (got,) = torch.autograd.grad(function(t), t, grad)
        assert torch.equal(got, rope_bw(grad, freqs))
    assert counter.frame_count <= 2


# the operators


class Recorder(torch.fx.Interpreter):
    """Runs a graph and keeps the calls of the package's operators."""

    def __init__(self, graph, calls):
        super().__init__(graph)
        self.calls = calls

    def call_function(self, target, args, kwargs):
        if getattr(target, "namespace", None) == "rope_kernels":
            self.calls.append((target, args, kwargs))
        return super().call_function(target, args, kwargs)


def operator_calls(function, *inputs):
    """How `function`, compiled, calls the package's operators: [(operator, args, kwargs)]."""
    calls = []

    def backend(graph, _):
        return lambda *args: Recorder(graph, calls).run(*args)

    torch.compile(function, backend=backend, fullgraph=True)(*inputs)
    return calls


@pytest.mark.parametrize("case", [case for case in CASES if not case["grad"]][::3], ids=name_of)
def test_opcheck(case, device):
    """Schema, fake tensors and tracing of what each call hands to its operator: all of opcheck."""
    case = Case(case, device)
    ((operator, args, kwargs),) = operator_calls(case.rotate, *case.inputs())
    assert ("inplace" in str(operator)) == case.call.endswith("in place")
    torch.library.opcheck(operator, args, kwargs)


# errors


def bad(function_kind, argument, good, wrong, **options):
    """Good and wrong values of one argument, in a call that is right otherwise; s2 is 16."""
    packed = function_kind == "packed"
    shape, tensor_format = ((8, H, D), "thd") if packed else ((S, B, H, D), "sbhd")
    return shape, tensor_format, argument, torch.tensor(good), torch.tensor(wrong), options


BAD_VALUES = {
    "falling cu_seqlens": bad("packed", "cu_seqlens", [0, 3, 5, 8], [0, 5, 3, 8]),
    "uneven chunks": bad("packed", "cu_seqlens", [0, 8, 16], [0, 6, 16], cp_size=2),
    "a start below 0": bad("dense", "start_positions", [0, 1], [0, -1]),
    "an id below 0": bad("dense", "position_ids", [[0, 1, 2, 3]], [[0, 1, -2, 3]]),
    "an id past the table": bad("dense", "position_ids", [[0, 15, 2, 3]], [[0, 16, 2, 3]]),
}


@pytest.mark.skipif(
    torch.cuda.is_available(), reason="there no operator of ours runs on a CPU, to look at values"
)
@pytest.mark.parametrize("name", BAD_VALUES)
def test_bad_values_on_the_cpu_are_errors_when_the_graph_runs(name):
    shape, tensor_format, argument, good, wrong, options = BAD_VALUES[name]
    t, freqs, inplace = torch.randn(shape), angles(16, D2, "cpu"), len(name) % 2 == 0
    before = t.clone()

    def rotate(t, values):
        where = {argument: values, "inplace": inplace, **options}
        return apply_rotary_pos_emb(t, freqs, tensor_format, **where)

    function, counter = compiled(rotate, "eager")
    function(t.clone(), good)
    with pytest.raises(ValueError, match=r"^(freqs|cu_seqlens|start_positions|position_ids) "):
        function(t, wrong)
    assert counter.frame_count == 1 and torch.equal(t, before)


NOT_TO_OVERWRITE = {  # a function in place, and the shape that it takes
    "one place for several elements": (
        lambda t, freqs: apply_rotary_pos_emb((t * 2).expand(S, B, H, D), freqs, inplace=True),
        (S, 1, H, D),
    ),
    "overlapping q and k": (
        lambda t, freqs: rope_qk(t[:, :, :2], t[:, :, 1:], freqs, inplace=True),
        (S, B, 3, D),
    ),
}


@pytest.mark.parametrize("name", NOT_TO_OVERWRITE)
def test_memory_that_cannot_be_overwritten_is_an_error_when_the_graph_runs(name, device):
    function, shape = NOT_TO_OVERWRITE[name]
    t, freqs = torch.randn(shape, device=device), angles(S, D2, device)
    before = t.clone()
    with pytest.raises(ValueError, match=r"^(t|k) .*; accepted: with inplace=True"):
        compiled(function)[0](t, freqs)
    assert torch.equal(t, before)


def test_a_leaf_in_place_is_an_error_under_compile_too(device):
    t, freqs = torch.randn(S, B, H, D, device=device, requires_grad=True), angles(S, D2, device)
    function, _ = compiled(lambda t: apply_rotary_pos_emb(t, freqs, inplace=True))
    with pytest.raises(Exception, match="leaf Variable"):
        function(t)


def test_bad_shapes_are_errors_when_the_graph_is_traced():
    t, freqs = torch.randn(S, B, H, D), angles(S, D2, "cpu")
    for wrong in (freqs[:-1], freqs.bfloat16()):
        with pytest.raises(Exception, match="freqs has"):
            compiled(lambda t, freqs: apply_rotary_pos_emb(t, freqs))[0](t, wrong)


# Inductor


def one_launch(name, device):
    """A function that eager runs in one launch, and tensors to call it with."""
    table, module = angles(S2, 64, device), RotaryPositionEmbedding(64).to(device)
    q, k, qkv = (torch.randn(B, 8, heads, 64, device=device) for heads in (H, 1, 3 * H))
    starts = torch.tensor([3, 5], device=device)
    return {
        "forward": (lambda q: (apply_rotary_pos_emb(q, table, "bshd"),), [q]),
        "q and k": (lambda q, k: rope_qk(q, k, table, "bshd", start_positions=starts), [q, k]),
        "on the fly": (lambda q, k: rope_qk(q, k, module, "bshd"), [q, k]),
        "in place": (lambda q: (apply_rotary_pos_emb(q, table, "bshd", inplace=True),), [q]),
        "of a packed qkv": (lambda qkv: rope_qk(*qkv.chunk(3, 2)[:2], table, "bshd"), [qkv]),
        "of a packed qkv, in place": (
            lambda qkv: rope_qk(*qkv.chunk(3, 2)[:2], table, "bshd", inplace=True),
            [qkv],
        ),
    }[name]


DIFFERENTIABLE = ("forward", "q and k")
ONE_LAUNCH = (*DIFFERENTIABLE, "in place", "of a packed qkv", "of a packed qkv, in place")


def code_of(function, inputs):
    """What `function` returns, and the Python that Inductor makes of it."""
    with torch._inductor.config.patch(fx_graph_cache=False):
        results, (code,) = run_and_get_code(torch.compile(function, fullgraph=True), *inputs)
    return results, code


GENERATED = re.compile(r"async_compile\.(?!wait)\w+\(|copy_\(|clone\(|= empty_strided\w*\(")


@pytest.mark.parametrize("name", ("q and k", "in place", "of a packed qkv, in place"))
def test_inductor_generates_no_kernel_and_no_copy(name, device):
    """Beside the operator there is nothing to do, in place in slices of a tensor too."""
    function, inputs = one_launch(name, device)
    got_inputs = [t.clone() for t in inputs]
    got, code = code_of(function, got_inputs)
    assert len(re.findall(r"torch\.ops\.rope_kernels\.\w+\.default\(", code)) == 1
    assert not GENERATED.findall(code)
    assert_same_bits([*got, *got_inputs], [*function(*inputs), *inputs])


@pytest.mark.gpu  # on a CPU it needs a C++ compiler; the tests above do not
def test_what_inductor_generates_would_be_found():
    freqs, t = angles(S, D2, "cuda"), torch.randn(S, B, H, D, device="cuda")
    _, code = code_of(lambda t: apply_rotary_pos_emb(t * 2, freqs), [t])
    assert len(GENERATED.findall(code)) == 2  # new memory, and a kernel that fills it


@pytest.mark.gpu
@pytest.mark.parametrize("name", ONE_LAUNCH)
def test_inductor_launches_the_one_kernel(name):
    function, inputs = one_launch(name, "cuda")
    function = torch.compile(function, fullgraph=True)
    for _ in range(2):
        function(*inputs)
    assert [name in OURS for name in kernels_of(lambda: function(*inputs))] == [True]


@pytest.mark.gpu
def test_on_the_fly_inductor_computes_the_turns_too():
    """A graph cannot see whether `inv_freq` has changed: one small kernel more, each time."""
    function, inputs = one_launch("on the fly", "cuda")
    function = torch.compile(function, fullgraph=True)
    for _ in range(2):
        function(*inputs)
    kernels = kernels_of(lambda: function(*inputs))
    assert sorted(name in OURS for name in kernels) == [False, True]


def test_interpolation_compiles_no_graph_for_each_length(device):
    """Its factor depends on the length; as a number in the graph it was a guard on each."""
    module = RotaryPositionEmbedding(16, 1.0, 1, 3).to(device)
    function, counter = compiled(lambda t: apply_rotary_pos_emb(t, module))
    for s in range(5, 12):
        t = torch.randn(s, B, H, 16, device=device)
        torch.testing.assert_close(function(t), apply_rotary_pos_emb(t, module))
    assert counter.frame_count <= 2


def test_make_fx_reads_no_value_of_cu_seqlens(device):
    """The operator reads them, each time it runs: bad ones raise then."""
    module, t = RotaryPositionEmbedding(D).to(device), torch.randn(9, H, D, device=device)

    def rotate(t, cu_seqlens):
        return apply_rotary_pos_emb(t, module, "thd", cu_seqlens=cu_seqlens)

    first, other, bad = (torch.tensor(x, device=device) for x in ([0, 4, 9], [0, 1, 8], [1, 4, 9]))
    graph = make_fx(rotate)(t, first)
    assert "rope_kernels.rotate" in graph.code  # no kernel was launched meanwhile
    assert_same_bits([graph(t, other)], [rotate(t, other)])
    if device == "cpu":
        with pytest.raises(ValueError, match=r"^cu_seqlens is \[1, 4, 9\]"):
            graph(t, bad)


@pytest.mark.gpu
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_inductor_launches_one_kernel_for_the_gradient(name):
    function, inputs = one_launch(name, "cuda")
    inputs = [t.requires_grad_() for t in inputs]
    grads = [torch.randn_like(t) for t in inputs]
    compiled_function = torch.compile(function, fullgraph=True)
    got = []

    def pull_back(outs):
        got[:] = torch.autograd.grad(outs, inputs, grads)

    for _ in range(2):
        pull_back(compiled_function(*inputs))
    outs = compiled_function(*inputs)
    assert [name in OURS for name in kernels_of(lambda: pull_back(outs))] == [True]
    assert_same_bits(got, torch.autograd.grad(function(*inputs), inputs, grads))


# CUDA graphs


def capture(call):
    """Warm up on another stream, as PyTorch asks for, then capture one call: graph, results."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = call()
    return graph, results


@pytest.mark.gpu
@pytest.mark.parametrize("case", [case for case in CASES if not case["grad"]], ids=name_of)
def test_a_cuda_graph_replays_with_new_data(case):
    case = Case(case, "cuda")
    buffers = case.inputs()
    graph, outs = capture(lambda: case.rotate(*buffers))
    for _ in range(3):
        inputs = case.inputs()
        for buffer, t in zip(buffers, inputs, strict=True):
            buffer.copy_(t)
        graph.replay()
        assert_same_bits(outs, case.rotate(*inputs))


@pytest.mark.gpu
def test_a_cuda_graph_reads_positions_and_angles_anew():
    """Decoding by replay: only what lies in the buffers changes from token to token."""
    t, freqs = torch.randn(B, 1, H, D, device="cuda"), angles(S2, D2, "cuda")
    starts = torch.tensor([0, 5], device="cuda")
    ids = torch.tensor([[7], [2]], device="cuda")
    packed, cu_seqlens = torch.randn(9, H, D, device="cuda"), torch.tensor([0, 4, 9], device="cuda")

    def rotate():
        return (
            apply_rotary_pos_emb(t, freqs, "bshd", start_positions=starts),
            apply_rotary_pos_emb(t, freqs, "bshd", position_ids=ids),
            apply_rotary_pos_emb(packed, freqs, "thd", cu_seqlens=cu_seqlens),
        )

    graph, outs = capture(rotate)
    for step in range(1, 4):
        starts += 1
        ids += 2
        freqs.normal_()
        cu_seqlens[1] = step
        graph.replay()
        assert_same_bits(outs, rotate())
        assert_rounded_once(outs[2], rotate_fp64(packed, freqs, "thd", cu_seqlens))


@pytest.mark.gpu
@pytest.mark.parametrize("positions", ("from 0", "ids"))
def test_a_cuda_graph_of_forward_and_backward(positions):
    options = positions_of(positions, "bshd", "cuda")
    t = torch.randn(B, S, H, D, device="cuda", requires_grad=True)
    freqs, grad = angles(S2, D2, "cuda"), torch.randn_like(t)

    def step():
        out = apply_rotary_pos_emb(t, freqs, "bshd", **options)
        return out, *torch.autograd.grad(out, t, grad)

    graph, results = capture(step)
    for _ in range(2):
        for buffer in (t, freqs, grad):
            buffer.data.normal_()
        graph.replay()
        assert_same_bits(results, step())


@pytest.mark.gpu
def test_a_module_that_is_first_called_inside_a_capture():
    """What is captured has not run yet, so an eager call must not take its turns from there."""
    t = torch.randn(S, B, H, D, device="cuda")
    apply_rotary_pos_emb(t, RotaryPositionEmbedding(D2).cuda())  # compiles the kernel
    freqs = RotaryPositionEmbedding(D2, rotary_base=500.0).cuda()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = apply_rotary_pos_emb(t, freqs)
    assert_rounded_once(apply_rotary_pos_emb(t, freqs), rotate_fp64(t, freqs, "sbhd"))
    for _ in range(2):
        t.normal_()
        graph.replay()
        assert_same_bits([out], [apply_rotary_pos_emb(t, freqs)])
    del graph, out  # and with them the memory that they computed turns in
    torch.cuda.empty_cache()
    torch.empty(2**20, device="cuda").fill_(float("nan"))
    assert_rounded_once(apply_rotary_pos_emb(t, freqs), rotate_fp64(t, freqs, "sbhd"))


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ("angles", "on the fly"))
def test_reduce_overhead(kind):
    """CUDA graphs made by Inductor, of a module that no eager call has seen before."""
    freqs = freqs_of(kind, False, "cuda")
    skipped = counters["inductor"]["cudagraph_skips"]
    rotate = torch.compile(
        lambda q, k: rope_qk(q, k, freqs, "bshd"), mode="reduce-overhead", fullgraph=True
    )
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        q, k = (torch.randn(B, S, heads, D, device="cuda") for heads in (H, 1))
        got = [out.clone() for out in rotate(q, k)]
        assert_rounded_once(got[0], rotate_fp64(q, freqs, "bshd"))
        assert_rounded_once(got[1], rotate_fp64(k, freqs, "bshd"))
    assert counters["inductor"]["cudagraph_skips"] == skipped
    assert_same_bits(got, rope_qk(q, k, freqs, "bshd"))
