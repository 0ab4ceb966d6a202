"""torch.compile and CUDA graphs: what one function has alone, and Inductor.

What all functions promise there is in `test_ops_traced.py`. Most graphs are traced with derivatives
and all (`aot_eager`), which needs no compiler. Inductor must add no kernel to the one that eager
launches: in its code on any machine, and counted on a GPU.
"""

import re
import shutil
import warnings

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch._dynamo.utils import counters, warn_once_cache
from torch._inductor.utils import run_and_get_code

from counted import gpu_events_of
from inputs import angles
from ops import FEW, OPS, all_equal
from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, rope_qk
from rope_kernels.norms import norm_rope
from rope_kernels.serving import rope_to_cache
from rope_lab.compiler.plans import kernel_names
from yardstick import assert_near, rotate_fp64

pytestmark = pytest.mark.usefixtures("nothing_compiled_before")

S, B, H, D, D2, S2 = 4, 2, 3, 10, 6, 20
LENGTHS = (5, 9, 4, 16, 2, 7)


def compiled(function, backend="aot_eager", **options):
    """`function` in one graph (a break is an error), and a counter of the graphs made."""
    counter = CompileCounterWithBackend(backend)
    return torch.compile(function, backend=counter, fullgraph=True, **options), counter


def test_compiling_warns_of_nothing(device):
    t, freqs = torch.randn(S, B, H, D, device=device), angles(S, D2, device)
    warn_once_cache.clear()  # what was said in another test would not be said again
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled(lambda t: apply_rotary_pos_emb(t, freqs))[0](t)
        compiled(lambda t: apply_rotary_pos_emb(t, freqs, inplace=True))[0](t)
    assert not [str(warning.message) for warning in caught if "rope" in str(warning.message)]


# compiled again: once for the first sizes, once for any


def of_t_and_table(device):
    """No guard on `s2 == s`, nor on a table that is longer."""
    lengths = [*zip(LENGTHS, LENGTHS, strict=True), (5, 30), (6, 31)]
    tensors = [(torch.randn(s, B, H, D, device=device), angles(n, D2, device)) for s, n in lengths]
    return apply_rotary_pos_emb, tensors


def of_a_packed_qkv(device):
    freqs = angles(40, D2, device)

    def rotate(qkv):
        q, k, _ = qkv.chunk(3, -1)
        q, k = rope_qk(q, k, freqs, "bshd", inplace=True)
        return torch.cat((q, k, qkv), -1)

    return rotate, [(torch.randn(B, s, H, 3 * D, device=device),) for s in LENGTHS]


@pytest.mark.parametrize("make", (of_t_and_table, of_a_packed_qkv), ids=lambda make: make.__name__)
def test_a_new_length_compiles_no_new_graph(make, device):
    function, all_inputs = make(device)
    function_compiled, counter = compiled(function)
    for inputs in all_inputs:
        copies = [x.clone() for x in inputs]
        assert torch.equal(function_compiled(*inputs), function(*copies))
    assert 1 <= counter.frame_count <= 2


# errors


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
@pytest.mark.parametrize("kind", ("angles", "cos and sin"))
def test_a_table_that_turns_out_too_short_is_an_error_when_the_graph_runs(kind, device):
    """Only the run knows how many positions `t[mask]` has."""
    table = angles(S, D, device)
    freqs = table if kind == "angles" else (table[:, 0, 0].cos(), table[:, 0, 0].sin())
    rotate, _ = compiled(lambda t, mask: apply_rotary_pos_emb(t[mask], freqs, "sbhd"))
    t, position = torch.randn(2 * S, B, H, D, device=device), torch.arange(2 * S, device=device)
    assert torch.equal(rotate(t, position < S), apply_rotary_pos_emb(t[:S], freqs, "sbhd"))
    with pytest.raises(RuntimeError, match="assert"):
        rotate(t, position <= S)


