"""The fast path hands the driver exactly what Triton's JIT hands it, and serves no other call.

On a machine without a GPU a CUDA driver that records launches tells (`recording_driver/`), wherever
there is a C compiler. Where there is a GPU, every other test takes the fast path too.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import rope_kernels
from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, reference, rope_qk, routes
from rope_kernels.call.arguments import OF_A_CACHE, CacheCall, Call
from rope_kernels.call.packed_format import PackedFormat
from rope_kernels.call.rotation import Rotation
from rope_kernels.launch import fastpath, launch
from rope_kernels.launch.launch import kernel_of
from yardstick import assert_rounded_once, rotate_fp64

triton = pytest.importorskip("triton", reason="needs Triton")
HERE = Path(__file__).parent / "recording_driver"
recorded = pytest.mark.skipif(
    torch.cuda.is_available() or shutil.which("gcc") is None,
    reason="needs gcc, and no real driver",
)
fast_path = pytest.mark.skipif(not fastpath.ENABLED, reason="ROPE_KERNELS_FAST_PATH=0")


@pytest.fixture(scope="module")
def run_child(tmp_path_factory):
    """Run `child.py` with the recording driver, and return what it printed."""
    folder = tmp_path_factory.mktemp("driver")
    headers = Path(triton.__file__).parent / "backends" / "nvidia" / "include"
    library = folder / "libcuda.so.1"
    command = ["gcc", "-shared", "-fPIC", f"-I{headers}", "-o", library, HERE / "libcuda.c"]
    subprocess.run(command, check=True)
    (folder / "libcuda.so").symlink_to(library)  # Triton 3.5 links its launchers with -lcuda

    def before(name, *values):
        return os.pathsep.join([*map(str, values), *filter(None, [os.environ.get(name)])])

    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {
        "LD_LIBRARY_PATH": before("LD_LIBRARY_PATH", folder),
        "TRITON_LIBCUDA_PATH": str(folder),
        "TRITON_CACHE_DIR": str(folder / "cache"),
        "PYTHONPATH": before("PYTHONPATH", Path(rope_kernels.__file__).parent.parent),
    }

    def run(*arguments, fast_path="1", **more):
        child = [sys.executable, HERE / "child.py", *arguments]
        given = environment | {"ROPE_KERNELS_FAST_PATH": fast_path} | more
        done = subprocess.run(child, env=given, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def by_c_functions(run_child):
    """What a child tried by Triton's C functions, where we know them."""
    return run_child("private")


@pytest.fixture(scope="module", params=("private", "handle"))
def noted(request, run_child, by_c_functions):
    """The same, and what another one tried by handles alone."""
    found = by_c_functions if request.param == "private" else run_child(request.param)
    return {"way": request.param} | found


@recorded
def test_the_c_function_where_it_is_known_and_else_the_handle(noted):
    known = triton.__version__.rpartition(".")[0] in fastpath.LAUNCHERS
    assert bool(noted["by handle"]) == (noted["way"] == "handle" or not known)


@recorded
def test_the_driver_gets_the_same_both_ways(noted):
    assert len(noted["cases"]) >= 28
    for name, ways in noted["cases"].items():
        whole, fast = dict(ways["whole"]), dict(ways["fast"])
        assert (whole.pop("whole way"), fast.pop("whole way")) == (1, 0), name
        assert whole == fast, name
        assert fast["launches"] == 1 and fast["its own stream"], name
        assert "unknown" not in [value for _, value in fast["parameters"]], name
    # addresses are told from each other, or this would compare nothing with nothing
    parameters = dict(noted["cases"]["q and k"]["fast"]["parameters"])
    assert [parameters[name] for name in ("q_ptr", "k_ptr", "q_out_ptr", "k_out_ptr")] == [
        *("q", "k", "out 0", "out 1")
    ]
    assert parameters["table_ptr"] == "freqs"


