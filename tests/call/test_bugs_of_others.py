"""Bugs found in other people's RoPE kernels, one test or a few for each: they are not in ours.

A name says where the bug was (with the number of the issue or pull request there is), a docstring
what went wrong and what happens here. `a_seed` is a kernel that this package started from.
"""

from contextlib import contextmanager

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from inputs import (
    FORMATS,
    angles,
    contiguous,
    expanded_heads,
    head_dim_strided,
    sequence_starts,
    shape_of,
    transposed,
)
from pairwise import each_pair
from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, rope_bw, rope_fw, rope_qk
from yardstick import assert_rounded_once, gradient_fp64, rotate_fp64

S, B, H, D, D2 = 5, 2, 3, 10, 6

each_format = pytest.mark.parametrize("tensor_format", FORMATS)
each_pairing = pytest.mark.parametrize("interleaved", (False, True), ids=("halves", "neighbors"))


def nan_is_all_there_is_beside(t, room):
    """The values of `t` as a view of a tensor larger by `room`, which else holds NaN; and that."""
    shape = [n + more for n, more in zip(t.shape, room, strict=True)]
    memory = torch.full(shape, float("nan"), dtype=t.dtype, device=t.device)
    view = memory[tuple(slice(0, n) for n in t.shape)]
    view.copy_(t)
    return memory, view


# strides and shapes


@pytest.mark.parametrize(
    "tensor_format,heads",
    [(name, (1, 1)) for name in FORMATS] + [("bshd", (1, 4)), ("bshd", (4, 1))],
)
def test_liger_kernel_342_one_head(tensor_format, heads, device):
    """With a single head the caller's tensor was overwritten, so that it equalled the result."""
    q, k = (
        torch.randn(shape_of(tensor_format, S, B, h, D), device=device, requires_grad=True)
        for h in heads
    )
    freqs, options = angles(S * B, D2, device), {}
    if tensor_format == "thd":
        options["cu_seqlens"] = torch.tensor([0, S, S * B], device=device)
    outs = rope_qk(q, k, freqs, tensor_format, **options)
    grads = [torch.randn_like(out) for out in outs]
    got = torch.autograd.grad(outs, (q, k), grads)
    for x, out, grad, grad_x in zip((q, k), outs, grads, got, strict=True):
        assert not torch.allclose(out[..., :D2], x[..., :D2])
        assert_rounded_once(out.detach(), rotate_fp64(x.detach(), freqs, tensor_format, **options))
        assert_rounded_once(grad_x, gradient_fp64(x, freqs, tensor_format, grad, **options))


@each_format
def test_unsloth_3781_gradients_of_stride_0(tensor_format, device):
    """`.sum()` sends one number with strides 0, read out of bounds there; any strides are fine."""
    q, k = (
        torch.randn(shape_of(tensor_format, S, B, h, D), device=device, requires_grad=True)
        for h in (H, 1)
    )
    freqs, cu_seqlens = angles(S * B, D2, device), sequence_starts(tensor_format, S, B, device)
    q_out, k_out = rope_qk(q, k, freqs, tensor_format, cu_seqlens=cu_seqlens)
    (q_out.sum() + 3 * k_out.sum()).backward()
    for x, grad in ((q, torch.ones_like(q)), (k, torch.full_like(k, 3))):
        want = gradient_fp64(x, freqs, tensor_format, grad, cu_seqlens)
        assert_rounded_once(x.grad, want)


def test_a_seed_gradients_of_stride_0_in_some_dimensions(device):
    """Contiguous gradients were assumed; here one that repeats along s, b, h or d is as good."""
    freqs = angles(S, D2, device)
    for dim in range(4):
        shape = [1 if i == dim else n for i, n in enumerate((S, B, H, D))]
        grad = torch.randn(shape, device=device).expand(S, B, H, D)
        assert grad.stride(dim) == 0
        assert_rounded_once(rope_bw(grad, freqs), gradient_fp64(grad, freqs, "sbhd", grad))