def test_memory_that_cannot_be_overwritten_is_an_error_when_the_graph_runs(device):
    """`test_ops_memory.py` has all that is refused; here the operator is asked."""
    t, freqs = torch.randn(S, B, 3, D, device=device), angles(S, D2, device)
    before = t.clone()

    def overlapping(t):
        return rope_qk(t[:, :, :2], t[:, :, 1:], freqs, "sbhd", inplace=True)

    with pytest.raises(ValueError, match=r"^k shares memory with q; accepted: "):
        compiled(overlapping)[0](t)
    assert torch.equal(t, before)


def test_what_a_compiled_call_writes_into_caches_is_checked_when_it_runs(device, needs_triton):
    """A trace knows neither memory nor values."""
    rope, ids = RotaryPositionEmbedding(16).to(device), torch.arange(5, device=device)
    q, k, v = (torch.randn(5, heads, 16, device=device) for heads in (4, 2, 2))
    pool = torch.zeros(5, 4, 2, 16, device=device)

    def write(slots, *caches):
        return rope_to_cache(q, k, v, rope, *caches, slots, position_ids=ids)

    with pytest.raises(ValueError, match="k_cache shares memory with v_cache"):
        compiled(write)[0](ids, pool[:2], pool[1:3])
    torch._dynamo.reset()  # or the second call gets the first one's shared memory
    if device == "cpu":
        with pytest.raises(ValueError, match="slot_mapping has 99"):
            compiled(write)[0](ids + 95, pool[:2], pool[2:4])
    assert not pool.any()


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


ONE_LAUNCH = ("forward", "q and k", "in place", "of a packed qkv", "of a packed qkv, in place")
GENERATED = re.compile(r"async_compile\.(?!wait)\w+\(|copy_\(|clone\(|= empty_strided\w*\(")


def code_of(function, inputs):
    """What `function` returns, and the Python that Inductor makes of it."""
    with torch._inductor.config.patch(fx_graph_cache=False):
        results, (code,) = run_and_get_code(torch.compile(function, fullgraph=True), *inputs)
    return results, code


@pytest.mark.parametrize("name", ("q and k", "in place", "of a packed qkv, in place"))
def test_inductor_generates_no_kernel_and_no_copy(name, device):
    """Beside the operator there is nothing to do, in place in slices of a tensor too."""
    function, inputs = one_launch(name, device)
    got_inputs = [t.clone() for t in inputs]
    got, code = code_of(function, got_inputs)
    assert len(re.findall(r"torch\.ops\.rope_kernels\.\w+\.default\(", code)) == 1
    assert not GENERATED.findall(code)
    assert all_equal([*got, *got_inputs], [*function(*inputs), *inputs])


@pytest.mark.gpu
@pytest.mark.parametrize("name", (*ONE_LAUNCH, "on the fly"))
def test_inductor_launches_the_one_kernel(name):
    """On the fly, too: it reads `inv_freq` like any buffer."""
    function, inputs = one_launch(name, "cuda")
    function = torch.compile(function, fullgraph=True)
    for _ in range(2):
        function(*inputs)
    kernels = gpu_events_of(lambda: function(*inputs))
    names = kernel_names()
    assert [kernel in names for kernel in kernels] == [True]


def results_of(function, upstream, *leaves):
    """What it returns, and gradients."""
    leaves = [x.detach().requires_grad_() for x in leaves]
    out = function(*leaves)
    return [out.detach(), *torch.autograd.grad(out, leaves, upstream)]


def bf16_tables(device, positions=8):
    tables = RotaryPositionEmbedding(64).to(device).cos_sin(positions)
    return tuple(torch.cat((x, x), -1).bfloat16() for x in tables)


@pytest.mark.parametrize("rounding", (None, "once", "model", "upcast", "promoted"))
def test_an_operator_rounds_as_the_eager_call(rounding, device, needs_triton):
    """Whatever compiles its graph, forward and backward."""
    q, upstream = torch.randn(2, B, 8, H, 64, device=device, dtype=torch.bfloat16)
    tables = bf16_tables(device)

    def rotate(q):
        return apply_rotary_pos_emb(q, tables, "bshd", rounding=rounding)

    function = torch.compile(rotate, fullgraph=True)
    assert all_equal(results_of(function, upstream, q), results_of(rotate, upstream, q))


