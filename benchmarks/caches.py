"""`rope_to_cache` beside a rotation and a write, and beside others' kernels: time on a GPU.

    python -m benchmarks sources cache/vLLM=/path/of/the/release flashinfer=/path/of/the/release
    python -m benchmarks.caches --out benchmarks/results/nvidia-h200-caches.json

Decoding is timed in CUDA graphs of 20 calls, in turns, with all of it in L2; the prompt of 8192
tokens cold. 32 heads of 128 elements and 8 of keys, bf16, pages of 16 positions, angles on the fly;
others read a table.
"""

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from benchmarks import tables
from rope_kernels import RotaryPositionEmbedding, rope_qk, rope_to_cache
from rope_lab.timing import in_a_graph, measure

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
        self.one = torch.ones(1, device="cuda")
        self.table = torch.cat([x[:, : D // 2] for x in self.cos_sin()], dim=1).contiguous()

    def cos_sin(self) -> tuple[Tensor, Tensor]:
        angles = self.rope(POSITIONS)[:, 0, 0]
        return angles.cos(), angles.sin()


def ours(x: Inputs, **options) -> Callable[[], object]:
    given = x.q, x.k, x.v, x.rope, *x.caches, x.slots
    return partial(rope_to_cache, *given, position_ids=x.ids, **options)


def rotation(x: Inputs) -> Callable[[], object]:
    return partial(rope_qk, x.q, x.k, x.rope, "thd", position_ids=x.ids, inplace=True)


def then_vllm(x: Inputs) -> Callable[[], None]:
    from benchmarks.peers.cache import reshape_and_cache_flash

    rotate = rotation(x)

    def call() -> None:
        rotate()
        reshape_and_cache_flash(x.k, x.v, *x.caches, x.slots, x.one, x.one)

    return call


def then_index(x: Inputs) -> Callable[[], None]:
    rotate, (k_cache, v_cache) = rotation(x), (c.view(-1, KV_HEADS, D) for c in x.caches)

    def call() -> None:
        rotate()
        k_cache[x.slots], v_cache[x.slots] = x.k, x.v

    return call


def flashinfer(x: Inputs) -> Callable[[], object]:
    from benchmarks.peers.cache import pages_of_slots, rotate_and_append

    where = pages_of_slots(x.slots, len(x.caches[0]))
    return partial(rotate_and_append, x.q, x.k, x.v, x.table, x.ids.int(), *x.caches, *where)


def copy_of(rows: int) -> Callable[[], object]:
    """A copy that moves so many head rows of bf16 for each token of the prompt."""
    x = torch.empty(PROMPT * rows // 2, D, device="cuda", dtype=torch.bfloat16)
    return partial(torch.empty_like(x).copy_, x)


CALLS = {
    "rope_qk in place, alone": rotation,
    "rope_to_cache in place": partial(ours, inplace=True),
    "rope_to_cache": ours,
    "rope_qk, then vLLM's write": then_vllm,
    "rope_qk, then an indexed write": then_index,
    "flashinfer's kernel, a type it doesn't ship": flashinfer,
}
COPIES = {"copy of 96 head rows": 96}


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


def recorded() -> dict[str, dict[str, float]]:
    """Call -> tokens -> microseconds."""
    found: dict[str, dict[str, float]] = {name: {} for name in (*CALLS, *COPIES)}
    for tokens in TOKENS:
        for name, microseconds in in_graphs(cases_of(tokens)).items():
            found[name][str(tokens)] = microseconds
    cases = {name: copy_of(rows) for name, rows in COPIES.items()} | cases_of(PROMPT)
    for name, timing in measure(cases).items():
        found[name][str(PROMPT)] = round(timing.median_us, 1)
    return found


def table_of(record: dict) -> str:
    """The record as docs/decoding.md has it."""
    columns = [*map(str, TOKENS), str(PROMPT)]
    lines = [f"| microseconds | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for name, row in record["calls"].items():
        lines.append(f"| {name} | {' | '.join(str(row.get(c, '')) for c in columns)} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    return tables.run(arguments, __doc__, lambda: {"calls": recorded()}, table_of)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
