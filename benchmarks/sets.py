"""The one list of shapes: what is measured, by which providers.

Backward is `rope_bw` alone; for q and k in one launch, and in place with them, it is the backward
of `rope_qk` that autograd runs, as there is no `rope_bw` for two tensors.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.case import BOTH_WAYS, DIRECTIONS, Case, Group
from benchmarks.gpu import GPU
from benchmarks.own_limit import ROWS, Row
from benchmarks.provider import Provider
from benchmarks.providers import NORMS, PROVIDERS, ROW_PROVIDERS

HEADLINE = (2048, 16, 8, 256)  # where a submission compared itself with TransformerEngine
# The wall-time test of a submission (notebook 00).
TINY = ((64, 1, 16, 64), (128, 1, 16, 128), (32, 1, 8, 256))
LLAMA = (4096, 2, 32, 128)
LARGE = (8192, 1, 64, 128)
SMALL = (2048, 8, 32, 64)
LONG = (131072, 1, 8, 128)


def _q_and_k(tensor_format: str, **options) -> Case:
    return Case(*LLAMA, k_heads=8, tensor_format=tensor_format, **options)


def _packed(sequences: int, **options) -> Case:
    return Case(65536, 1, 32, 128, tensor_format="thd", sequences=sequences, **options)


# Every kind of call: beside others, ours alone, and the host's time.
CALLS = (
    Group(
        (
            Case(*HEADLINE),
            Case(*HEADLINE, dtype="float32"),
            Case(*LLAMA),
            Case(*LONG, freqs="module"),
            _q_and_k("bhsd"),
            _q_and_k("bhsd", stored="bshd"),  # as projections leave them: transposed views
            Case(*LLAMA, rotary_dim=64),
            _packed(50, k_heads=8),
        ),
        BOTH_WAYS,
    ),
    Group(
        (
            Case(*HEADLINE, dtype="float16"),
            Case(*LLAMA, tensor_format="bshd"),
            Case(*LLAMA, tensor_format="bhsd"),
            *(Case(*LARGE, tensor_format=dense) for dense in ("sbhd", "bshd", "bhsd")),
            *(Case(*SMALL, tensor_format=dense) for dense in ("sbhd", "bshd", "bhsd")),
            Case(1048576, 1, 2, 128, dtype="float32", freqs="module"),
            _q_and_k("bshd"),
            _q_and_k("bshd", inplace=True),
            _q_and_k("bhsd", inplace=True),
            Case(*LLAMA, rotary_dim=64, inplace=True),  # the copy is one of the whole
            *map(_packed, (1, 50, 500, 2401, 8192)),
            Case(*LLAMA, stored="bshd"),
            Case(*LLAMA, interleaved=True),
            Case(*LLAMA, tensor_format="bshd", positions="ids"),
            Case(*LLAMA, tensor_format="bshd", positions="starts"),
        ),
        DIRECTIONS,
        alone=True,
    ),
    Group(
        (
            *(Case(*sizes, clock="host") for sizes in TINY),
            *(Case(*sizes, k_heads=4, clock="host") for sizes in TINY),
        ),
        ("forward", "forward, grad", "both"),
    ),
)

# Everybody from their sources.
PEERS = (
    Group(
        (
            Case(*LLAMA),
            Case(*HEADLINE),
            Case(*HEADLINE, dtype="float32"),
            Case(*LARGE),
            Case(*LONG),
            _packed(50),
        ),
        BOTH_WAYS,
    ),
)


def _norm(tensor_format: str, **options) -> Case:
    cuts = tuple(8192 * i // 50 for i in range(51)) if tensor_format == "thd" else ()
    options |= {"tensor_format": tensor_format, "freqs": "module", "cu_seqlens": cuts}
    return Case(8192, 1, 32, 128, k_heads=8, **options)


# Normalize and rotate q and k.
NORM = (
    Group(
        (
            _norm("sbhd"),
            _norm("bhsd"),
            _norm("bhsd", stored="bshd"),  # as projections leave them: transposed views
            _norm("thd"),
        ),
        BOTH_WAYS,
    ),
)


def _models(gpu: GPU) -> Iterator[dict]:
    from benchmarks import models  # transformers, which takes seconds

    return models.steps(gpu)


@dataclass(frozen=True)
class Benchmark:
    """What is measured under one name: cases by providers, or rows that a function makes."""

    name: str
    groups: tuple[Group, ...] = ()
    providers: tuple[Provider, ...] = ()
    rows: Callable[[GPU], Iterator[dict]] = lambda gpu: iter(())
    file: str = "{gpu}-{name}"


def _limits(name: str, wanted: Callable[[Row], bool]) -> Benchmark:
    """Rows that have a limit of their own, by those who have such a call."""
    rows = tuple(row for row in ROWS if wanted(row))
    groups = []
    for direction in BOTH_WAYS:
        of_direction = tuple(row for row in rows if row.backward == (direction == "backward"))
        if of_direction:
            groups.append(Group(of_direction, (direction,)))
    providers = tuple(p for p in ROW_PROVIDERS.values() if any(map(p.suits, rows)))
    return Benchmark(name, tuple(groups), providers)


BENCHMARKS = (
    Benchmark("calls", CALLS, tuple(PROVIDERS.values())),
    Benchmark("peers", PEERS, tuple(PROVIDERS.values()), file="{name}-{gpu}"),
    Benchmark("norm", NORM, tuple(NORMS.values())),
    _limits("cache-limits", lambda row: row.to_cache),
    _limits("norm-limits", lambda row: row.is_norm),
    _limits("rotation-limits", lambda row: row.function == "rope_qk"),
    Benchmark("models", rows=_models),
)