UNKNOWN_VERSIONS = "3.4.0", "3.99.0", "4.0", "3.7.0+git5b1a2c3d", "no version"
FOUND = {  # what a child tried -> what it has to find
    # launches, and whole ways: forward, backward, and the sum of the weights' gradients
    "norm with gradients": [[3, 3], [3, 0], [3, 0]],
    "with a profiler's hook": {"seen": 3, "whole way without": 0},
    "debug compiles another kernel": True,
    "another backend": [None, []],  # is not even looked at
    "enable_fp_fusion": [True],  # every launch says it: Triton 3.10 changes the default
    "without what it reads": {"hooks": False, "a tensor": False, "a source": None, "launches": 0},
    "unknown versions": {version: [[1, 0, 0], ["rope_kernel"]] for version in UNKNOWN_VERSIONS},
    "other launchers": {
        "WithoutPrivateNames": [[1, 0, 0], []],
        "WithMemory": [[1, 0, 0], [1, 1, 1]],  # as much as each program asks for, at every launch
    },
}


@recorded
@pytest.mark.parametrize("tried", FOUND)
def test_what_a_child_finds(tried, noted):
    assert noted[tried] == FOUND[tried]


@recorded
@pytest.mark.parametrize("tried", ("output off by one", "another current device"))
def test_what_goes_the_whole_way(tried, noted):
    assert (noted[tried]["whole way"], noted[tried]["launches"]) == (1, 1)


@recorded
def test_aligned_then_off_by_one_then_aligned(noted):
    aligned, off, aligned_again = noted["by turns"]
    assert aligned["kernel"] == aligned_again["kernel"] != off["kernel"]
    assert [x["whole way"] for x in noted["by turns"]] == [0, 0, 0]


@recorded
def test_forward_and_backward_new_and_in_place_are_four_kernels(noted):
    assert [x["whole way"] for x in noted["flags"]] == [0] * 4
    assert len({x["kernel"] for x in noted["flags"]}) == 4


@recorded
def test_the_fast_path_can_be_switched_off(run_child):
    assert run_child("calls", fast_path="0") == [1, 1, 1]


@recorded
@pytest.mark.parametrize(
    "name", ("pre-run hook", "debug", "enter hook", "exit hook", "instrumentation", "stages")
)
def test_hooks_and_knobs_are_honored_at_every_launch(name, noted):
    """Set after the first call or before it, and cleared: three calls each time."""
    if name not in noted["hooks and knobs"] and triton.__version__.startswith("3.5."):
        pytest.skip("not in Triton 3.5")
    quiet, honored = [1, 0, 0], [1, 1, 1]
    assert noted["hooks and knobs"][name] == [quiet, honored, quiet, honored, quiet]


@recorded
def test_a_kernel_without_a_handle_goes_the_whole_way_with_one_warning(noted):
    told = noted["without a handle"]
    assert told["whole ways"] == [1, 1, 1, 1]
    (warning,) = told["warnings"]
    assert triton.__version__ in warning and "not subscriptable" in warning


@recorded
def test_an_error_of_the_driver_is_raised_after_one_launch(noted):
    refused = noted["refused by the driver"]
    assert "Triton Error [CUDA]" in refused["error"]
    assert (refused["launches"], refused["whole way"]) == (1, 0)
    assert refused["next"] == [0, 0, 0]


@recorded
def test_the_machine_code_does_not_hang_on_tritons_default(run_child, by_c_functions):
    """Of both kernels, forward and backward, called and through torch.compile's operator."""
    one, other = by_c_functions["code"], run_child("code", TRITON_DEFAULT_FP_FUSION="0")
    assert one["default"] is True and other["default"] is False
    names = ["rope_kernel", "whole_rows_kernel"]
    assert sorted({name for name, *_ in one["ours"]}) == names and len(one["ours"]) == 4
    assert one["ours"] == other["ours"]
    assert all(fused for _, _, fused in one["ours"])
    assert one["left to Triton"] != other["left to Triton"]  # or this would compare nothing


@pytest.mark.gpu
def test_offsets_by_turns_on_the_gpu():
    """Aligned, off by one element, aligned, twice: the second time by the fast path."""
    freqs = RotaryPositionEmbedding(32).cuda()(6)
    memory = torch.randn(6 * 2 * 4 * 32 + 1, device="cuda")
    for _ in range(2):
        for offset in (0, 1, 0):
            t = memory[offset : offset + 6 * 2 * 4 * 32].view(6, 2, 4, 32)
            assert_rounded_once(apply_rotary_pos_emb(t, freqs), rotate_fp64(t, freqs, "sbhd"))


