"""Normalize and rotate q and k: everybody's time, forward and backward, on one GPU.

    python -m benchmarks.norm --out FILE        # about two minutes
    python -m benchmarks.norm --report FILE     # writes the page beside it

The unit is `copy_` of q and k: what a forward moves. A backward moves one and a half. Every result
is compared with fp64 before it is timed, gradients of the weights too.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch._functorch import config as functorch_config

from benchmarks.instruments import GPU
from benchmarks.peers.sources import PEERS
from rope_kernels import RotaryPositionEmbedding, qk_norm_rope, rope_qk
from rope_lab.records import circumstances, origin

TOKENS, HEADS, HEAD_DIM, EPS = 8192, (32, 8), 128, 1e-6
FORMATS = "sbhd", "bhsd", "thd"
LARGEST_ERROR = 2e-2  # norm of the difference over the norm: bf16, rounded several times
UNITS = {"forward": 1.0, "backward": 1.5}
BARS = {  # per cent of the units above; None: no format's own
    ("sbhd", "forward"): 93,
    ("sbhd", "backward"): 80,
    ("bhsd", "forward"): 90,
    ("bhsd", "backward"): 77,
    ("thd", "forward"): 90,
    ("thd", "backward"): 77,
}


@dataclass(frozen=True)
class Inputs:
    """What everybody gets: q and k in a format, their gradients, weights, and positions 0 to s."""

    tensor_format: str
    tensors: tuple[Tensor, Tensor]
    grads: tuple[Tensor, Tensor]
    weights: tuple[Tensor, Tensor]
    rope: RotaryPositionEmbedding
    cu_seqlens: Tensor | None

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        return *self.tensors, *self.weights


def inputs_in(tensor_format: str) -> Inputs:
    def make(heads: int) -> Tensor:
        shape = {
            "sbhd": (TOKENS, 1, heads, HEAD_DIM),
            "bhsd": (1, heads, TOKENS, HEAD_DIM),
            "thd": (TOKENS, heads, HEAD_DIM),
        }[tensor_format]
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    torch.manual_seed(0)
    tensors = tuple(make(heads).requires_grad_() for heads in HEADS)
    weights = tuple(
        (torch.rand(HEAD_DIM, device="cuda") + 0.5).bfloat16().requires_grad_() for _ in HEADS
    )
    starts = [TOKENS * i // 50 for i in range(51)]
    cu_seqlens = torch.tensor(starts, dtype=torch.int32, device="cuda")
    return Inputs(
        tensor_format,
        tensors,
        tuple(make(heads) for heads in HEADS),
        weights,
        RotaryPositionEmbedding(HEAD_DIM).cuda(),
        cu_seqlens if tensor_format == "thd" else None,
    )


def ours(given: Inputs, table: bool) -> Callable[[], tuple[Tensor, ...]]:
    """`qk_norm_rope`, on the fly or with fp32 cosines and sines of each pair."""
    options = {} if given.cu_seqlens is None else {"cu_seqlens": given.cu_seqlens}
    freqs = given.rope
    if table:
        freqs, options["rotary_dim"] = given.rope.cos_sin_per_pair(TOKENS), HEAD_DIM
    arguments = *given.tensors, *given.weights, freqs, given.tensor_format
    return partial(qk_norm_rope, *arguments, eps=EPS, **options)


def two_kernels(given: Inputs) -> Callable[[], tuple[Tensor, ...]]:
    """PyTorch's `rms_norm` of q and of k, then `rope_qk`: three launches."""
    options = {} if given.cu_seqlens is None else {"cu_seqlens": given.cu_seqlens}
    norm = torch.nn.functional.rms_norm

    def call() -> tuple[Tensor, ...]:
        pairs = zip(given.tensors, given.weights, strict=True)
        q, k = (norm(t, (HEAD_DIM,), weight, EPS) for t, weight in pairs)
        return rope_qk(q, k, given.rope, given.tensor_format, **options)

    return call


