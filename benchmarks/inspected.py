"""Kernels that are not ours, under `lab.inspect`: predicted without a GPU, then timed on one.

    python -m benchmarks sources inspected/Liger=/path/of/a/clone
    python -m benchmarks.inspected                  # all of them; names choose some
    python -m benchmarks.inspected --out benchmarks/results/nvidia-h200-inspected.json

The files are unpacked into `.peers/`, and never committed. Each kernel is called by its project's
launcher, or by ours where that one asks the GPU something. With a GPU the measured time is beside
the predicted one.
"""

import argparse
import functools
import importlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.peers.sources import Source

HERE = Path(__file__).resolve().parent
_LIGER = "src/liger_kernel"
SOURCES = {  # unpacked by `python -m benchmarks sources`
    "Liger": Source(
        "inspected/Liger",
        "https://github.com/linkedin/Liger-Kernel",
        "commit ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c",
        {
            f"{_LIGER}/utils.py": "d1bc3bf8fb90baf49edf08743a35b268661dc0ef",
            f"{_LIGER}/ops/utils.py": "3459c5ca969a69b15055f4f65a5b378d3f3a759f",
            f"{_LIGER}/ops/rms_norm.py": "10da514d80ea813b40b96ec68c2cf7f200f834ed",
            f"{_LIGER}/ops/layer_norm.py": "a9c541aac35b018d2ff025da0841b79f8ec73390",
            f"{_LIGER}/ops/swiglu.py": "861d16ee15f48d3097ccaa14ffeebcc04496f7af",
            f"{_LIGER}/ops/geglu.py": "f10726e713151d71ff00f5b5ae058e69633705d3",
            f"{_LIGER}/ops/softmax.py": "15db6cdda36e442007d8c380ef13c3c72293abb1",
            f"{_LIGER}/ops/rope.py": "bd8ded7308eeddb7762752f4adc95e68903a77ec",
            f"{_LIGER}/ops/fused_add_rms_norm.py": "020e1241d250585f20d8fb2d4d53571134a52df2",
            f"{_LIGER}/ops/dyt.py": "ed5c74886f0ac75c23505fc8e8b3444afa6b4643",
            f"{_LIGER}/ops/kl_div.py": "273294072633528d7e07bffa6b74086d85a13ff4",
            f"{_LIGER}/ops/group_norm.py": "7edd3cef7ff8523ca720ed5e939769e1cb7ad5c8",
            f"{_LIGER}/ops/cross_entropy.py": "97245144b01822b2bdf6ab43b8345cc4d14a31b5",
            f"{_LIGER}/ops/sparsemax.py": "065785a2aa0de756a11788b5c3b1f9e2464fd0c4",
        },
    ),
    "Unsloth": Source(
        "inspected/Unsloth",
        "https://github.com/unslothai/unsloth",
        "commit 015bdef0d94a241bcd94eec7a405b1700632180d",
        {
            "unsloth/kernels/layernorm.py": "4da6c8bf9a952897f290763b578d45a637b89a5b",
            "unsloth/kernels/swiglu.py": "6d74a868fea720eb45bac7619d642842d0908773",
            "unsloth/kernels/geglu.py": "0ed325afa0def1390d3347f4b8abf68b4269f1c2",
        },
    ),
    "FlashAttention": Source(
        "inspected/FlashAttention",
        "https://github.com/Dao-AILab/flash-attention",
        "commit 0251105a2fb19d2957484b7f023cd8c115286ced",
        {
            "flash_attn/ops/triton/rotary.py": "ff4017fda3e4a6e18cf3a51b34f0fb073d8f678a",
            "flash_attn/ops/triton/cross_entropy.py": "1b5a415b73f236f3e05fb14b9141959559e18526",
        },
    ),
}
_FOLDERS = (
    *(SOURCES["Liger"].folder() / "src", SOURCES["Unsloth"].folder()),
    *(SOURCES["FlashAttention"].folder(), HERE / "peers" / "stubs" / "inspected"),
)
_PACKAGES = "liger_kernel", "unsloth", "unsloth_zoo", "flash_attn"

