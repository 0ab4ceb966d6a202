"""`adapt`: frequencies that follow the positions of a forward, written in place, nothing read."""

import copy
import pickle
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from pairwise import each_pair
from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, norm_rope, rope_fw, rope_qk
from rope_kernels.embedding import in_turns
from test_frequencies import through_a_file

D, PAIRS, ORIGINAL = 16, 8, 64
SIZES = {"head_dim": D, "hidden_size": 4 * D, "num_attention_heads": 4}
ROPE = {
    "dynamic": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0},
    "longrope": {
        "rope_type": "longrope",
        "rope_theta": 1e4,
        "factor": 8.0,
        "original_max_position_embeddings": ORIGINAL,
        "short_factor": [1.0 + 0.1 * i for i in range(PAIRS)],
        "long_factor": [2.0 + 3 * i for i in range(PAIRS)],
    },
}
# below the original length, growing, shrinking within the longer ones, the original length itself,
# below it, growing again
LENGTHS = (9, 64, 65, 200, 300, 250, 64, 63, 65, 100, 1, 1000, 64, 999, 1001, 5)
each_type = pytest.mark.parametrize("rope_type", ROPE)


def config_of(rope_type):
    return SIZES | {"max_position_embeddings": ORIGINAL, "rope_parameters": dict(ROPE[rope_type])}


def module_of(rope_type, device="cpu"):
    return RotaryPositionEmbedding.from_config(config_of(rope_type)).to(device)