@pytest.mark.gpu
@fast_path
def test_the_second_call_takes_the_fast_path(monkeypatch):
    freqs, t = RotaryPositionEmbedding(32).cuda()(6), torch.randn(6, 2, 4, 32, device="cuda")
    want = apply_rotary_pos_emb(t, freqs)
    monkeypatch.setattr(launch, "plan_rope", None)  # would fail
    assert torch.equal(apply_rotary_pos_emb(t, freqs), want)


# the fast path of a backward


@pytest.fixture
def remembering(monkeypatch):
    """Signatures are remembered, also with ROPE_KERNELS_FAST_PATH=0; nothing is remembered yet."""
    monkeypatch.setattr(fastpath, "ENABLED", True)
    fastpath.forget()
    yield
    fastpath.forget()


@pytest.fixture
def repeated(monkeypatch, remembering):
    """A fast path that needs no GPU: it launches through the JIT or the interpreter again.

    Its launches, in a list: whether it took gradients back, and how many tensors it rotated.
    """
    launches, kernels, run = [], [], launch.run
    monkeypatch.setattr(
        launch,
        "run",
        lambda plan, tensors: kernels.append(kernel_of(plan)) or run(plan, tensors),
    )

    def shortest_launch(compiled, programs, arguments, unkeyed):
        kernel = kernels[-1]

        def launch_again(tensors):
            transposed = arguments["TRANSPOSE"]
            launches.append((transposed, sum(t is not None for t in tensors[:2])))
            kernel[(programs,)](*tensors, **arguments, num_warps=1)
            return True

        return launch_again

    monkeypatch.setattr(fastpath, "shortest_launch", shortest_launch)
    return launches


def q_k_and_more(device):
    """q, k, freqs, their outputs and gradients for them; after one backward."""
    q, k = (torch.randn(5, 2, h, 8, device=device, requires_grad=True) for h in (3, 1))
    freqs = RotaryPositionEmbedding(8).to(device)(5)
    outs = rope_qk(q, k, freqs)
    grads = tuple(torch.randn_like(out) for out in outs)
    torch.autograd.grad(outs, (q, k), grads, retain_graph=True)
    return q, k, freqs, outs, grads


def turned_back(grads, freqs):
    return tuple(reference.apply_rotary_pos_emb(g, freqs, transpose=True) for g in grads)


def all_close(got, want):
    return all(torch.allclose(x, y, atol=1e-6) for x, y in zip(got, want, strict=True))


def test_the_second_backward_takes_the_fast_path(repeated, device, monkeypatch):
    q, k, freqs, outs, grads = q_k_and_more(device)
    assert repeated == []
    for module, name in ((routes, "choose_route"), (launch, "plan_rope")):
        monkeypatch.setattr(module, name, None)  # would fail
    got = torch.autograd.grad(outs, (q, k), grads)
    assert repeated == [(True, 2)]
    assert all_close(got, turned_back(grads, freqs))


LIKE = {
    "other strides": lambda g: torch.randn(g.shape[::-1], device=g.device).permute(3, 2, 1, 0),
    "one number, expanded": lambda g: torch.randn((), device=g.device).expand(g.shape),
    "off by one element": lambda g: torch.randn(g.numel() + 1, device=g.device)[1:].view(g.shape),
    "a sign of its own": lambda g: torch._neg_view(torch.randn_like(g)),
}


@pytest.mark.parametrize("name", LIKE)
def test_other_gradients_have_another_signature(name, repeated, device):
    q, k, freqs, outs, grads = q_k_and_more(device)
    fast = [] if name == "a sign of its own" else [(True, 2)]  # the launch was of a copy
    for expected in ([], fast):
        grads = tuple(LIKE[name](g) for g in grads)
        got = torch.autograd.grad(outs, (q, k), grads, retain_graph=True)
        assert repeated == expected and all_close(got, turned_back(grads, freqs))