@pytest.mark.parametrize("inplace", (False, True), ids=("out of place", "in place"))
def test_sglang_20598_k_addressed_with_the_strides_of_q(inplace, device):
    """One stride of heads served both; here k, with any strides, is rotated with its own."""
    q = torch.randn(S, 4, 4 * D, device=device)[..., :D]  # heads lie 4 d apart
    memory, k = nan_is_all_there_is_beside(torch.randn(S, 2, D, device=device), (1, 3, 2))
    freqs, starts = angles(S, D2, device), torch.tensor([0, S], device=device)
    want = [rotate_fp64(x, freqs, "thd", starts) for x in (q, k)]
    outs = rope_qk(q, k, freqs, "thd", cu_seqlens=starts, inplace=inplace)
    for out, wanted in zip(outs, want, strict=True):
        assert_rounded_once(out, wanted)
    assert (~memory.isnan()).sum() == k.numel()


@pytest.mark.parametrize("dim", (1, 2))
def test_vllm_17091_q_and_k_that_are_not_contiguous(dim, device):
    """The kernel took rows to follow one another; here a slice gives the bits of its copy."""
    qkv = torch.randn(S * B, *((3, H, D) if dim == 1 else (H, 3, D)), device=device)
    q, k, _ = qkv.unbind(dim)
    assert not q.is_contiguous() and not k.is_contiguous()
    freqs, starts = angles(S * B, D2, device), torch.tensor([0, 3, S * B], device=device)
    got = rope_qk(q, k, freqs, "thd", cu_seqlens=starts)
    want = rope_qk(q.contiguous(), k.contiguous(), freqs, "thd", cu_seqlens=starts)
    for x, out, wanted in zip((q, k), got, want, strict=True):
        assert torch.equal(out, wanted)
        assert_rounded_once(out, rotate_fp64(x, freqs, "thd", starts))


@pytest.mark.parametrize("layout", ("expanded", "transposed", "every other", "unlike"))
def test_unsloth_3782_expanded_cos_and_sin(layout, device):
    """Tables were read as if contiguous; here they have strides, 0 and unlike ones included."""
    cos, sin = torch.randn(2, B, S, D2, device=device)
    if layout == "expanded":  # one table for all batch entries, as Hugging Face expands it
        cos, sin = (x[:1].expand(B, S, D2) for x in (cos, sin))
    elif layout == "transposed":
        cos, sin = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (cos, sin))
    elif layout == "every other":
        cos, sin = (x.repeat_interleave(2, -1)[..., ::2] for x in (cos, sin))
    else:
        sin = sin[:, :1].expand(B, S, D2)
    t = torch.randn(B, S, H, D, device=device)
    ids = torch.randint(0, S, (1, S), device=device).expand(B, S)
    copies = cos.contiguous(), sin.contiguous()
    out = apply_rotary_pos_emb(t, (cos, sin), "bshd", position_ids=ids)
    want = apply_rotary_pos_emb(t, copies, "bshd", position_ids=ids.contiguous())
    assert torch.equal(out, want)
    assert_rounded_once(out, rotate_fp64(t, copies, "bshd", position_ids=ids))


