"""What a call does, and what the next ones make of it: asked of all public functions.

A call that looks like an earlier one is neither checked nor planned again. On a CPU Triton's
interpreter gives what its compiler gives, by which a kernel is launched again: see `counted.py`.
"""

import inspect
import weakref
from collections import Counter
from functools import partial
from itertools import combinations
from math import log2

import pytest
import torch
from torch import func
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import ops
import rope_kernels
from counted import Handle, Operators, allocated_in, calls_within, launches_in, unseen
from inputs import FORMATS, angles
from norm_yardstick import assert_added_otherwise, assert_as_in_new_memory
from ops import AXES, BF16, DIFFERENTIABLE, FEW, OPS, PLACES, TABLES, by_turns, last_of_each_kind
from rope_kernels import RotaryPositionEmbedding, rope_fw

pytest.importorskip("triton", reason="needs Triton")

each_op = pytest.mark.parametrize("op", OPS, ids=str)
each_differentiable = pytest.mark.parametrize("op", DIFFERENTIABLE, ids=str)


def ways_of(op):
    """Into new memory, and in place where there is such a call."""
    in_place = {"inplace": True}
    if "output_pairing" in inspect.signature(op.function).parameters:
        in_place["output_pairing"] = "same"
    return ({}, in_place) if op.inplace else ({},)


def step_of(sample, wanted=None, **options):
    """A recorded call: its outputs, what it was given, and gradients that arrive there."""
    leaves = sample.leaves(wanted) if sample.op.differentiable else {}
    outs = sample.call(leaves, sample.written, **options)
    return outs, leaves, sample.gradients_like(outs)


def gradients(outs, leaves, grads, **options):
    outs, grads = zip(
        *[x for x in zip(outs, grads, strict=True) if x[0].requires_grad], strict=True
    )
    return torch.autograd.grad(outs, [*leaves.values()], grads, **options)


# launches and memory


def launches_backward(sample):
    """The second one adds up the programs' shares of the weights' gradients."""
    weights = [sample.given[name] for name in sample.op.weights]
    return sample.op.launches[1] if any(x is not None for x in weights) else 1


@by_turns(OPS, FEW)
def test_forward_and_backward_are_one_launch(op, case, interpreter, device):
    """But for the sum of the weights' gradients. Not fused it is none, whatever is remembered."""
    sample = op.sample(device, **case)
    if interpreter is not None:
        interpreter.runs = False
    for way in ways_of(op):
        with torch.no_grad():
            call = partial(sample.call, None, sample.written, **way)
            assert_launches(1, call, interpreter)
    if op.differentiable:
        step = step_of(sample)
        backward = partial(gradients, *step, retain_graph=True)
        assert_launches(launches_backward(sample), backward, interpreter)
    ours, pytorchs = launches_in(partial(sample.call, fused=False), interpreter)
    assert pytorchs and not ours


def assert_launches(count, call, interpreter):
    """Of ours, and none of PyTorch. On a CPU it reads the values of positions, too."""
    ours, pytorchs = launches_in(call, interpreter)
    assert ours == count and (interpreter is not None or not pytorchs)


STRIDED = [{"layout": x, "gradient": x} for x in PLACES if x != "negative_view"]


@by_turns(OPS, (*FEW, *STRIDED))
def test_a_call_makes_its_outputs_and_writes_no_other_memory(op, case, interpreter, device):
    """Whatever the strides of what is read; but a sign that is noted must be written down."""
    sample = op.sample(device, **case)
    if interpreter is not None:
        interpreter.runs = False  # it moves memory of its own
    may_overlap = case.get("layout") == "expanded_heads"
    for way in ways_of(op)[: 1 if may_overlap else 2]:

        def call(way=way):
            with torch.no_grad():
                return sample.call(None, sample.written, **way)

        given = {x.data_ptr() for x in (*sample.tensors(), *sample.written.values())}
        new = [out for out in call() if out.data_ptr() not in given]
        assert_makes(new, call, interpreter)
    if op.differentiable and not op.weights:  # whose sums take memory
        back = partial(gradients, *step_of(sample), retain_graph=True)
        assert_makes(back(), back, interpreter)


