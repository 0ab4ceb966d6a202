"""How much a call does: kernels launched, bytes allocated and kept, kernels compiled, no waiting.

On the GPU PyTorch's profiler and its allocator count. Everywhere a stand-in for `launch.run` counts
launches, and PyTorch's dispatcher tells of every operator that makes or writes memory besides.
"""

from functools import cache
from itertools import cycle
from math import log2

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from inputs import FORMATS, LAYOUTS, angles, contiguous, packed_qkv, sequence_starts, shape_of
from pairwise import cover
from rope_kernels import (
    RotaryPositionEmbedding,
    apply_rotary_pos_emb,
    qk_norm_rope,
    rope_bw,
    rope_fw,
    rope_qk,
    rope_to_cache,
    split_qkv_rope,
)
from rope_kernels.launch import fastpath, launch
from rope_kernels.launch.launch import kernel_of, options_of
from yardstick import assert_rounded_once, rotate_fp64

S, B, H, D, D2 = 7, 2, 3, 20, 12
S2 = 20  # positions in the tables
OURS = "rope_kernel", "whole_rows_kernel", "norm_rope_kernel"
OURS += "rope_to_cache_kernel", "split_qkv_rope_kernel"


# counting


class Launches(list):
    """Stands in for `launch.run`: notes (plan, tensors) of every launch, and may run it too."""

    def __init__(self, runs):
        super().__init__()
        self.run = launch.run if runs else lambda plan, tensors: None

    def __call__(self, plan, tensors):
        self.append((plan, tensors))
        return self.run(plan, tensors)


@pytest.fixture
def launches(monkeypatch, whole_way):
    monkeypatch.setattr(launch, "run", Launches(runs=True))
    return launch.run


@pytest.fixture
def launches_that_do_nothing(monkeypatch, whole_way):
    """For tests of what happens around a launch. (The interpreter moves memory of its own.)"""
    monkeypatch.setattr(launch, "run", Launches(runs=False))
    return launch.run


def kernels_of(call):
    """Names of everything that the GPU does in a call: kernels, copies and fills."""
    start_the_profiler()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    on_the_gpu = torch.autograd.DeviceType.CUDA
    return [event.name for event in profile.events() if event.device_type == on_the_gpu]


def queued_by(call):
    """Names of kernels, memcpys and memsets of a call, after one that compiles."""
    call()
    names = kernels_of(call)
    memcpys, memsets = ([x for x in names if x.startswith(y)] for y in ("Memcpy", "Memset"))
    return [x for x in names if x not in memcpys + memsets], memcpys, memsets


