"""Several axes as models have them: against their functions in transformers, or their formulas.

Models compute angles in fp32, so positions are small here, and up to 5e-5 radians are allowed.
"""

import math
from functools import partial
from importlib import import_module

import pytest
import torch

from rope_kernels import (
    RotaryPositionEmbedding,
    apply_rotary_pos_emb,
    grid_positions,
    mrope_axes,
    rope_qk,
)
from yardstick import assert_rounded_once

S, B = 7, 2
close = partial(torch.testing.assert_close, rtol=1e-5, atol=5e-5)


def part_of(model):
    """A model's own file."""
    pytest.importorskip("transformers", reason="needs transformers")
    return import_module(f"transformers.models.{model}.modeling_{model}")


def config_of(model, name, **options):
    """With heads of 128 elements, unless the options say otherwise."""
    pytest.importorskip("transformers", reason="needs transformers")
    kind = getattr(import_module(f"transformers.models.{model}.configuration_{model}"), name)
    return kind(**{"hidden_size": 512, "num_attention_heads": 4} | options)


def rope_parameters(**more):
    return {"rope_type": "default", "rope_theta": 5e5} | more


def outs_and_grads(rotate, tensors, grads):
    """Results, and gradients of a random upstream gradient."""
    leaves = [t.detach().requires_grad_() for t in tensors]
    outs = rotate(*leaves)
    return [*outs, *torch.autograd.grad(outs, leaves, grads)]


def compare(theirs, ours, tensors):
    """Values and gradients of q and k."""
    grads = [torch.randn_like(t) for t in tensors]
    want, got = outs_and_grads(theirs, tensors, grads), outs_and_grads(ours, tensors, grads)
    for one, other in zip(got, want, strict=True):
        close(one, other.to(one.dtype))
    return got


# the text of vision language models: transformers' own module of angles, then its function

TEXT = {  # configuration, module, sections, axes, whether pairs are interleaved, share that turns
    "qwen2_vl": (
        *("Qwen2VLTextConfig", "Qwen2VLRotaryEmbedding"),
        *([10, 30, 24], mrope_axes([10, 30, 24]), False, 1.0),
    ),
    "qwen3_vl": (
        *("Qwen3VLTextConfig", "Qwen3VLTextRotaryEmbedding"),
        *([24, 20, 20], mrope_axes([24, 20, 20], interleaved=True), False, 1.0),
    ),
    "glm4v": (
        *("Glm4vTextConfig", "Glm4vTextRotaryEmbedding"),
        *([8, 12, 12], mrope_axes([8, 12, 12]), True, 0.5),
    ),
    "ernie4_5_vl_moe": (
        *("Ernie4_5_VLMoeTextConfig", "Ernie4_5_VLMoeTextRotaryEmbedding"),
        *([22, 22, 20], [1, 2] * 22 + [0] * 20, True, 1.0),
    ),
}


def text_of(model, device):
    """transformers' function of q and k, positions, and our module for them."""
    config, name, sections, axes, interleaved, share = TEXT[model]
    parameters = rope_parameters(mrope_section=sections, partial_rotary_factor=share)
    config = config_of(model, config, rope_parameters=parameters, head_dim=128)
    theirs, x = getattr(part_of(model), name)(config).to(device), torch.zeros((), device=device)
    rope = RotaryPositionEmbedding(
        128, share, rotary_base=5e5, interleaved=interleaved, axes=axes
    ).to(device)

    def rotate(q, k, ids):
        return part_of(model).apply_rotary_pos_emb(q, k, *theirs(x, ids))

    return rotate, rope


def image_in_text(device):
    """Positions of Qwen2-VL: text, then an image of 2 x 2 patches, then text; and a shifted one."""
    grid = grid_positions(1, 2, 2) + 2
    ids = torch.cat([torch.arange(2).expand(3, 2), grid, torch.arange(4, 5).expand(3, 1)], 1)
    return torch.stack([ids, ids + 100], 1).to(device)


@pytest.mark.parametrize("model", TEXT)
def test_text_of_vision_language_models(model, device):
    theirs, rope = text_of(model, device)
    q, k = (torch.randn(B, heads, S, 128, device=device) for heads in (4, 1))
    for ids in (image_in_text(device), torch.randint(0, 200, (3, B, S), device=device)):
        options = {"position_ids": ids, "interleaved": rope.interleaved}
        ours = partial(rope_qk, freqs=rope, tensor_format="bhsd", **options)
        compare(partial(theirs, ids=ids), lambda q, k, ours=ours: ours(q, k), (q, k))


# vision towers