def test_a_launch_of_copies_is_not_remembered(repeated, device):
    t, angles = torch.randn(6, 3, 8, device=device), RotaryPositionEmbedding(8).to(device)(6)
    cos, sin = (x[:, 0, 0].contiguous() for x in (angles.cos(), angles.sin()))
    every_other = torch.tensor([0, 9, 2, 9, 6], device=device)[::2]
    starts = torch.tensor([1, 9, 2], device=device)[::2]
    cuts = {"cu_seqlens": every_other.contiguous()}
    for x, freqs, where in (
        (torch._neg_view(t), angles, cuts),
        (t, torch._neg_view(angles), cuts),
        (t, (cos, sin.t().contiguous().t()), cuts),
        (t, angles, {"cu_seqlens": every_other}),
        (t, angles, cuts | {"start_positions": starts}),
    ):
        want = rotate_fp64(x, freqs, "thd", **where)
        for _ in range(3):
            assert_rounded_once(call(x, freqs, tensor_format="thd", **where), want)
    assert repeated == []


@pytest.mark.parametrize("given", (0, 1))
def test_one_gradient_of_two_is_turned_alone(given, repeated, device):
    *tensors, freqs, outs, grads = q_k_and_more(device)
    for _ in range(2):
        (got,) = torch.autograd.grad(outs[given], tensors[given], grads[given], retain_graph=True)
        assert all_close([got], [turned_back(grads, freqs)[given]])
    assert repeated == [(True, 1)]


def test_a_second_derivative_after_a_fast_backward(repeated, device):
    q, k, freqs, outs, grads = q_k_and_more(device)
    grads = tuple(g.requires_grad_() for g in grads)
    got = torch.autograd.grad(outs, (q, k), grads, create_graph=True)
    back = tuple(torch.randn_like(g) for g in got)
    seconds = torch.autograd.grad(got, grads, back)
    assert all_close(seconds, [reference.apply_rotary_pos_emb(g, freqs) for g in back])


def test_dual_numbers_after_a_fast_backward(repeated, device):
    q, k, freqs, outs, grads = q_k_and_more(device)
    tangents = tuple(torch.randn_like(g) for g in grads)
    with forward_ad.dual_level():
        duals = tuple(forward_ad.make_dual(g, x) for g, x in zip(grads, tangents, strict=True))
        got = torch.autograd.grad(outs, (q, k), duals)
        got = [forward_ad.unpack_dual(x).tangent for x in got]
    assert all_close(got, turned_back(tangents, freqs))


def test_a_graph_traced_after_a_fast_backward(repeated, device):
    q, k, freqs, outs, grads = q_k_and_more(device)

    def back(*grads):
        return torch.autograd.grad(outs, (q, k), grads, retain_graph=True)

    graph = make_fx(back)(*grads)
    grads = tuple(torch.randn_like(g) for g in grads)
    assert all_close(graph(*grads), turned_back(grads, freqs))


def test_saved_tables_may_come_back_with_other_strides(repeated, device):
    q, k, freqs, outs, grads = q_k_and_more(device)

    def unpack(x):
        return x.expand(5, 2, 1, 8).contiguous()[:, :1]

    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
        outs = rope_qk(q, k, freqs)
    repeated.clear()
    got = torch.autograd.grad(outs, (q, k), grads)
    assert repeated == [] and all_close(got, turned_back(grads, freqs))


def test_within_a_transform_a_fast_backward_is_right(repeated, device):
    q, k, freqs, outs, grads = q_k_and_more(device)

    def times_the_gradient(x):
        return x * torch.autograd.grad(outs, (q, k), grads, retain_graph=True)[0]

    want, _ = turned_back(grads, freqs)
    x = torch.ones(2, *want.shape, device=device)
    assert all_close(torch.vmap(times_the_gradient)(x), [want, want])
    (got,) = torch.func.vjp(times_the_gradient, x[0])[1](x[1])
    assert all_close([got], [want])