@cache
def start_the_profiler():
    """The first profile of a process may miss what comes while it starts."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
        torch.ones(1, device="cuda").add_(1)
        torch.cuda.synchronize()


def allocated_in(call):
    """Bytes and pieces of memory that a call asks the GPU's allocator for.

    How much is in use would say less: what tests before this one left in reference cycles may be
    given back in the middle of the call.
    """
    before = torch.cuda.memory_stats()
    results = call()
    after = torch.cuda.memory_stats()
    del results
    return tuple(
        after[f"{key}.all.allocated"] - before[f"{key}.all.allocated"]
        for key in ("requested_bytes", "allocation")
    )


class Operators(TorchDispatchMode):
    """Notes operators that write to memory, and the bytes of new memory they ask for.

    What has few elements is passed over: on a CPU the values of positions are looked at.
    """

    def __init__(self, few=20):
        super().__init__()
        self.few, self.new_bytes, self.writers = few, 0, []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        if operator in (torch.ops.aten.empty.memory_format, torch.ops.aten.empty_like.default):
            self.new_bytes += result.nbytes
        elif not operator.is_view and getattr(result, "numel", lambda: 0)() > self.few:
            self.writers.append(str(operator))
        return result


# the calls


def of_layout(layout, tensor_format):
    def call(device):
        t = LAYOUTS[layout](shape_of(tensor_format, S, B, H, D), torch.float32, device)
        freqs = angles(S * B, D2, device)
        cu_seqlens = sequence_starts(tensor_format, S, B, device)
        return lambda: apply_rotary_pos_emb(t, freqs, tensor_format, cu_seqlens=cu_seqlens)

    return call


def of_freqs(kind, interleaved=False):
    def call(device):
        q, k = (torch.randn(B, S, heads, D, device=device) for heads in (H, 1))
        freqs = {
            "angles": angles(S2, D2, device),
            "(cos, sin)": tuple(contiguous((2, S2, D2), torch.float32, device)),
            "(cos, sin) of each entry": tuple(contiguous((2, B, S2, D2), torch.bfloat16, device)),
            "on the fly": RotaryPositionEmbedding(D2, interleaved=interleaved).to(device),
        }[kind]
        return lambda: rope_qk(q, k, freqs, "bshd", interleaved=interleaved)

    return call


def of_a_packed_qkv(inplace, dtype=torch.bfloat16):
    def call(device):
        q, k, _ = torch.randn(B, S, 3 * H, D, device=device, dtype=dtype).chunk(3, 2)
        freqs = angles(S, D2, device)
        return lambda: rope_qk(q, k, freqs, "bshd", inplace=inplace)

    return call


def of_decoding(where, inplace=False):
    def call(device):
        q, k = (torch.randn(B, heads, 1, D, device=device) for heads in (H, 1))
        freqs = RotaryPositionEmbedding(D2).to(device)
        options = {
            "starts": {"start_positions": torch.tensor([5, 9], device=device)},
            "ids": {"position_ids": torch.tensor([[5], [9]], device=device)},
        }[where]
        return lambda: rope_qk(q, k, freqs, "bhsd", inplace=inplace, **options)

    return call


def of_packed_sequences(inplace, **options):
    def call(device):
        t, freqs = torch.randn(12, H, D, device=device), angles(S2, D2, device)
        starts = torch.tensor([3, 0, 1], device=device)
        cu_seqlens = torch.tensor([0, 4, 4, 8], device=device) * options.get("cp_size", 1)
        where = {"cu_seqlens": cu_seqlens, "start_positions": starts, "inplace": inplace, **options}
        return lambda: apply_rotary_pos_emb(t, freqs, "thd", **where)

    return call


def of_a_norm(device):
    q, k = (torch.randn(S, B, H, 2 * D, device=device)[..., D:] for _ in range(2))
    weights, freqs = torch.randn(2, D, device=device), angles(S, D2, device)
    return lambda: qk_norm_rope(q, k, *weights, freqs)


def of_a_cache(return_k):
    def call(device):
        q, k, v = torch.randn(S, 3 * H, D, device=device).chunk(3, 1)
        k_cache, v_cache = torch.zeros(2, 3, 4, H, D, device=device)
        freqs, ids = angles(S, D2, device), torch.arange(S, device=device)
        given = q, k, v, freqs, k_cache, v_cache, ids
        return lambda: rope_to_cache(*given, position_ids=ids, return_k=return_k)

    return call


def of_a_projection(packing):
    def call(device):
        qkv = torch.randn(S, B, 4 * (H + 2) * D, device=device)[..., : (H + 2) * D]
        freqs = angles(S, D2, device)
        return lambda: split_qkv_rope(qkv, freqs, H, 1, packing=packing)

    return call


def in_place(device):
    t, freqs = torch.randn(S, B, H, D, device=device), angles(S, D2, device)
    return lambda: apply_rotary_pos_emb(t, freqs, inplace=True)


def a_slice_in_place(device):
    t = packed_qkv((S, B, H, D), torch.float32, device)
    freqs = angles(S, D2, device)
    return lambda: apply_rotary_pos_emb(t, freqs, inplace=True)


def a_slice_in_the_middle(device):
    t, freqs = torch.randn(S, B, H, D, device=device), angles(S, D2 // 2, device)
    return lambda: rope_fw(t, freqs, rotary_dim=D2, rotary_start=4)


def backward_alone(device):
    grad, freqs = torch.randn(S, B, H, D, device=device), angles(S, D2, device)
    return lambda: rope_bw(grad, freqs)


CALLS = {
    **{
        f"{tensor_format}, {layout}": of_layout(layout, tensor_format)
        for tensor_format, layout in (
            *((tensor_format, "contiguous") for tensor_format in FORMATS),
            *zip(cycle(FORMATS), LAYOUTS, strict=False),
        )
        if layout != "negative_view"  # whose sign must be written down first
    },
    **{
        f"q and k, {kind}{', interleaved' * interleaved}": of_freqs(kind, interleaved)
        for kind in ("angles", "(cos, sin)", "(cos, sin) of each entry", "on the fly")
        for interleaved in (False, True)
    },
    "a packed qkv": of_a_packed_qkv(inplace=False),
    "a packed qkv in place": of_a_packed_qkv(inplace=True),
    "decoding by starts": of_decoding("starts"),
    "decoding by ids": of_decoding("ids"),
    "decoding in place": of_decoding("starts", inplace=True),
    "packed sequences": of_packed_sequences(inplace=False),
    "packed sequences in place": of_packed_sequences(inplace=True),
    "packed sequences of a rank": of_packed_sequences(inplace=False, cp_size=2, cp_rank=1),
    "a norm": of_a_norm,
    "a write into caches": of_a_cache(return_k=False),
    "a write into caches, and keys": of_a_cache(return_k=True),
    "a projection": of_a_projection("qkv"),
    "a projection in groups": of_a_projection("grouped"),
    "in place": in_place,
    "a slice in place": a_slice_in_place,
    "a slice in the middle, an angle a pair": a_slice_in_the_middle,
    "backward alone": backward_alone,
}

each_call = pytest.mark.parametrize("name", CALLS)


def warm(name, device):
    """A call that was made before: compiled, its turns known. And the bytes of its results."""
    call = CALLS[name](device)
    outs = call()
    outs = outs if isinstance(outs, tuple) else (outs,)
    return call, 0 if "in place" in name else sum(out.nbytes for out in outs), len(outs)


# forward


@each_call
def test_a_call_is_one_launch(name, launches, device):
    call = CALLS[name](device)
    call()
    assert len(launches) == 1


@each_call
def test_a_call_makes_its_outputs_and_touches_no_other_memory(
    name, launches_that_do_nothing, device
):
    call, new_bytes, _ = warm(name, device)
    with Operators() as operators:
        call()
    assert operators.writers == []
    assert operators.new_bytes == new_bytes


def test_what_angles_on_the_fly_need_is_made_once(launches_that_do_nothing, device):
    call, *_ = warm("q and k, on the fly", device)
    with Operators(few=0) as operators:
        call()
    assert operators.writers == []


@pytest.mark.parametrize("shape", ((0, 2, 3, 20), (7, 0, 3, 20), (7, 2, 0, 20)), ids=str)
def test_nothing_to_rotate_is_no_launch(shape, launches, device):
    for function in (apply_rotary_pos_emb, rope_bw):
        assert function(torch.empty(shape, device=device), angles(S, D2, device)).shape == shape
    assert launches == []


@pytest.mark.gpu
@pytest.mark.parametrize("fast", (True, False), ids=("fast path", "Triton's JIT"))
@each_call
def test_the_gpu_runs_one_kernel_and_no_copy(name, fast, monkeypatch):
    """quack's tests ask that of its rotary."""
    monkeypatch.setattr(fastpath, "ENABLED", fast)
    call, *_ = warm(name, "cuda")
    assert [name in OURS for name in kernels_of(call)] == [True]


