"""Calls with a module follow its `inv_freq`, whatever writes it."""

import pytest
import torch
from torch import nn

import rope_kernels
from counted import calls_within, operators_of
from rope_kernels import (
    RotaryPositionEmbedding,
    apply_rotary_pos_emb,
    rope_bw,
    rope_fw,
    rope_qk,
)
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


# a change is followed

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


def test_a_call_runs_no_operator_for_the_frequencies(device, interpreter):
    """A mode, a graph or a checkpoint sees as much of it as of a call with a table."""
    module, t = RotaryPositionEmbedding(D).to(device), tokens(device)
    seen = []
    for freqs in (module, module(S)):
        rope_fw(t, freqs)
        module.inv_freq.mul_(2)
        seen.append(operators_of(lambda freqs=freqs: rope_fw(t, freqs)))
    assert seen[0] == seen[1]
    assert vars(module).keys() == vars(RotaryPositionEmbedding(D)).keys()  # nothing is remembered


def in_the_memory_of_the_last(module, new):
    """As memory is used again, an address says nothing about what is there."""
    module._buffers["inv_freq"] = None
    module.inv_freq = new.clone()


def by_numpy(module, new):
    if module.inv_freq.is_cpu:
        module.inv_freq.numpy()[:] = new.numpy()
    else:
        module.inv_freq.copy_(new)


FURTHER = {
    "in the memory of the last": in_the_memory_of_the_last,
    "by NumPy": by_numpy,  # PyTorch counts no write
    "its data": lambda module, new: setattr(module.inv_freq, "data", new),
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


LEARNED = {
    "a parameter": lambda module: setattr(module, "inv_freq", nn.Parameter(module.inv_freq)),
    "a buffer": lambda module: module.inv_freq.requires_grad_(),
}


@pytest.mark.parametrize("learned", LEARNED)
def test_frequencies_are_learned_in_calls_with_the_module(learned, device):
    """In plain PyTorch: their gradients are those of a table's."""
    module, q, k = RotaryPositionEmbedding(D).to(device), tokens(device), tokens(device)
    LEARNED[learned](module)
    outs = rope_qk(q, k, module, "sbhd", start_positions=3)
    (got,) = torch.autograd.grad(outs[0].sum() + outs[1].square().sum(), module.inv_freq)
    cos, sin = module.cos_sin(torch.arange(3, 3 + S, device=device), torch.float32)
    outs = rope_qk(q, k, (cos, sin), "sbhd", rotary_dim=D)
    (want,) = torch.autograd.grad(outs[0].sum() + outs[1].square().sum(), module.inv_freq)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_reset_parameters_after_an_assignment(device):
    """Of another shape, with other strides."""
    module, want = RotaryPositionEmbedding(D).to(device), RotaryPositionEmbedding(D).inv_freq
    module.inv_freq = module.inv_freq[:1].expand(2)
    module.reset_parameters()
    assert torch.equal(module.inv_freq, want.to(device))


# backward


@pytest.mark.parametrize("change", CHANGES | FURTHER)
@pytest.mark.parametrize("twice", (False, True))
def test_a_backward_belongs_to_the_angles_of_its_forward(twice, change, device):
    """DistributedDataParallel writes buffers in each forward, and two may precede a backward."""
    module, t = RotaryPositionEmbedding(D).to(device), tokens(device, requires_grad=True)
    module.inv_freq = other_frequencies(device)
    want = rope_bw(torch.ones_like(t), module)
    out = apply_rotary_pos_emb(t, module)
    (CHANGES | FURTHER)[change](module, other_frequencies(device))
    (grad,) = torch.autograd.grad(out.sum(), t, create_graph=twice)
    assert torch.equal(grad, want)


# frequencies that are refused

BAD = {  # frequencies, and what the message says
    str(dtype): (torch.ones(D // 2, dtype=dtype), f"inv_freq has dtype {str(dtype)[6:]}; ac")
    for dtype in (torch.bfloat16, torch.float16, torch.int64)
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
    assert torch.equal(rope_fw(t, module), rope_fw(t, module_of(new)))


# inference mode


WAYS_IN = CHANGES | {
    "a parameter": lambda module, new: setattr(module, "inv_freq", nn.Parameter(new, False)),
    "registered": lambda module, new: module.register_buffer("inv_freq", new),
    "in new memory": lambda module, new: module.to("meta").to_empty(device=new.device),
    "cast": lambda module, new: module.half(),
    "made": lambda module, new: None,
}


@pytest.mark.parametrize("way_in", WAYS_IN)
def test_what_inference_mode_did_to_a_module_is_followed_and_trained_with_later(way_in, device):
    t, module = tokens(device), RotaryPositionEmbedding(D).to(device)
    with torch.inference_mode():
        if way_in == "made":
            module = RotaryPositionEmbedding(D).to(device)
        WAYS_IN[way_in](module, other_frequencies(device))
        new = module.inv_freq.clone()
        assert torch.equal(rope_fw(t, module), rope_fw(t, module_of(new)))
        module.inv_freq.mul_(2)
        assert torch.equal(rope_fw(t, module), rope_fw(t, module_of(2 * new)))
    leaf = t.clone().requires_grad_()
    apply_rotary_pos_emb(leaf, module).backward(t)
    assert torch.equal(leaf.grad, rope_bw(t, module_of(2 * new)))


@pytest.mark.parametrize("inference_now", (True, False))
def test_calls_by_frequencies_of_inference_mode_are_remembered(inference_now, interpreter, device):
    t, module = tokens(device), RotaryPositionEmbedding(D).to(device)
    with torch.inference_mode():
        module.inv_freq = other_frequencies(device)
    with torch.inference_mode(inference_now):
        rope_fw(t, module)  # compiles
        calls = calls_within(rope_kernels, lambda: rope_fw(t, module))
    counted = RotaryPositionEmbedding(D).to(device)
    rope_fw(t, counted)
    assert calls == calls_within(rope_kernels, lambda: rope_fw(t, counted))


def test_frequencies_that_have_become_fewer_are_refused(device):
    """In calls that look like earlier ones, too."""
    module, t = RotaryPositionEmbedding(D).to(device), tokens(device)
    for _ in range(2):
        rope_fw(t, module)
    module.inv_freq.resize_(D // 4)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^freqs.inv_freq has shape \(2,\); accepted: "):
            rope_fw(t, module)


# on the GPU: graphs


@pytest.mark.gpu
@pytest.mark.parametrize("warm", (True, False), ids=("warm", "cold"))
@pytest.mark.parametrize("name", ("in place", "state dict"))
def test_a_captured_graph_follows_the_frequencies(name, warm):
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
        (CHANGES | FURTHER)[name](module, new)
        want = rope_fw(t, module_of(module.inv_freq))
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, want)


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


def test_a_bad_state_dict_is_told_with_its_key_and_the_rest_is_loaded():
    first, last = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    model = torch.nn.Sequential(first, RotaryPositionEmbedding(D), last)
    state = {key: torch.ones_like(value) for key, value in model.state_dict().items()}
    state["1.inv_freq"] = torch.ones(D // 2, dtype=torch.bfloat16)
    message = r"1\.inv_freq: inv_freq has dtype bfloat16; .*; or the state dict without this key"
    with pytest.raises(RuntimeError, match=message):
        model.load_state_dict(state)
    assert last.weight.eq(1).all() and not model[1].inv_freq.eq(1).all()