def test_backwards_with_other_options_have_other_signatures(repeated, device):
    t = torch.randn(6, 2, 3, 8, device=device, requires_grad=True)
    module, ids = RotaryPositionEmbedding(8).to(device), torch.randint(6, (2, 6), device=device)
    table, grad = module(6), torch.randn_like(t)
    pair = tuple(x[:, 0, 0].contiguous() for x in (table.cos(), table.sin()))
    calls = {
        "a table": (table, {}),
        "half of it": (table[..., :4], {}),
        "cos and sin": (pair, {}),
        "on the fly": (module, {}),
        "a rank's": (module, {"cp_size": 2, "cp_rank": 1}),
        "another rank's": (module, {"cp_size": 2, "cp_rank": 0}),
        "interleaved": (table, {"interleaved": True}),
        "starts": (table, {"start_positions": ids[:, 0] * 0}),
        "ids": (table, {"position_ids": ids}),
        "ids of int32": (table, {"position_ids": ids.int()}),
        "ids, s first in memory": (table, {"position_ids": ids.t().contiguous().t()}),
        "ids for all": (table, {"position_ids": ids[:1]}),
    }
    for name, (freqs, options) in calls.items():
        out = apply_rotary_pos_emb(t, freqs, **options)
        freqs = freqs.turns(None) if freqs is module else freqs
        want = reference.apply_rotary_pos_emb(grad, freqs, transpose=True, **options)
        for times in range(2):
            repeated.clear()
            got = torch.autograd.grad(out, t, grad, retain_graph=True)
            assert repeated == [(True, 1)] * times, name
            assert all_close(got, [want]), name


# what is remembered of checks


def call(t, freqs, **options):
    return apply_rotary_pos_emb(t, freqs, **options)


def test_a_signature_is_checked_once(repeated, monkeypatch, device):
    freqs, t = RotaryPositionEmbedding(8).to(device)(5), torch.randn(5, 1, 2, 8, device=device)
    call(t, freqs)
    monkeypatch.setattr(routes, "check_call", None)  # would fail
    call(torch.randn_like(t), freqs.clone())
    assert repeated == [(False, 1)]
    with pytest.raises(TypeError):
        call(t[:4], freqs)


def test_values_on_the_cpu_are_checked_every_time(repeated):
    t, freqs = torch.randn(6, 1, 8), RotaryPositionEmbedding(8)(6)
    for _ in range(2):
        call(t, freqs, tensor_format="thd", cu_seqlens=torch.tensor([0, 2, 6]))
    with pytest.raises(ValueError, match="cu_seqlens"):
        call(t, freqs, tensor_format="thd", cu_seqlens=torch.tensor([0, 7, 6]))


def test_a_bad_call_is_never_remembered(repeated):
    t, freqs = torch.randn(6, 1, 2, 8), RotaryPositionEmbedding(8)(5)
    for _ in range(2):
        with pytest.raises(ValueError, match="s2 = 5"):
            call(t, freqs)


def test_turns_follow_the_frequencies_within_a_signature(repeated, device):
    module, t = RotaryPositionEmbedding(8).to(device), torch.randn(5, 1, 2, 8, device=device)
    call(t, module)
    module.inv_freq.mul_(3)
    assert_rounded_once(call(t, module), rotate_fp64(t, module, "sbhd"))
    assert repeated == [(False, 1)]


T = torch.randn(4, 4)
OTHERS = {
    "shape": T.view(2, 8),
    "strides": T.t(),
    "dtype": T.double(),
    "alignment": torch.randn(17)[1:].view(4, 4),
    "sign": torch._neg_view(T),
    "device": T.to("meta"),
}


