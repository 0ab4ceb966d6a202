"""The buffer of turns: it follows `inv_freq` everywhere, or the call raises."""

import copy
import itertools
import math
import pickle
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import rope_kernels
from counted import calls_within, operators_of
from rope_kernels import (
    RotaryPositionEmbedding,
    apply_rotary_pos_emb,
    embedding,
    rope_bw,
    rope_fw,
)
from rope_kernels.embedding import in_turns
from yardstick import assert_near, rotate_fp64

D, S = 8, 5


def tokens(device, **options):
    return torch.randn(S, 2, 3, D, device=device, **options)


def module_of(inv_freq):
    module = RotaryPositionEmbedding(D).to(inv_freq.device)
    module.inv_freq = inv_freq.clone()
    return module


def other_frequencies(device="cpu"):
    return torch.rand(D // 2, device=device)


# a change is followed, in the same memory

AT_ONCE = {
    "assignment": lambda module, new: setattr(module, "inv_freq", new),
    "state dict": lambda module, new: module.load_state_dict({"inv_freq": new}),
    "state dict, assigned": lambda module, new: module.load_state_dict(
        {"inv_freq": new}, assign=True
    ),
}


CHANGES = AT_ONCE | {
    "in place": lambda module, new: module.inv_freq.copy_(new),
    "reset": lambda module, new: module.reset_parameters(),
}
each_change = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)


@each_change
def test_a_change_is_written_to_the_same_memory(change, device):
    """At once; after a write in place by the next call."""
    module = RotaryPositionEmbedding(D, rotary_base=500.0).to(device)
    before, turns = module.inv_freq.clone(), module.turns()
    address = turns.data_ptr()
    module.inv_freq.mul_(3)
    assert torch.equal(module.turns(), in_turns(3 * before))
    change(module, new := other_frequencies(device))
    want = before if change is CHANGES["reset"] else new
    assert torch.equal(module.inv_freq, want) and torch.equal(module.turns(), in_turns(want))
    assert module.turns().data_ptr() == address
    assert module.turns().dtype == torch.int64 and list(module.state_dict()) == ["inv_freq"]


def test_a_parameter_that_is_assigned_is_written_there_too(device):
    """For a CUDA graph that was captured before; later graphs read the parameter itself."""
    module, new = RotaryPositionEmbedding(D).to(device), other_frequencies(device)
    turns = module.turns()
    module.inv_freq = nn.Parameter(new)
    assert torch.equal(turns, in_turns(new)) and module.turns() is not turns


def in_inference_mode(module, new):
    with torch.inference_mode():
        module.inv_freq.copy_(new)


def in_the_memory_of_the_last(module, new):
    """As memory is used again, an address says nothing about what is there."""
    module._buffers["inv_freq"] = None
    module.inv_freq = new.clone()


