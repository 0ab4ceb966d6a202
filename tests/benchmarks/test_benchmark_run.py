"""The benchmark's command, run from end to end without a GPU: tiny shapes, or times made up."""

from dataclasses import replace

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks.case import OURS, Bar, Case, Group
from benchmarks.gpu import GPU
from benchmarks.kinds import ROTATION
from benchmarks.providers import PROVIDERS
from benchmarks.results import RESULTS, comparisons, load
from benchmarks.verdicts import verdicts
from made_up_benchmark import FakeGPU, without_tensors

TINY = Case(5, 2, 2, 8, dtype="float32")
GROUP = Group(
    "tiny",
    (TINY, replace(TINY, k_heads=2, tensor_format="bhsd", inplace=True)),
    (("forward", Bar(at_least=0.98)), ("backward", Bar(at_least=0.98))),
    beside=("PyTorch eager", "TransformerEngine", "rope_kernels, on the fly"),
    in_readme=True,
)
DECODING = Group(
    "decoding",
    (replace(TINY, s=1, k_heads=2, positions="starts", inplace=True, clock="replay"),),
    (("forward", Bar(at_most=1.3)),),
    beside=("PyTorch eager",),
    directions=("forward",),
)
HOST = Group(
    "host",
    (replace(TINY, clock="host"),),
    (("forward", Bar(at_most=2.0)), ("both", Bar(at_most=1.5))),
    beside=("PyTorch eager",),
    directions=("forward", "forward, grad", "both"),
)
TINY_SETS = {"bars": (GROUP, DECODING, HOST), "sweep": (Group("sweep", (TINY,)),)}
TINY_KIND = replace(ROTATION, sets=TINY_SETS)


def run(tmp_path, *options, gpu=None, kind=TINY_KIND):
    gpu = gpu or FakeGPU(device="cpu")
    status = command.main([*options, "--out", str(tmp_path)], gpu, [kind])
    (path,) = tmp_path.glob("*.json")
    return status, load(path), path


def rows_of(results, **wanted):
    return [r for r in results["rows"] if all(r[name] == value for name, value in wanted.items())]


def test_a_run_checks_measures_and_writes(tmp_path, capsys):
    status, results, path = run(tmp_path)
    said = capsys.readouterr().out
    assert status == 0 and results["complete"] and results["record"] and not results["quick"]
    forward = rows_of(results, set="bars", group="tiny", direction="forward", dtype="float32")
    assert {r["provider"] for r in forward} == {
        "copy_",
        "PyTorch eager",
        "rope_kernels, on the fly",
        OURS,
    }
    for row in results["rows"]:
        assert row["samples"] and row["peak_bytes"]
        assert row["host_us"] > 0 and row["bytes"] > 0
        assert (row["error"] is None) == (row["provider"] in ("copy_", "x * 2"))
    of_a_record = load(RESULTS / "nvidia-h200.json")
    assert set(results) == set(of_a_record)
    assert {frozenset(row) - {"rotary_start"} for row in results["rows"]} == {
        frozenset(row) - {"right"}
        for row in of_a_record["rows"]  # wrong ones had rows once, and slices began with the first
    }
    assert rows_of(results, provider=OURS, direction="forward", group="tiny")[0]["bar"]
    assert not rows_of(results, provider="PyTorch eager", group="tiny")[0]["bar"]
    assert "[4/4]" in said and "98.5%" in said and "TransformerEngine: not unpacked" in said
    assert list(path.parent.iterdir()) == [path]


def test_a_row_says_how_it_was_measured_and_beside_what(tmp_path):
    _, results, _ = run(tmp_path, "bars")
    inplace = rows_of(results, provider=OURS, inplace=True, clock="device")
    assert [(r["direction"], r["how"]) for r in inplace] == [
        ("forward", "bhsd, in place"),
        ("backward", "bhsd"),  # of rope_qk: new gradients
    ]
    (left,) = [o for o in results["left_out"] if o["provider"] == OURS]
    assert left["direction"] == "both" and not left["failed"]  # a leaf is never overwritten
    host = rows_of(results, clock="host")
    assert {r["direction"] for r in host} == {"forward", "forward, grad", "both"}
    assert {limit["provider"] for _, limit in comparisons(host)} == {"x * 2"}
    assert all(r["median_us"] == r["host_us"] for r in host)


def test_a_graph_that_captured_nothing_is_wrong(tmp_path):
    class Empty(FakeGPU):
        def captured(self, call):
            return (lambda: None), call()

    status, results, _ = run(tmp_path, "bars", gpu=Empty(device="cpu"))
    left = {one["provider"] for one in results["left_out"] if "wrong: error" in one["why"]}
    assert left == {OURS, "PyTorch eager"} and status == 1


def test_a_provider_that_fails_is_left_out_and_the_others_are_measured(tmp_path, monkeypatch):
    def fails(self, workload):
        raise RuntimeError("no such | kernel\nand more")

    monkeypatch.setattr(type(PROVIDERS["PyTorch eager"]), "function", fails)
    status, results, _ = run(tmp_path)
    assert status == 0 and not rows_of(results, provider="PyTorch eager")
    why = {o["why"] for o in results["left_out"] if o["provider"] == "PyTorch eager"}
    assert why == {"RuntimeError: no such | kernel"}


def test_ours_failing_or_wrong_is_an_error(tmp_path, monkeypatch):
    ours = type(PROVIDERS[OURS])
    function = ours.function

    def wrong(self, workload):
        right = function(self, workload)
        return lambda *tensors: tuple(-t for t in right(*tensors))

    monkeypatch.setattr(ours, "function", wrong)
    status, results, _ = run(tmp_path)
    assert status == 1
    assert not rows_of(results, provider=OURS, direction="forward")
    assert any("wrong: error 2 against fp64" in left["why"] for left in results["left_out"])