@pytest.mark.gpu
@each_call
def test_the_gpu_allocates_the_outputs_and_nothing_more(name):
    call, new_bytes, outs = warm(name, "cuda")
    assert allocated_in(call) == (new_bytes, outs if new_bytes else 0)


@pytest.mark.gpu
@each_call
def test_no_call_waits_for_the_gpu(name):
    call, *_ = warm(name, "cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        call()
    finally:
        torch.cuda.set_sync_debug_mode("default")


# backward


def apply(t, freqs, **options):
    return (apply_rotary_pos_emb(t, freqs, **options),)


DIFFERENTIABLE = {  # a function of tensors and freqs, and heads of each tensor
    "t": (apply, (H,)),
    "q and k": (rope_qk, (H, 1)),
    "in place": (lambda t, freqs: apply(t * 1, freqs, inplace=True), (H,)),
    "q and k in place": (lambda q, k, freqs: rope_qk(q * 1, k * 1, freqs, inplace=True), (H, 1)),
}

each_differentiable = pytest.mark.parametrize("name", DIFFERENTIABLE)


class Backward:
    """A call that was made, so that its backward alone can be looked at."""

    def __init__(self, name, device, freqs=None):
        self.function, heads = DIFFERENTIABLE[name]
        self.freqs = angles(S, D2, device) if freqs is None else freqs
        self.tensors = [torch.randn(S, B, h, D, device=device, requires_grad=True) for h in heads]
        self.grads = [torch.randn_like(t) for t in self.tensors]
        self.forward()

    def forward(self):
        self.outs = self.function(*self.tensors, self.freqs)

    def __call__(self):
        return torch.autograd.grad(self.outs, self.tensors, self.grads, retain_graph=True)


@each_differentiable
def test_a_backward_is_one_launch(name, launches, device):
    backward = Backward(name, device)
    assert len(launches) == 1
    backward()
    assert len(launches) == 2


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_gradient_of_any_strides_is_read_where_it_lies(layout, launches_that_do_nothing, device):
    backward = Backward("t", device)
    backward.grads = [LAYOUTS[layout](t.shape, t.dtype, device) for t in backward.tensors]
    backward()
    with Operators() as operators:
        backward()
    copies = [name for name in operators.writers if name != "aten.detach.default"]
    assert len(copies) == (layout == "negative_view")  # whose sign must be written down first


@pytest.mark.gpu
@pytest.mark.parametrize("on_the_fly", (False, True), ids=("a table", "on the fly"))
@each_differentiable
def test_a_backward_is_one_kernel_on_the_gpu(name, on_the_fly):
    freqs = RotaryPositionEmbedding(D2).cuda() if on_the_fly else None
    backward = Backward(name, "cuda", freqs)
    for _ in range(2):
        backward()
    copies = 0 if "in place" not in name else len(backward.tensors)  # of `* 1` in the forward
    names = kernels_of(backward)
    assert sum(name in OURS for name in names) == 1 and len(names) == 1 + copies


@pytest.mark.gpu
@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != "negative_view"])
def test_a_gradient_of_any_strides_is_one_kernel_on_the_gpu(layout):
    backward = Backward("t", "cuda")
    backward.grads = [LAYOUTS[layout](t.shape, t.dtype, "cuda") for t in backward.tensors]
    backward()
    assert [name in OURS for name in kernels_of(backward)] == [True]