def liger(given: Inputs) -> Callable[[], tuple[Tensor, ...]]:
    """Liger-Kernel's RMSNorm of q and of k, then its rotation, by its autograd functions."""
    source = str(PEERS / "Liger-Kernel" / "src")
    if source not in sys.path:
        sys.path.insert(0, source)

    cos, sin = _cos_and_sin(given.rope)
    cos, sin = cos[None].bfloat16(), sin[None].bfloat16()

    def call() -> tuple[Tensor, ...]:
        # here, so that missing sources leave out one provider and don't end the run
        from liger_kernel.ops.rms_norm import LigerRMSNormFunction
        from liger_kernel.ops.rope import LigerRopeFunction

        pairs = zip(given.tensors, given.weights, strict=True)
        arguments = EPS, 0.0, "llama", False
        rows = [LigerRMSNormFunction.apply(t, w, *arguments) for t, w in pairs]
        q, k = (row.transpose(0, 1).transpose(1, 2) for row in rows)  # sbhd memory as (b, h, s, d)
        q, k = LigerRopeFunction.apply(q, k, cos, sin)
        return q.permute(2, 0, 1, 3), k.permute(2, 0, 1, 3)

    return call


def in_pytorch(given: Inputs, like_model: bool) -> Callable[[], tuple[Tensor, ...]]:
    """The norm and the rotation as models write them: fp32 throughout, or rounded as Qwen 3 is."""
    cos, sin = _cos_and_sin(given.rope)
    dtype = torch.bfloat16 if like_model else torch.float32
    cos, sin = (x[:, None, None].to(dtype) for x in (cos, sin))

    def one(x: Tensor, weight: Tensor) -> Tensor:
        exact = x.float()
        normal = exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + EPS)
        row = weight * normal.to(x.dtype) if like_model else weight.float() * normal
        first, second = row.chunk(2, -1)
        return (row * cos + torch.cat((-second, first), -1) * sin).to(x.dtype)

    def both(q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor) -> tuple[Tensor, ...]:
        return one(q, q_weight), one(k, k_weight)

    return both


def providers(given: Inputs) -> Iterator[tuple[str, Callable[[], tuple[Tensor, ...]]]]:
    """Everybody, by name: a function of no arguments. Peers get the format that they like best."""
    yield "qk_norm_rope, on the fly", ours(given, table=False)
    yield "qk_norm_rope, cos and sin", ours(given, table=True)
    yield "rms_norm of PyTorch, then rope_qk", two_kernels(given)
    if given.tensor_format != "sbhd":
        return
    for rounding, like_model in (("fp32", False), ("Qwen 3's rounding", True)):
        function = in_pytorch(given, like_model)
        yield f"eager, {rounding}", partial(function, *given.leaves)
        compiled = torch.compile(function, dynamic=False)
        yield f"torch.compile, {rounding}", partial(compiled, *given.leaves)
    mode = "max-autotune-no-cudagraphs"
    tuned = torch.compile(in_pytorch(given, False), mode=mode, dynamic=False)
    yield "torch.compile, fp32, max-autotune", partial(tuned, *given.leaves)
    yield "Liger-Kernel, RMSNorm then rope", liger(given)


def measure_format(tensor_format: str, instruments: GPU) -> tuple[list[dict], list[dict]]:
    """Rows of one format, and who is left out and why."""
    functorch_config.donated_buffer = False  # a compiled backward runs again, and keeps its buffers
    given, rows, left_out = inputs_in(tensor_format), [], []
    wanted = _wanted(given)
    sources = torch.cat([t.detach().flatten() for t in given.tensors])
    target = torch.empty_like(sources)
    cases = {"forward": {}, "backward": {}}
    errors = {}
    for direction in cases:
        cases[direction]["copy_"] = partial(target.copy_, sources)
    for name, call in providers(given):
        try:
            outs = call()
            backward = partial(
                torch.autograd.grad, outs, given.leaves, given.grads, retain_graph=True
            )
            errors[name] = _errors((*outs, *backward()), wanted)
        except Exception as failure:  # anything may fail in a peer, and the others go on
            left_out.append({"format": tensor_format, "provider": name, "why": repr(failure)[:400]})
            continue
        cases["forward"][name], cases["backward"][name] = call, backward
    for direction, calls in cases.items():
        times = instruments.device_time(calls)
        unit = times["copy_"].median_us * UNITS[direction]
        for name, timing in times.items():
            about = {"format": tensor_format, "direction": direction, "provider": name}
            share = {"per_cent": round(100 * unit / timing.median_us, 1)}
            error = {"error": errors[name][direction]} if name in errors else {}
            rows.append(about | asdict(timing) | share | error)
    return rows, left_out