def assert_makes(new, call, interpreter):
    """A call allocates as much as this, and only kernels write. On a GPU nothing waits."""
    new_bytes = sum(x.nbytes for x in new)
    if interpreter is None:
        assert allocated_in(call) == (new_bytes, len(new))
        torch.cuda.set_sync_debug_mode("error")
        try:
            call()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        return
    with unseen(), Operators() as operators:
        call()
    assert [x for x in operators.writers if x != "aten.detach.default"] == []
    assert operators.new_bytes == new_bytes


@by_turns(DIFFERENTIABLE, FEW)
def test_what_is_kept_for_backward(op, case, interpreter, device):
    """The table and where tokens are; of a norm its input and weights, too. No output."""
    sample, kept = op.sample(device, **case), []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        step_of(sample)
    expected = [*tables(sample), *sample.where.values()]
    if op.weights:
        expected += sample.tensors()
    kept, expected = memories(kept), memories(x for x in expected if isinstance(x, torch.Tensor))
    if isinstance(sample.freqs, RotaryPositionEmbedding):  # A copy of its frequencies is kept.
        inv_freq = sample.freqs.inv_freq
        assert inv_freq.untyped_storage().data_ptr() not in kept
        assert len(kept.keys() - expected.keys()) == 1
    else:
        assert kept.keys() <= expected.keys()


def tables(sample):
    freqs = sample.freqs
    if isinstance(freqs, RotaryPositionEmbedding):
        return ()
    return freqs if isinstance(freqs, tuple) else (freqs,)


def memories(tensors):
    return {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in tensors}


# later calls


@by_turns(OPS, FEW)
def test_later_calls_are_right_and_launched_again(op, case, interpreter, device):
    """New tensors, then other values in the same ones. Triton's compiler is not asked again."""
    for step in range(2):
        sample = op.sample(device, **case, s=2, d=32)  # with 20, not all that is new is aligned
        sample.check()
        if interpreter is not None:
            assert step == 0 or not interpreter.by_jit
            interpreter.clear()
    for x in (*sample.tensors(), *(x for x in tables(sample) if x.is_floating_point())):
        x.mul_(-0.5)
    if isinstance(sample.freqs, RotaryPositionEmbedding):
        sample.freqs.inv_freq.mul_(0.7)
    for x in sample.where.values():
        if isinstance(x, torch.Tensor) and x.dim() == 2:
            x.copy_(x.flip(0, 1))
    sample.check()
    if interpreter is not None:
        assert interpreter.by_handle and not interpreter.by_jit


@pytest.mark.parametrize("positions", ("in order", "one start"))
@each_op
def test_later_calls_are_neither_checked_nor_planned_again(op, positions, interpreter, device):
    """Which would be more than a third of the Python functions that the first one runs."""
    if interpreter is not None:
        interpreter.runs = False
    d = 100 + 4 * OPS.index(op)  # no other call has that
    sample = op.sample(device, s=2, d=d, positions=positions)
    steps, counts = [], []
    for _ in range(3):
        counts.append(calls_within(rope_kernels, lambda: steps.append(step_of(sample))))
    assert 3 * counts[2] < counts[0], counts
    if op.differentiable:
        with torch.autograd.set_multithreading_enabled(False):  # a profile is of a thread
            counts = [calls_within(rope_kernels, partial(gradients, *step)) for step in steps]
        assert 3 * counts[2] < counts[0], counts


CHANGES = {  # the sizes stay, so that a call may be taken for another one
    "tensor_format": ("bshd",),
    "layout": ("transposed", "head_dim_strided", "one_element_in"),
    "gradient": ("transposed", "negative_view", "one_element_in"),
    "dtype": (BF16,),
    "freqs": ("cos and sin", "on the fly"),
    "positions": (
        "ids",
        "shared ids",
        "a row of ids",
        "starts",
        "zigzag",
        "contiguous",
        "round_robin",
    ),
    "interleaved": (True, None),
    "lists": ("every_second", "first_column"),
    "table": tuple(TABLES),
    "columns": ("one per pair",),
    "rotary": (0.25,),  # as many columns as one per pair has
    "start": ("at the end",),
    "inverse": (True,),
    "output_pairing": ("half",),
}
SIZES = {"s": 2, "d": 8, "rotary": 0.5}