@pytest.mark.parametrize("model, name", [("qwen2_vl", "Qwen2VL"), ("qwen3_vl", "Qwen3VL")])
def test_vision_towers(model, name, device):
    """(tokens, heads, d): rows turn the first half of the pairs, columns the second half."""
    width = "embed_dim" if model == "qwen2_vl" else "hidden_size"
    parameters = {"rope_type": "axial", "rope_theta": 10000.0}
    options = {width: 320, "num_heads": 4, "rope_parameters": parameters}
    config = config_of(model, f"{name}VisionConfig", **options, num_attention_heads=4)
    tower = getattr(part_of(model), f"{name}VisionRotaryEmbedding")(config).to(device)
    from transformers.vision_utils import get_vision_position_ids

    sizes = torch.tensor([[2, 4, 6], [1, 2, 2]])
    ids = torch.cat([grid_positions(*size, merge_size=2)[1:] for size in sizes.tolist()], 1)
    assert torch.equal(ids.T, get_vision_position_ids(sizes, 2))
    ids = ids.to(device)

    quarter = tower.inv_freq.numel()
    d = 4 * quarter
    rope = RotaryPositionEmbedding(d, axes=[0] * quarter + [1] * quarter).to(device)
    rope.inv_freq = torch.cat([tower.inv_freq, tower.inv_freq])
    q, k = torch.randn(2, ids.shape[1], 4, d, device=device)
    table = tower(q, ids.T)
    compare(
        lambda q, k: part_of(model).apply_rotary_pos_emb_vision(q, k, *table),
        lambda q, k: rope_qk(q, k, rope, "thd", position_ids=ids),
        (q, k),
    )


# DINOv3: coordinates are floats, and the first tokens are no patches

PREFIX = 5  # a class token and four registers


def dinov3(device):
    """transformers' function of q and k, and the table of our module with zeros for the prefix."""
    config = config_of("dinov3_vit", "DINOv3ViTConfig", hidden_size=256, patch_size=4)
    part = part_of("dinov3_vit")
    theirs = part.DINOv3ViTRopePositionEmbedding(config).to(device).eval()
    cos, sin = theirs(torch.zeros(1, 3, 12, 16, device=device))  # 3 x 4 patches

    axes = [0] * 16 + [1] * 16
    rope = RotaryPositionEmbedding(64, axes=axes).to(device)
    rope.inv_freq = 2 * math.pi * torch.cat([theirs.inv_freq, theirs.inv_freq])
    sizes = torch.tensor([3.0, 4.0], device=device)[:, None]
    coordinates = 2 * (grid_positions(1, 3, 4, device=device)[1:] + 0.5) / sizes - 1
    return partial(part.apply_rotary_pos_emb, cos=cos, sin=sin), rope, coordinates[:, None]


def test_dinov3_with_positions_0_for_other_tokens(device):
    """Position 0 turns nothing, in one launch, with all gradients."""
    theirs, rope, coordinates = dinov3(device)
    table = rope.cos_sin_at(torch.nn.functional.pad(coordinates, (PREFIX, 0)))
    assert table.cos.shape == (1, PREFIX + 12, 32)
    q, k = torch.randn(2, B, 4, PREFIX + 12, 64, device=device)
    got = compare(theirs, lambda q, k: rope_qk(q, k, table, "bhsd"), (q, k))
    for out, t in zip(got, (q, k), strict=False):
        assert torch.equal(out[:, :, :PREFIX], t[:, :, :PREFIX])


def test_dinov3_with_a_slice_in_place(device):
    theirs, rope, coordinates = dinov3(device)
    q, k = torch.randn(2, B, 4, PREFIX + 12, 64, device=device)
    want = theirs(q, k)
    patches = [t[:, :, PREFIX:] for t in (q, k)]
    rope_qk(*patches, rope.cos_sin_at(coordinates), "bhsd", inplace=True)
    close(q, want[0])
    close(k, want[1])


def test_prefix_tokens_of_integer_positions(device):
    rope = RotaryPositionEmbedding(64, axes=[0] * 16 + [1] * 16).to(device)
    ids = torch.nn.functional.pad(grid_positions(1, 3, 4, device=device)[1:, None] + 1, (PREFIX, 0))
    t = torch.randn(B, 4, PREFIX + 12, 64, device=device)
    out = apply_rotary_pos_emb(t, rope, "bhsd", position_ids=ids)
    assert torch.equal(out[:, :, :PREFIX], t[:, :, :PREFIX])
    patches = apply_rotary_pos_emb(t[:, :, PREFIX:], rope, "bhsd", position_ids=ids[..., PREFIX:])
    assert torch.equal(out[:, :, PREFIX:], patches)