@pytest.mark.gpu
@pytest.mark.parametrize("on_the_fly", (False, True), ids=("a table", "on the fly"))
def test_forward_and_backward_allocate_their_results_and_nothing_more(on_the_fly):
    freqs = RotaryPositionEmbedding(D2).cuda() if on_the_fly else None
    backward = Backward("q and k", "cuda", freqs)
    backward()
    results = sum(t.nbytes for t in backward.tensors), len(backward.tensors)
    for _ in range(2):
        assert allocated_in(backward.forward) == allocated_in(backward) == results


@pytest.mark.gpu
def test_memory_that_a_call_needs_on_its_way_is_counted():
    """So that the tests above can fail."""
    t = torch.randn(4, 6, device="cuda")
    assert allocated_in(lambda: (t * 2) * 2) == (2 * t.nbytes, 2)


# what is kept for backward


def kept_by(call):
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        call()
    return sorted({x.untyped_storage().data_ptr() for x in kept})


def memory(*tensors):
    return sorted(x.untyped_storage().data_ptr() for x in tensors)


@each_differentiable
@pytest.mark.usefixtures("needs_triton")
def test_nothing_but_the_table_is_kept_for_backward(name, device):
    for freqs, tables in (
        (table := angles(S, D2, device), (table,)),
        (pair := tuple(torch.randn(2, S, D2, device=device).unbind()), pair[:1]),  # one memory
        (module := RotaryPositionEmbedding(D2).to(device), (module.turns(S),)),
    ):
        backward = Backward(name, device, freqs)
        assert kept_by(backward.forward) == memory(*tables)


@pytest.mark.usefixtures("needs_triton")
def test_positions_are_kept_with_the_table(device):
    t, freqs = torch.randn(9, H, D, device=device, requires_grad=True), angles(S2, D2, device)
    cu_seqlens, starts = (torch.tensor(x, device=device) for x in ([0, 4, 9], [1, 2]))

    def call():
        where = {"cu_seqlens": cu_seqlens, "start_positions": starts}
        return apply_rotary_pos_emb(t, freqs, "thd", **where)

    assert kept_by(call) == memory(freqs, cu_seqlens, starts)


@pytest.mark.usefixtures("needs_triton")
def test_nothing_of_a_projection_is_kept_for_backward(device):
    qkv = torch.randn(S, B, (H + 2) * D, device=device, requires_grad=True)
    freqs = angles(S, D2, device)
    assert kept_by(lambda: split_qkv_rope(qkv, freqs, H, 1)) == memory(freqs)


# a gradient for the table