@each_op
def test_another_option_is_another_call(op, interpreter, device, monkeypatch):
    """With one thing changed, whatever is remembered of the calls before. The kernel does it."""
    monkeypatch.setattr(ops, "B", 2)  # as many as positions
    monkeypatch.setattr(ops.SplitSample, "HEADS", 4)
    monkeypatch.setattr(ops.SplitSample, "KV_HEADS", 2)
    own = {name: values[1:] for name, values in op.axes.items() if name not in (*AXES, "size")}
    axes = CHANGES | own
    heads = {"heads": (2, 1, 1)[: len(op.tensors)]}
    case = SIZES | heads | {"freqs": "angles", "interleaved": True}  # where each option counts
    op.sample(device, **case).check()
    for name, value in [(x, value) for x in axes for value in axes[x]]:
        sample = op.sample(device, **case | {name: value})
        before = 0 if interpreter is None else interpreter.launches
        sample.check()
        assert interpreter is None or interpreter.launches > before
        if name == "interleaved" and op.inplace:
            check_in_place(op.sample(device, **case))
        if (name, value) == ("layout", "transposed") and op.inplace:
            check_in_place(sample)  # by the strides of what was given, not by those of new memory
        if "cp_rank" in sample.where:
            sample.where["cp_rank"] = 0
            sample.check()
    check_signs(op.sample(device, **case))
    for rounding in ("once", "model", "model_cast_last")[: 3 if op.weights else 2]:
        sample = op.sample(device, **case | {"dtype": BF16})
        sample.more = {"rounding": rounding}
        for got, want in zip(sample.call(), sample.call(fused=False), strict=True):
            assert torch.equal(got, want)
        if op.differentiable and not op.weights:  # a norm rounds its gradients once
            outs, leaves, grads = step_of(sample)
            others, other_leaves, _ = step_of(sample, fused=False)
            found, wants = gradients(outs, leaves, grads), gradients(others, other_leaves, grads)
            assert all(map(torch.equal, found, wants))
    if op.name == "split_qkv_rope":
        monkeypatch.setattr(ops.SplitSample, "HEADS", 6)  # as many with those of k and v
        monkeypatch.setattr(ops.SplitSample, "KV_HEADS", 1)
        op.sample(device, **case).check()


def check_signs(sample):
    """Minus signs that are noted, not stored, in memory that looks the same else."""
    if sample.op.differentiable:
        outs, leaves, grads = step_of(sample)
        grads = [torch._neg_view(x) for x in grads]
        sample.check_gradients(leaves, grads, gradients(outs, leaves, grads))
    name, *_ = sample.op.tensors
    given = sample.given[name]
    sample.given[name] = torch._neg_view(given)
    sample.check()
    sample.given[name], sample.freqs = given, torch._neg_view(sample.freqs)
    sample.check()


def check_in_place(sample):
    """And the next call takes new memory again."""
    given = {name: x.clone() for name, x in sample.given.items() if x is not None}
    with torch.no_grad():
        outs = sample.call(given, **ways_of(sample.op)[1])
        for out, want in zip(outs, sample.call(), strict=True):
            assert torch.equal(out, want)


@by_turns(DIFFERENTIABLE, FEW)
def test_wishes_for_gradients_come_and_go(op, case, interpreter, device):
    """Only what is wanted is computed, and it has the bits that it has among others.

    Of norms nearly: one of two by itself may have other tiles, and sums in another order; and
    without a weight's gradient the compiler may fuse other products.
    """
    sample = op.sample(device, **case, s=2, heads=(2, 1)[: len(op.tensors)])
    names, of_all = [*sample.leaves()], {}
    subsets = [x for n in range(len(names), -1, -1) for x in combinations(names, n)]
    grads = sample.gradients_like(sample.call())
    plain = {"fused": False} | ({} if op.weights else {"rounding": "once"})
    for i, wanted in enumerate(subsets * 2):
        outs, leaves, _ = step_of(sample, wanted)
        others, other_leaves, _ = step_of(sample, wanted, **plain)
        assert [x.requires_grad for x in outs] == [x.requires_grad for x in others]
        if not wanted:
            continue
        found = gradients(outs, leaves, grads, retain_graph=True)
        torch.testing.assert_close(found, gradients(others, other_leaves, grads))
        of_all = of_all or dict(zip(wanted, found, strict=True))
        for name, got in zip(wanted, found, strict=True):
            if op.weights:
                assert_added_otherwise(got, of_all[name])
            else:
                assert torch.equal(got, of_all[name])
        if i >= len(subsets):
            assert_computes(leaves, partial(gradients, outs, leaves, grads), sample, interpreter)
    with torch.no_grad():
        assert not any(out.requires_grad for out in sample.call(sample.leaves()))


