"""The short way to launch a kernel hands the driver exactly what Triton's whole way hands it.

On a machine without a GPU, by a CUDA driver that notes launches down (`recording_driver/`); so that
is tested wherever there is a C compiler, and where there is a GPU all other tests go the short way.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import rope_kernels
from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, checks, kinds, launch
from yardstick import assert_rounded_once, rotate_fp64

triton = pytest.importorskip("triton", reason="needs Triton")
HERE = Path(__file__).parent / "recording_driver"
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="has a real driver")
no_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

CASES = (
    "table",
    "cos and sin",
    "on the fly",
    "backward alone",
    "backward",
    "bf16",
    "strided",
    "a column of a wide tensor",
    "start positions",
    "position ids",
    "packed",
    "context parallel",
    "interleaved",
    "half rotary",
    "in place",
    "q and k",
    "q and k in place",
)


@pytest.fixture(scope="module")
def noted(tmp_path_factory):
    """What the child printed."""
    folder = tmp_path_factory.mktemp("driver")
    headers = Path(triton.__file__).parent / "backends" / "nvidia" / "include"
    library = folder / "libcuda.so.1"
    command = ["gcc", "-shared", "-fPIC", f"-I{headers}", "-o", library, HERE / "libcuda.c"]
    subprocess.run(command, check=True)
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {
        "LD_LIBRARY_PATH": str(folder),
        "TRITON_LIBCUDA_PATH": str(folder),
        "TRITON_CACHE_DIR": str(folder / "cache"),
        "PYTHONPATH": str(Path(rope_kernels.__file__).parent.parent),
    }
    child = [sys.executable, HERE / "child.py"]
    done = subprocess.run(child, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@no_gpu
@no_compiler
def test_all_cases_are_looked_at(noted):
    assert tuple(noted["cases"]) == CASES


@no_gpu
@no_compiler
@pytest.mark.parametrize("case", CASES)
def test_the_driver_gets_the_same_both_ways(case, noted):
    whole, short = noted["cases"][case].values()
    assert (whole.pop("whole way"), short.pop("whole way")) == (1, 0)
    assert whole == short
    assert short["launches"] == 1 and short["its own stream"]
    assert "unknown" not in [value for _, value in short["parameters"]]


@no_gpu
@no_compiler
def test_addresses_are_told_from_each_other(noted):
    """Or the test above would compare nothing with nothing."""
    parameters = dict(noted["cases"]["q and k"]["short"]["parameters"])
    assert [parameters[name] for name in ("q_ptr", "k_ptr", "q_out_ptr", "k_out_ptr")] == [
        *("q", "k", "out 0", "out 1")
    ]
    assert parameters["table_ptr"] == "freqs"


@no_gpu
@no_compiler
def test_aligned_then_off_by_one_then_aligned(noted):
    aligned, off, aligned_again = noted["by turns"]
    assert aligned["kernel"] == aligned_again["kernel"] != off["kernel"]
    assert [x["whole way"] for x in noted["by turns"]] == [0, 0, 0]


@no_gpu
@no_compiler
def test_forward_and_backward_new_and_in_place_are_four_kernels(noted):
    assert [x["whole way"] for x in noted["flags"]] == [0] * 4
    assert len({x["kernel"] for x in noted["flags"]}) == 4


@no_gpu
@no_compiler
def test_a_profiler_that_asks_triton_sees_every_launch(noted):
    assert noted["with a profiler's hook"] == {"seen": 3, "whole way without": 0}


@no_gpu
@no_compiler
def test_an_output_that_is_not_aligned_goes_the_whole_way(noted):
    assert noted["output off by one"]["whole way"] == 1
    assert noted["output off by one"]["launches"] == 1


@pytest.mark.gpu
def test_offsets_by_turns_on_the_gpu():
    """Aligned, off by one element, aligned, twice: the second time by the short way."""
    freqs = RotaryPositionEmbedding(32).cuda()(6)
    memory = torch.randn(6 * 2 * 4 * 32 + 1, device="cuda")
    for _ in range(2):
        for offset in (0, 1, 0):
            t = memory[offset : offset + 6 * 2 * 4 * 32].view(6, 2, 4, 32)
            assert_rounded_once(apply_rotary_pos_emb(t, freqs), rotate_fp64(t, freqs, "sbhd"))


@pytest.mark.gpu
def test_the_second_call_goes_the_short_way(monkeypatch):
    freqs, t = RotaryPositionEmbedding(32).cuda()(6), torch.randn(6, 2, 4, 32, device="cuda")
    want = apply_rotary_pos_emb(t, freqs)
    monkeypatch.setattr(launch, "launch_rope", None)  # would fail
    assert torch.equal(apply_rotary_pos_emb(t, freqs), want)


# what is remembered of checks


def call(t, freqs, **options):
    return apply_rotary_pos_emb(t, freqs, **options)


def test_a_kind_is_checked_once(monkeypatch, device):
    freqs, t = RotaryPositionEmbedding(8).to(device)(5), torch.randn(5, 1, 2, 8, device=device)
    call(t, freqs)
    monkeypatch.setattr(checks, "_check_kind", None)  # would fail
    call(torch.randn_like(t), freqs.clone())
    with pytest.raises(TypeError):
        call(t[:4], freqs)


def test_values_on_the_cpu_are_checked_every_time():
    t, freqs = torch.randn(6, 1, 8), RotaryPositionEmbedding(8)(6)
    call(t, freqs, tensor_format="thd", cu_seqlens=torch.tensor([0, 2, 6]))
    with pytest.raises(ValueError, match="cu_seqlens"):
        call(t, freqs, tensor_format="thd", cu_seqlens=torch.tensor([0, 7, 6]))


def test_a_bad_call_is_never_remembered():
    t, freqs = torch.randn(6, 1, 2, 8), RotaryPositionEmbedding(8)(5)
    for _ in range(2):
        with pytest.raises(ValueError, match="s2 = 5"):
            call(t, freqs)


def test_turns_follow_the_frequencies_within_a_kind(device):
    module, t = RotaryPositionEmbedding(8).to(device), torch.randn(5, 1, 2, 8, device=device)
    call(t, module)
    module.inv_freq.mul_(3)
    assert_rounded_once(call(t, module), rotate_fp64(t, module, "sbhd"))


T, OPTIONS = torch.randn(4, 4), ("sbhd", False, 1, 0)
OTHERS = {
    "shape": T.view(2, 8),
    "strides": T.t(),
    "dtype": T.double(),
    "alignment": torch.randn(17)[1:].view(4, 4),
    "sign": torch._neg_view(T),
    "device": T.to("meta"),
}


def kind_of(*tensors, freqs=T, options=OPTIONS):
    return kinds.kind_of(freqs, options, *tensors)


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_tensors_that_differ_are_of_another_kind(other):
    assert kind_of(other) != kind_of(T) == kind_of(torch.randn(4, 4))
    assert kind_of(T, freqs=other) != kind_of(T)
    assert kind_of(T, freqs=(T, other)) != kind_of(T, freqs=(T, T))


def test_calls_with_other_tensors_are_of_another_kind():
    calls = [
        kind_of(T),
        kind_of(T, T),
        kind_of(T, T, None, None),
        kind_of(T, None, T, None),
        kind_of(T, None, None, T),
        kind_of(T, freqs=(T, T)),
        kind_of(T, freqs=[T]),
        kind_of(T, freqs=RotaryPositionEmbedding(8)),
        kind_of(T, freqs=RotaryPositionEmbedding(10)),
        kind_of(T, freqs=RotaryPositionEmbedding(8, interleaved=True)),
    ]
    assert None not in calls and len(set(calls)) == len(calls)


class Mine(torch.Tensor):
    pass


def test_what_is_no_plain_tensor_has_no_kind():
    assert kind_of(torch.nn.Parameter(T)) == kind_of(T)
    for odd in (T.as_subclass(Mine), T.to_sparse(), "text", 3):
        assert kind_of(odd) is None and kind_of(T, freqs=odd) is None
    assert kind_of(T, freqs=None) is None
    assert kind_of(T, options=("sbhd", [], 1, 0)) is None
    module = RotaryPositionEmbedding(8)
    module.interleaved = []
    assert kind_of(T, freqs=module) is None


SUBCLASSES = ("t", "freqs", "position_ids", "inplace", "grad", "saved")


@pytest.mark.parametrize("which", SUBCLASSES)
def test_tensors_of_a_subclass_are_rotated_too(which, device):
    freqs, t = RotaryPositionEmbedding(8).to(device)(5), torch.randn(5, 2, 3, 8, device=device)
    ids = torch.randint(5, (2, 5), device=device)
    want = call(t, freqs, position_ids=ids)
    mine = {name: x.as_subclass(Mine) for name, x in {"t": t, "freqs": freqs}.items()}
    given = {"t": t, "freqs": freqs, "position_ids": ids}
    if which in mine:
        given[which] = mine[which]
    elif which == "position_ids":
        given[which] = ids.as_subclass(Mine)
    elif which == "inplace":
        given |= {"t": t.clone().as_subclass(Mine), "inplace": True}
    if which not in ("grad", "saved"):
        assert torch.equal(call(**given).as_subclass(torch.Tensor), want)
        return
    leaf, grad = t.clone().requires_grad_(), torch.randn_like(t)
    (want,) = torch.autograd.grad(call(leaf, freqs), leaf, grad)
    wrapped = grad.as_subclass(Mine) if which == "grad" else grad
    unpack = (lambda x: x.as_subclass(Mine)) if which == "saved" else (lambda x: x)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
        (got,) = torch.autograd.grad(call(leaf, freqs), leaf, wrapped)
    assert torch.equal(got.as_subclass(torch.Tensor), want)


@pytest.mark.parametrize(
    "option", ({"interleaved": 0}, {"cp_size": 1.0}, {"cp_size": 1, "cp_rank": 0.0})
)
def test_equal_is_not_enough(option):
    """0 == False and 1 == 1.0; what is refused at first is refused after a good call, too."""
    t, freqs = torch.randn(5, 2, 3, 8), RotaryPositionEmbedding(8)(5)
    call(t, freqs)
    with pytest.raises((TypeError, ValueError), match=next(reversed(option))):
        call(t, freqs, **option)


def test_torch_jit_leaves_nothing_behind():
    freqs, before = RotaryPositionEmbedding(8)(5), len(checks._ACCEPTED)
    torch.jit.trace(lambda t: call(t, freqs, fused=False), torch.randn(5, 2, 3, 8))
    assert len(checks._ACCEPTED) <= before + 1  # the trace is compared with a plain run


def test_memory_has_a_bound():
    seen = kinds.Remembered()
    for i in range(kinds._MOST + 1):
        seen[i] = i
    assert list(seen) == [kinds._MOST]