def table_gradient(positions, device, s=129, b=8, h=5):
    """A step whose table gets a gradient of many tokens a row, and nothing is in order."""
    q, k = (torch.randn(b, s, heads, 32, device=device, requires_grad=True) for heads in (h, 1))
    freqs = angles(2 * s, 32, device).requires_grad_()
    options = {
        "in order": {},
        "ids": {"position_ids": torch.randint(0, s, (b, s), device=device)},
        "starts": {"start_positions": torch.randint(0, s, (b,), device=device)},
    }[positions]
    grads = [torch.randn_like(x) for x in (q, k)]

    def step():
        return torch.autograd.grad(rope_qk(q, k, freqs, "bshd", **options), (q, k, freqs), grads)

    return step


each_order = pytest.mark.parametrize("positions", ("in order", "ids", "starts"))


@pytest.mark.gpu
@each_order
def test_a_table_gradient_is_the_same_in_every_run(positions):
    step = table_gradient(positions, "cuda")
    first = step()
    same = torch.ones((), dtype=torch.bool, device="cuda")
    for _ in range(20):
        for x, y in zip(step(), first, strict=True):
            same &= (x == y).all()
    assert same


@each_order
def test_a_table_gradient_is_deterministic(positions, device):
    """PyTorch's operators raise an error where they are not deterministic."""
    torch.use_deterministic_algorithms(True)
    try:
        table_gradient(positions, device, s=3, b=2, h=1)()
    finally:
        torch.use_deterministic_algorithms(False)


# kernels compiled