# HunYuan-VL: a channel and its partner turn by different axes, so it is no rotation


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_hunyuan_vl_by_full_tables(dtype, device):
    """The gradient is the transposed map, which is not the rotation by minus the angle."""
    part = part_of("hunyuan_vl")
    parameters = rope_parameters(mrope_section=[16, 16, 16, 16])
    config = config_of(
        *("hunyuan_vl", "HunYuanVLTextConfig"), head_dim=128, rope_parameters=parameters
    )
    ids = torch.randint(0, 200, (4, B, S), device=device)
    theirs = part.HunYuanVLRotaryEmbedding(config).to(device)
    cos, sin = theirs(torch.zeros((), device=device), ids)
    assert not torch.equal(*cos.chunk(2, -1))
    q, k = (torch.randn(B, heads, S, 128, device=device, dtype=dtype) for heads in (4, 1))
    grads = [torch.randn_like(t) for t in (q, k)]
    exact = outs_and_grads(
        lambda q, k: part.apply_rotary_pos_emb(q, k, cos.double(), sin.double()),
        *([x.double() for x in row] for row in ((q, k), grads)),
    )
    got = outs_and_grads(lambda q, k: rope_qk(q, k, (cos, sin), "bhsd"), (q, k), grads)
    for one, want in zip(got, exact, strict=True):
        assert_rounded_once(one, want.double())
    own = outs_and_grads(lambda q, k: part.apply_rotary_pos_emb(q, k, cos, sin), (q, k), grads)
    for one, want in zip(got, own, strict=True):
        tolerance = 1e-2 if dtype == torch.bfloat16 else 2e-6
        torch.testing.assert_close(one, want, rtol=tolerance, atol=tolerance)
    turned_back = rope_qk(*got[:2], (cos, -sin), "bhsd")
    assert not torch.allclose(turned_back[0].float(), q.float(), atol=0.1)


# diffusion models: each axis has frequencies of its own; plain formulas in fp64

DIFFUSION = {  # elements of each axis, base, format
    "Flux.2": ((32, 32, 32, 32), 2e3, "bhsd"),
    "Wan": ((44, 42, 42), 1e4, "bshd"),
    "HunyuanVideo": ((16, 56, 56), 256.0, "bhsd"),
}


def by_complex_numbers(x, ids, widths, base):
    """(s, d) elements, pairs as complex numbers; the axes' pairs are beside each other."""
    angles = []
    for position, width in zip(ids.double(), widths, strict=True):
        exponent = torch.arange(0, width, 2, dtype=torch.float64) / width
        angles.append(position.cpu()[:, None] / base**exponent)
    turned = torch.polar(torch.ones(()).double(), torch.cat(angles, -1)).to(x.device)
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turned).flatten(-2)


def diffusion_module(widths, base):
    axes = [axis for axis, width in enumerate(widths) for _ in range(width // 2)]
    rope = RotaryPositionEmbedding(sum(widths), interleaved=True, axes=axes)
    of_axes = [base ** -(torch.arange(0, width, 2).double() / width) for width in widths]
    rope.inv_freq = torch.cat(of_axes)
    return rope


@pytest.mark.parametrize("model", DIFFUSION)
def test_diffusion_models(model, device):
    widths, base, tensor_format = DIFFUSION[model]
    rope = diffusion_module(widths, base).to(device)
    ids = torch.cat([torch.zeros(3, 4).long(), grid_positions(2, 3, 4)], 1)  # text, then a video
    if len(widths) == 4:
        ids = torch.cat([ids, torch.arange(ids.shape[1])[None]])
    shape = (1, 2, ids.shape[1], 128) if tensor_format == "bhsd" else (1, ids.shape[1], 2, 128)
    t, grad = torch.randn(2, *shape, device=device, dtype=torch.bfloat16)
    heads = (lambda x: x) if tensor_format == "bhsd" else (lambda x: x.transpose(1, 2))
    leaf = t.detach().requires_grad_()
    options = {"position_ids": ids[:, None].to(device), "interleaved": True}
    out = apply_rotary_pos_emb(leaf, rope, tensor_format, **options)
    (grad_t,) = torch.autograd.grad(out, leaf, grad)

    exact = t.detach().double().requires_grad_()
    want = by_complex_numbers(heads(exact), ids, widths, base)
    (want_grad,) = torch.autograd.grad(want, exact, heads(grad).double())
    assert_rounded_once(out.detach(), heads(want.detach()))
    assert_rounded_once(grad_t, want_grad)