FURTHER = {
    "in inference mode": in_inference_mode,
    "in the memory of the last": in_the_memory_of_the_last,
    "one of them": lambda module, new: module.inv_freq[1].copy_(new[1]),
    "a detached tensor": lambda module, new: module.inv_freq.detach().copy_(new),
    "its data": lambda module, new: setattr(module.inv_freq, "data", new),
    "the buffers": lambda module, new: module._buffers.update(inv_freq=new),
    "to fp64": lambda module, new: setattr(module, "inv_freq", new.double()),
    "to strides": lambda module, new: setattr(
        module, "inv_freq", torch.stack((new, -new), 1)[:, 0]
    ),
    "to one number": lambda module, new: setattr(module, "inv_freq", new[:1].expand(D // 2)),
}


@pytest.mark.parametrize("change", FURTHER.values(), ids=FURTHER)
def test_a_change_of_any_other_kind_is_followed(change, device):
    module, t = RotaryPositionEmbedding(D).to(device), tokens(device)
    outs = [rope_fw(t, module)]
    for _ in range(2):
        change(module, other_frequencies(device))
        outs.append(rope_fw(t, module))
        assert_near(outs[-1], rotate_fp64(t, module, "sbhd"))
        assert not torch.equal(*outs[-2:])


# changes that PyTorch does not count


FUSED = (torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad)
LEARNED = {
    "a parameter": lambda module: setattr(module, "inv_freq", nn.Parameter(module.inv_freq)),
    "a buffer": lambda module: module.inv_freq.requires_grad_(),
}


@pytest.mark.parametrize("learned", LEARNED)
@pytest.mark.parametrize("optimizer", FUSED)
def test_frequencies_that_a_fused_optimizer_trains_are_followed(optimizer, learned, device):
    """It counts no write. A validation before the training and after it, and a frozen model."""
    if device == "cuda" and optimizer is torch.optim.Adagrad:
        pytest.skip("PyTorch has no fused Adagrad for CUDA")
    module, t = RotaryPositionEmbedding(D).to(device), tokens(device)
    LEARNED[learned](module)
    steps = optimizer([module.inv_freq], lr=0.1, fused=True)
    for _ in range(2):
        with torch.no_grad():
            want = module_of(module.inv_freq)
            assert torch.equal(rope_fw(t, module), rope_fw(t, want))
        module.inv_freq.grad = torch.ones_like(module.inv_freq)  # as of a compiled graph
        steps.step()
    with torch.no_grad():
        for got, want in zip(module.cos_sin(S), module_of(module.inv_freq).cos_sin(S), strict=True):
            assert torch.equal(got, want)
    steps.step()
    module.inv_freq.requires_grad_(False)
    assert torch.equal(rope_fw(t, module), rope_fw(t, module_of(module.inv_freq)))


def test_frequencies_that_only_a_table_was_trained_by_are_followed(device):
    """No call by the module saw that they required a gradient."""
    module, t = RotaryPositionEmbedding(D).to(device), tokens(device)
    rope_fw(t, module)
    steps = torch.optim.SGD([module.inv_freq.requires_grad_()], lr=0.1, fused=True)
    module.cos_sin(S)[1].sum().backward()
    steps.step()
    module.inv_freq.requires_grad_(False)
    assert torch.equal(rope_fw(t, module), rope_fw(t, module_of(module.inv_freq)))


def test_memory_that_a_pool_restores_needs_a_write_that_counts(device):
    """As in vLLM's sleep mode at level 2. The docstring names the line, and so does a page."""
    module, t = RotaryPositionEmbedding(D).to(device), tokens(device)
    turns, saved, want = module.turns(), module.inv_freq.clone(), rope_fw(t, module)
    module.inv_freq.data.zero_()
    turns.data.fill_(-1)
    module.inv_freq.data.copy_(saved)
    assert not torch.equal(rope_fw(t, module), want)
    module.inv_freq += 0
    assert module.turns() is turns and torch.equal(turns, in_turns(saved))
    assert torch.equal(rope_fw(t, module), want)


def test_an_update_that_is_interrupted_anywhere_is_not_believed(device):
    """Ctrl-C while it waits for the GPU: turns may be those of the new frequencies, or the old."""
    module, t = RotaryPositionEmbedding(D).to(device), tokens(device)
    old, want = module.inv_freq, rope_fw(t, module)

    def interrupt(frame, event, argument):
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt

    for calls in itertools.count():
        left, tracer = calls, sys.gettrace()
        try:
            sys.settrace(interrupt)  # sees each call of a Python function
            module.inv_freq = other_frequencies(device)
            break  # no call is left
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(tracer)
        module.inv_freq = old
        assert torch.equal(rope_fw(t, module), want), calls
    assert calls > 10


@pytest.mark.parametrize("wrong", ("shape", "strides"))
def test_reset_parameters_where_it_cannot_write_in_place(wrong, device):
    module, want = RotaryPositionEmbedding(D).to(device), RotaryPositionEmbedding(D).turns()
    inv_freq = module.inv_freq
    module.inv_freq = inv_freq[:2] if wrong == "shape" else inv_freq[:1].expand(D // 2)
    module.reset_parameters()
    assert torch.equal(module.turns().cpu(), want) and module.inv_freq.device == inv_freq.device


def test_a_change_while_the_turns_are_computed_is_followed(monkeypatch):
    """As by another thread: values that were read before it are not taken for those after it."""
    module, t = RotaryPositionEmbedding(D), tokens("cpu")
    before, new = other_frequencies(), other_frequencies()
    module.inv_freq.copy_(before)

    def write_meanwhile(inv_freq):
        turns = in_turns(inv_freq)
        monkeypatch.undo()
        module.inv_freq.copy_(new)
        return turns

    monkeypatch.setattr(embedding, "in_turns", write_meanwhile)
    assert torch.equal(module.turns(), in_turns(before))
    assert torch.equal(module.turns(), in_turns(new))
    assert torch.equal(rope_fw(t, module), rope_fw(t, module_of(new)))


def test_threads_that_use_a_copy_first_share_what_one_of_them_fills(monkeypatch):
    """The others wait for it. Two would fill two, and updates and CUDA graphs know one of them."""
    module, want = RotaryPositionEmbedding(D), RotaryPositionEmbedding(D).turns()
    other, start, filled_by = copy.deepcopy(module), threading.Barrier(4), []

    def in_turns_slowly(inv_freq):
        filled_by.append(threading.get_ident())
        time.sleep(0.01)  # what is right does not depend on it
        return in_turns(inv_freq)

    def first_use(_):
        start.wait()
        turns = other.turns()
        return turns.data_ptr(), turns.clone()

    monkeypatch.setattr(embedding, "in_turns", in_turns_slowly)
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(first_use, range(4))]
    assert len(filled_by) == 1
    assert all(turns.equal(want) for _, turns in found)
    assert {address for address, _ in found} == {other.turns().data_ptr()}


# backward


@pytest.mark.parametrize("change", CHANGES)
def test_a_backward_after_a_change_is_an_error(change, device, needs_triton):
    """What it would turn by is overwritten, at the address that CUDA graphs know."""
    module, t = RotaryPositionEmbedding(D).to(device), tokens(device, requires_grad=True)
    module.inv_freq = other_frequencies(device)
    out = apply_rotary_pos_emb(t, module)
    module.inv_freq = module.inv_freq.clone()  # equal ones change nothing
    out.sum().backward(retain_graph=True)
    CHANGES[change](module, other_frequencies(device))
    apply_rotary_pos_emb(t, module)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


# frequencies that are refused

BAD = {  # frequencies, and what the message says
    **{
        str(dtype): (torch.ones(D // 2, dtype=dtype), f"inv_freq has dtype {str(dtype)[6:]}; ac")
        for dtype in (torch.bfloat16, torch.float16, torch.int64)
    },
    **{
        number: (torch.tensor([1, 1, float(number), 1]), f"inv_freq has the value {number}; ac")
        for number in ("nan", "inf", "-inf")
    },
    "beyond fp32": (
        torch.tensor([1, 1, -1e39, 1], dtype=torch.float64),
        r"inv_freq has the value -1e\+39; accepted: finite numbers that fp32 can hold, up to",
    ),
}


MADE = {"made": lambda module, new: RotaryPositionEmbedding(D, inv_freq=new)}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("change", AT_ONCE | MADE, ids=str)
def test_frequencies_that_are_refused_change_nothing(change, bad, device):
    module, t, (new, message) = RotaryPositionEmbedding(D).to(device), tokens(device), BAD[bad]
    inv_freq, want = module.inv_freq, rope_fw(t, module)
    # load_state_dict collects errors, and raises a RuntimeError
    with pytest.raises((TypeError, ValueError, RuntimeError), match=message):
        (AT_ONCE | MADE)[change](module, new.to(device))
    assert module.inv_freq is inv_freq and torch.equal(rope_fw(t, module), want)


@pytest.mark.parametrize("number", (math.nan, math.inf, 3.5e38))
@pytest.mark.parametrize("is_parameter", (False, True), ids=("a buffer", "a parameter"))
def test_a_number_that_is_refused_written_in_place(is_parameter, number, device):
    module, t = module_of(other_frequencies(device).double()), tokens(device)
    if is_parameter:
        module.inv_freq = nn.Parameter(module.inv_freq)
    before, want = module.inv_freq.detach().clone(), rope_fw(t, module)
    with torch.no_grad():
        module.inv_freq[1] = number
        for call in (lambda: rope_fw(t, module), lambda: module.cos_sin(S)) * 2:
            with pytest.raises(ValueError, match=r"^inv_freq has the value .*; accepted: finite n"):
                call()
        module.inv_freq.copy_(before)
        assert torch.equal(rope_fw(t, module), want)


@pytest.mark.parametrize("register", ("register_forward_hook", "register_forward_pre_hook"))
def test_hooks_run_for_a_table_alone(register, device):
    """wandb.watch and torchinfo register them on every module of a model."""
    module, t, ran = RotaryPositionEmbedding(D).to(device), tokens(device), []
    want = rope_fw(t, module)
    hook = getattr(module, register)(lambda *arguments: ran.append(arguments) and None)
    for fused in (True, False):
        with pytest.raises(TypeError, match=r"^freqs .* with a hook, which .* not run; accepted: "):
            rope_fw(t, module, fused=fused)
    assert not ran
    rope_fw(t, module(S))
    assert ran
    hook.remove()
    assert torch.equal(rope_fw(t, module), want)


# the meta device


@pytest.mark.parametrize("assign", (False, True))
def test_a_state_dict_after_the_meta_device(assign, device):
    with torch.device("meta"):
        module = RotaryPositionEmbedding(D)
    new, t = other_frequencies(device), tokens(device)
    if not assign:
        module.to_empty(device=device)
    module.load_state_dict({"inv_freq": new}, assign=assign)
    assert torch.equal(module.turns(), in_turns(new))
    assert torch.equal(rope_fw(t, module), rope_fw(t, module_of(new)))


# inference mode


WAYS_IN = CHANGES | {
    "a parameter": lambda module, new: setattr(module, "inv_freq", nn.Parameter(new, False)),
    "registered": lambda module, new: module.register_buffer("inv_freq", new),
    "in new memory": lambda module, new: module.to("meta").to_empty(device=new.device),
    "cast": lambda module, new: module.half(),
    "made": lambda module, new: None,
}
COUNTED = "in place", "reset", "state dict", "in new memory", "cast", "made"


@pytest.mark.parametrize("way_in", WAYS_IN)
def test_what_inference_mode_did_to_a_module_is_followed_and_trained_with_later(way_in, device):
    """A tensor of that mode counts no changes: its turns are computed in each call."""
    t, module = tokens(device), RotaryPositionEmbedding(D).to(device)
    with torch.inference_mode():
        if way_in == "made":
            module = RotaryPositionEmbedding(D).to(device)
        WAYS_IN[way_in](module, other_frequencies(device))
        new = module.inv_freq.clone()
        assert torch.equal(rope_fw(t, module), rope_fw(t, module_of(new)))
        module.inv_freq.mul_(2)
        assert torch.equal(rope_fw(t, module), rope_fw(t, module_of(2 * new)))
    assert (operators_of(module.turns) == []) == (way_in in COUNTED)
    assert not module.turns().is_inference()
    leaf = t.clone().requires_grad_()
    apply_rotary_pos_emb(leaf, module).backward(t)
    assert torch.equal(leaf.grad, rope_bw(t, module_of(2 * new)))


@pytest.mark.parametrize("inference_now", (True, False))
def test_calls_by_frequencies_of_inference_mode_are_remembered(inference_now, interpreter, device):
    """Their turns are computed in each call, but a call is checked and planned once."""
    t, module = tokens(device), RotaryPositionEmbedding(D).to(device)
    with torch.inference_mode():
        module.inv_freq = other_frequencies(device)
    with torch.inference_mode(inference_now):
        rope_fw(t, module)  # compiles
        calls = calls_within(rope_kernels, lambda: rope_fw(t, module))
    counted = RotaryPositionEmbedding(D).to(device)
    rope_fw(t, counted)
    assert calls < 1.5 * calls_within(rope_kernels, lambda: rope_fw(t, counted))
    for _ in range(3):
        with torch.inference_mode():
            module.inv_freq.mul_(2)
        want = rope_fw(t, module_of(module.inv_freq))
        assert torch.equal(rope_fw(t, module), want)


SHORTER = {
    "resized": lambda module: module.inv_freq.resize_(D // 4),
    # at the same address, and PyTorch counts no write
    "its data": lambda module: setattr(module.inv_freq, "data", module.inv_freq.data[: D // 4]),
}


@pytest.mark.parametrize("shorten", SHORTER.values(), ids=SHORTER)
def test_frequencies_that_have_become_fewer_are_refused(shorten, device):
    """In calls that look like earlier ones, too, whose turns are still there."""
    module, t = RotaryPositionEmbedding(D).to(device), tokens(device)
    for _ in range(2):
        rope_fw(t, module)
    shorten(module)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^freqs has shape \(2,\); accepted for inv_freq: "):
            rope_fw(t, module)


# a buffer among others


@pytest.mark.parametrize("copied", (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))))
def test_a_copy_of_a_compiled_module_computes_its_own_angles(copied):
    """`compile` leaves a function in the module that belongs to this module alone."""
    module = RotaryPositionEmbedding(D)
    module.compile(backend="eager")
    other = copied(module)
    other.inv_freq = 2 * module.inv_freq
    assert torch.equal(other(3), module_of(other.inv_freq)(3))


# on the GPU: streams and graphs


@pytest.mark.gpu
@each_change
def test_a_change_waits_for_the_streams_that_read_the_turns(change):
    """A kernel waits on another stream while the frequencies change and memory is used again."""
    t, side = tokens("cuda"), torch.cuda.Stream()
    for _ in range(20):
        module = RotaryPositionEmbedding(D).cuda()
        module.inv_freq.mul_(0.3)
        want = rope_fw(t, module)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)  # cycles: some 10 ms
            out = rope_fw(t, module)
        change(module, other_frequencies("cuda"))
        now = rope_fw(t, module)
        used_again = [torch.full((D // 2,), -1, device="cuda") for _ in range(64)]
        torch.cuda.synchronize()
        assert torch.equal(out, want) and len(used_again) == 64
        assert torch.equal(now, rope_fw(t, module_of(module.inv_freq)))


@pytest.mark.gpu
@pytest.mark.parametrize("warm", (True, False), ids=("warm", "cold"))
@each_change
def test_a_captured_graph_follows_the_frequencies(change, warm):
    t, module = tokens("cuda"), RotaryPositionEmbedding(D).cuda()
    rope_fw(t, RotaryPositionEmbedding(D).cuda())  # compiles
    if warm:
        rope_fw(t, module)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = rope_fw(t, module)
    for _ in range(3):
        new = other_frequencies("cuda")
        change(module, new)
        want = rope_fw(t, module_of(module.inv_freq))
        if change is CHANGES["in place"]:
            rope_fw(t, module)  # an eager call, which sees it
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, want)


@pytest.mark.gpu
def test_a_change_that_a_capture_would_have_to_follow_raises():
    t, module = tokens("cuda"), RotaryPositionEmbedding(D).cuda()
    rope_fw(t, module)
    inv_freq, new = module.inv_freq, other_frequencies("cuda")
    module.inv_freq.mul_(2)
    torch.cuda.synchronize()
    uses = (lambda: rope_fw(t, module)), (lambda: setattr(module, "inv_freq", new))
    for use in uses:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            t.clone()  # a graph that is not empty
            with pytest.raises(RuntimeError, match=r"^inv_freq changed during a CUDA graph's"):
                use()
    assert module.inv_freq is inv_freq
    assert torch.equal(rope_fw(t, module), rope_fw(t, module_of(inv_freq)))


@pytest.mark.gpu
def test_a_module_can_be_printed_while_a_graph_is_captured():
    t, module = tokens("cuda"), RotaryPositionEmbedding(D).cuda()
    want, printed = rope_fw(t, module), repr(module)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = rope_fw(t, module)
        assert "made with rotary_base=10000.0" in repr(module)
    graph.replay()
    assert torch.equal(out, want) and repr(module) == printed


# in other processes


def test_turns_are_never_shared_between_processes():
    """Another process with other frequencies would write to them."""
    module = RotaryPositionEmbedding(D).share_memory()
    assert module.inv_freq.is_shared() and not module.turns().is_shared()
    state = module.__getstate__()
    turns = module.turns().data_ptr()
    held = [x for v in state.values() for x in (v if isinstance(v, tuple) else (v,))]
    assert not any(isinstance(x, torch.Tensor) and x.data_ptr() == turns for x in held)


def test_a_bad_state_dict_is_told_with_its_key_and_the_rest_is_loaded():
    first, last = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    model = torch.nn.Sequential(first, RotaryPositionEmbedding(D), last)
    state = {key: torch.ones_like(value) for key, value in model.state_dict().items()}
    state["1.inv_freq"] = state["1.inv_freq"].bfloat16()
    with pytest.raises(RuntimeError, match=r"1\.inv_freq: inv_freq has dtype bfloat16"):
        model.load_state_dict(state)
    assert last.weight.eq(1).all() and not model[1].inv_freq.eq(1).all()
