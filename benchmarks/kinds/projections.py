"""`split_qkv_rope` beside a split, a rotation and copies: the table of docs/projections.md.

8192 tokens, 32 heads of 128 elements and 8 each of k and v, bf16, angles on the fly; L2 cold. In
dense formats 2 sequences, packed 16. Beside ours: three launches, which are a split into views,
`rope_qk` on them, and copies to attention's layout of what is not in it; and the model's own
operators within torch.compile. Their backwards concatenate three gradients. Last comes the host's
time for a call of few tokens.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from benchmarks.gpu import GPU
from benchmarks.kind import Kind
from benchmarks.results import ROOT, Table, head, line
from rope_kernels import RotaryPositionEmbedding, rope_qk, split_qkv_rope
from rope_lab.records import origin
from rope_lab.timing import Timing

TOKENS, BATCH, SEQUENCES = 8192, 2, 16
FEW = 32  # tokens, whose kernels take less time than their calls
HEADS, KV_HEADS, D = 32, 8, 128
PACKED = HEADS + 2 * KV_HEADS
DIRECTIONS = "forward", "backward"
MOVED = 2 * PACKED  # head rows a token that have to move: read once and written once


@dataclass(frozen=True)
class Layout:
    """Formats of the projection and of what attention takes."""

    tensor_format: str
    output_format: str

    def __str__(self) -> str:
        if self.tensor_format == self.output_format:
            return self.tensor_format
        return f"{self.tensor_format} to {self.output_format}"


LAYOUTS = (
    Layout("sbhd", "sbhd"),
    Layout("thd", "thd"),
    Layout("sbhd", "bhsd"),
    Layout("bshd", "bhsd"),
)


class Inputs:
    """What all calls of a layout get."""

    def __init__(self, layout: Layout, tokens: int = TOKENS) -> None:
        torch.manual_seed(0)
        seq_len = tokens // BATCH
        shape = {"sbhd": (seq_len, BATCH), "bshd": (BATCH, seq_len), "thd": (tokens,)}
        shape = *shape[layout.tensor_format], PACKED * D
        self.layout, self.where = layout, {}
        self.qkv = torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        if layout.tensor_format == "thd":
            cuts = torch.randperm(tokens - 1, device="cuda")[: SEQUENCES - 1].sort()[0] + 1
            ends = cuts.new_tensor([0]), cuts, cuts.new_tensor([tokens])
            self.where["cu_seqlens"] = torch.cat(ends).int()
        self.rope = RotaryPositionEmbedding(D).cuda()
        # a model has these once for all layers
        self.cos_sin = None
        if "b" in layout.tensor_format:
            angles = self.rope(seq_len)[:, 0, 0]
            self.cos_sin = angles.cos().bfloat16(), angles.sin().bfloat16()


def ours(x: Inputs, packing: str = "qkv") -> tuple[Tensor, ...]:
    layout = x.layout
    return split_qkv_rope(
        *(x.qkv, x.rope, HEADS, KV_HEADS),
        packing=packing,
        tensor_format=layout.tensor_format,
        output_format=layout.output_format,
        **x.where,
    )


def in_steps(x: Inputs) -> tuple[Tensor, ...]:
    q, k, v = x.qkv.unflatten(-1, (PACKED, D)).split((HEADS, KV_HEADS, KV_HEADS), dim=-2)
    q, k = rope_qk(q, k, x.rope, x.layout.tensor_format, **x.where)
    return tuple([to_layout(t, x.layout).contiguous() for t in (q, k, v)])


def to_layout(t: Tensor, layout: Layout) -> Tensor:
    if layout.tensor_format == layout.output_format:
        return t
    return t.permute([layout.tensor_format.index(dim) for dim in layout.output_format])


@torch.compile
def compiled(qkv: Tensor, cos: Tensor, sin: Tensor, layout: Layout):
    q, k, v = qkv.unflatten(-1, (PACKED, D)).split((HEADS, KV_HEADS, KV_HEADS), dim=-2)
    q, k = (t * cos + rotated_half(t) * sin for t in (q, k))
    return tuple([to_layout(t, layout).contiguous() for t in (q, k, v)])


def rotated_half(t: Tensor) -> Tensor:
    first, second = t.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def by_compiler(x: Inputs) -> tuple[Tensor, ...] | None:
    if x.cos_sin is None:
        return None  # a model has no cosines of packed sequences to begin with
    sizes = [len(x.cos_sin[0]) if dim == "s" else 1 for dim in x.layout.tensor_format[:-1]]
    cos, sin = (t.view(*sizes, D) for t in x.cos_sin)
    return compiled(x.qkv, cos, sin, x.layout)


CALLS = {
    "split_qkv_rope": ours,
    "split_qkv_rope, grouped": partial(ours, packing="grouped"),
    "split, rope, copies": in_steps,
    "torch.compile": by_compiler,
}


def timed(call: Callable, x: Inputs, direction: str) -> Callable[[], object] | None:
    """The call, or its backward alone; None where there is no such call."""
    outs = call(x)
    if outs is None:
        return None
    if direction == "forward":
        x.qkv.requires_grad_(False)
        return partial(call, x)
    grads = [torch.randn_like(out) for out in outs]
    return partial(torch.autograd.grad, outs, x.qkv, grads, retain_graph=True)


def copy_of(rows: int) -> Callable[[], object]:
    """A copy that moves so many head rows of bf16 a token."""
    x = torch.empty(TOKENS * rows // 2, D, device="cuda", dtype=torch.bfloat16)
    return partial(torch.empty_like(x).copy_, x)


def measured(gpu: GPU, found: dict) -> Iterator[str]:
    """A row for each layout and direction, and one of the host's time where the layout stays."""
    for layout in LAYOUTS:
        for direction in DIRECTIONS:
            torch._dynamo.reset()
            cases = {"copy": copy_of(MOVED)} | cases_of(layout, TOKENS, direction)
            found["rows"].append(row_of(layout, direction, gpu.device_time(cases)))
            yield str(found["rows"][-1])
    torch._dynamo.reset()
    few = cases_of(LAYOUTS[0], FEW, "forward")
    row = row_of(f"{LAYOUTS[0]}, {FEW} tokens", "host, forward", gpu.host_time(few))
    found["host"] = [row]
    yield str(row)


def cases_of(layout: Layout, tokens: int, direction: str) -> dict[str, Callable[[], object]]:
    made = {name: timed(call, Inputs(layout, tokens), direction) for name, call in CALLS.items()}
    return {name: case for name, case in made.items() if case is not None}


def row_of(layout: Layout | str, direction: str, timings: dict[str, Timing]) -> dict:
    times = {name: round(timing.median_us, 1) for name, timing in timings.items()}
    return {"layout": str(layout), "direction": direction, "microseconds": times}


def tables(record: dict) -> list[Table]:
    """Microseconds, and of ours per cent of the copy."""
    names = ["copy", *CALLS]
    lines = head(["layout", *names], 1)
    for row in record["rows"] + record["host"]:
        times = row["microseconds"]
        cells = [f"{times[name]:.1f}" if name in times else "" for name in names]
        if "copy" in times:
            cells[1] += f" ({times['copy'] / times[names[1]]:.0%})".replace("%", " %")
        lines.append(line([f"{row['layout']}, {row['direction']}", *cells]))
    source = origin(record["gpu"], record["versions"], record["date"])
    return [Table(ROOT / "docs" / "projections.md", "projections", "\n".join([*lines, "", source]))]


PROJECTIONS = Kind(
    file="{gpu}-projections",
    sets={"projections": ()},
    record=("projections",),
    mark="microseconds",
    more=measured,
    tables=tables,
)
