"""The benchmark's command, run from end to end without a GPU: tiny shapes, and times made up."""

from dataclasses import replace

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import tables
from benchmarks.case import (
    BF16,
    BF16_OF_PAIRS,
    BOTH_WAYS,
    FP32_OF_PAIRS,
    NO_TABLE,
    OF_HOST_TIME,
    ON_THE_FLY,
    OURS,
    ROTATION,
    Case,
    function_case,
    in_directions,
)
from benchmarks.peers import sources
from benchmarks.providers import PyTorch
from benchmarks.record import load
from benchmarks.run import GPU, all_providers
from rope_lab.judge.inspect.limits import gpu_of

TINY = Case(5, 2, 2, 8, dtype="float32")
IN_PLACE = replace(TINY, k_heads=2, tensor_format="bhsd", inplace=True)
ALONE = replace(TINY, s=6, alone=True)
HOST = replace(TINY, clock="host")
HOST_OF_TWO = replace(HOST, k_heads=1)
SIZES = {"s": 5, "h": 2, "k_heads": 1, "d": 8}
FUNCTIONS = [
    function_case("qk_norm_rope", FP32_OF_PAIRS, "bshd", direction=direction, b=2, **SIZES)
    for direction in BOTH_WAYS
]
FUNCTIONS += [
    function_case("qk_norm_rope", BF16, "bhsd", rounding="model", **SIZES),
    function_case("rope_to_cache", BF16_OF_PAIRS, positions="decoded", inplace=True, **SIZES),
    function_case("rope_to_cache", NO_TABLE, positions="prompts", **SIZES | {"s": 6}),
]
NAMES = "copy_", "x * 2", OURS, ON_THE_FLY, ROTATION, "PyTorch eager", "TransformerEngine"
CALLS = (
    *in_directions(BOTH_WAYS, (TINY, IN_PLACE, ALONE)),
    *in_directions(OF_HOST_TIME, (HOST, HOST_OF_TWO)),
)
PROVIDERS = [provider for provider in all_providers() if provider.name in NAMES]


@pytest.fixture(autouse=True)
def nothing_is_unpacked(monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "PEERS", tmp_path / "peers")


def run(gpu, tmp_path, calls=CALLS, providers=PROVIDERS, name="calls"):
    status = command.main(["--out", str(tmp_path)], gpu, {name: calls}, providers)
    (path,) = tmp_path.iterdir()
    return status, load(path)


def rows_of(results, **wanted):
    return [r for r in results["rows"] if all(r[name] == value for name, value in wanted.items())]


def test_a_run_checks_measures_and_writes(fake_gpu, tmp_path, capsys):
    status, results = run(fake_gpu, tmp_path)
    said = capsys.readouterr().out
    assert status == 0 and results["complete"]
    forward = rows_of(results, shape=TINY.label, direction="forward")
    assert {r["provider"] for r in forward} == {"copy_", "PyTorch eager", ON_THE_FLY, OURS}
    alone = rows_of(results, shape=ALONE.label)
    assert {r["provider"] for r in alone} == {"copy_", ON_THE_FLY, OURS}  # others take no part
    for row in results["rows"]:
        assert row["samples"] and row["of_limit"] > 0
        assert (row["error"] is None) == (row["provider"] in ("copy_", "x * 2"))
    assert "[12/12]" in said and "98.5%" in said and "not unpacked: transformer_engine/" in said
    page = tables.page(results)
    head = "| forward | copy_ | rope_kernels | rope_kernels, on the fly | PyTorch eager | x * 2 |"
    assert f"{head} largest error |" in page
    assert f"| {TINY.label} | 10.0 µs | 99% (10.2 µs) | 50% (20.0 µs) | 50% (20.0 µs) | – |" in page
    assert f"| {HOST.label} | – | 99% (6.7 µs) |" in page and "6.6 µs |" in page


def test_functions_are_right_and_compared_with_their_own_limits(fake_gpu, tmp_path):
    status, results = run(fake_gpu, tmp_path, calls=FUNCTIONS, name="cache-limits")
    assert status == 0
    for case in FUNCTIONS:
        names = {"copy_", OURS} | ({ROTATION} if case.positions == "decoded" else set())
        rows = rows_of(results, shape=case.label)
        assert {row["provider"] for row in rows} == names
        assert {row["own_limit"] for row in rows} == {round(case.own_limit, 4)}
        (ours,) = rows_of(results, shape=case.label, provider=OURS)
        assert ours["of_limit"] == pytest.approx(0.985 * case.copies, abs=0.001)
        assert (ours["error"] > 2.5e-3) == (case.rounding == "model")  # it rounds more often
        assert f"\n| {case.label} | {case.own_limit:.1%} | 10.0 µs |" in tables.page(results)


WRONG = {
    "the tail forgotten": lambda t: torch.cat([t[..., :-1], 0 * t[..., -1:]], -1),
    "one row left as it was": lambda t: torch.cat([t[:-1], t[-1:].roll(1, -1)]),
    "not a number": lambda t: t * torch.where(torch.arange(t.shape[-1]) == 3, torch.nan, 1),
    "another dtype": lambda t: t.double(),
}


@pytest.mark.parametrize("spoil", WRONG.values(), ids=WRONG.keys())
def test_who_is_wrong_is_not_timed_and_the_page_says_so(spoil, fake_gpu, tmp_path):
    class Spoilt(PyTorch):
        name = "spoilt"

        def function(self, inputs):
            right = super().function(inputs)
            return lambda *tensors: tuple(map(spoil, right(*tensors)))

    status, results = run(fake_gpu, tmp_path, CALLS[:1], (*PROVIDERS, Spoilt()))
    assert status == 0 and not rows_of(results, provider="spoilt")
    assert rows_of(results, provider=OURS)  # the others are timed all the same
    assert "\n- spoilt: " in tables.page(results)


def test_a_new_gpu_has_its_records_and_pages_and_the_one_of_the_notebooks_is_shown(
    fake_gpu, copied
):
    assert gpu_of("Made Up").machine is None
    wanted, tiny = ["machine", "calls", "peers"], dict.fromkeys(("calls", "peers"), CALLS[:4])
    assert command.main(wanted, fake_gpu, tiny, PROVIDERS) == 0
    assert gpu_of("Made Up").machine == gpu_of("NVIDIA H200").machine
    for page in ("made-up-calls.md", "peers-made-up.md"):
        assert "Made Up, torch" in (copied / "benchmarks/results" / page).read_text("utf-8")
    text = (copied / "README.md").read_text("utf-8")
    assert "NVIDIA H200, torch" in text and "Made Up" not in text


@pytest.mark.gpu
def test_a_run_on_a_gpu(tmp_path):
    status, results = run(GPU(rounds=1), tmp_path)
    assert status == 0 and results["gpu"] == torch.cuda.get_device_name()
    assert not [left for left in results["left_out"] if left["failed"]]
    assert all(0 < row["median_us"] < 1e4 for row in results["rows"])