def assert_computes(leaves, backward, sample, interpreter):
    """Of no other tensor memory for a gradient is allocated."""
    if interpreter is None:
        return
    interpreter.runs = False
    with unseen(), Operators() as operators:
        backward()
    interpreter.runs = True
    of_tensors = [sample.given[name].shape for name in sample.op.tensors]
    shapes = Counter(x.shape for x in operators.new if x.shape in of_tensors)
    assert shapes == Counter(x.shape for name, x in leaves.items() if name in sample.op.tensors)


@each_differentiable
def test_saved_tensors_may_come_back_elsewhere(op, interpreter, device):
    """As after offloading: with other strides, by another launch."""
    for unpack in (lambda x: x, lambda x: x.mT.contiguous().mT if x.dim() > 1 else x.clone()):
        sample = op.sample(device, **SIZES)
        for _ in range(2):
            with torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
                outs, leaves, grads = step_of(sample)
            sample.check_gradients(leaves, grads, gradients(outs, leaves, grads))


@each_op
def test_a_module_may_change_between_calls(op, interpreter, device):
    """All that it is, but whether it is trained: its inv_freq has no gradient here."""
    module = RotaryPositionEmbedding(8).to(device)
    sample = op.sample(device, **SIZES | {"rotary": 1.0, "freqs": "on the fly"})
    sample.call(freqs=module)  # which the next ones may be taken for
    assert_goes_back_as_pytorch(sample, module)
    for name, value in {"attention_factor": 1.5, "interleaved": True}.items():
        setattr(module, name, value)
        sample.how["interleaved"] = module.interleaved
        wants = sample.call(freqs=module, fused=False)
        for got, want in zip(sample.call(freqs=module), wants, strict=True):
            torch.testing.assert_close(got, want)
        assert_goes_back_as_pytorch(sample, module)
    narrower = RotaryPositionEmbedding(6, interleaved=True, attention_factor=1.5).to(device)
    narrower.inv_freq = module.inv_freq
    with pytest.raises(ValueError, match=r"^freqs.inv_freq has shape \(4,\)"):
        sample.call(freqs=narrower)
    module.forward = lambda max_seq_len: angles(5, 8, device)
    with pytest.raises(TypeError, match=r"^freqs .*forward.*, with interleaved=True$"):
        sample.call(freqs=module)
    del module.forward
    sample.call(freqs=module)


def assert_goes_back_as_pytorch(sample, module):
    """The launch of a backward has a signature of its own."""
    if sample.op.differentiable:
        outs, leaves, grads = step_of(sample, freqs=module)
        others, other_leaves, _ = step_of(sample, freqs=module, fused=False)
        found, wants = gradients(outs, leaves, grads), gradients(others, other_leaves, grads)
        torch.testing.assert_close(found, wants)


@each_op
def test_equal_is_not_enough(op, interpreter, device, monkeypatch):
    """0 == False and 1 == 1.0: what is refused at first is refused after good calls, too."""
    for name in ("HEADS", "KV_HEADS"):
        monkeypatch.setattr(ops.SplitSample, name, 1)
    sample = op.sample(device, **SIZES)
    good = {n: x.default for n, x in inspect.signature(op.function).parameters.items()}
    good |= {"cp_rank": 0} if "cp_rank" in good else {}
    good |= {"rotary_dim": sample.d2} | sample.options() | ({"eps": 1.0} if op.weights else {})
    good = {n: x for n, x in good.items() if type(x) in (bool, int, float)}
    for _ in range(2):
        sample.call(**good)
    for name, value in good.items():
        for kind in {bool, int, float} - {type(value)}:
            if kind(value) == value and (type(value), kind) != (float, int):
                with pytest.raises((TypeError, ValueError), match=name):
                    sample.call(**{**good, name: kind(value)})


