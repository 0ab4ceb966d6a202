"""The benchmark's command, run from end to end without a GPU: tiny shapes, and times made up."""

from dataclasses import replace

import pytest
import torch
from PIL import Image

from benchmarks import __main__ as command
from benchmarks import record
from benchmarks.case import ON_THE_FLY, OURS, Case, Group
from benchmarks.gpu import GPU
from benchmarks.kinds import PEERS, ROTATION, kind_of, rotation
from benchmarks.peers.sources import Source
from benchmarks.pictures import fingerprint
from benchmarks.providers import FROM_SOURCES, PROVIDERS
from benchmarks.results import comparisons, load
from made_up_benchmark import FakeGPU

TINY = Case(5, 2, 2, 8, dtype="float32")
GROUP = Group(
    "tiny",
    (TINY, replace(TINY, k_heads=2, tensor_format="bhsd", inplace=True)),
    beside=("PyTorch eager", "TransformerEngine", ON_THE_FLY),
    in_readme=True,
)
STEP = replace(TINY, s=1, k_heads=2, positions="starts", inplace=True, clock="replay")
DECODING = Group(
    "decoding",
    (STEP, replace(STEP, b=3)),
    beside=("PyTorch eager",),
    directions=("forward",),
)
HOST = Group(
    "host",
    (replace(TINY, clock="host"),),
    beside=("PyTorch eager",),
    directions=("forward", "forward, grad", "both"),
)
TINY_SETS = {"calls": (GROUP, DECODING, HOST), "sweep": (Group("sweep", (TINY,)),)}
TINY_KIND = replace(ROTATION, sets=TINY_SETS)


def run(tmp_path, *options, gpu=None, kind=TINY_KIND):
    gpu = gpu or FakeGPU(device="cpu")
    status = command.main([*options, "--out", str(tmp_path)], gpu, [kind])
    (path,) = tmp_path.glob("*.json")
    return status, load(path), path


def rows_of(results, **wanted):
    return [r for r in results["rows"] if all(r[name] == value for name, value in wanted.items())]


def test_a_run_checks_measures_writes_and_shows(tmp_path, capsys):
    status, results, path = run(tmp_path)
    said = capsys.readouterr().out
    assert status == 0 and results["complete"] and results["record"] and not results["quick"]
    forward = rows_of(results, set="calls", group="tiny", direction="forward", dtype="float32")
    assert {r["provider"] for r in forward} == {"copy_", "PyTorch eager", ON_THE_FLY, OURS}
    for row in results["rows"]:
        assert row["samples"] and row["peak_bytes"]
        assert row["host_us"] > 0 and row["bytes"] > 0
        assert (row["error"] is None) == (row["provider"] in ("copy_", "x * 2"))
    assert "[5/5]" in said and "98.5%" in said and "TransformerEngine: not unpacked" in said
    assert list(path.parent.iterdir()) == [path]
    assert "| decoding | 99% | – | – |" in said and "| host | 1.0x | 1.0x | 1.0x |" in said
    rows_of(results, provider=OURS, group="decoding")[1]["median_us"] *= 2
    assert "| decoding | 49% | – | – |" in rotation.tables(results)[0].text  # its slowest case


def test_a_record_fills_in_the_table_between_the_marks_of_its_page(tmp_path, monkeypatch):
    begin, end = "<!-- results: begin -->", "<!-- results: end -->"
    (tmp_path / "page.md").write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(rotation, "FULL", tmp_path / "page.md")
    assert command.main(["calls"], FakeGPU(device="cpu"), [TINY_KIND]) == 0
    text = (tmp_path / "page.md").read_text()
    assert text.startswith(f"before\n{begin}\n|") and text.endswith(f"\n{end}\nafter\n")
    assert "old" not in text.split()
    row = "| sbhd (5, 2, 2, 8) fp32 | forward | copy_ 10.0 µs | 10.2 µs (99%) | 50% | 50% |"
    assert row in text and "Made Up, torch 2.11.0" in text


class Broken(type(PROVIDERS["TransformerEngine"])):
    """Its files are there, and no compiler takes them."""

    name = "Broken"
    source = Source("Broken", "https://example.org/broken", "release 1.2", {})

    def prepare(self):
        raise RuntimeError("nvcc failed: of no use\nmore")


def test_peers_get_a_page_and_a_picture(tmp_path):
    names = OURS, ON_THE_FLY, "PyTorch eager", "TransformerEngine"
    everybody = {name: FROM_SOURCES[name] for name in ("copy_", *names)} | {"Broken": Broken()}
    cases = TINY, replace(TINY, dtype="float64")
    group = replace(PEERS.sets["peers"][0], cases=cases, beside=(*names, "Broken"))
    kind = replace(PEERS, sets={"peers": (group,)}, providers=everybody)
    status, results, path = run(tmp_path, "peers", kind=kind)
    assert status == 0 and kind_of(results) is PEERS
    lines = path.with_suffix(".md").read_text().splitlines()
    shapes = " | ".join(case.label for case in cases)
    assert f"| backward | {shapes} | largest error |" in lines
    assert "| copy_ | 10.0 µs | 10.0 µs | – |" in lines
    assert any(line.startswith(f"| {OURS} | 99% (10.2 µs) | 99% (10.2 µs) |") for line in lines)
    assert "| Broken | absent: RuntimeError: nvcc failed: of no use | its kernel" in str(lines)
    assert any(line.startswith("| TransformerEngine | absent: not unpacked: ") for line in lines)
    assert Image.open(path.with_suffix(".png")).text["Results"] == fingerprint(results)


def test_where_nobody_can_be_timed_the_command_fails(tmp_path):
    class Lost(FakeGPU):
        def device_time(self, calls):
            raise RuntimeError("a case's result is not on cuda:0")

    status, results, _ = run(tmp_path, "sweep", gpu=Lost(device="cpu"))
    assert status == 1 and not results["rows"]
    assert {left["provider"] for left in results["left_out"]} == {"everybody"}


def test_a_row_says_how_it_was_measured_and_beside_what(tmp_path):
    _, results, _ = run(tmp_path, "calls")
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

    status, results, _ = run(tmp_path, "calls", gpu=Empty(device="cpu"))
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
    assert (ON_THE_FLY in named) == (options == ("--quick",))


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
    assert "    Unsloth: imported from sources, release " in said
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
