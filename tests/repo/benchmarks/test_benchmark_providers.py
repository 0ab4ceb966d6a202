"""Every provider of the benchmark rotates as fp64 does, in each layout and direction that it has.

What comes from other projects' sources is checked by each run before it is timed. bf16 is left to
the GPU: the interpreter cuts it off.
"""

from dataclasses import replace
from itertools import combinations, product

import pytest
import torch
from made_up_benchmark import compiling_without_a_compiler

import rope_lab as lab
from benchmarks.case import LIMITS, OURS, Case
from benchmarks.pages import IN_BRIEF, in_brief
from benchmarks.provider import FromSources
from benchmarks.providers import NORMS, PROVIDERS, pytorch
from benchmarks.workload import Workload
from pairwise import all_pairs
from rope_kernels import RotaryPositionEmbedding, reference

DENSE = Case(7, 2, 4, 16, dtype="float32")
PACKED = Case(11, 1, 4, 16, dtype="float32", tensor_format="thd", sequences=3)
PAIR = replace(DENSE, k_heads=2, tensor_format="bhsd")
CASES = {
    "sbhd": DENSE,
    "bshd fp16": replace(DENSE, tensor_format="bshd", dtype="float16"),
    "bhsd": replace(DENSE, tensor_format="bhsd"),
    "q and k": PAIR,
    "q and k as views": replace(PAIR, stored="bshd"),
    "q and k in place": replace(PAIR, tensor_format="bshd", inplace=True, dtype="float16"),
    "half rotary": replace(DENSE, rotary_dim=8),
    "packed": PACKED,
    "packed q and k": replace(PACKED, k_heads=2, dtype="float16"),
    "transposed": replace(DENSE, stored="bshd"),
    "interleaved": replace(DENSE, interleaved=True),
    "ids": replace(DENSE, tensor_format="bshd", positions="ids"),
    "starts": replace(DENSE, tensor_format="bshd", positions="starts"),
    "decoding": Case(*(1, 3, 4, 16, 2, "float16", "bshd"), positions="starts", inplace=True),
    "on the fly": replace(DENSE, freqs="module"),
}
DIRECTIONS = ("forward", "backward", "both")
GPU_AND_DATE = {"gpu": "Made Up", "versions": {"torch": "2.11.0"}, "date": "2026-11-20"}


@pytest.fixture(autouse=True)
def compiled_without_a_compiler(monkeypatch):
    with compiling_without_a_compiler(monkeypatch):
        yield


def run_of(provider, case, direction):
    workload = Workload(case, "cpu")
    return workload, provider.run(workload, provider.function(workload), direction)


def calls_of(names):
    """Name, case and direction of calls: every two meet, in place and not in place."""
    axes = {"name": list(names), "label": CASES, "way": [*product(DIRECTIONS, (False, True))]}
    parts = {
        frozenset(part)
        for name, label, (direction, inplace) in product(*axes.values())
        if CASES[label].inplace == inplace and not PROVIDERS[name].cannot(CASES[label], direction)
        for size in (1, 2, 3)
        for part in combinations(
            [("name", name), ("label", label), ("way", (direction, inplace))], size
        )
    }
    chosen = all_pairs(axes, lambda part: frozenset(part.items()) in parts)
    return [(case["name"], case["label"], case["way"][0]) for case in chosen]


@pytest.mark.parametrize(
    ("name", "label", "direction"),
    calls_of(
        name
        for name, provider in PROVIDERS.items()
        if name not in LIMITS and not isinstance(provider, FromSources)
    ),
)
def test_a_provider_rotates_as_fp64_does(name, label, direction):
    provider, case = PROVIDERS[name], CASES[label]
    workload, run = run_of(provider, case, direction)
    x = workload.x.clone()
    before = [t.detach().clone() for t in run.overwrites]
    error = workload.error(run.call(), run.layout, direction)
    assert error <= provider.allowed_error(case)
    changed = [not torch.equal(t, was) for t, was in zip(run.overwrites, before, strict=True)]
    assert all(changed), "does not overwrite what it says it overwrites"
    assert ("in place" in run.how) == bool(run.overwrites)
    assert torch.equal(workload.x, x), "overwrites what the others start from"


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("way", ("Hugging Face", "Hugging Face, compiled"))
def test_the_function_of_models_is_timed_in_both_orders_of_their_memory(way, direction):
    """A compiled backward copies what is not contiguous: one order alone is no fair figure."""
    providers = [provider for name, provider in PROVIDERS.items() if name.startswith(way)]
    timed = {}
    for provider in providers:
        workload, run = run_of(provider, DENSE, direction)
        timed[run.how] = [grad.is_contiguous() for grad in workload.take(workload.grad, run.layout)]
    assert timed.pop("bhsd") == [True, True]
    assert timed.pop("bhsd view of bshd memory") == [False, False]
    bhsd = [p.name for p in providers if not p.cannot(CASES["q and k as views"], direction)]
    assert len(bhsd) == len({name.partition(", contiguous")[0] for name in bhsd})  # once is enough


