"""What `rope_to_cache` may write: memory of its own, of no graph; else nothing is written.

`tests/support/bad_arguments.py` has its other bad arguments.
"""

import pytest
import torch

from ops import all_equal, bits_of
from rope_kernels import RotaryPositionEmbedding
from rope_kernels.serving import rope_to_cache

T, HEADS, KV_HEADS, D = 5, 4, 2, 8
each_way = pytest.mark.parametrize("fused", (True, False), ids=("kernel", "PyTorch"))


def arguments(device):
    q = torch.randn(T, HEADS, D, device=device)
    k, v = torch.randn(2, T, KV_HEADS, D, device=device)
    k_cache, v_cache = torch.zeros(2, 3, 4, KV_HEADS, D, device=device)
    slots = torch.arange(T, device=device)
    freqs = RotaryPositionEmbedding(D).to(device)
    caches = {"k_cache": k_cache, "v_cache": v_cache, "slot_mapping": slots, "position_ids": slots}
    return {"q": q, "k": k, "v": v, "freqs": freqs, **caches}


def strided(x, *strides):
    """Of that shape, in other memory."""
    return torch.randn(400, device=x.device).as_strided(x.shape, strides)


def neighbors(x):
    """Two caches of that shape, of which the second begins within the first."""
    memory = torch.zeros(len(x) + 1, *x.shape[1:], device=x.device)
    return {"k_cache": memory[:-1], "v_cache": memory[1:]}


SHARED = {  # by the message: what is changed
    "k_cache has elements in one place": lambda a: {
        "k_cache": a["k_cache"][:, :1].expand_as(a["k_cache"])
    },
    "v_cache has elements in one place": lambda a: {"v_cache": strided(a["v_cache"], 16, 16, 8, 1)},
    "q has elements in one place": lambda a: {"q": strided(a["q"], 16, 8, 1), "inplace": True},
    "k_cache shares memory with v_cache": lambda a: {"v_cache": a["k_cache"]},
    "k_cache shares memory with v_cache; ": lambda a: neighbors(a["k_cache"]),
    "v shares memory with v_cache; accepted: memory of its own": lambda a: {
        "v": a["v_cache"].view(-1, KV_HEADS, D)[:T]
    },
    "k shares memory with q": lambda a: {"q": a["k"], "inplace": True},
    r"freqs\[0\] shares memory with k_cache": lambda a: {
        "freqs": (a["k_cache"].flatten()[: T * D].view(T, D), a["v"][:, 0])
    },
}


@each_way
@pytest.mark.parametrize("words", SHARED)
def test_memory_that_overlaps_is_refused(words, fused, device):
    given = arguments(device) | {"fused": fused}
    given |= SHARED[words](given)
    memory = [x for x in given.values() if isinstance(x, torch.Tensor)]
    before = bits_of(memory)
    with pytest.raises(ValueError, match=f"^{words}"):
        rope_to_cache(**given)
    assert all_equal(bits_of(memory), before)


@pytest.mark.parametrize("name", ("q", "k", "v", "k_cache", "v_cache"))
def test_a_gradient_of_anything_is_refused_by_its_name(name, device):
    """A cache that a graph has made, too: its gradient would lack what is overwritten."""
    given = arguments(device)
    rope_to_cache(**given)  # a call of the same looks
    given[name] = given[name].clone().requires_grad_() * 1
    before = bits_of([given["k_cache"], given["v_cache"]])
    with pytest.raises(ValueError, match=f"^{name} requires a gradient; accepted: .*no_grad"):
        rope_to_cache(**given)
    assert all_equal(bits_of([given["k_cache"], given["v_cache"]]), before)
    with torch.no_grad():
        assert not rope_to_cache(**given).requires_grad


@each_way
def test_inference_tensors_are_refused_before_anything_is_written(fused, device):
    given = arguments(device) | {"fused": fused}
    with torch.inference_mode():
        q, v_cache = given["q"].clone(), given["v_cache"].clone()
    for changes in ({"q": q, "inplace": True}, {"v_cache": v_cache}):
        with pytest.raises(ValueError, match="is an inference tensor outside inference mode"):
            rope_to_cache(**given | changes)
    assert not given["k_cache"].any()
    with torch.inference_mode():
        rope_to_cache(**given | {"q": q, "v_cache": v_cache, "inplace": True})


def test_slices_of_one_projection_in_place(device):
    given = arguments(device)
    qkv = torch.randn(T, HEADS + 2 * KV_HEADS, D, device=device)
    given["q"], given["k"], given["v"] = qkv.split((HEADS, KV_HEADS, KV_HEADS), dim=1)
    kept = qkv.clone()
    rope_to_cache(**given, inplace=True)
    assert torch.equal(qkv[:, HEADS:], kept[:, HEADS:]) and not torch.equal(qkv, kept)


def test_autograd_knows_what_was_overwritten(device):
    given = arguments(device)
    weight = torch.ones(D, device=device, requires_grad=True)
    for name in ("k_cache", "v_cache"):
        loss = (weight * given[name]).sum()  # its backward needs the cache as it was
        rope_to_cache(**given)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_nothing_is_read_back_in_plain_pytorch(device):
    """A CUDA graph takes it, and tensors without memory do."""
    given = {n: x.to("meta") for n, x in arguments(device).items()} | {"fused": False}
    assert rope_to_cache(**given).shape == given["q"].shape


def test_no_slots_at_all_in_plain_pytorch(device):
    for slots in (torch.full((T,), -1), torch.zeros(0, dtype=torch.int64)):
        given = arguments(device) | {"slot_mapping": slots.to(device), "fused": False}
        given["k_cache"] += 1
        rope_to_cache(**given)
        assert (given["k_cache"] == 1).all() and not given["v_cache"].any()


@pytest.mark.parametrize(
    ("bad", "told"),
    (
        ({"q": torch.zeros(1, T, HEADS, D)}, r"accepted: 3 in format 'thd': \(t, h, d\)$"),
        ({"position_ids": None}, "^cu_seqlens is None in format 'thd'; accepted: .* position_ids$"),
    ),
)
def test_an_error_names_no_argument_that_the_function_lacks(bad, told):
    """Its tokens are always thd, so nobody typed `tensor_format`."""
    with pytest.raises(ValueError, match=told) as found:
        rope_to_cache(**arguments("cpu") | bad)
    assert "tensor_format" not in str(found.value)