_BF16 = (2e-2, 2e-2)  # several roundings on the way: theirs, and as they mean it
_WIDE = 4096  # columns
_CHANGE = {  # limit -> what `changed` is
    "instructions": "twice the arithmetic",
    "starts": "half the programs",
    "latency": "half the programs",
}


@dataclass(frozen=True)
class Peer:
    """A kernel with what `lab.inspect` needs; `changed` is it after the change of its limit."""

    function: Callable
    reference: Callable
    make: Callable
    small: int = 2
    large: int = 16384
    changed: Callable | None = None


@functools.cache
def theirs(module: str) -> ModuleType:
    """A module as it was unpacked. Nobody else imports it: an installed one is not shadowed."""
    installed = {name: sys.modules.pop(name) for name in _of_the_packages()}
    sys.path[:0] = map(str, _FOLDERS)
    try:
        return importlib.import_module(module)
    finally:
        del sys.path[: len(_FOLDERS)]
        for name in _of_the_packages():
            del sys.modules[name]
        sys.modules.update(installed)


def _of_the_packages() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] in _PACKAGES]


def rows(size: int, device: str, columns: int = _WIDE) -> Tensor:
    return torch.randn(size, columns, device=device, dtype=torch.bfloat16)


def weight(device: str, columns: int = _WIDE) -> Tensor:
    return torch.randn(columns, device=device, dtype=torch.bfloat16)


def rows_and_weight(size: int, device: str) -> tuple:
    return rows(size, device), weight(device)


def short_rows_and_weight(size: int, device: str) -> tuple:
    return rows(size, device, 128), weight(device, 128)


def rows_and_two_weights(size: int, device: str) -> tuple:
    return rows(size, device), weight(device), weight(device)


def two_rows(size: int, device: str) -> tuple:
    return rows(size, device), rows(size, device)


def three_rows(size: int, device: str) -> tuple:
    return rows(size, device), rows(size, device), rows(size, device)


def two_rows_and_weight(size: int, device: str) -> tuple:
    return rows(size, device), rows(size, device), weight(device)


def only_rows(size: int, device: str) -> tuple:
    return (rows(size, device),)


def logits_and_labels(size: int, device: str) -> tuple:
    logits = torch.randn(size, 32768, device=device, dtype=torch.bfloat16)
    return logits, torch.arange(size, device=device) * 5


def queries_keys_and_table(size: int, device: str) -> tuple:
    """(1, h, s, d) as views of (1, s, h, d), and cos and sin (1, s, d)."""
    q = torch.randn(1, size, 32, 128, device=device, dtype=torch.bfloat16).transpose(1, 2)
    k = torch.randn(1, size, 8, 128, device=device, dtype=torch.bfloat16).transpose(1, 2)
    angles = torch.arange(size, device=device)[:, None] * 0.9 ** torch.arange(64, device=device)
    angles = torch.cat((angles, angles), dim=-1)[None]
    return q, k, angles.cos().bfloat16(), angles.sin().bfloat16()


def heads_and_table(size: int, device: str) -> tuple:
    """(1, s, h, d), and cos and sin (s, d / 2)."""
    x = torch.randn(1, size, 32, 128, device=device, dtype=torch.bfloat16)
    angles = torch.arange(size, device=device)[:, None] * 0.9 ** torch.arange(64, device=device)
    return x, angles.cos().bfloat16(), angles.sin().bfloat16()


def liger_rms_norm(x: Tensor, w: Tensor) -> Tensor:
    ops = theirs("liger_kernel.ops.rms_norm")
    return ops.rms_norm_forward(x, w, 1e-6, 0.0, "llama", True)[0]