def entry_of(*tensors, freqs=T, **options):
    """Which entry is that of a call: one that two such calls share, or None if they share none."""
    plain = {"cu_seqlens": None, "start_positions": None, "position_ids": None}
    plain |= {"interleaved": False, "cp_size": 1, "cp_rank": 0, "fused": True, "inplace": False}
    plain |= {"rotary_dim": None, "rotary_start": 0, "inverse": False, "output_pairing": "same"}
    plain |= {"rounding": None, "cp_order": "zigzag"}
    a_call = Call(tensors=tensors, freqs=freqs, tensor_format="sbhd", **(plain | options))
    entry, again = (fastpath.entry_of_call(a_call, routes.tables_of(freqs)) for _ in range(2))
    return id(entry) if entry is not None and entry is again else None


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_tensors_that_differ_have_another_signature(other, remembering):
    assert entry_of(other) != entry_of(T) == entry_of(torch.randn(4, 4))
    assert entry_of(T, freqs=other) != entry_of(T)
    assert entry_of(T, freqs=(T, other)) != entry_of(T, freqs=(T, T))
    assert None not in (entry_of(other), entry_of(T, freqs=other), entry_of(T, freqs=(T, other)))


OPTIONS = (  # 1 == True == 1.0, and 0 == False
    *({"interleaved": x} for x in (True, 0)),
    *({"rotary_dim": x} for x in (8, 8.0, 16, True, 1)),
    *({"rotary_start": x} for x in (8, False, 0.0, True, 1, 1.0)),
    *({"inverse": x} for x in (True, 1, 0, 0.0, None)),
    *({"output_pairing": x} for x in ("half", None)),
    *({"rounding": x} for x in ("once", "model")),
    *({name: T} for name in ("cu_seqlens", "start_positions", "position_ids")),
    *({"inplace": True}, {"transpose": True}, {"cp_size": 2}, {"cp_size": 2, "cp_rank": 1}),
    {"cp_size": 2, "cp_rank": 1, "cp_order": "contiguous"},
    *({"packed": PackedFormat(n, 2, "qkv", "sbhd", "sbhd")} for n in (2, 1, True, 1.0)),
    {"packed": PackedFormat(2, 1, "qkv", "sbhd", "sbhd")},
    {"packed": PackedFormat(2, 2, "grouped", "sbhd", "sbhd")},
    {"packed": PackedFormat(2, 2, "qkv", "sbhd", "bhsd")},
)


def test_calls_with_other_tensors_or_options_have_other_signatures(remembering):
    modules = [RotaryPositionEmbedding(8), RotaryPositionEmbedding(10)]
    modules += [RotaryPositionEmbedding(8, interleaved=True)]
    entries = [entry_of(T), entry_of(T, T)] + [entry_of(T, **options) for options in OPTIONS]
    entries += [entry_of(T, freqs=freqs) for freqs in ((T, T), [T], None, *modules)]
    assert None not in entries and len(set(entries)) == len(entries) == 45


def test_what_a_launch_writes_is_in_its_signature(remembering):
    """Whether rotated keys are returned, and whether what is read is overwritten."""
    cache = dict.fromkeys(OF_A_CACHE, T)
    entries = [entry_of(T, T, cache=CacheCall(**cache, return_k=x)) for x in (False, True)]
    rotation = Rotation(T.view(4, 1, 1, 4))
    entries += [id(launch.entry_of_rotation((T,), rotation, inplace)) for inplace in (False, True)]
    assert None not in entries and len(set(entries)) == 4


def test_one_start_of_a_projection_has_a_signature(remembering):
    """It is a tensor by then. A number would have none, and the call would be checked each time."""
    packed = PackedFormat(2, 1, "qkv", "sbhd", "sbhd")
    assert entry_of(torch.randn(4, 2, 8), packed=packed, start_positions=3) is not None


def test_a_module_that_was_changed_has_another_signature(remembering):
    module = RotaryPositionEmbedding(8)
    entries = [entry_of(T, freqs=module)]
    for name, value in (("rotary_dim", 6), ("interleaved", True), ("attention_factor", 1.5)):
        setattr(module, name, value)
        entries.append(entry_of(T, freqs=module))
    module.inv_freq.requires_grad_()
    entries.append(entry_of(T, freqs=module))
    assert None not in entries and len(set(entries)) == len(entries)


class Mine(torch.Tensor):
    pass


