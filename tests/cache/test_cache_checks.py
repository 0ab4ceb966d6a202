"""What `rope_to_cache` refuses: a sentence with the argument's name, and nothing is written."""

import pytest
import torch

from rope_kernels import RotaryPositionEmbedding, rope_to_cache

T, HEADS, KV_HEADS, D = 5, 4, 2, 8


def arguments(device):
    q = torch.randn(T, HEADS, D, device=device)
    k, v = torch.randn(2, T, KV_HEADS, D, device=device)
    k_cache, v_cache = torch.zeros(2, 3, 4, KV_HEADS, D, device=device)
    return {
        "q": q,
        "k": k,
        "v": v,
        "freqs": RotaryPositionEmbedding(D).to(device),
        "k_cache": k_cache,
        "v_cache": v_cache,
        "slot_mapping": torch.arange(T, device=device),
        "position_ids": torch.arange(T, device=device),
    }


REFUSED = {
    "v of another shape": (
        {"v": lambda a: a["v"][:, :1]},
        ValueError,
        r"v has shape \(5, 1, 8\); accepted: that of k, \(5, 2, 8\)",
    ),
    "v of another dtype": (
        {"v": lambda a: a["v"].half()},
        TypeError,
        "v has dtype float16",
    ),
    "v and the heads of q": ({"v": lambda a: a["q"]}, ValueError, "v has shape"),
    "k of other tokens": ({"k": lambda a: a["k"][:4]}, ValueError, "k has shape"),
    "a cache of three dimensions": (
        {"k_cache": lambda a: a["k_cache"].flatten(0, 1)},
        ValueError,
        r"k_cache has shape \(12, 2, 8\); accepted: \(blocks, positions of a block, 2, 8\)",
    ),
    "heads and positions exchanged": (
        {"k_cache": lambda a: a["k_cache"].transpose(1, 2)},
        ValueError,
        "k_cache has shape",
    ),
    "a smaller cache of values": (
        {"v_cache": lambda a: a["v_cache"][:2]},
        ValueError,
        "v_cache has shape .*; accepted: that of k_cache",
    ),
    "a cache of another dtype": (
        {"v_cache": lambda a: a["v_cache"].bfloat16()},
        TypeError,
        "v_cache has dtype bfloat16",
    ),
    "caches of fp8": (
        {n: lambda a, n=n: a[n].to(torch.float8_e4m3fn) for n in ("k_cache", "v_cache")},
        TypeError,
        "k_cache has dtype float8_e4m3fn; accepted: float32",
    ),
    "too many slots": (
        {"slot_mapping": lambda a: torch.arange(T + 1, device=a["k"].device)},
        ValueError,
        r"slot_mapping has shape \(6,\); accepted: a slot for each of the first tokens",
    ),
    "slots of floats": (
        {"slot_mapping": lambda a: a["slot_mapping"].float()},
        TypeError,
        "slot_mapping has dtype float32",
    ),
    "no positions": (
        {"position_ids": lambda a: None},
        ValueError,
        "cu_seqlens is None with tensor_format 'thd'; accepted: .*, or position_ids",
    ),
    "a number for a flag": ({"return_k": lambda a: 1}, TypeError, "return_k is 1; accepted"),
    "an expanded cache": (
        {"k_cache": lambda a: a["k_cache"][:, :1].expand(3, 4, KV_HEADS, D)},
        ValueError,
        "k_cache has elements in one place",
    ),
    "one cache for both": (
        {"v_cache": lambda a: a["k_cache"]},
        ValueError,
        "k_cache shares memory with v_cache",
    ),
    "values in their cache": (
        {"v": lambda a: a["v_cache"].view(-1, KV_HEADS, D)[:T]},
        ValueError,
        "v shares memory with v_cache; accepted: memory of its own",
    ),
    "q in place over k": (
        {
            "q": lambda a: a["k"].new_zeros(T, KV_HEADS, D),
            "inplace": lambda a: True,
            "k": lambda a: a["q"],
        },
        ValueError,
        "k shares memory with q",
    ),
    "q that requires a gradient": (
        {"q": lambda a: a["q"].requires_grad_()},
        ValueError,
        "q requires a gradient; accepted: .*no_grad",
    ),
    "v that requires a gradient": (
        {"v": lambda a: a["v"].requires_grad_()},
        ValueError,
        "v requires a gradient",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, device):
    changes, error, words = REFUSED[name]
    given = arguments(device)
    caches = given["k_cache"], given["v_cache"]
    for argument, change in changes.items():
        given[argument] = change(given)
    with pytest.raises(error, match=words):
        rope_to_cache(**given)
    assert not any(x.any() for x in caches)


def test_without_recording_a_gradient_is_no_matter(device):
    given = arguments(device)
    given["q"].requires_grad_()
    with torch.no_grad():
        assert not rope_to_cache(**given).requires_grad
    with pytest.raises(ValueError, match="requires a gradient"):  # after a call of such looks
        rope_to_cache(**given)


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


# what a hostile review found


@pytest.mark.parametrize("name", ("q", "k", "v", "k_cache", "v_cache"))
def test_a_gradient_of_anything_is_refused_by_its_name(name, device):
    """A cache that a graph has made, too: its gradient would lack what is overwritten."""
    given = arguments(device)
    rope_to_cache(**given)  # a call of the same looks
    caches = [given[x].clone() for x in ("k_cache", "v_cache")]
    given[name] = given[name].clone().requires_grad_() * 1
    with pytest.raises(ValueError, match=f"{name} requires a gradient; accepted: .*no_grad"):
        rope_to_cache(**given)
    for x, y in zip(("k_cache", "v_cache"), caches, strict=True):
        assert torch.equal(given[x], y)


def with_two_places(shape, strides, device):
    return torch.randn(400, device=device).as_strided(shape, strides)


@pytest.mark.parametrize("fused", (True, False))
def test_memory_that_overlaps_is_refused(fused, device):
    given = arguments(device) | {"fused": fused}
    memory = given["k_cache"]
    table = torch.randn(2, T, D, device=device)
    inside = memory.flatten()[: T * D].view(T, D)
    cases = {
        "q has elements in one place": {
            "q": with_two_places((T, HEADS, D), (16, 8, 1), device),
            "inplace": True,
        },
        "v_cache has elements in one place": {
            "v_cache": with_two_places(memory.shape, (16, 16, 8, 1), device)
        },
        r"freqs\[0\] shares memory with k_cache": {"freqs": (inside, table[1])},
        "k_cache shares memory with v_cache": {
            "k_cache": torch.zeros(4, 4, KV_HEADS, D, device=device)[:3],
        },
    }
    caches = cases["k_cache shares memory with v_cache"]
    caches["v_cache"] = caches["k_cache"]._base[1:]
    for words, changes in cases.items():
        with pytest.raises(ValueError, match=words):
            rope_to_cache(**given | changes)
    assert not memory.any()


def test_inference_tensors_are_refused_before_anything_is_written(device):
    given = arguments(device)
    with torch.inference_mode():
        q, v_cache = given["q"].clone(), given["v_cache"].clone()
    for changes in ({"q": q, "inplace": True}, {"v_cache": v_cache}):
        for fused in (True, False):
            with pytest.raises(ValueError, match="is an inference tensor outside inference mode"):
                rope_to_cache(**given | changes, fused=fused)
    assert not given["k_cache"].any()
    with torch.inference_mode():
        rope_to_cache(**given | {"q": q, "v_cache": v_cache, "inplace": True})


def test_nothing_is_read_back_in_plain_pytorch(device):
    """A CUDA graph takes it, and tensors without memory do."""
    given = {n: x.to("meta") for n, x in arguments(device).items()} | {"fused": False}
    assert rope_to_cache(**given, return_k=True)[1].shape == (T, KV_HEADS, D)


def test_no_slots_at_all_in_plain_pytorch(device):
    for slots in (torch.full((T,), -1), torch.zeros(0, dtype=torch.int64)):
        given = arguments(device) | {"slot_mapping": slots.to(device), "fused": False}
        given["k_cache"] += 1
        rope_to_cache(**given)
        assert (given["k_cache"] == 1).all() and not given["v_cache"].any()
