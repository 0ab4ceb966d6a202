"""What a rank of many rotates, on one GPU: few heads, or its part of a long sequence.

    python -m benchmarks.shards [--rounds N]

Tensor parallelism over 8 ranks leaves 8 heads of q and 1 of k of 64 and 8, and 4 and 1 of 32 and 8.
Under context parallelism in zigzag order a rank holds 131072 / n tokens. Every time is beside that
of a copy of the same bytes. Writes results/shards/<gpu>.json, and a table in docs/kernels.md.
"""

import argparse
import gc
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from rope_kernels import RotaryPositionEmbedding, cp_positions, qk_norm_rope, rope_qk
from rope_lab.records import circumstances, origin
from rope_lab.timing import Timing, measure, require_compiled_kernels

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "shards"
PAGE = ROOT / "docs" / "kernels.md"
BEGIN = "<!-- shards: begin (python -m benchmarks.shards writes what follows) -->\n"
END = "<!-- shards: end -->"
FORMATS = "sbhd", "bshd", "bhsd", "thd"
ROTATE, TABLE, NORM = "rotation", "rotation, cos and sin", "norm and rotation"
# what -> in which directions, and how many copies of q and k move as many bytes
OF_FEW_HEADS = {
    (ROTATE, "forward"): 1.0,
    (ROTATE, "backward"): 1.0,
    (TABLE, "forward"): 1.0,
    (NORM, "forward"): 1.0,
    (NORM, "backward"): 1.5,
}
OF_A_PART = {(ROTATE, "forward"): 1.0, (ROTATE, "backward"): 1.0}
LARGEST_ERROR = 5e-3  # norm of the difference from fp64 over the norm: bf16, rounded once

Timer = Callable[[dict[str, Callable[[], object]]], dict[str, Timing]]


@dataclass(frozen=True)
class Share:
    """What one rank holds of q and k."""

    heads: int
    k_heads: int
    tokens: int
    tensor_format: str
    cp_size: int = 1
    sequences: int = 16  # with 'thd'
    head_dim: int = 128

    def shape(self, heads: int) -> list[int]:
        sizes = {"s": self.tokens, "t": self.tokens, "b": 1, "h": heads, "d": self.head_dim}
        return [sizes[letter] for letter in self.tensor_format]

    @property
    def fields(self) -> dict:
        """In a row of the record."""
        heads = {"heads": self.heads, "k_heads": self.k_heads, "head_dim": self.head_dim}
        return {
            "format": self.tensor_format,
            "tokens": self.tokens,
            "cp_size": self.cp_size,
        } | heads