def test_what_is_no_plain_tensor_has_no_entry(remembering):
    assert entry_of(torch.nn.Parameter(T)) == entry_of(T)
    for odd in (T.as_subclass(Mine), T.to_sparse(), "text", 3):
        assert entry_of(odd) is None and entry_of(T, freqs=odd) is None
    assert entry_of(T, interleaved=[]) is None
    for name in ("rotary_dim", "rotary_start", "inverse", "output_pairing", "rounding"):
        assert entry_of(T, **{name: []}) is None
        assert entry_of(T, **{name: torch.zeros(2)}) != entry_of(T)
    module = RotaryPositionEmbedding(8)
    module.interleaved = []
    assert entry_of(T, freqs=module) is None


@pytest.mark.parametrize("which", ("t", "freqs", "position_ids", "inplace"))
def test_tensors_of_a_subclass_are_rotated_too(which, repeated, device):
    freqs, t = RotaryPositionEmbedding(8).to(device)(5), torch.randn(5, 2, 3, 8, device=device)
    given = {"t": t, "freqs": freqs, "position_ids": torch.randint(5, (2, 5), device=device)}
    want = call(**given)
    if which == "inplace":
        given |= {"t": t.clone().as_subclass(Mine), "inplace": True}
    else:
        given[which] = given[which].as_subclass(Mine)
    assert torch.equal(call(**given).as_subclass(torch.Tensor), want)


@pytest.mark.parametrize("which", ("grad", "saved"))
def test_a_backward_takes_tensors_of_a_subclass_too(which, repeated, device):
    freqs, t = RotaryPositionEmbedding(8).to(device)(5), torch.randn(5, 2, 3, 8, device=device)
    leaf, grad = t.requires_grad_(), torch.randn_like(t)
    (want,) = torch.autograd.grad(call(leaf, freqs), leaf, grad)
    wrapped = grad.as_subclass(Mine) if which == "grad" else grad
    unpack = (lambda x: x.as_subclass(Mine)) if which == "saved" else (lambda x: x)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
        (got,) = torch.autograd.grad(call(leaf, freqs), leaf, wrapped)
    assert torch.equal(got.as_subclass(torch.Tensor), want)


@pytest.mark.parametrize(
    "option",
    (
        *({"interleaved": 0}, {"cp_size": 1.0}, {"cp_size": 1, "cp_rank": 0.0}),
        *({"rotary_start": False}, {"rotary_start": 0.0}, {"inverse": 0}, {"inverse": 0.0}),
    ),
    ids=str,
)
def test_equal_is_not_enough(option, repeated, device):
    """0 == False and 1 == 1.0; what is refused at first is refused after good calls, too."""
    t, freqs = torch.randn(5, 2, 3, 8, device=device), RotaryPositionEmbedding(8).to(device)(5)
    for _ in range(2):
        call(t, freqs)
    assert repeated == [(False, 1)]
    with pytest.raises((TypeError, ValueError), match=next(reversed(option))):
        call(t, freqs, **option)


def test_no_table_is_refused_after_a_good_call(repeated, device):
    t, freqs = torch.randn(5, 2, 3, 8, device=device), RotaryPositionEmbedding(8).to(device)(5)
    call(t, freqs)
    with pytest.raises(TypeError, match="freqs"):
        call(t, None)


def test_a_call_that_is_not_fused_launches_nothing_remembered(repeated, device):
    """Though it looks like one that was, but for that."""
    t, freqs = torch.randn(5, 2, 3, 8, device=device), RotaryPositionEmbedding(8).to(device)(5)
    call(t, freqs)
    call(t, freqs, fused=False)
    assert repeated == []
    with pytest.raises(TypeError, match=r"^fused is 1; accepted: "):
        call(t, freqs, fused=1)


def entries_remembered():
    return fastpath._entry.cache_info().currsize


def test_torch_jit_leaves_nothing_behind(remembering):
    freqs = RotaryPositionEmbedding(8)(5)
    t = torch.randn(5, 2, 3, 8)
    torch.jit.trace(lambda t: call(t, freqs), t, check_trace=False)  # the check is a plain run
    assert entries_remembered() == 0
    call(t, freqs)
    assert entries_remembered() == 1


def test_memory_has_a_bound(remembering):
    for i in range(5000):
        entry_of(T, cp_rank=i)
    assert entries_remembered() == 4096
    fastpath.forget()
    assert entries_remembered() == 0
