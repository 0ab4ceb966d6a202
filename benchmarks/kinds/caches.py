"""`rope_to_cache` beside a rotation and a write: the table of docs/decoding.md.

Decoding is timed in CUDA graphs of 20 calls, in turns, with all of it in L2; the prompt of 8192
tokens cold. 32 heads of 128 elements and 8 of keys, bf16, pages of 16 positions, angles on the fly.
"""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from benchmarks.gpu import GPU
from benchmarks.kind import Kind
from benchmarks.results import ROOT, Table, head, line
from rope_kernels import RotaryPositionEmbedding, rope_qk, rope_to_cache
from rope_lab.records import origin
from rope_lab.timing import in_a_graph

HEADS, KV_HEADS, D, PAGE, POSITIONS = 32, 8, 128, 16, 4096
TOKENS = 1, 8, 32, 128, 256  # of a step of decoding
PROMPT = 8192
IN_A_GRAPH, REPLAYS = 20, 200


@dataclass
class Inputs:
    """What all calls get."""

    tokens: int

    def __post_init__(self) -> None:
        def rows(heads: int) -> Tensor:
            return torch.randn(self.tokens, heads, D, device="cuda", dtype=torch.bfloat16)

        torch.manual_seed(0)
        self.q, self.k, self.v = rows(HEADS), rows(KV_HEADS), rows(KV_HEADS)
        blocks = max(64, 2 * self.tokens // PAGE)
        caches = torch.zeros(2, blocks, PAGE, KV_HEADS, D, device="cuda", dtype=torch.bfloat16)
        self.caches = caches.unbind()
        self.slots = torch.randperm(blocks * PAGE, device="cuda")[: self.tokens]
        self.ids = torch.randint(0, POSITIONS, (self.tokens,), device="cuda")
        if self.tokens == PROMPT:
            self.slots = torch.arange(self.tokens, device="cuda") + PAGE
            self.ids = self.slots % POSITIONS
        self.rope = RotaryPositionEmbedding(D).cuda()


def ours(x: Inputs, **options) -> Callable[[], object]:
    given = x.q, x.k, x.v, x.rope, *x.caches, x.slots
    return partial(rope_to_cache, *given, position_ids=x.ids, **options)


def rotation(x: Inputs) -> Callable[[], object]:
    return partial(rope_qk, x.q, x.k, x.rope, "thd", position_ids=x.ids, inplace=True)


def then_index(x: Inputs) -> Callable[[], None]:
    rotate, (k_cache, v_cache) = rotation(x), (c.view(-1, KV_HEADS, D) for c in x.caches)

    def call() -> None:
        rotate()
        k_cache[x.slots], v_cache[x.slots] = x.k, x.v

    return call


def copy(x: Inputs) -> Callable[[], object]:
    """Of as many bytes as a call has to move: it reads 48 head rows of a token and writes 48."""
    rows = torch.cat((x.q, x.k, x.v), dim=1)
    return partial(torch.empty_like(rows).copy_, rows)


CALLS = {
    "rope_qk in place, alone": rotation,
    "rope_to_cache in place": partial(ours, inplace=True),
    "rope_to_cache": ours,
    "rope_qk, then an indexed write": then_index,
}
COPY = "copy of 96 head rows"


def in_graphs(cases: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Microseconds of one of many calls in a CUDA graph, for each case; they take turns."""
    graphs = {name: in_a_graph(call, IN_A_GRAPH) for name, call in cases.items()}
    times = {name: [] for name in cases}
    for _ in range(REPLAYS):
        for name, replay in graphs.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            replay()
            end.record()
            torch.cuda.synchronize()
            times[name].append(1e3 * start.elapsed_time(end) / IN_A_GRAPH)
    return {name: round(statistics.median(found), 2) for name, found in times.items()}


def cases_of(tokens: int) -> dict[str, Callable[[], object]]:
    x = Inputs(tokens)
    return {name: make(x) for name, make in CALLS.items()}


def measured(gpu: GPU, found: dict) -> Iterator[str]:
    """Call -> tokens -> microseconds."""
    calls = found["calls"] = {name: {} for name in (*CALLS, COPY)}
    for tokens in TOKENS:
        for name, microseconds in in_graphs(cases_of(tokens)).items():
            calls[name][str(tokens)] = microseconds
        yield f"{tokens} tokens"
    for name, timing in gpu.device_time(cases_of(PROMPT) | {COPY: copy(Inputs(PROMPT))}).items():
        calls[name][str(PROMPT)] = round(timing.median_us, 1)
    yield f"{PROMPT} tokens"


def tables(record: dict) -> list[Table]:
    """Microseconds; those of the copy for a prompt alone."""
    columns = [*map(str, TOKENS), str(PROMPT)]
    lines = head(["microseconds", *columns], 1)
    for name, row in record["calls"].items():
        lines.append(line([name, *(str(row.get(column, "")) for column in columns)]))
    source = origin(record["gpu"], record["versions"], record["date"])
    return [Table(ROOT / "docs" / "decoding.md", "caches", "\n".join([*lines, "", source]))]


CACHES = Kind(
    file="{gpu}-caches",
    sets={"caches": ()},
    record=("caches",),
    mark="calls",
    more=measured,
    tables=tables,
)