def test_what_is_compiled_has_its_longest_search_and_says_so(monkeypatch):
    modes, compile_ = [], torch.compile

    def noted(function, **options):
        modes.append(options.get("mode"))
        return compile_(function)

    monkeypatch.setattr(torch, "compile", noted)
    for provider in (*PROVIDERS.values(), *NORMS.values()):
        compiles = "compile" in provider.name
        del modes[:]
        if not isinstance(provider, FromSources):
            provider.function(Workload(PAIR, "cpu"))
        assert modes == ["max-autotune-no-cudagraphs"] * compiles
        assert ("with mode max-autotune-no-cudagraphs" in provider.about()["measures"]) == compiles


def test_readme_has_a_line_for_each_layout_of_a_model():
    times = {"Hugging Face, compiled": 0.25, "Hugging Face, compiled, contiguous": 0.9}
    rows = [
        {"shape": shape, "direction": direction, "provider": name, "of_limit": share}
        for shape, direction in IN_BRIEF
        for name, share in times.items()
    ]
    made_up = GPU_AND_DATE | {"rows": rows, "providers": times}
    lines = [line.split(" | ") for line in in_brief(made_up).splitlines() if "%" in line]
    assert [line[1] for line in lines] == ["25%", "90%"]
    assert "transposed" in lines[0][0] and "contiguous" in lines[1][0]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_copy_moves_each_element_of_the_case_once(direction):
    _, run = run_of(PROVIDERS["copy_"], PAIR, direction)
    results = run.call()
    assert all(t.is_contiguous() for t in results)
    copied = sum(t.numel() for t in results)
    assert copied == PAIR.elements * (2 if direction == "both" else 1)


WRONG = {
    "the tail forgotten": lambda t: torch.cat([t[..., :-1], 0 * t[..., -1:]], -1),
    "one row left as it was": lambda t: torch.cat([t[:-1], t[-1:].roll(1, -1)]),
    "not a number": lambda t: t * torch.where(torch.arange(t.shape[-1]) == 3, torch.nan, 1),
}


@pytest.mark.parametrize("spoil", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_result_is_found(spoil):
    workload, run = run_of(PROVIDERS[OURS], DENSE, "forward")
    error = workload.error(tuple(spoil(t) for t in run.call()), run.layout, "forward")
    assert not error <= PROVIDERS["PyTorch eager"].allowed_error(DENSE)


@pytest.mark.parametrize("spoil", [lambda t: t.double(), lambda t: t[:1]], ids=["dtype", "shape"])
def test_results_of_another_shape_or_dtype_are_refused(spoil):
    workload, run = run_of(PROVIDERS[OURS], DENSE, "forward")
    with pytest.raises(ValueError, match="results have "):
        workload.error(tuple(spoil(t) for t in run.call()), run.layout, "forward")


def test_what_is_not_unpacked_is_missing_and_the_others_are_here(monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.peers.sources.PEERS", tmp_path)
    absent = {name: why for name, provider in PROVIDERS.items() if (why := provider.absent())}
    assert {*absent} == {n for n, p in PROVIDERS.items() if isinstance(p, FromSources)}
    assert all(why.startswith("not unpacked: ") for why in absent.values())


@pytest.mark.parametrize("d2", (16, 8), ids=("all of d", "half of d"))
def test_eager_runs_the_kernels_of_the_reference(d2):
    """One function, one figure: without its last copy, of all of `t`, it would be 8 % faster."""
    t, freqs = torch.randn(6, 2, 3, 16, dtype=torch.bfloat16), RotaryPositionEmbedding(d2)(6)
    traffic = [
        lab.count_eager_traffic(function, t, freqs)
        for function in (pytorch.rotate, reference.apply_rotary_pos_emb)
    ]
    kernels = [
        sorted((k.name, k.bytes_read, k.bytes_written) for k in found.kernels) for found in traffic
    ]
    assert kernels[0] == kernels[1]