def report(results: dict) -> str:
    """The page of a record, with the record's `note`, if it has one."""
    lines = [
        "# Normalize and rotate q and k",
        "",
        f"{origin(results['gpu'], results['versions'], results['date'])} "
        f"{TOKENS} tokens, {HEADS[0]} + {HEADS[1]} heads, d = {HEAD_DIM}, bf16, one weight (d,) "
        "each. Per cent: of `copy_` of q and k forward, of one and a half copies backward, with "
        "the gradients of both weights. Written by `python -m benchmarks.norm`, which says what "
        "each provider is.",
        "",
        "| format | | forward | | backward | | largest error |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    by_name: dict[tuple[str, str], dict[str, dict]] = {}
    for row in results["rows"]:
        by_name.setdefault((row["format"], row["provider"]), {})[row["direction"]] = row
    for (tensor_format, name), found in by_name.items():
        cells = []
        for direction in UNITS:
            row = found[direction]
            cells += [f"{row['median_us']:.1f} µs", f"{row['per_cent']:.0f}%"]
        errors = [row["error"] for row in found.values() if "error" in row]
        cells.append(f"{max(errors):.1e}" if errors else "–")
        lines.append(f"| {tensor_format} | {name} | {' | '.join(cells)} |")
    if "note" in results:
        lines += ["", results["note"]]
    lines += ["", *_verdicts(results["rows"])]
    lines += [
        f"- Left out: {x['provider']} ({x['format']}): {x['why']}" for x in results["left_out"]
    ]
    return "\n".join(lines) + "\n"


def _verdicts(rows: list[dict]) -> Iterator[str]:
    found = {(r["format"], r["direction"], r["provider"]): r["per_cent"] for r in rows}
    for (tensor_format, direction), bar in BARS.items():
        for name in ("qk_norm_rope, on the fly", "qk_norm_rope, cos and sin"):
            share = found.get((tensor_format, direction, name))
            if share is not None:
                verdict = "met" if share >= bar else f"**missed by {bar - share:.1f} points**"
                about = f"{name}, {tensor_format}, {direction}"
                yield f"- {about}: {share} %, at least {bar}: {verdict}"


def _cos_and_sin(rope: RotaryPositionEmbedding) -> tuple[Tensor, Tensor]:
    """(s, d), each pair's twice."""
    cos, sin = rope.cos_sin_per_pair(TOKENS)
    return torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)


def _wanted(given: Inputs) -> tuple[Tensor, ...]:
    """Results and gradients in fp64, by the definition."""
    leaves = [x.detach().double().requires_grad_() for x in given.leaves]
    options = {} if given.cu_seqlens is None else {"cu_seqlens": given.cu_seqlens}
    arguments = *leaves, given.rope, given.tensor_format
    outs = qk_norm_rope(*arguments, eps=EPS, fused=False, **options)
    grads = [x.double() for x in given.grads]
    return *outs, *torch.autograd.grad(outs, leaves, grads)


def _errors(found: tuple[Tensor, ...], wanted: tuple[Tensor, ...]) -> dict[str, float]:
    """The largest error of results, and of gradients; raises where one is too large."""
    norms = []
    for x, y in zip(found, wanted, strict=True):
        norms.append(((x.reshape(y.shape).double() - y).norm() / y.norm()).item())
    errors = {"forward": max(norms[:2]), "backward": max(norms[2:])}
    if not max(norms) < LARGEST_ERROR:
        raise ValueError(f"wrong: errors are {errors}")
    return errors


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.norm", description=__doc__)
    parser.add_argument("--out", type=Path, help="file to write, .json")
    parser.add_argument("--report", type=Path, help="record to make a page of")
    options = parser.parse_args()
    if options.report:
        results = json.loads(options.report.read_text())
        options.report.with_suffix(".md").write_text(report(results))
        return 0
    results = circumstances() | {"rows": [], "left_out": []}
    for tensor_format in FORMATS:
        rows, left_out = measure_format(tensor_format, GPU())
        results["rows"] += rows
        results["left_out"] += left_out
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(results, indent=1) + "\n")
    print(report(results))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