def compiled_for(launches):
    """The different kernels that Triton would compile for these launches on a GPU."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend
    from triton.runtime.jit import JITFunction, create_function_from_signature

    backend, found = make_backend(GPUTarget("cuda", 90, 32)), set()
    for plan, tensors in launches:
        kernel = kernel_of(plan)
        if not isinstance(kernel, JITFunction):  # but the interpreter's stand-in for one
            kernel = JITFunction(kernel.fn, **kernel.kwargs)
        bind = create_function_from_signature(kernel.signature, kernel.params, backend)
        options = plan.arguments | options_of(plan)
        found.add((plan.kernel, str(bind(*tensors, **options)[1:])))
    return found


def rotate_any(tensor_format, device, s, b, heads, head_dim, on_the_fly=False, **options):
    t = torch.empty(shape_of(tensor_format, s, b, heads, head_dim), device=device)
    freqs = RotaryPositionEmbedding(head_dim) if on_the_fly else torch.empty(s * b, 1, 1, head_dim)
    if tensor_format == "thd":
        options["cu_seqlens"] = torch.tensor([0, *[s] * (s % 5), s * b], device=device)
    apply_rotary_pos_emb(t, freqs.to(device), tensor_format, **options)


@cover(tensor_format=FORMATS, heads=(1, 8, 41), on_the_fly={"a table": False, "on the fly": True})
def test_a_new_length_compiles_no_new_kernel(
    tensor_format, heads, on_the_fly, launches_that_do_nothing, device
):
    for s in (1, 2, 3, 7, 16, 17, 100, 128, 1000, 4096):
        rotate_any(tensor_format, device, s, B, heads, 64, on_the_fly)
    assert len(launches_that_do_nothing) == 10
    assert len(compiled_for(launches_that_do_nothing)) == 1


def a_step_with_a_norm(s, device):
    q, k = (torch.empty(s, B, h, 64, device=device, requires_grad=True) for h in (8, 1))
    outs = qk_norm_rope(q, k, None, None, RotaryPositionEmbedding(64).to(device))
    torch.autograd.grad(outs, (q, k), outs)


def a_step_with_a_projection(s, device):
    qkv = torch.empty(s, B, 10 * 64, device=device, requires_grad=True)
    outs = split_qkv_rope(qkv, RotaryPositionEmbedding(64).to(device), 8, 1)
    torch.autograd.grad(outs, qkv, outs)


def a_write_into_caches(s, device):
    """The last of the tokens have no slot."""
    q, k, v = (torch.empty(s, h, 64, device=device) for h in (8, 1, 1))
    caches = torch.empty(2, 300 + s, 16, 1, 64, device=device)
    ids, freqs = torch.arange(s, device=device), RotaryPositionEmbedding(64).to(device)
    rope_to_cache(q, k, v, freqs, *caches, ids[: s - s // 8], position_ids=ids)


STEPS = {  # and how many kernels each of them has
    "a norm": (a_step_with_a_norm, 2),
    "a projection": (a_step_with_a_projection, 2),
    "a write into caches": (a_write_into_caches, 1),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_new_length_of_other_operators_compiles_no_new_kernel(
    name, launches_that_do_nothing, device
):
    step, kernels = STEPS[name]
    for s in (2, 3, 7, 16, 17, 100, 128, 1000, 4096):
        step(s, device)
    assert len(launches_that_do_nothing) == 9 * kernels
    assert len(compiled_for(launches_that_do_nothing)) == kernels


def no_ids_of_packed_tokens(case):
    return not (case.get("ids") and case.get("tensor_format") == "thd")


LENGTHS = (*range(1, 20), 31, 32, 33, 48, 64, 69)


@cover(tensor_format=FORMATS, ids=(False, True), is_legal=no_ids_of_packed_tokens)
def test_a_new_length_compiles_three_at_most_where_strides_hang_on_it(
    tensor_format, ids, launches_that_do_nothing, device
):
    """16 divides the strides of some lengths only; and length 1 needs no stride.

    So it is where d = 20, and with position ids, whose stride is the length.
    """
    for s in LENGTHS:
        options = {"position_ids": torch.zeros(B, s, dtype=torch.int64, device=device)}
        heads, d = (8, 64) if ids else (3, 20)
        rotate_any(tensor_format, device, s, B, heads, d, **options if ids else {})
    assert len(compiled_for(launches_that_do_nothing)) <= 3


@cover(heads=(1, 8, 41), tensor_format=FORMATS)
def test_a_new_batch_compiles_until_its_rows_fill_a_tile(
    heads, tensor_format, launches_that_do_nothing, device
):
    """A tile has the next power of 2 of the rows there are, or 16: as many as fit 4096 bytes."""
    for b in (*range(1, 19), 31, 32, 33, 39):
        rotate_any(tensor_format, device, 7, b, heads, 64)
    tiles = 1 if tensor_format == "thd" else 1 + max(0, int(log2(16 / heads)))
    assert len(compiled_for(launches_that_do_nothing)) <= tiles


def test_a_new_rank_compiles_three_at_most(launches_that_do_nothing, device):
    """Number 0, number 1, and all others."""
    t, freqs = torch.empty(4, B, 8, 64, device=device), angles(64, 64, device)
    for rank in range(8):
        apply_rotary_pos_emb(t, freqs, cp_size=8, cp_rank=rank)
    assert len(compiled_for(launches_that_do_nothing)) <= 3


@pytest.mark.gpu
def test_what_the_gpu_compiles_is_what_was_foretold(launches):
    """Triton's own cache grows by as many kernels as the tests above would count."""
    from rope_kernels.kernels import rope_kernel  # needs Triton

    cache = rope_kernel.rope_kernel.device_caches[torch.cuda.current_device()][0]
    before = len(cache)
    for s in (1, 5, 16, 31, 200, 1024):
        for b in (1, 2, 3, 8):
            rotate_any("sbhd", "cuda", s, b, 1, 176)  # no other test has rows of 176
    assert len(cache) - before == len(compiled_for(launches)) == 2  # of 1 or 2 rows a tile


# the device


@pytest.mark.gpu
@pytest.mark.skipif("torch.cuda.device_count() < 2", reason="needs two GPUs")
@pytest.mark.parametrize("current", (0, 1))
@pytest.mark.parametrize("of_tensors", (0, 1))
def test_kernels_run_on_the_device_of_their_tensors(current, of_tensors):
    """Forward, backward, on the fly and in place, whichever device is the current one."""
    device = torch.device("cuda", of_tensors)
    with torch.cuda.device(current):
        t = torch.randn(S, B, H, D, device=device, requires_grad=True)
        for freqs in (angles(S, D2, device), RotaryPositionEmbedding(D2).to(device)):
            out = apply_rotary_pos_emb(t, freqs)
            assert out.device == device and torch.cuda.current_device() == current
            assert_rounded_once(out.detach(), rotate_fp64(t.detach(), freqs, "sbhd"))
            grad = torch.randn_like(out)
            (grad_t,) = torch.autograd.grad(out, t, grad)
            assert torch.equal(grad_t, rope_bw(grad, freqs))
            assert torch.equal(apply_rotary_pos_emb(t.detach().clone(), freqs, inplace=True), out)
            assert torch.cuda.current_device() == current
