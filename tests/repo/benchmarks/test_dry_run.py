"""Each provider makes its calls of tensors that have no values: nothing is compiled or timed.

So what a case's shapes, layouts or options break is found without a GPU. Values are compared with
fp64 by each run, before it times anything.
"""

from types import SimpleNamespace

import pytest
import torch

import pairwise
from benchmarks.case import BENCHMARKS
from benchmarks.inputs import Inputs
from benchmarks.peers.projects import FromSources
from benchmarks.run import all_providers, why_absent

PROVIDERS = {provider.name: provider for provider in all_providers()}


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


def cases_of(provider, benchmark=None):
    """Of each benchmark and direction the first and the last case; all with --every."""
    chosen = {}
    for name, cases in BENCHMARKS.items():
        if benchmark in (None, name):
            for case in cases:
                if not provider.cannot(case):
                    chosen.setdefault((name, case.direction, case.clock), []).append(case)
    for able in chosen.values():
        yield from able if pairwise.EVERY else dict.fromkeys(able[:1] + able[-1:])


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)
def test_a_provider_makes_its_calls(provider, nothing_is_compiled):
    cases = list(cases_of(provider))
    assert cases, "it takes no part"
    for case in cases:
        run = provider.run(Inputs(case, "meta"))
        results = run.call()
        if run.error is not None:
            # Results of another shape or dtype are a ValueError; these have no values to compare.
            with pytest.raises(RuntimeError, match="meta tensors"):
                run.error(results)


def test_a_copy_moves_what_the_case_says():
    for case in cases_of(PROVIDERS["copy_"]):
        results = PROVIDERS["copy_"].run(Inputs(case, "meta")).call()
        assert case.copied == sum(2 * x.nbytes for x in results)  # read and written


def test_what_is_not_unpacked_is_missing_and_the_others_are_here(monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.peers.sources.PEERS", tmp_path)
    absent = {name: why for name, why in why_absent(PROVIDERS.values()).items() if why}
    assert {*absent} == {n for n, p in PROVIDERS.items() if isinstance(p, FromSources)}
    assert all("not unpacked: " in why for why in absent.values())