def positions(length, device="cpu", batch=2):
    """Of a batch whose longest sequence has this length, left-padded."""
    ids = torch.arange(length, device=device).expand(batch, -1).clone()
    ids[1:] = (ids[1:] - length // 2).clamp(min=0)
    return ids


def fixed(module):
    """A module that has these frequencies, and always will."""
    inv_freq, factor = module.inv_freq.clone(), module.attention_factor
    fresh = RotaryPositionEmbedding(D, inv_freq=inv_freq, attention_factor=factor)
    return fresh.to(inv_freq.device)


# as transformers


def theirs_of(rope_type):
    transformers = pytest.importorskip("transformers")
    if rope_type == "dynamic":
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding as Rotary

        return Rotary(transformers.LlamaConfig(**config_of(rope_type)))
    from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding as Rotary

    beside = {"original_max_position_embeddings": ORIGINAL, "pad_token_id": 0}
    return Rotary(transformers.Phi3Config(**config_of(rope_type), **beside))


@each_type
def test_frequencies_step_by_step_as_in_transformers(rope_type):
    module, theirs, x = module_of(rope_type), theirs_of(rope_type), torch.zeros(1)
    assert torch.equal(module.inv_freq, theirs.inv_freq)
    generator = torch.Generator().manual_seed(5)
    more = torch.randint(1, 4 * ORIGINAL, (60,), generator=generator).tolist()
    seen = set()
    for length in [*LENGTHS, *more]:
        ids = positions(length)
        module.adapt(ids)
        theirs(x, ids)
        assert torch.equal(module.inv_freq, theirs.inv_freq), length
        assert torch.equal(module.turns(None), in_turns(theirs.inv_freq)), length
        assert module.attention_factor == theirs.attention_scaling
        seen.add(tuple(module.inv_freq.tolist()))
    assert len(seen) == 2 if rope_type == "longrope" else len(seen) > 10


def test_nothing_happens_to_other_frequencies():
    module = RotaryPositionEmbedding(D)
    before, version = module.inv_freq.clone(), module.inv_freq._version
    module.adapt(torch.tensor([10**6]))
    assert torch.equal(module.inv_freq, before) and module.inv_freq._version == version


@each_type
def test_positions_of_few_bits_and_the_largest_one(rope_type):
    known = {dtype: min(torch.iinfo(dtype).max, 300) for dtype in (torch.int8, torch.uint8)}
    known |= {torch.int32: 300, torch.int64: 2**63 - 1}
    for dtype, last in known.items():
        module, want = module_of(rope_type), module_of(rope_type)
        module.adapt(torch.tensor([[0, 3], [last, 1]], dtype=dtype))
        want.adapt(torch.tensor([min(last, 2**63 - 2)]))
        assert torch.equal(module.inv_freq, want.inv_freq), dtype
        module.adapt(torch.empty(2, 0, dtype=dtype))  # no positions change nothing
        assert torch.equal(module.inv_freq, want.inv_freq), dtype
        assert not torch.equal(module.inv_freq, module_of(rope_type).inv_freq), dtype


# in place, and nothing is read


class Operators(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.names.append(operator.overloadpacket.__name__)
        return operator(*args, **(kwargs or {}))


READS = {"_local_scalar_dense", "equal", "is_nonzero", "nonzero", "item"}


@each_type
def test_nothing_is_read_back(rope_type, device):
    """Also while backwards of earlier calls are open."""
    module, t = module_of(rope_type, device), torch.randn(5, 2, 1, D, device=device)
    t.requires_grad_()
    open_calls = []
    for length in (9, 100, 200, 9):
        ids = positions(length, device)
        with Operators() as operators:
            module.adapt(ids)
        open_calls.append(apply_rotary_pos_emb(t, module))
        assert not READS & {*operators.names} and len(operators.names) < 60
    with Operators() as operators:
        module.turns(None)
    assert operators.names == []


@pytest.mark.gpu
@each_type
def test_nothing_waits_for_the_device(rope_type):
    module, t = module_of(rope_type, "cuda"), torch.randn(5, 2, 1, D, device="cuda")
    ids = [positions(length, "cuda") for length in (9, 100, 9)]
    rope_fw(t, module)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for one in ids:
            module.adapt(one)
            rope_fw(t, module)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@each_type
def test_the_same_memory_and_no_refill(rope_type, device, monkeypatch):
    module, t = module_of(rope_type, device), torch.randn(5, 2, 1, D, device=device)
    addresses = module.inv_freq.data_ptr(), module.turns(None).data_ptr()
    monkeypatch.setattr(module, "_refill", None)  # calls would fail
    for length in LENGTHS[:8]:
        module.adapt(positions(length, device))
        assert (module.inv_freq.data_ptr(), module.turns(None).data_ptr()) == addresses
        assert torch.equal(rope_fw(t, module), rope_fw(t, fixed(module)))


# backwards


def with_a_norm(t, freqs):
    return norm_rope(t, None, freqs)


def in_plain_pytorch(t, freqs):
    return apply_rotary_pos_emb(t, freqs, fused=False)


@pytest.mark.parametrize("rotate", (apply_rotary_pos_emb, in_plain_pytorch, with_a_norm))
@each_type
def test_one_backward_of_calls_with_several_frequencies(rope_type, rotate, device):
    module, t = module_of(rope_type, device), torch.randn(5, 2, 3, D, device=device)
    grad, outs, used, leaf = torch.randn_like(t), [], [], t.clone().requires_grad_()
    for length in (9, 100, 101, 200, 9, 9):
        module.adapt(positions(length, device))
        outs.append(rotate(leaf, module))
        used.append(fixed(module))
    module.adapt(positions(3000, device))
    module.reset_parameters()
    sum(outs).backward(grad)
    want = 0
    for freqs in used:
        own = t.clone().requires_grad_()
        want += torch.autograd.grad(rotate(own, freqs), own, grad)[0]
    torch.testing.assert_close(leaf.grad, want)


@each_type
def test_turns_are_copied_only_for_a_backward(rope_type, device, needs_triton):
    module, t = module_of(rope_type, device), torch.randn(5, 2, 1, D, device=device)
    for length in (100, 9, 100):
        module.adapt(positions(length, device))
        rope_fw(t, module)
        assert module._filled.moved == ()
    out = apply_rotary_pos_emb(t.clone().requires_grad_(), module)
    old = weakref.ref(module.turns(None))
    module.adapt(positions(200, device))
    ((seen, kept),) = module._filled.moved
    assert seen() is old() and kept.data_ptr() == old().data_ptr()
    del out
    module.adapt(positions(9, device))
    assert module._filled.moved == ()


# checkpointing


def layer(t, weight, module, rotate=apply_rotary_pos_emb):
    """Both gradients need the rotated elements, which checkpointing drops and computes again."""
    return (rotate(t, module) * weight).sin()


@each_pair
@pytest.mark.parametrize("order", ((0, 1, 2, 3, 4), (4, 2, 0, 3, 1)), ids=str)
@pytest.mark.parametrize("frozen", (False, True), ids=("", "frozen"))
@pytest.mark.parametrize("rotate", (apply_rotary_pos_emb, in_plain_pytorch, with_a_norm))
@each_type
def test_a_recomputed_layer_has_the_frequencies_of_its_first_run(
    rope_type, rotate, frozen, order, device
):
    module, got, want = module_of(rope_type, device), [], []
    for length in (9, 100, 100, 200, 9):
        module.adapt(positions(length, device))
        t, weight = (torch.randn(5, 2, 3, D, device=device) for _ in range(2))
        leaves = [x.requires_grad_() for x in ((weight,) if frozen else (t, weight))]
        out = layer(t, weight, fixed(module), rotate)
        want.append(torch.autograd.grad(out.sum(), leaves))
        again = checkpoint(layer, t, weight, module, rotate, use_reentrant=False)
        got.append((again, leaves))
        with torch.no_grad():  # a generation between
            module.adapt(positions(700, device))
            rotate(t, module)
    for i in order:
        out, leaves = got[i]
        for one, other in zip(torch.autograd.grad(out.sum(), leaves), want[i], strict=True):
            torch.testing.assert_close(one, other)


@each_type
def test_a_layer_compiled_within_a_checkpoint_is_recomputed_alike(rope_type, device):
    """With two modules, each of its own frequencies, within one checkpoint."""
    torch._dynamo.reset()
    modules, got, want = [module_of(rope_type, device) for _ in range(2)], [], []

    def both(t, weight, one, other):
        return layer(t, weight, one).exp() + layer(t, weight, other)

    compiled = torch.compile(both, backend="aot_eager")
    for lengths in ((9, 100), (100, 200)):
        for module, length in zip(modules, lengths, strict=True):
            module.adapt(positions(length, device))
        leaf, weight = (torch.randn(5, 2, 3, D, device=device) for _ in range(2))
        leaf.requires_grad_()
        plain = compiled(leaf, weight, *map(fixed, modules))
        want.append(torch.autograd.grad(plain.sum(), leaf))
        out = checkpoint(compiled, leaf, weight, *modules, use_reentrant=False)
        got.append((out, leaf))
    for module in modules:
        module.adapt(positions(700, device))
    for i in (1, 0, 1):
        out, leaf = got[i]
        found = torch.autograd.grad(out.sum(), leaf, retain_graph=True)
        torch.testing.assert_close(found, want[i])
    torch._dynamo.reset()


@each_type
def test_turns_of_a_checkpoint_are_kept_until_its_backward(rope_type, device):
    module, t = module_of(rope_type, device), torch.randn(5, 2, 1, D, device=device)
    leaf = t.clone().requires_grad_()
    module.adapt(positions(9, device))
    out = checkpoint(layer, leaf, t, module, use_reentrant=False)
    module.adapt(positions(100, device))
    assert len(module._filled.moved) == 1
    out.sum().backward()
    module.adapt(positions(9, device))
    assert module._filled.moved == ()
    copy.deepcopy(module), pickle.dumps(module)
    checkpoint(layer, leaf, t, module, use_reentrant=False).sum().backward()
    module.adapt(positions(100, device))
    assert module._filled.moved == ()


def of_a_table(t, weight, module):
    return layer(t, weight, module.cos_sin_at(torch.arange(5, device=t.device)))


def of_a_counted_table(t, weight, module):
    return layer(t, weight, module.cos_sin_per_pair(5))


def of_angles(t, weight, module):
    module.attention_factor = 1.0  # angles can't hold that of longrope
    return layer(t, weight, module(5))


def after_adapting(t, weight, module):
    module.adapt(positions(100, t.device))
    return layer(t, weight, module)


def in_a_checkpoint(t, weight, module):
    """The outer region needs the result of the inner one again."""
    return checkpoint(layer, t, weight, module, use_reentrant=False).exp()


REFUSED = {
    "reentrant": (layer, True),
    "a table within": (of_a_table, False),
    "a counted table within": (of_a_counted_table, False),
    "angles within": (of_angles, False),
    "adapt within": (after_adapting, False),
    "nested": (in_a_checkpoint, False),
    "nested in a reentrant one": (in_a_checkpoint, True),
}


@pytest.mark.parametrize("name", REFUSED)
@each_type
def test_what_may_have_other_frequencies_is_not_recomputed(rope_type, name, device):
    function, use_reentrant = REFUSED[name]
    module, t = module_of(rope_type, device), torch.randn(5, 2, 1, D, device=device)
    module.adapt(positions(9, device))
    out = checkpoint(function, t.clone().requires_grad_(), t, module, use_reentrant=use_reentrant)
    before = module.inv_freq.clone()
    with pytest.raises(RuntimeError, match=r"in a backward.*; accepted: .*use_reentrant=False"):
        out.sum().backward()
    assert torch.equal(module.inv_freq, before)


@pytest.mark.parametrize("use_reentrant", (False, True))
@each_type
def test_a_table_made_before_a_checkpoint_keeps_its_frequencies(rope_type, use_reentrant, device):
    module, t = module_of(rope_type, device), torch.randn(5, 2, 1, D, device=device)
    leaf, ids = t.clone().requires_grad_(), torch.arange(5, device=device)
    module.adapt(positions(9, device))
    (want,) = torch.autograd.grad(layer(leaf, t, fixed(module)).sum(), leaf)
    out = checkpoint(layer, leaf, t, module.cos_sin_at(ids), use_reentrant=use_reentrant)
    module.adapt(positions(100, device))
    out.sum().backward()
    torch.testing.assert_close(leaf.grad, want)


# where a module goes


def reset(module):
    module.reset_parameters()
    return module


def from_the_meta_device(module):
    with torch.device("meta"):
        module = RotaryPositionEmbedding.from_config(config_of(module._source.rope_type))
        module.adapt(torch.empty(1, 3, dtype=torch.long))
    return module.to_empty(device="cpu")


KEEP = {"copied": copy.deepcopy, "saved": through_a_file, "cast": lambda module: module.half()}
FORGET = {"reset": reset, "from the meta device": from_the_meta_device}


@pytest.mark.parametrize("way", KEEP | FORGET)
@each_type
def test_it_adapts_wherever_it_goes(rope_type, way, device):
    module, want = module_of(rope_type), module_of(rope_type)
    module.adapt(positions(300))
    if way in KEEP:
        want.adapt(positions(300))
    other = (KEEP | FORGET)[way](module).to(device)
    for length in (250, 64, 200, 63, 100):
        for one in (other, want):
            one.adapt(positions(length, one.inv_freq.device))
        torch.testing.assert_close(other.inv_freq.cpu(), want.inv_freq, rtol=1e-6, atol=0)
        assert torch.equal(other.turns(None), in_turns(other.inv_freq))


@each_type
def test_in_inference_mode(rope_type, device):
    want = module_of(rope_type, device)
    t = torch.randn(5, 2, 1, D, device=device)
    with torch.inference_mode():
        inside = copy.deepcopy(module_of(rope_type, device))  # all of its buffers are copies
    outside = module_of(rope_type, device)
    for length in LENGTHS[::2]:
        ids = positions(length, device)
        want.adapt(ids)
        for module in (inside, outside):
            with torch.inference_mode():
                module.adapt(ids.clone())
                got = rope_fw(t, module)
            assert torch.equal(got, rope_fw(t, want))
            assert torch.equal(rope_fw(t, module), got)
    inside.adapt(positions(77, device))


# torch.compile and CUDA graphs


@each_type
def test_under_torch_compile(rope_type, device):
    torch._dynamo.reset()
    module, eager = module_of(rope_type, device), module_of(rope_type, device)

    def call(module, t, ids):
        module.adapt(ids)
        return apply_rotary_pos_emb(t, module, "bshd", position_ids=ids)

    compiled = torch.compile(call, backend="aot_eager", fullgraph=True, dynamic=True)
    for length in (9, 65, 200, 64, 9):
        ids = positions(length, device)
        t = torch.randn(2, length, 1, D, device=device)
        assert torch.equal(compiled(module, t, ids), call(eager, t, ids)), length
        assert torch.equal(module.inv_freq, eager.inv_freq)
        assert torch.equal(rope_fw(t, module), rope_fw(t, eager))  # an eager call between
    torch._dynamo.reset()


def captured(call):
    """`call` as a CUDA graph, after a warm-up on a stream of its own, and what it returns."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outs = call()
    return graph, outs


@pytest.mark.gpu
@each_type
def test_a_cuda_graph_follows_the_positions_of_each_replay(rope_type):
    module, eager = module_of(rope_type, "cuda"), module_of(rope_type, "cuda")
    q, k = (torch.randn(2, 8, heads, D, device="cuda") for heads in (4, 1))
    ids = torch.zeros(2, 8, dtype=torch.long, device="cuda")
    longer = torch.arange(8, device="cuda").expand(2, 8)

    def call(module=module):
        module.adapt(ids)
        return rope_qk(q, k, module, "bshd", position_ids=ids)

    graph, outs = captured(call)
    module.reset_parameters()
    for start in (0, 500, 3, 200, 57, 56, 55, 900, 0, 1):
        ids.copy_(longer + start)
        graph.replay()
        got = [out.clone() for out in outs]
        for one, other in zip(got, call(eager), strict=True):
            assert torch.equal(one, other), start
        assert torch.equal(module.inv_freq, eager.inv_freq)
        again = rope_qk(q, k, module, "bshd", position_ids=ids)  # an eager call between
        assert all(torch.equal(one, other) for one, other in zip(got, again, strict=True))


@pytest.mark.gpu
@each_type
def test_a_cuda_graph_of_a_whole_step(rope_type):
    module, eager = module_of(rope_type, "cuda"), module_of(rope_type, "cuda")
    t, grad = torch.randn(2, 8, 3, D, device="cuda"), torch.randn(2, 8, 3, D, device="cuda")
    ids = torch.zeros(2, 8, dtype=torch.long, device="cuda")
    longer = torch.arange(8, device="cuda").expand(2, 8)

    def call(module=module):
        leaf, found = t.detach().requires_grad_(), 0
        for ahead in (0, 300):  # the second call of a step has other frequencies
            module.adapt(ids + ahead)
            found = found + apply_rotary_pos_emb(leaf, module, "bshd", position_ids=ids)
        return torch.autograd.grad(found, leaf, grad)

    graph, (got,) = captured(call)
    module.reset_parameters()
    for start in (0, 500, 3, 200):
        ids.copy_(longer + start)
        graph.replay()
        assert torch.equal(got, call(eager)[0]), start


@pytest.mark.gpu
def test_a_capture_refuses_to_move_turns_that_an_eager_backward_wants():
    module, t = module_of("longrope", "cuda"), torch.randn(5, 2, 1, D, device="cuda")
    ids = positions(9, "cuda")
    module.adapt(ids)
    rope_fw(t, module)
    out = apply_rotary_pos_emb(t.requires_grad_(), module)
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with (
        pytest.raises(RuntimeError, match="adapt is captured by a CUDA graph while the backward"),
        torch.cuda.graph(graph, stream=side),
    ):
        module.adapt(ids)
    del out
    module.adapt(ids)
    assert torch.equal(rope_fw(t.detach(), module), rope_fw(t.detach(), fixed(module)))