@each_op
def test_what_is_refused_is_refused_after_good_calls(op, interpreter, device):
    """No table, a table on another device, and on a CPU values, which are read each time."""
    sample = op.sample(device, **SIZES | {"positions": "ids"})
    for _ in range(2):
        sample.call()
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^freqs"):
            sample.call(freqs=sample.freqs[..., :3])
    with pytest.raises(TypeError, match=r"^freqs"):
        sample.op.function(**sample.given, **sample.written, freqs=None, **sample.options())
    for elsewhere in {"meta", "cpu"} - {device}:
        with pytest.raises((TypeError, ValueError), match="device"):
            sample.call(freqs=sample.freqs.to(elsewhere))
    if device == "cpu":
        sample.where["position_ids"].fill_(99)
        for _ in range(2):
            with pytest.raises(ValueError, match="needs 100"):
                sample.call()


class Mine(torch.Tensor):
    pass


@each_op
def test_tensors_of_a_subclass_are_taken_too(op, interpreter, device):
    sample = op.sample(device, **SIZES | {"positions": "ids"})
    wants, ids = sample.call(), sample.where["position_ids"]
    for name in (*op.arguments, "freqs", "position_ids", "all in place"):
        given = {n: x.clone() for n, x in sample.given.items() if x is not None}
        freqs, way = sample.freqs, {}
        sample.where["position_ids"] = ids.as_subclass(Mine) if name == "position_ids" else ids
        if name == "freqs":
            freqs = freqs.as_subclass(Mine)
        elif name == "all in place":
            given, way = {n: x.as_subclass(Mine) for n, x in given.items()}, ways_of(op)[-1]
        elif name in given:
            given[name] = given[name].as_subclass(Mine)
        with torch.no_grad():
            outs = sample.call(given, freqs=freqs, **way)
        for got, want in zip(outs, wants, strict=True):
            assert torch.equal(got.as_subclass(torch.Tensor), want)


@each_differentiable
def test_a_backward_takes_tensors_of_a_subclass_too(op, interpreter, device):
    sample = op.sample(device, **SIZES)
    outs, leaves, grads = step_of(sample)
    wants = gradients(outs, leaves, grads, retain_graph=True)
    founds = [gradients(outs, leaves, [x.as_subclass(Mine) for x in grads])]
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x.as_subclass(Mine)):
        outs, leaves, _ = step_of(sample)
    founds.append(gradients(outs, leaves, grads))
    for found in founds:
        for got, want in zip(found, wants, strict=True):
            assert torch.equal(got.as_subclass(torch.Tensor), want)


COPIED = {  # what a kernel can't read as it is: the argument that is logged, and the case
    "a sign": ("q", {"layout": "negative_view", "gradient": "negative_view"}),
    "the last one's sign": ("", {}),
    "a weight": ("q_weight", {"weight": "strided"}),
    "a table": ("freqs", {"table": "negative"}),
    "a sine": ("freqs", {"freqs": "cos and sin", "sine": "transposed"}),
    "frequencies": ("freqs", {"freqs": "on the fly"}),
    "starts": (
        "start_positions",
        {"tensor_format": "thd", "positions": "starts", "lists": "every_second"},
    ),
    "slots": ("slot_mapping", {"s": 2, "lists": "every_second"}),
}


@pytest.mark.parametrize("name", COPIED)
@each_op
def test_what_is_copied_is_copied_in_each_call(op, name, interpreter, device, log):
    """A copy has another address in the next one. It is logged once."""
    if name == "a weight" and not op.weights:
        pytest.skip("no weight")
    if name == "slots" and op.name != "rope_to_cache":
        pytest.skip("no slots")
    argument, case = COPIED[name]
    for _ in range(2):
        case = SIZES | {"s": 1, "heads": (1,) * len(op.tensors)} | case
        sample = op.sample(device, **case)
        if name == "the last one's sign":  # of a cache that is v, whose address is no rotation's
            sample.given[op.tensors[-1]] = torch._neg_view(sample.given[op.tensors[-1]])
        if name == "frequencies":
            sample.freqs.inv_freq = sample.freqs.inv_freq.repeat_interleave(2)[::2]
        sample.check()
    lines = [x for x in log() if x.startswith(f"{argument} is copied in every call")]
    assert len(lines) == (argument != "")