@pytest.mark.parametrize("options", [("--quick",), ("sweep",), ("--providers", "PyTorch eager")])
def test_what_is_not_the_whole_run_is_no_record(tmp_path, options):
    _, results, path = run(tmp_path, *options)
    assert not results["record"] and path.stem != "made-up"
    assert results["quick"] == (options == ("--quick",))
    named = {r["provider"] for r in (*results["rows"], *results["left_out"])}
    assert ("rope_kernels, on the fly" in named) == (options == ("--quick",))


@pytest.mark.parametrize(
    ("has_gpu", "said"),
    [(False, "there is no GPU"), (True, "interpreted kernels are not timed")],
)
@pytest.mark.parametrize("arguments", [[], ["models"]], ids=["sets", "models"])
def test_neither_a_cpu_nor_the_interpreter_is_timed(arguments, has_gpu, said, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert command.main(arguments) == 1
    assert said in capsys.readouterr().err


def test_cases_and_origins_are_listed_without_a_gpu(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert command.main(["peers", "norm", "--list"]) == 0
    said = capsys.readouterr().out
    assert "peers: sbhd (2048, 16, 8, 256) fp32\n" in said
    assert "norm: thd (8192, 32/8, 128) bf16, q + k, 50 sequences, on the fly\n" in said
    assert "    rope_kernels: part of this run\n" in said
    assert "    Unsloth: imported from sources, release 2026.10.9" in said
    assert "    vLLM: built from sources, release 0.33.0, commit 4ba787ec9" in said
    assert "    copy_" in said and "TransformerEngine: not installed" not in said


@pytest.mark.gpu
def test_a_run_on_a_gpu(tmp_path):
    status, results, _ = run(tmp_path, gpu=GPU(rounds=1))
    assert status == 0 and results["gpu"] == torch.cuda.get_device_name()
    assert not [left for left in results["left_out"] if left["failed"]]
    copies = rows_of(results, provider="copy_", direction="forward", clock="device")
    assert {row["peak_bytes"] for row in copies} == {0}  # into a buffer that is there
    ours = rows_of(results, provider=OURS, direction="forward", clock="device", inplace=False)
    assert all(512 <= row["peak_bytes"] <= 4096 for row in ours)  # its result and no more
    assert all(0 < row["median_us"] < 1e4 for row in results["rows"])


# full sizes, times made up


@pytest.fixture
def gpu():
    return FakeGPU(device="cpu")


@pytest.fixture
def kind(gpu, monkeypatch):
    return without_tensors(monkeypatch, gpu)


def test_verdicts_are_the_worst_cases(gpu, kind, tmp_path):
    rows = run(tmp_path, "bars", gpu=gpu, kind=kind)[1]["rows"]
    assert [v.met for v in verdicts(rows) if v.title == "half rotary"] == [True]
    (packed,) = [v for v in verdicts(rows) if v.title.startswith("packed sequences: slowest")]
    assert packed.met
    for row in rows:
        if row["provider"] == OURS and row["shape"].startswith("bhsd (8, 32, 2048"):
            row["median_us"] *= 1.10
        if row["provider"] == OURS and "2401 sequences" in row["shape"]:
            row["median_us"] *= 1.06
    by_title = {v.title: v for v in verdicts(rows)}
    layouts = by_title["shapes of models, each layout"]
    assert not layouts.met and "89.5%" in layouts.found and layouts.by == "7.5 points"
    uneven = by_title["packed sequences: slowest over fastest of 5"]
    assert not uneven.met and "6.0%" in uneven.found
    assert by_title["shapes of models"].met


def test_of_several_ratios_the_largest_counts():
    def rows(shape, ours, bar):
        about = {"set": "bars", "group": "g", "shape": shape, "direction": "forward"}
        times = {"copy_": (10.0, None), OURS: (ours, bar)}
        return [
            about | {"provider": name, "median_us": us, "bar": bar}
            for name, (us, bar) in times.items()
        ]

    bar = {"at_least": None, "at_most": 1.3, "even": None}
    (verdict,) = verdicts([*rows("a", 12.0, bar), *rows("b", 14.0, bar), *rows("c", 11.0, bar)])
    assert not verdict.met and verdict.found == "forward 1.40 times"
    assert verdict.by == "0.10 times"


def test_errors_that_are_allowed_grow_with_fp32_angles_only():
    long = Case(131072, 1, 8, 128, dtype="float32", freqs="module")
    wide = replace(long, s=1, b=131072)
    ours, on_the_fly = PROVIDERS[OURS], PROVIDERS["rope_kernels, on the fly"]
    assert ours.allowed_error(long) == ours.allowed_error(wide) < 1e-6
    table = replace(long, freqs="angles")
    assert ours.allowed_error(table) > 1e-3 > on_the_fly.allowed_error(table)
    assert PROVIDERS["PyTorch eager"].allowed_error(TINY) > ours.allowed_error(TINY)


@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
@pytest.mark.parametrize("elements", (2**8, 2**12, 2**20))
def test_one_rounding_is_allowed_and_two_of_many_elements_are_not(elements, dtype):
    """The errors of few elements differ by a third; none of a thousand may be called wrong."""
    values = torch.randn(max(1, 2**18 // elements), elements, dtype=torch.float64)

    def rounded(x):
        return x.to(getattr(torch, dtype)).double()

    def errors(results):
        return (results - values).norm(dim=1) / values.norm(dim=1)

    case = Case(1, elements, 1, 1, dtype=dtype, freqs="module")
    allowed = PROVIDERS[OURS].allowed_error(case)
    assert errors(rounded(values)).max() <= allowed
    if elements >= 2**12:
        assert errors(rounded(rounded(values * 0.7) / 0.7)).min() > allowed