@pytest.mark.parametrize("each_its_own", (False, True), ids=("one row of angles", "two"))
@pytest.mark.parametrize("heads", (12, 20, 24, 40))
def test_megatron_lm_7103_heads_that_no_block_divides(heads, each_its_own, device):
    """The mask of the last block of heads let all lanes pass; here NaN behind the heads stays."""
    freqs = angles(6, 64, device)
    starts = {"start_positions": torch.tensor([1, 3], device=device)} if each_its_own else {}
    q, k = (torch.randn(2, B, h, 64, device=device) for h in (heads, heads // 4))
    want = [rotate_fp64(x, freqs, "sbhd", **starts) for x in (q, k)]
    (q_memory, q), (k_memory, k) = (nan_is_all_there_is_beside(x, (0, 2, 16, 0)) for x in (q, k))
    for outs in (rope_qk(q, k, freqs, **starts), rope_qk(q, k, freqs, **starts, inplace=True)):
        for out, wanted in zip(outs, want, strict=True):
            assert_rounded_once(out, wanted)
    assert (~q_memory.isnan()).sum() == q.numel()
    assert (~k_memory.isnan()).sum() == k.numel()


@pytest.mark.parametrize("inplace", (False, True), ids=("out of place", "in place"))
@pytest.mark.parametrize("kind", ("angles", "cos and sin", "on the fly"))
def test_flashinfer_4349_rotary_dim_above_head_dim(kind, inplace, device):
    """It rotated on into the next head without a word; here it is an error and nothing happens."""
    freqs = {
        "angles": angles(S, D + 2, device),
        "cos and sin": tuple(torch.randn(2, S, D + 2, device=device)),
        "on the fly": RotaryPositionEmbedding(D + 2).to(device),
    }[kind]
    t = torch.randn(S, B, H, D, device=device)
    before = t.clone()
    for call in (
        lambda: apply_rotary_pos_emb(t, freqs, inplace=inplace),
        lambda: apply_rotary_pos_emb(t, freqs, inplace=inplace, fused=False),
        lambda: rope_bw(t, freqs, inplace=inplace),
        lambda: rope_qk(t, t + 1, freqs, inplace=inplace),
    ):
        with pytest.raises(ValueError, match=rf"^freqs .* d2 = {D + 2}; .* d = {D}$"):
            call()
    assert torch.equal(t, before)


def test_liger_kernel_804_offsets_past_2_to_the_31_elements(device):
    """At 500 K tokens 32-bit offsets wrapped around; here 3 tokens lie 2^30 elements apart."""
    step = 2**30
    memory = torch.empty(2 * step + 60, dtype=torch.float16, device=device)
    t = memory.as_strided((3, 1, 2, 8), (step, 16, 8, 1)).copy_(torch.randn(3, 1, 2, 8))
    freqs = RotaryPositionEmbedding(8).to(device)
    ids = torch.tensor([[499_999, 500_000, 524_288]], device=device)
    want = rotate_fp64(t, freqs, "sbhd", position_ids=ids)
    assert_rounded_once(apply_rotary_pos_emb(t, freqs, position_ids=ids), want)
    assert_rounded_once(apply_rotary_pos_emb(t, freqs, position_ids=ids, inplace=True), want)


@pytest.mark.gpu
def test_liger_kernel_804_half_a_million_tokens():
    """At 500 K tokens 32-bit offsets wrapped around; here the last ones are right."""
    s, last = 540_000, slice(540_000 - 16, None)
    t = torch.empty(1, s, 32, 128, dtype=torch.bfloat16, device="cuda").normal_()
    assert t.numel() > 2**31
    k, freqs = t[:, :, :2].clone(), RotaryPositionEmbedding(128).cuda()
    ids = torch.arange(s, device="cuda")[None]
    want = [rotate_fp64(x[:, last], freqs, "bshd", position_ids=ids[:, last]) for x in (t, k)]
    for outs in (rope_qk(t, k, freqs, "bshd"), rope_qk(t, k, freqs, "bshd", inplace=True)):
        for out, wanted in zip(outs, want, strict=True):
            assert_rounded_once(out[:, last], wanted)


# in place


@pytest.mark.parametrize("use_reentrant", (False, True))
def test_unsloth_5001_in_place_corrupts_what_checkpointing_saved(use_reentrant, device):
    """Gradients were silently those of turned inputs; here what was saved turns into an error."""
    t = torch.randn(S, B, H, D, device=device, requires_grad=True) * 1
    out = checkpoint(torch.sin, t, use_reentrant=use_reentrant)
    apply_rotary_pos_emb(t, angles(S, D2, device), inplace=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("use_reentrant", (False, True))
def test_unsloth_5001_in_place_within_a_checkpoint(use_reentrant, device):
    """Gradients were silently those of turned inputs; here what a block made itself is right."""
    leaf = torch.randn(S, B, H, D, dtype=torch.float64, device=device, requires_grad=True)
    freqs, weight = angles(S, D2, device), torch.randn(S, B, H, D, device=device)

    def block(t, rotate):
        return (rotate(t * 2).sin() * weight).sum() + (t**3).sum()

    def in_place(t):
        return apply_rotary_pos_emb(t, freqs, inplace=True)

    checkpoint(block, leaf, in_place, use_reentrant=use_reentrant).backward()
    loss = block(leaf, lambda t: rotate_fp64(t, freqs, "sbhd"))
    torch.testing.assert_close(leaf.grad, torch.autograd.grad(loss, leaf)[0])


@pytest.mark.parametrize("layout", (contiguous, transposed, head_dim_strided, expanded_heads))
def test_liger_kernel_overwrites_q_and_k_or_not_as_their_strides_are(layout, device):
    """Contiguous tensors were overwritten, others copied; here `inplace` decides, not strides."""
    q, k = (layout((S, B, h, D), torch.float32, device) for h in (H, 2))
    before, freqs = (q.clone(), k.clone()), angles(S, D2, device)
    outs = rope_qk(q, k, freqs)
    for x, out, unchanged in zip((q, k), outs, before, strict=True):
        assert torch.equal(x, unchanged)
        assert out.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    if 0 in q.stride():
        with pytest.raises(ValueError):
            rope_qk(q, k, freqs, inplace=True)
        return
    got = rope_qk(q, k, freqs, inplace=True)
    for x, out, want in zip((q, k), got, before, strict=True):
        assert out is x
        assert_rounded_once(x, rotate_fp64(want, freqs, "sbhd"))


def rotate_in_place_often(t, freqs, runs, **options):
    """The first result, after every other one has been compared with it bit by bit."""
    first = rope_fw(t.clone(), freqs, inplace=True, **options)
    for _ in range(runs):
        assert torch.equal(rope_fw(t.clone(), freqs, inplace=True, **options), first)
    return first


@each_pairing
def test_megatron_lm_5963_in_place_races(interleaved, device):
    """A warp overwrote what another had yet to read; here the owner of a pair reads it first."""
    t, freqs = torch.randn(2, 1, 1, 2048, device=device), angles(2, 2048, device)
    got = rotate_in_place_often(t, freqs, 1, interleaved=interleaved)
    assert_rounded_once(got, rotate_fp64(t, freqs, "sbhd", interleaved=interleaved))


@pytest.mark.gpu
@each_pairing
@pytest.mark.parametrize("rotary_dim", (2048, 4096))
def test_megatron_lm_5963_in_place_races_between_warps(rotary_dim, interleaved):
    """A warp overwrote what another had yet to read; here 500 runs of several warps are alike."""
    t, freqs = torch.randn(33, 2, 5, rotary_dim, device="cuda"), angles(33, rotary_dim, "cuda")
    got = rotate_in_place_often(t, freqs, 500, interleaved=interleaved)
    assert_rounded_once(got, rotate_fp64(t, freqs, "sbhd", interleaved=interleaved))


@pytest.mark.gpu
@each_pairing
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_a_seed_in_place_races_between_programs(dtype, interleaved):
    """An element and its partner had two programs, one too late; here a pair has one: 300 runs."""
    t = torch.randn(1024, 2, 16, 128, device="cuda", dtype=dtype)
    freqs = angles(1024, 128, "cuda")
    got = rotate_in_place_often(t, freqs, 300, interleaved=interleaved)
    assert_rounded_once(got, rotate_fp64(t, freqs, "sbhd", interleaved=interleaved))


def test_a_seed_in_place_races_between_programs_of_the_interpreter(device):
    """An element and its partner had two programs, one too late; here a pair has one."""
    t, freqs = torch.randn(7, B, 17, 64, device=device), angles(7, 64, device)
    got = rotate_in_place_often(t, freqs, 1)
    assert_rounded_once(got, rotate_fp64(t, freqs, "sbhd"))


@contextmanager
def watched(device):
    """Within, what every program stores is noted, where kernels are interpreted."""
    if device == "cuda":
        yield None
    else:
        from rope_lab.grading.trace import Trace  # loads Triton

        with Trace() as trace:
            yield trace


@each_pair
@each_pairing
@pytest.mark.parametrize("inplace", (False, True), ids=("out of place", "in place"))
@pytest.mark.parametrize("rotary_dim", (80, 96, 112))
def test_triton_10743_two_stores_of_one_element(
    rotary_dim, inplace, interleaved, needs_triton, device
):
    """Of two stores in one program either could stay; here an element is stored once."""
    options = {"interleaved": interleaved}
    for d in (rotary_dim, rotary_dim + 24):
        t, freqs = torch.randn(S, B, H, d, device=device), angles(S, rotary_dim, device)
        want = rotate_fp64(t, freqs, "sbhd", **options)
        with watched(device) as trace:
            got = rope_fw(t.clone(), freqs, inplace=inplace, **options)
        assert_rounded_once(got, want)
        if trace is not None:
            assert trace.launches and not trace.twice


def test_lion_pytorch_36_the_first_call_in_place(needs_triton, device):
    """Autotune ran an in-place kernel many times on the caller's tensor; here it runs once."""
    t, freqs = torch.randn(3, 1, 7, 34, device=device), angles(3, 26, device)  # new to the process
    first, second = t.clone(), t.clone()
    with watched(device) as trace:
        rope_fw(first, freqs, inplace=True)
    rope_fw(second, freqs, inplace=True)
    assert_rounded_once(first, rotate_fp64(t, freqs, "sbhd"))
    assert torch.equal(first, second)
    assert trace is None or trace.launches == 1


# gradients


@each_format
def test_a_seed_ignores_the_incoming_gradient(tensor_format, device):
    """A backward that took ones for granted passed a test by `.sum()`; ours rotates what comes."""
    t = torch.randn(shape_of(tensor_format, S, B, H, D), device=device, requires_grad=True)
    freqs, cu_seqlens = angles(S * B, D2, device), sequence_starts(tensor_format, S, B, device)
    out = apply_rotary_pos_emb(t, freqs, tensor_format, cu_seqlens=cu_seqlens)
    for grad in (torch.ones_like(out), torch.randn_like(out), -2 * out.detach()):
        (got,) = torch.autograd.grad(out, t, grad, retain_graph=True)
        assert_rounded_once(got, gradient_fp64(t, freqs, tensor_format, grad, cu_seqlens))


# positions


def past_the_table(device):
    """Calls whose last rows have positions that a table of 4 does not have."""
    start, ids = torch.tensor([0, 2], device=device), torch.tensor([[3, 4, 5]], device=device)
    return (
        ("bshd", (B, 3, H, D), {"start_positions": start}, lambda out: out[1, 2:]),
        ("bshd", (B, 3, H, D), {"position_ids": ids}, lambda out: out[:, 1:]),
        ("thd", (3, H, D), {"position_ids": ids[0]}, lambda out: out[1:]),
    )


@pytest.mark.parametrize("case", range(3))
def test_flash_attention_offset_past_the_table(case):
    """Such rows came out unrotated without a word; here it is an error where positions are read."""
    tensor_format, shape, options, _ = past_the_table("cpu")[case]
    t, freqs = torch.randn(shape), angles(4, D2, "cpu")
    before = t.clone()
    for inplace in (False, True):
        with pytest.raises(ValueError, match=r"^freqs has angles for s2 = 4 positions"):
            apply_rotary_pos_emb(t, freqs, tensor_format, inplace=inplace, **options)
    assert torch.equal(t, before)


@pytest.mark.gpu
@pytest.mark.parametrize("case", range(3))
def test_flash_attention_offset_past_the_table_on_a_gpu(case):
    """Such rows came out unrotated without a word; here they are NaN, and no other is."""
    tensor_format, shape, options, rows = past_the_table("cuda")[case]
    t, freqs = torch.randn(shape, device="cuda"), angles(4, D2, "cuda")
    want = rotate_fp64(t, freqs, tensor_format, **options)
    for inplace in (False, True):
        out = apply_rotary_pos_emb(t.clone(), freqs, tensor_format, inplace=inplace, **options)
        assert rows(out)[..., :D2].isnan().all()
        assert out.isnan().sum() == rows(out)[..., :D2].numel()
        assert_rounded_once(out, want)


@pytest.mark.parametrize("case", range(3))
def test_flash_attention_offset_past_a_table_that_is_not_there(case, device):
    """Such rows came out unrotated without a word; angles made on the fly have no end."""
    tensor_format, shape, options, _ = past_the_table(device)[case]
    t, freqs = torch.randn(shape, device=device), RotaryPositionEmbedding(D2).to(device)
    options = {name: positions * 262_144 for name, positions in options.items()}
    out = apply_rotary_pos_emb(t, freqs, tensor_format, **options)
    assert_rounded_once(out, rotate_fp64(t, freqs, tensor_format, **options))


@pytest.mark.parametrize("positions", ((255, 256, 257, 258), (4001, 65_537, 131_071, 1_000_000)))
def test_transformers_29285_bf16_positions(positions, device):
    """A model cast to bf16 turned 256 and 257 alike; here angles stay exact, in autocast too."""
    freqs = RotaryPositionEmbedding(64).to(device).bfloat16()
    assert freqs.inv_freq.dtype == torch.float32
    t = torch.randn(1, 1, H, 64, device=device, dtype=torch.bfloat16).expand(4, 1, H, 64)
    ids = torch.tensor([positions], device=device)
    out = apply_rotary_pos_emb(t, freqs, position_ids=ids)
    assert_rounded_once(out, rotate_fp64(t, freqs, "sbhd", position_ids=ids))
    assert not torch.equal(out[1], out[2])
    with torch.autocast(device, torch.bfloat16):
        assert torch.equal(apply_rotary_pos_emb(t, freqs, position_ids=ids), out)
        table = freqs(259)
    assert table.dtype == torch.float32
    assert_rounded_once(
        table[256:, 0, 0, :32],
        (torch.arange(256, 259).to(device)[:, None] * freqs.inv_freq.double()),
    )


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
def test_transformers_29285_bf16_angles_and_position_ids_are_refused(dtype, device):
    """They were used as they came, and so wrong from position 257 on; here they are an error."""
    t = torch.randn(S, B, H, D, device=device, dtype=dtype)
    with pytest.raises(TypeError, match=r"^freqs has dtype b?float16; accepted .*: float32\."):
        apply_rotary_pos_emb(t, angles(S, D2, device, dtype))
    with pytest.raises(TypeError, match=r"^position_ids has dtype b?float16; accepted: int32"):
        ids = torch.arange(S, device=device, dtype=dtype)[None]
        apply_rotary_pos_emb(t, angles(S, D2, device), position_ids=ids)


# TransformerEngine's fused function


@contextmanager
def unwritten_memory_is_nan():
    """Within, PyTorch fills what `torch.empty` returns with NaN."""
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", (torch.int32, torch.int64), ids=str)
def test_transformer_engine_misreads_int64_cu_seqlens(dtype, device):
    """It read their bytes as int32; here both integer types mean the same."""
    t, freqs = torch.randn(S * B, H, D, device=device), angles(S * B, D2, device)
    cu_seqlens = torch.tensor([0, 3, 3, 4, 10], device=device)
    out = apply_rotary_pos_emb(t, freqs, "thd", cu_seqlens=cu_seqlens.to(dtype))
    assert_rounded_once(out, rotate_fp64(t, freqs, "thd", cu_seqlens))


def test_transformer_engine_leaves_rows_behind_the_last_sequence_unwritten(device):
    """They held whatever was in memory; here they are the input's, forward and backward."""
    t, freqs = torch.randn(S * B, H, D, device=device), angles(S * B, D2, device)
    cu_seqlens = torch.tensor([0, 3, 6], device=device)
    with unwritten_memory_is_nan():
        assert torch.empty(3, device=device).isnan().all()
        outs = [f(t, freqs, "thd", cu_seqlens=cu_seqlens) for f in (rope_fw, rope_bw)]
        outs += rope_qk(t, t, freqs, "thd", cu_seqlens=cu_seqlens)
    for out in outs:
        assert torch.equal(out[6:], t[6:]) and not out.isnan().any()


def test_transformer_engine_forgets_start_positions_in_backward(device):
    """The gradient of packed q, k and v turned by other angles; here by those of the forward."""
    q, k = (torch.randn(B, S, h, D, device=device, requires_grad=True) for h in (H, 1))
    freqs, starts = angles(9, D2, device), torch.tensor([4, 1], device=device)
    outs = rope_qk(q, k, freqs, "bshd", start_positions=starts)
    grads = [torch.randn_like(out) for out in outs]
    got = torch.autograd.grad(outs, (q, k), grads)
    for x, grad, grad_x in zip((q, k), grads, got, strict=True):
        want = gradient_fp64(x, freqs, "bshd", grad, start_positions=starts)
        assert_rounded_once(grad_x, want)


def test_transformer_engine_detaches_the_second_derivative(device):
    """A penalty on a gradient had no gradient; here the backward has a backward, the forward."""
    t = torch.randn(S, B, H, D, dtype=torch.float64, device=device, requires_grad=True)
    freqs = angles(S, D2, device)

    def gradient_of_penalty(rotate):
        (grad_t,) = torch.autograd.grad((rotate(t) ** 3).sum(), t, create_graph=True)
        return torch.autograd.grad((grad_t**2).sum(), t)[0]

    got = gradient_of_penalty(lambda t: apply_rotary_pos_emb(t, freqs))
    want = gradient_of_penalty(lambda t: rotate_fp64(t, freqs, "sbhd"))
    torch.testing.assert_close(got, want)
