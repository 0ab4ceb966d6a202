"""Each provider makes its calls of tensors that have no values: nothing is compiled or timed.

So what a case's shapes, layouts or options break is found without a GPU. Values are compared with
fp64 by each run, before it times anything.
"""

from types import SimpleNamespace

import pytest
import torch

import pairwise
from benchmarks.case import LIMITS, Row
from benchmarks.provider import FromSources
from benchmarks.providers import PROVIDERS
from benchmarks.row_inputs import RowInputs
from benchmarks.tables import BENCHMARKS
from benchmarks.workload import Workload

MEASURED = [one for one in BENCHMARKS if one.groups]


class NotUnpacked:
    """Functions of other projects that do nothing: compiled ones return no message."""

    Fast_RoPE_Embedding = SimpleNamespace(apply=lambda t, cos, sin: t)  # Unsloth

    def apply_rotary(self, t, cos, sin, **options):  # FlashAttention
        return t

    def rope_forward(self, q, k, cos, sin):  # Liger-Kernel
        return q, k, cos, sin

    rope_backward = rope_forward

    def __getattr__(self, name):
        return lambda *arguments: None


@pytest.fixture
def nothing_is_compiled(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0))
    monkeypatch.setattr(FromSources, "code", NotUnpacked())


def inputs_of(case):
    return (RowInputs if isinstance(case, Row) else Workload)(case, "meta")


def calls_of(benchmark, provider):
    """Of each group and direction the first and the last case that it can do; all with --every."""
    for group in benchmark.groups:
        if group.alone and not provider.is_ours_or_a_limit:
            continue
        for direction in group.directions:
            able = [case for case in group.cases if not provider.cannot(case, direction)]
            chosen = able if pairwise.EVERY else dict.fromkeys(able[:1] + able[-1:])
            yield from ((case, direction) for case in chosen)


@pytest.mark.parametrize(
    "benchmark_, provider",
    [
        pytest.param(one, provider, id=f"{one.name}-{provider.name}")
        for one in MEASURED
        for provider in one.providers
    ],
)
def test_a_provider_makes_its_calls(benchmark_, provider, nothing_is_compiled):
    calls = list(calls_of(benchmark_, provider))
    assert calls or provider.name in LIMITS, "it takes no part"
    for case, direction in calls:
        inputs = inputs_of(case)
        run = provider.run(inputs, provider.function(inputs), direction)
        results = run.call()
        if run.layout is None:
            continue  # a limit, which computes nothing
        # Results of another shape or dtype are a ValueError; these have no values to compare.
        with pytest.raises(RuntimeError, match="meta tensors"):
            provider.error(inputs, results, run.layout, direction)


@pytest.mark.parametrize("benchmark_", MEASURED, ids=lambda one: one.name)
def test_a_copy_moves_what_the_case_says(benchmark_):
    copy = next(provider for provider in benchmark_.providers if provider.name == "copy_")
    for case, direction in calls_of(benchmark_, copy):
        inputs = inputs_of(case)
        results = copy.run(inputs, copy.function(inputs), direction).call()
        moved = sum(2 * x.numel() * x.element_size() for x in results)  # read and written
        if isinstance(case, Row):
            assert moved == case.copied
        else:
            width = getattr(torch, case.dtype).itemsize
            assert moved == 2 * case.elements * width


def test_what_is_not_unpacked_is_missing_and_the_others_are_here(monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.peers.sources.PEERS", tmp_path)
    absent = {name: why for name, provider in PROVIDERS.items() if (why := provider.absent())}
    assert {*absent} == {n for n, p in PROVIDERS.items() if isinstance(p, FromSources)}
    assert all(why.startswith("not unpacked: ") for why in absent.values())