FEW_HEADS = [Share(h, 1, 8192, x) for h in (8, 4) for x in FORMATS]
PARTS = [Share(8, 1, 131072 // n, x, cp_size=n) for x in FORMATS for n in (1, 2, 4, 8)]
CASES = [(share, OF_FEW_HEADS) for share in FEW_HEADS] + [(share, OF_A_PART) for share in PARTS]


@dataclass(frozen=True)
class Inputs:
    """Of every call on a share."""

    tensors: tuple[Tensor, ...]  # q and k
    grads: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]
    module: RotaryPositionEmbedding
    tensor_format: str
    options: dict

    def call(self, what: str, direction: str) -> Callable[[], tuple[Tensor, ...]]:
        """What is measured: the function, or the backward of one call of it."""
        leaves = self.tensors + (self.weights if what == NORM else ())
        if direction == "backward":
            leaves = tuple(x.clone().requires_grad_() for x in leaves)
        function = qk_norm_rope if what == NORM else rope_qk
        freqs = self.module
        if what == TABLE:
            freqs = self.module.cos_sin_per_pair(max(self.tensors[0].shape[:3]))
        forward = partial(function, *leaves, freqs, self.tensor_format, **self.options)
        if direction == "forward":
            return forward
        return partial(torch.autograd.grad, forward(), leaves, self.grads, retain_graph=True)

    @property
    def exact(self) -> "Inputs":
        """In fp64 and plain PyTorch, at positions that `cp_positions` says."""
        doubled = ([x.double() for x in row] for row in (self.tensors, self.grads, self.weights))
        tensors, grads, weights = map(tuple, doubled)
        given, options = self.options, {"fused": False}
        if given["cp_size"] > 1:
            ranks = {name: given[name] for name in ("cp_size", "cp_rank", "cp_order")}
            bounds, tokens = given["cu_seqlens"], max(tensors[0].shape[:3])
            whole = None if bounds is not None else tokens * given["cp_size"]
            device = tensors[0].device
            ids = cp_positions(whole, cu_seqlens=bounds, device=device, **ranks)
            options["position_ids"] = ids if self.tensor_format == "thd" else ids[None]
        else:
            options["cu_seqlens"] = given["cu_seqlens"]
        return replace(self, tensors=tensors, grads=grads, weights=weights, options=options)


def inputs_of(share: Share, device: str) -> Inputs:
    """Random bf16 tensors of rank 0."""
    generator = torch.Generator(device).manual_seed(20261122)

    def normal(*shape: int) -> Tensor:
        x = torch.randn(shape, generator=generator, device=device)
        return x.to(torch.bfloat16)

    shapes = [share.shape(heads) for heads in (share.heads, share.k_heads)]
    tensors, grads = (tuple(normal(*shape) for shape in shapes) for _ in range(2))
    bounds = None
    if share.tensor_format == "thd":
        whole = share.tokens * share.cp_size
        step = whole // share.sequences
        bounds = torch.arange(0, whole + 1, step, dtype=torch.int32, device=device)
    return Inputs(
        tensors,
        grads,
        weights=tuple(normal(share.head_dim) for _ in range(2)),
        module=RotaryPositionEmbedding(share.head_dim, rotary_base=500000.0).to(device),
        tensor_format=share.tensor_format,
        options={
            "cu_seqlens": bounds,
            "cp_size": share.cp_size,
            "cp_rank": 0,
            "cp_order": "zigzag",
        },
    )


def error_of(got: Sequence[Tensor], want: Sequence[Tensor]) -> float:
    """Norm of the difference over the norm of what is right, of the worst tensor."""
    pairs = list(zip(got, want, strict=True))
    shares = [(x.detach().double() - y).norm() / y.detach().norm() for x, y in pairs]
    return float(torch.stack(shares).max())  # torch's maximum keeps a NaN


def rows_of(share: Share, asked: dict, device: str, timer: Timer) -> list[dict]:
    """Every call on a share: right, and how long beside a copy.

    Raises:
        ValueError: a result is further from fp64 than one rounding.
    """
    inputs, calls, errors = inputs_of(share, device), {}, {}
    for what, direction in asked:
        call = inputs.call(what, direction)
        error = error_of(call(), inputs.exact.call(what, direction)())
        if not error <= LARGEST_ERROR:
            raise ValueError(f"{share}, {what}, {direction}: error {error:.2g} against fp64")
        calls[f"{what}, {direction}"], errors[what, direction] = call, float(f"{error:.3g}")
    source = torch.cat([t.flatten() for t in inputs.tensors])
    target = torch.empty_like(source)
    times = timer({"copy_": lambda: target.copy_(source), **calls})
    copy_us, rows = times["copy_"].median_us, []
    for (what, direction), copies in asked.items():
        time = times[f"{what}, {direction}"]
        facts = {"us": time.median_us, "spread": time.spread, "copy_us": copy_us}
        facts |= {"copies": copies, "of_copy": round(copies * copy_us / time.median_us, 4)}
        place = {"what": what, "direction": direction}
        rows.append(share.fields | place | facts | {"error": errors[what, direction]})
    return rows


def table(record: dict) -> str:
    """What docs/kernels.md shows of a record."""
    few = [row for row in record["rows"] if row["tokens"] == 8192 and row["cp_size"] == 1]
    parts = [row for row in record["rows"] if row not in few]
    names = {
        (ROTATE, "forward"): "forward",
        (ROTATE, "backward"): "backward",
        (TABLE, "forward"): "forward, cos and sin",
        (NORM, "forward"): "norm and rotation, forward",
        (NORM, "backward"): "norm and rotation, backward",
    }
    lines = _lines(few, lambda row: (_heads(row), row["format"]), ("heads", "format"), names)
    lines += ["", *_lines(parts, _part, ("ranks", "tokens of one", "format"), names)]
    few_said = "Microseconds, in brackets per cent of a copy of the same bytes"
    said = f"{few_said} (backward with a norm: of one and a half). bf16, head dimension 128"
    source = origin(record["gpu"], record["versions"], record["date"])
    return "\n".join([*lines, "", f"{said}, 8192 tokens above, heads 8 + 1 below. {source}", ""])


def _heads(row: dict) -> str:
    return f"{row['heads']} + {row['k_heads']}"


def _part(row: dict) -> tuple:
    return row["cp_size"], f"{row['tokens']:,}", row["format"]


def _lines(rows: Iterable[dict], place: Callable, titles: Sequence[str], names: dict) -> list[str]:
    """A table with a line for each place and a column for each kind of call."""
    by_place: dict[tuple, dict] = {}
    for row in rows:
        cells = by_place.setdefault(place(row), {})
        cells[row["what"], row["direction"]] = f"{row['us']:.1f} ({100 * row['of_copy']:.0f})"
    shown = [key for key in names if any(key in cells for cells in by_place.values())]
    lines = [f"| {' | '.join([*titles, *(names[key] for key in shown)])} |"]
    lines.append("|" + "---|" * len(titles) + "---:|" * len(shown))
    for where, cells in by_place.items():
        lines.append(f"| {' | '.join([*map(str, where), *(cells[key] for key in shown)])} |")
    return lines


def between_marks(text: str) -> str:
    """Where the page has the table, or nothing as long as there is no record."""
    return text.split(BEGIN)[1].split(END)[0]


def with_table(text: str, record: dict) -> str:
    """The page, with the table of a record."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + table(record) + END + rest.split(END)[1]


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.shards", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    try:
        require_compiled_kernels()
    except RuntimeError as why:
        print(f"Nothing is measured: {why}", file=sys.stderr)
        return 1
    rows = []
    for share, asked in CASES:
        rows += rows_of(share, asked, "cuda", partial(measure, rounds=rounds))
        print(json.dumps(rows[-len(asked) :]), flush=True)
        gc.collect()
        torch.cuda.empty_cache()
    record = circumstances() | {"rounds": rounds, "rows": rows}
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{record['gpu'].lower().replace(' ', '-')}.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), record), encoding="utf-8")
    print(table(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