@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs g++ on a CPU")
@pytest.mark.skipif(torch.__version__ < (2, 13), reason="torch 2.11 loses some even then")
@pytest.mark.parametrize("function", ("a rotation", "a norm"))
def test_inductor_keeps_roundings_on_a_cpu_if_it_is_told_to(function, plain_pytorch):
    """docs/compile.md says so, and that it leaves them out else: the calls are PyTorch's operators.

    Gradients of norms are sums, which are added in another order.
    """
    q, upstream = torch.randn(2, 2, 16, 4, 64, dtype=torch.bfloat16)
    tables, weight = bf16_tables("cpu", 16), torch.randn(64, dtype=torch.bfloat16)

    def rotate(q):
        if function == "a norm":
            return norm_rope(q, weight, tables, "bshd", rounding="model")
        return apply_rotary_pos_emb(q, tables, "bshd", rounding="model")

    want = results_of(rotate, upstream, q)
    with torch._inductor.config.patch(fx_graph_cache=False):
        left_out = results_of(torch.compile(rotate, fullgraph=True), upstream, q)
    assert not torch.equal(left_out[0], want[0])
    torch._dynamo.reset()
    with torch._inductor.config.patch(fx_graph_cache=False, emulate_precision_casts=True):
        kept = results_of(torch.compile(rotate, fullgraph=True), upstream, q)
    count = 1 if function == "a norm" else 2
    assert all_equal(kept[:count], want[:count])


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


def buffers_of(sample):
    freqs = sample.freqs if isinstance(sample.freqs, tuple) else (sample.freqs,)
    given = *sample.given.values(), *sample.written.values(), *freqs, *sample.options().values()
    return [x for x in given if isinstance(x, torch.Tensor)]


@pytest.mark.gpu
@pytest.mark.parametrize("inplace", (False, True), ids=("with gradients", "in place"))
@pytest.mark.parametrize("few", range(len(FEW)))
@pytest.mark.parametrize("op", OPS, ids=str)
def test_a_cuda_graph_replays_with_all_that_is_new(op, few, inplace):
    """Tensors, gradients, tables, positions, slots: what is in the buffers, as in decoding."""
    case = FEW[few] | ({"output_pairing": "same"} if inplace else {})
    sample = op.sample("cuda", **case)
    grads = sample.gradients_like(sample.call())

    def step(sample):
        if inplace and op.inplace:
            with torch.no_grad():
                return sample.call(inplace=True)
        leaves = sample.leaves() if op.differentiable else {}
        outs = sample.call(leaves)
        return *outs, *(torch.autograd.grad(outs, [*leaves.values()], grads) if leaves else ())

    graph, results = capture(lambda: step(sample))
    for _ in range(2):
        other = op.sample("cuda", **case)
        for buffer, x in zip(buffers_of(sample), buffers_of(other), strict=True):
            buffer.copy_(x)
        for grad in grads:
            grad.copy_(grad.flip(-1).contiguous())
        graph.replay()
        assert all_equal(results, step(other))


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ("angles", "on the fly"))
def test_reduce_overhead(kind):
    """CUDA graphs made by Inductor, of a module that no eager call has seen before."""
    freqs = angles(S2, D2, "cuda") if kind == "angles" else RotaryPositionEmbedding(D2).cuda()
    skipped = counters["inductor"]["cudagraph_skips"]
    rotate = torch.compile(
        lambda q, k: rope_qk(q, k, freqs, "bshd"), mode="reduce-overhead", fullgraph=True
    )
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        q, k = (torch.randn(B, S, heads, D, device="cuda") for heads in (H, 1))
        got = [out.clone() for out in rotate(q, k)]
        assert_near(got[0], rotate_fp64(q, freqs, "bshd"))
        assert_near(got[1], rotate_fp64(k, freqs, "bshd"))
    assert counters["inductor"]["cudagraph_skips"] == skipped
    assert all_equal(got, rope_qk(q, k, freqs, "bshd"))