def liger_rms_norm_of_short_rows(x: Tensor, w: Tensor) -> Tensor:
    ops = theirs("liger_kernel.ops.rms_norm")
    y, r = torch.empty_like(x), torch.empty(len(x), dtype=torch.float32, device=x.device)
    strides = {"Y": y, "X": x, "W": w, "RSTD": r}
    arguments = [part for t in strides.values() for part in (t, t.stride(0))]
    grid = (-(-len(x) // 16),)
    ops._block_rms_norm_forward_kernel[grid](
        *arguments, *(len(x), x.shape[1], 1e-6, 0.0, 0, True), BLOCK_SIZE=128, BLOCK_ROW=16
    )
    return y


def rms_norm(x: Tensor, w: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w


def liger_layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    ops = theirs("liger_kernel.ops.layer_norm")
    return ops.layer_norm_forward(x, w, b, 1e-6)[0]


def unsloth_layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    ops = theirs("unsloth.kernels.layernorm")
    return ops.Fast_Layernorm.apply(x, w, b, 1e-6)


def layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], w, b, 1e-6)


def liger_swiglu(a: Tensor, b: Tensor) -> Tensor:
    ops = theirs("liger_kernel.ops.swiglu")
    return ops.swiglu_forward(a, b)[2]


def unsloth_swiglu(a: Tensor, b: Tensor) -> Tensor:
    ops = theirs("unsloth.kernels.swiglu")
    return ops.swiglu_fg_kernel(a[None], b[None])[0]


def swiglu(a: Tensor, b: Tensor) -> Tensor:
    return F.silu(a) * b


def liger_swiglu_backward(a: Tensor, b: Tensor, dc: Tensor) -> None:
    ops = theirs("liger_kernel.ops.swiglu")
    ops.swiglu_backward(a, b, dc)


def swiglu_backward_in_place(a: Tensor, b: Tensor, dc: Tensor) -> None:
    sigmoid = torch.sigmoid(a)
    da = dc * b * (sigmoid + F.silu(a) * (1 - sigmoid))
    b.copy_(dc * F.silu(a))
    a.copy_(da)


def liger_geglu(a: Tensor, b: Tensor) -> Tensor:
    ops = theirs("liger_kernel.ops.geglu")
    return ops.geglu_forward(a, b)[2]


def unsloth_geglu(a: Tensor, b: Tensor) -> Tensor:
    ops = theirs("unsloth.kernels.geglu")
    return ops.geglu_approx_forward_kernel(a[None], b[None])[0]


def unsloth_exact_geglu(a: Tensor, b: Tensor) -> Tensor:
    ops = theirs("unsloth.kernels.geglu")
    return ops.geglu_exact_forward_kernel(a[None], b[None])[0]


def geglu(a: Tensor, b: Tensor) -> Tensor:
    return F.gelu(a, approximate="tanh") * b


def exact_geglu(a: Tensor, b: Tensor) -> Tensor:
    return F.gelu(a) * b


def liger_softmax(x: Tensor) -> Tensor:
    ops = theirs("liger_kernel.ops.softmax")
    return ops._softmax_forward(x)[0]


def softmax(x: Tensor) -> Tensor:
    return x.softmax(-1)


def liger_rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> None:
    ops = theirs("liger_kernel.ops.rope")
    ops.rope_forward(q, k, cos, sin)


def rope_in_place(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> None:
    for x in (q, k):
        x1, x2 = x.chunk(2, dim=-1)
        x.copy_(x * cos + torch.cat((-x2, x1), dim=-1) * sin)


def liger_add_rms_norm(x: Tensor, residual: Tensor, w: Tensor) -> tuple:
    ops = theirs("liger_kernel.ops.fused_add_rms_norm")
    return ops.fused_add_rms_norm_forward(x, residual, w, 1e-6, 0.0, "llama")[:2]


def add_rms_norm(x: Tensor, residual: Tensor, w: Tensor) -> tuple:
    total = x + residual
    return rms_norm(total, w), total


def liger_dyt(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    ops = theirs("liger_kernel.ops.dyt")
    return ops.liger_dyt_fwd(x, gamma[:1], gamma, beta)


def dyt(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    return gamma * torch.tanh(gamma[0] * x) + beta


def liger_kl_div(predicted: Tensor, true: Tensor) -> Tensor:
    ops = theirs("liger_kernel.ops.kl_div")
    return ops.kldiv_forward_triton(predicted, true, True, "none", 1e-10)


def two_rows_in_fp32(size: int, device: str) -> tuple:
    return rows(size, device).float(), rows(size, device).float()


def kl_div(predicted: Tensor, true: Tensor) -> Tensor:
    return true.exp() * (true - predicted)


def liger_group_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    ops = theirs("liger_kernel.ops.group_norm")
    return ops.group_norm_forward(x, 8, 4, w, b, 1e-6)[0]


def images(size: int, device: str) -> tuple:
    """(b, channels, elements): each of 4 groups takes a program."""
    x = torch.randn(size, 8, 65536, device=device, dtype=torch.bfloat16)
    return x, weight(device, 8), weight(device, 8)


def group_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.group_norm(x, 4, w, b, 1e-6)


def liger_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    ops = theirs("liger_kernel.ops.cross_entropy")
    return ops.cross_entropy_forward(
        logits, labels, None, -100, 0.0, 0.0, "none", None, return_z_loss=False
    )[0]


def flash_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    ops = theirs("flash_attn.ops.triton.cross_entropy")
    n, columns = logits.shape
    losses, lse, z_losses = torch.empty(3, n, device=logits.device)
    ops.cross_entropy_fwd_kernel[(n,)](
        *(losses, lse, z_losses, logits, labels, 0.0, 1.0, 0.0, -100, columns, 0, columns),
        logits.stride(0),
        **{"BLOCK_SIZE": 16384, "SPLIT": False, "PRECOMPUTED_LSE": False, "num_warps": 16},
    )
    return losses


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits, labels, reduction="none")


def cross_entropy_in_fp32(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.float(), labels, reduction="none")


def liger_sparsemax(x: Tensor, falling: Tensor) -> Tensor:
    ops = theirs("liger_kernel.ops.sparsemax")
    out, (n, columns) = torch.empty_like(x), x.shape
    ops._sparsemax_forward_kernel[(n,)](
        *(x, columns, falling, columns, out, columns, columns), BLOCK_SIZE=columns, num_warps=8
    )
    return out


def rows_and_sorted(size: int, device: str) -> tuple:
    x = rows(size, device)
    return x, x.float().sort(dim=-1, descending=True).values


def sparsemax(x: Tensor, falling: Tensor) -> Tensor:
    count = torch.arange(1, x.shape[-1] + 1, device=x.device)
    above = 1 + count * falling > falling.cumsum(-1)
    k = above.sum(-1, keepdim=True)
    tau = ((falling * above).sum(-1, keepdim=True) - 1) / k
    return (x - tau).clamp(min=0).to(x.dtype)


def flash_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    ops = theirs("flash_attn.ops.triton.rotary")
    out, (b, s, h, d) = torch.empty_like(x), x.shape
    strides = out.stride() + x.stride()
    ops.rotary_kernel[(h // 2, -(-s // 8), b)](
        *(out, x, cos, sin, None, 0, s, h, s, *strides),
        *(d, False, False, False, False),
        **{"BLOCK_M": 8, "BLOCK_H": 2},
    )
    return out


def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    x1, x2 = x.chunk(2, dim=-1)
    c, s = cos[:, None], sin[:, None]
    return torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), dim=-1)


def headline(size: int, device: str) -> tuple:
    """t (s, 16, 8, 256) in bf16 and its table; at 2048 positions it is the headline."""
    t = torch.randn(size, 16, 8, 256, device=device, dtype=torch.bfloat16)
    return t, torch.rand(size, 1, 1, 256, device=device) * 6 - 3


def our_rung_1(t: Tensor, freqs: Tensor) -> Tensor:
    from rope_lab.rungs import rung_1_naive

    return rung_1_naive.my_rope(t, freqs)


def our_rung_7(t: Tensor, freqs: Tensor) -> Tensor:
    from rope_lab.rungs import rung_7_loads_first

    return rung_7_loads_first.my_rope(t, freqs)


def rotated(t: Tensor, freqs: Tensor) -> Tensor:
    x1, x2 = t.chunk(2, dim=-1)
    y = t * freqs.cos() + torch.cat((-x2, x1), dim=-1) * freqs.sin()
    return y.to(t.dtype)


def our_rms_norm(x: Tensor, w: Tensor) -> Tensor:
    from rope_lab.steps.row_norm import rms_norm as norm

    return norm(x, w)


def our_persistent_copy(x: Tensor, programs: int = 264) -> Tensor:
    """Two programs of one warp on each SM of an H200."""
    from rope_lab.steps.in_flight import persistent_copy_kernel

    out = torch.empty_like(x)
    persistent_copy_kernel[(programs,)](x, out, x.numel(), BLOCK=512, num_warps=1)
    return out


def same(x: Tensor) -> Tensor:
    return x.clone()


def our_turns(t: Tensor, freqs: Tensor, turns: int = 32) -> Tensor:
    """Each pair in so many small turns: notebook 08's kernel that is limited by instructions."""
    from rope_lab.steps.five_limits import knobs_kernel

    out, (s, b, h, d) = torch.empty_like(t), t.shape
    tiles = s * b * h // 8
    sizes = {"HALF": d // 2, "BLOCK_R": 8, "TURNS": turns, "num_warps": 4}
    knobs_kernel[(tiles,)](t, freqs, out, tiles, b * h // 8, **sizes)
    return out


def matching_halves(size: int, device: str) -> tuple:
    """The headline, whose pairs have one angle each."""
    t, freqs = headline(size, device)
    return t, torch.cat((freqs[..., :128], freqs[..., :128]), dim=-1)


def our_small_blocks(x: Tensor, block: int = 64) -> Tensor:
    """64 elements a program."""
    from rope_lab.steps.journey import rotate_half_gather

    return rotate_half_gather(x, block=block)


def half_turn(x: Tensor) -> Tensor:
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


# chosen, with their commits, before any was tried: 2026-11-25
PEERS = {
    "Liger, RMSNorm": Peer(liger_rms_norm, rms_norm, rows_and_weight),
    "Liger, RMSNorm of short rows": Peer(
        liger_rms_norm_of_short_rows, rms_norm, short_rows_and_weight, 40, 2**19
    ),
    "Liger, LayerNorm": Peer(liger_layer_norm, layer_norm, rows_and_two_weights),
    "Liger, SwiGLU": Peer(liger_swiglu, swiglu, two_rows),
    "Liger, SwiGLU backward": Peer(liger_swiglu_backward, swiglu_backward_in_place, three_rows),
    "Liger, GeGLU": Peer(liger_geglu, geglu, two_rows),
    "Liger, softmax": Peer(liger_softmax, softmax, only_rows),
    "Liger, RoPE": Peer(liger_rope, rope_in_place, queries_keys_and_table),
    "Liger, add and RMSNorm": Peer(liger_add_rms_norm, add_rms_norm, two_rows_and_weight),
    "Liger, DyT": Peer(liger_dyt, dyt, rows_and_two_weights),
    "Liger, KL divergence": Peer(liger_kl_div, kl_div, two_rows_in_fp32),
    "Liger, GroupNorm": Peer(liger_group_norm, group_norm, images, 1, 96),
    "Liger, cross entropy": Peer(liger_cross_entropy, cross_entropy, logits_and_labels, 2, 4096),
    "Liger, sparsemax": Peer(liger_sparsemax, sparsemax, rows_and_sorted),
    "Unsloth, LayerNorm": Peer(unsloth_layer_norm, layer_norm, rows_and_two_weights),
    "Unsloth, SwiGLU": Peer(unsloth_swiglu, swiglu, two_rows),
    "Unsloth, GeGLU": Peer(unsloth_geglu, geglu, two_rows),
    "Unsloth, exact GeGLU": Peer(unsloth_exact_geglu, exact_geglu, two_rows),
    "FlashAttention, rotary": Peer(flash_rotary, rotary, heads_and_table, 5),
    "FlashAttention, cross entropy": Peer(
        flash_cross_entropy, cross_entropy_in_fp32, logits_and_labels, 2, 4096
    ),
}

OURS = {
    "ours, rung 1": Peer(our_rung_1, rotated, headline, 1, 2048),
    "ours, rung 7": Peer(our_rung_7, rotated, headline, 1, 2048),
    "ours, RMSNorm": Peer(our_rms_norm, rms_norm, rows_and_weight),
    "ours, 32 turns of each pair": Peer(
        *(our_turns, rotated, matching_halves, 1, 2048),
        changed=functools.partial(our_turns, turns=64),
    ),
    "ours, a copy by 264 programs": Peer(
        *(our_persistent_copy, same, only_rows, 33),
        changed=functools.partial(our_persistent_copy, programs=132),
    ),
    "ours, rotate_half in blocks of 64": Peer(
        *(our_small_blocks, half_turn, only_rows),
        changed=functools.partial(our_small_blocks, block=128),
    ),
}


def after_changes(peer: Peer) -> dict[str, float | None]:
    """How many times as long it takes in fp32, and after the change of its limit: notebook 08.

    None for a change that can't be made, or without a GPU.
    """
    from rope_lab.timing import measure

    found = {"fp32": None, "changed": None}
    if not torch.cuda.is_available():
        return found
    inputs = peer.make(peer.large, "cuda")
    wide = [x.float() if isinstance(x, Tensor) and x.dtype == torch.bfloat16 else x for x in inputs]
    cases = {"fp32": (peer.function, wide), "changed": (peer.changed, inputs)}
    for name, (function, own) in cases.items():
        calls = {"as it is": _call(peer.function, inputs), "then": _call(function, own)}
        try:
            times = measure(calls) if function else None
        except Exception as error:  # a launcher may ask for a dtype
            print(f"  {name}: {type(error).__name__}: {error}")
            continue
        if times:
            found[name] = round(times["then"].median_us / times["as it is"].median_us, 2)
    return found


def _call(function: Callable, inputs: list) -> Callable[[], Tensor]:
    return lambda: first_of(function(*inputs), inputs)


def first_of(result: object, inputs: Sequence) -> Tensor:
    """The first result, or what was overwritten where there is none."""
    result = result[0] if isinstance(result, tuple) else result
    return inputs[0] if result is None else result


def inspected(peer: Peer, gpu: str):
    """What `lab.inspect` finds."""
    import rope_lab as lab

    return lab.inspect(
        *(peer.function, peer.reference, peer.make),
        small=peer.small,
        large=peer.large,
        gpu=gpu,
        tolerance=_BF16,
    )


def row_of(found) -> dict:
    """What a table says of it."""
    return {
        "right": found.ok,
        "refused": found.refused or found.wrong,
        "limits_us": [{k: round(us, 1) for k, us in times.items()} for times in found.times],
        "binds": found.binding,
        "leaves_out": [launch.unknown for launch in found.launches if launch.unknown],
        "predicted_us": found.predicted_us and round(found.predicted_us, 1),
        "measured_us": found.measured_us and round(found.measured_us, 1),
    }


def table_of(record: dict) -> str:
    """The record as docs/inspect.md has it."""
    lines = [
        "| kernel | longest limit | predicted, us | measured, us | off | fp32 takes | its change |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in record["kernels"].items():
        predicted, measured = row["predicted_us"], row["measured_us"]
        if predicted is None:
            lines.append(f"| {name} | refused: {row['refused']} | | | | | |")
            continue
        binds, least = row["binds"], "at least " * bool(row["leaves_out"])
        changed = f"{_CHANGE[binds]}: {row['changed']} times" if row["changed"] else ""
        cells = name, binds, f"{least}{predicted}", measured, f"{predicted / measured - 1:+.0%}"
        lines.append(f"| {' | '.join(map(str, cells))} | {row['fp32']} times | {changed} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="pieces of names; none: all")
    parser.add_argument("--gpu", default="sm_90")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(arguments)
    table = {}
    for name, peer in (PEERS | OURS).items():
        if not chosen.names or any(piece in name for piece in chosen.names):
            found = inspected(peer, chosen.gpu)
            print(f"{name}\n{found}\n", flush=True)
            table[name] = row_of(found) | after_changes(peer)
    if chosen.out:
        from rope_lab.records import circumstances

        chosen.out.write_text(json.dumps(circumstances() | {"kernels": table}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    from benchmarks.inspected import main as _main  # not `__main__`: the child imports it by name

    sys.exit(_main(sys.argv[1:]))