@pytest.mark.skipif(torch.cuda.is_available(), reason="counts what the interpreter returned")
def test_what_is_remembered_has_a_bound(interpreter, monkeypatch):
    """A serving loop may meet any length."""
    alive, made, interpreter.runs = weakref.WeakSet(), Handle.__init__, False

    def init(handle, *arguments):
        made(handle, *arguments)
        alive.add(handle)

    monkeypatch.setattr(Handle, "__init__", init)
    for s in range(1, 4201):
        rope_fw(torch.empty(s, 1, 1, 2), torch.empty(s, 1, 1, 2))
    assert len(alive) == 4096


# transforms and traces after eager calls


def squares(sample, names):
    def loss(*tensors):
        outs = sample.call(dict(zip(names, tensors, strict=True)))
        return sum(out.square().sum() for out in outs)

    return loss


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@each_differentiable
def test_transforms_and_traces_after_eager_calls(op, interpreter, device):
    """They see PyTorch's operators, whatever is remembered."""
    sample = op.sample(device, **SIZES)
    others = op.sample(device, **SIZES)
    for _ in range(2):
        outs, leaves, grads = step_of(sample)
        gradients(outs, leaves, grads, retain_graph=True)
    given, new = ([*x.leaves().values()] for x in (sample, others))
    given, new = ([x.detach() for x in y] for y in (given, new))
    loss = squares(sample, op.arguments)
    want = loss(*new)
    traced = torch.jit.trace(loss, tuple(given), check_trace=False)
    torch.testing.assert_close(traced(*new), want)
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(x, y) for x, y in zip(given, new, strict=True)]
        tangent = forward_ad.unpack_dual(loss(*duals)).tangent
    _, want = func.jvp(loss, tuple(given), tuple(new))
    torch.testing.assert_close(tangent, want)

    def back(*grads):
        return torch.autograd.grad(outs, [*leaves.values()], grads, retain_graph=True)

    graph, others = make_fx(back)(*grads), [torch.randn_like(x) for x in grads]
    want, of_others = back(*grads), back(*others)
    torch.testing.assert_close(graph(*others), of_others)
    both = func.vmap(back)(*map(torch.stack, zip(grads, others, strict=True)))
    torch.testing.assert_close(both, (*map(torch.stack, zip(want, of_others, strict=True)),))
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(x, y) for x, y in zip(grads, others, strict=True)]
        tangents = [forward_ad.unpack_dual(x).tangent for x in back(*duals)]
    torch.testing.assert_close(tangents, [*of_others])  # a backward is linear
    if op.weights:
        return  # a norm is no linear map, and what arrives is not all that its gradient depends on
    grads = [x.requires_grad_() for x in grads]
    found = torch.autograd.grad(outs, [*leaves.values()], grads, create_graph=True)
    seconds = torch.autograd.grad(found, grads, new)
    wants = sample.call(dict(zip(op.arguments, new, strict=True)))
    torch.testing.assert_close(seconds, wants)


# nothing, and much


@pytest.mark.usefixtures("new_memory_is_nan")
@pytest.mark.parametrize("empty", ("s", "b", "the first one's heads", "the last one's heads"))
@each_op
def test_of_empty_tensors(op, empty, interpreter, device, monkeypatch):
    """No launch for what is empty; a weight's gradient is 0."""
    heads = [*(AXES | op.axes)["heads"][0]]
    if "heads" in empty:
        if op.name == "split_qkv_rope":
            pytest.skip("as many heads as it is told")
        heads[0 if "first" in empty else -1] = 0
    heads[1:] = [min(heads[1:], default=0)] * len(heads[1:])  # of k and v
    monkeypatch.setattr(ops, "B", 0 if empty == "b" else 2)
    sample = op.sample(device, s=0 if empty == "s" else 2, heads=tuple(heads), weight="fp32")
    sample.check()
    if interpreter is not None and not any(sample.given[name].numel() for name in op.tensors):
        assert not interpreter.launches


def far_apart(x, dim):
    """The same values, apart in a dimension: the last of them begins past element 2^31.

    As much memory lies before it: an offset that wraps around is wrong, and ends no process.
    """
    step = -(-(2**31) // (x.shape[dim] - 1))
    strides = [step if i == dim else of_dim for i, of_dim in enumerate(x.contiguous().stride())]
    memory = torch.empty(2**32 + step + x.numel(), dtype=x.dtype, device=x.device)
    return memory.as_strided(x.shape, strides, 2**31).copy_(x)


@pytest.mark.usefixtures("memory_is_given_back")
@pytest.mark.parametrize("freqs", ("cos and sin", "cos and sin of each entry"))
@each_op
def test_tokens_entries_and_heads_far_apart(op, freqs, device, monkeypatch):
    """Offsets that 32 bits can't hold: of what is read and overwritten, of gradients and tables."""
    monkeypatch.setattr(ops, "B", 2)
    case = {"s": 3, "d": 8, "rotary": 0.5, "dtype": torch.float16, "weight": "none"}
    sample = op.sample(device, **case, heads=(2,) * len(op.tensors), freqs=freqs)
    grads, (cos, sin) = sample.gradients_like(sample.call()), sample.freqs
    given = {n: x for n, x in sample.given.items() if x is not None}
    given |= sample.written | {"gradient": grads[0], "cos": cos}

    def call(name, x, **way):
        of = {n: y.clone() for n, y in given.items()} | {name: x}
        rows, written = ({n: of[n] for n in names} for names in (op.tensors, sample.written))
        leaves = rows if op.differentiable and not way else {}
        for leaf in leaves.values():
            leaf.requires_grad_()
        outs = sample.call(rows, written, (of["cos"], sin), **way)
        return *outs, *(gradients(outs, leaves, (of["gradient"], *grads[1:])) if leaves else ())

    wants = call("cos", cos)
    for name in given if freqs == "cos and sin" else ["cos"]:
        x = given[name]
        for dim in [i for i, size in enumerate(x.shape[:-1]) if size > 1]:
            for way in ways_of(op) if name in op.inplace else ({},):
                outs = call(name, far_apart(x, dim), **way)
                for got, want in zip(outs, wants[: len(outs)], strict=True):
                    assert_as_in_new_memory(got.detach(), want.detach())


# kernels compiled

compiling = pytest.mark.skipif(torch.cuda.is_available(), reason="counts what a GPU would compile")
HEADS = 8, 1, 1


def assert_compiles(most, steps, interpreter):
    """So many kernels at most for each launch of a step, whatever these calls change."""
    interpreter.runs, of_a_step = False, None
    interpreter.compiled.clear()
    for sample in steps:
        interpreter.clear()
        outs, leaves, grads = step_of(sample)
        if leaves:
            gradients(outs, leaves, grads)
        launched = Counter(x.__name__ for x in interpreter.by_jit + interpreter.by_handle)
        assert launched == (of_a_step := of_a_step or launched)
    compiled = Counter(name for name, _ in interpreter.compiled)
    assert compiled.keys() == of_a_step.keys()
    assert all(compiled[name] <= most * of_a_step[name] for name in compiled), compiled


def step(op, device, **case):
    """Dimensions that no other test has; packed sequences are of any number."""
    heads = case.pop("heads", HEADS)[: len(op.tensors)]
    sample = op.sample(device, **{"d": 64, "heads": heads, "weight": "none"} | case)
    if op.name == "rope_to_cache":
        sample.slots = sample.slots[: 16 if case["s"] % 2 else 23]
    if sample.packed and "cu_seqlens" in sample.where:
        starts = sample.where["cu_seqlens"]
        sample.where["cu_seqlens"] = torch.cat(
            [starts, starts[-1:].expand(len(sample.tensors()[0]) % 5)]
        )
    return sample


@compiling
@pytest.mark.parametrize("op", last_of_each_kind(OPS), ids=str)
def test_a_new_length_compiles_no_new_kernel(op, interpreter, device):
    """But where 16 divides the strides of 1 / rms, and where it doesn't."""
    for tensor_format in (AXES | op.axes)["tensor_format"]:
        for freqs in ("angles", "on the fly"):
            case = {"tensor_format": tensor_format, "freqs": freqs}
            steps = (step(op, device, s=s, **case) for s in (2, 3, 16, 17, 128, 1000))
            of_entries = op.weights and tensor_format in ("bshd", "bhsd")
            assert_compiles(3 if of_entries else 1, steps, interpreter)


LENGTHS = (*range(1, 20), 31, 32, 33, 48, 64, 69)


@compiling
@pytest.mark.parametrize("op", last_of_each_kind(OPS[:4]), ids=str)
def test_where_strides_hang_on_the_length_it_compiles_three_at_most(op, interpreter, device):
    """16 divides the strides of some lengths only; and length 1 needs no stride."""
    for tensor_format in (AXES | op.axes)["tensor_format"]:
        for case in ({"d": 20}, {"positions": "ids"}):
            steps = (step(op, device, s=s, tensor_format=tensor_format, **case) for s in LENGTHS)
            assert_compiles(3, steps, interpreter)


@compiling
@pytest.mark.parametrize("heads", (1, 8, 41))
def test_a_new_batch_compiles_until_its_rows_fill_a_tile(heads, interpreter, device, monkeypatch):
    """A tile has the next power of 2 of the rows there are, or 16: as many as fit 4096 bytes.

    In bshd and bhsd no tile has rows of two entries, and a call of one entry looks for none.
    """
    (op,) = [op for op in OPS if op.name == "rope_fw"]
    for tensor_format in FORMATS:

        def steps(tensor_format=tensor_format):
            for b in (*range(1, 10), 15, 16, 17, 18, 33):
                monkeypatch.setattr(ops, "B", b)
                yield step(op, device, s=7, heads=(heads,), tensor_format=tensor_format)

        tiles = {"thd": 1, "sbhd": 1 + max(0, int(log2(16 / heads)))}.get(tensor_format, 2)
        assert_compiles(tiles, steps(), interpreter)


# compiled


@pytest.mark.usefixtures("new_memory_is_nan")
def test_in_place_and_into_new_memory_by_turns_when_compiled(interpreter, device):
    """The operators remember launches, too."""
    for op in [x for x in OPS if x.is_operator and x.inplace and x.differentiable]:
        sample = op.sample(device, **SIZES | {"d": 24})
        rotate = torch.compile(sample.call, backend="eager", fullgraph=True)
        wants = sample.call(fused=False)
        for way in (*reversed(ways_of(op)), *ways_of(op)):
            given = {name: x.clone() for name, x in sample.given.items()}
            with torch.no_grad():
                outs = rotate(given, **way)
            for name, out, want in zip(op.tensors, outs, wants, strict=True):
                torch.testing.assert_close(out, want)
                assert torch.equal(given[name], out if way else sample.given[name])


# on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("positions", ("in order", "starts", "ids"))
@each_differentiable
def test_a_tables_gradient_has_the_same_bits_in_every_run(op, positions):
    """PyTorch computes it, by operators that are deterministic."""
    sample = op.sample("cuda", s=129, heads=(8, 2)[: len(op.tensors)], positions=positions)
    table = sample.freqs.requires_grad_()
    torch.use_deterministic_algorithms(True)  # or they raise
    try:
        outs = sample.call(freqs=table)
        grads = sample.gradients_like(outs)
        first, *more = (
            gradients(outs, {"freqs": table}, grads, retain_graph=True)[0] for _ in range(20)
        )
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(first, x) for x in more)


@pytest.mark.gpu
@pytest.mark.skipif("torch.cuda.device_count() < 2", reason="needs two GPUs")
@pytest.mark.parametrize("current", (0, 1))
@pytest.mark.parametrize("of_tensors", (0, 1))
@each_op
def test_kernels_run_on_the_device_of_their_tensors(op, current, of_tensors):
    with torch.cuda.device(current):
        for _ in range(2):
            outs = op.sample(f"cuda:{of_tensors}", freqs="on the fly").check()
            assert torch.cuda.current_device() == current
            assert all(out.device.index == of_tensors for out in outs)
