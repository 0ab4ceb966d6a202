"""The benchmark's command, run from end to end without a GPU: tiny shapes, and times made up."""

from dataclasses import replace
from importlib.metadata import version

import pytest
import torch
from made_up_benchmark import FakeGPU

from benchmarks import __main__ as command
from benchmarks import pages, record
from benchmarks.case import ON_THE_FLY, OURS, Case, Group
from benchmarks.gpu import GPU
from benchmarks.peers import sources
from benchmarks.peers.sources import Source
from benchmarks.providers import PROVIDERS
from benchmarks.sets import Benchmark
from benchmarks.tables import load

TINY = Case(5, 2, 2, 8, dtype="float32")
IN_PLACE = replace(TINY, k_heads=2, tensor_format="bhsd", inplace=True)
ALONE = replace(TINY, s=6)
HOST = replace(TINY, clock="host")
HOST_OF_TWO = replace(HOST, k_heads=1)
NAMES = "copy_", "x * 2", OURS, ON_THE_FLY, "PyTorch eager", "TransformerEngine"
CALLS = Benchmark(
    "calls",
    (
        Group((TINY, IN_PLACE)),
        Group((ALONE,), alone=True),
        Group((HOST, HOST_OF_TWO), ("forward", "forward, grad", "both")),
    ),
    tuple(PROVIDERS[name] for name in NAMES),
)


@pytest.fixture(autouse=True)
def nothing_is_unpacked(monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "PEERS", tmp_path / "peers")


def run(tmp_path, *options, gpu=None, benchmark=CALLS):
    gpu = gpu or FakeGPU(device="cpu")
    status = command.main([*options, "--out", str(tmp_path)], gpu, [benchmark])
    (path,) = tmp_path.glob("*.json")
    return status, load(path), path


def rows_of(results, **wanted):
    return [r for r in results["rows"] if all(r[name] == value for name, value in wanted.items())]


def test_a_run_checks_measures_and_writes(tmp_path, capsys):
    status, results, path = run(tmp_path)
    said = capsys.readouterr().out
    assert status == 0 and results["complete"] and results["record"]
    forward = rows_of(results, shape=TINY.label, direction="forward")
    assert {r["provider"] for r in forward} == {"copy_", "PyTorch eager", ON_THE_FLY, OURS}
    alone = rows_of(results, shape=ALONE.label)
    assert {r["provider"] for r in alone} == {"copy_", ON_THE_FLY, OURS}  # others take no part
    for row in results["rows"]:
        assert row["samples"] and row["of_limit"] > 0
        assert (row["error"] is None) == (row["provider"] in ("copy_", "x * 2"))
    assert "[5/5]" in said and "98.5%" in said and "TransformerEngine: not unpacked" in said
    assert {file.name for file in path.parent.iterdir()} == {path.name, "made-up-calls.md"}
    page = path.with_suffix(".md").read_text(encoding="utf-8")
    head = "| forward | copy_ | rope_kernels | rope_kernels, on the fly | PyTorch eager | x * 2 |"
    assert f"{head} largest error |" in page
    assert f"| {TINY.label} | 10.0 µs | 99% (10.2 µs) | 50% (20.0 µs) | 50% (20.0 µs) | – |" in page
    assert f"| {HOST.label} | – | 99% (6.7 µs) |" in page and "6.6 µs |" in page


def test_host_times_are_multiples_of_those_of_x_times_2(tmp_path):
    _, results, _ = run(tmp_path)
    lines = pages.host_times(results).splitlines()
    of_one = "forward", "forward, recorded", "both ways"
    columns = *of_one, *(f"q and k,<br>{way}" for way in of_one)
    assert lines[0] == f"| | {' | '.join(columns)} |"
    assert lines[2:7] == [
        f"| x * 2 |{' 7 to 7 µs |' * 6}",
        f"| {OURS} |{' 1.0 to 1.0 |' * 6}",
        f"| {ON_THE_FLY} |{' 2.0 to 2.0 |' * 6}",
        f"| PyTorch eager |{' 2.0 to 2.0 |' * 6}",
        "",
    ]


class Broken(type(PROVIDERS["TransformerEngine"])):
    """Its files are there, and no compiler takes them."""

    name = "Broken"
    source = Source("Broken", "https://example.org/broken", "release 1.2", {})

    def prepare(self):
        raise RuntimeError("nvcc failed: of no use\nmore")


def test_peers_that_are_missing_or_broken_are_absent(tmp_path):
    peers = Benchmark("peers", (Group((TINY,)),), (*CALLS.providers, Broken()))
    status, _, path = run(tmp_path, benchmark=peers)
    page = path.with_suffix(".md").read_text(encoding="utf-8")
    assert status == 0
    assert "| Broken | absent: RuntimeError: nvcc failed: of no use | its kernel" in page
    assert "| TransformerEngine | absent: not unpacked: " in page


def test_models_fill_in_the_table_between_the_marks_of_their_page(tmp_path, monkeypatch):
    begin, end = "<!-- models: begin -->", "<!-- models: end -->"
    (tmp_path / "page.md").write_text(f"before\n{begin}\nold\n{end}\nafter\n", encoding="utf-8")
    records = tmp_path / "records.md"
    records.write_text("<!-- records: begin -->\n<!-- records: end -->\n", encoding="utf-8")
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(pages, "HUGGING_FACE", tmp_path / "page.md")
    monkeypatch.setattr(pages, "OF_THE_BENCHMARK", records)
    row = {
        "model": "Made",
        "precision": "bf16",
        "tokens": 4096,
        "tensors": 7,
        "differ": 0,
        "launches": {"patched": {"before": 28.0, "after": 2.0}},
        "ms": {"unpatched": [2.0, 4.0, 9.0], "patched": [1.0, 2.0, 3.0]},
    }
    small = {"model": "Small", "precision": "bf16", "ms": {"unpatched": [1.0]}}
    models = Benchmark("models", rows=lambda gpu: iter([row, small]))
    assert command.main([], FakeGPU(device="cpu"), [models]) == 0
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert text.startswith(f"before\n{begin}\n|") and text.endswith(f"\n{end}\nafter\n")
    assert "| Made | 0/7 | 28→2 | 1,024,000→2,048,000 | – |" in text and "Small" not in text
    assert "old" not in text.split() and "Made Up, torch 2.11.0" in text
    assert f"transformers {version('transformers')}" in text
    assert "| Made Up | – | – | – | – | – | – | [2026-11-20](../docs/hugging_face.md#Speed) |" in (
        records.read_text(encoding="utf-8")
    )


def test_where_nobody_can_be_timed_the_command_fails(tmp_path):
    class Lost(FakeGPU):
        def in_turns(self, calls, clock="device"):
            raise RuntimeError("a case's result is not on cuda:0")

    status, results, _ = run(tmp_path, gpu=Lost(device="cpu"))
    assert status == 1 and not results["rows"]
    assert {x["provider"] for x in results["left_out"] if x["failed"]} == {"everybody"}


def test_a_row_says_how_it_was_measured_and_beside_what(tmp_path):
    _, results, _ = run(tmp_path)
    inplace = rows_of(results, provider=OURS, shape=IN_PLACE.label)
    assert [(r["direction"], r["how"]) for r in inplace] == [
        ("forward", "bhsd, in place"),
        ("backward", "bhsd"),  # of rope_qk: new gradients
    ]
    (left,) = [o for o in results["left_out"] if o["provider"] == OURS]
    assert left["direction"] == "both" and not left["failed"]  # a leaf is never overwritten
    host = rows_of(results, shape=HOST.label)
    assert {r["direction"] for r in host} == {"forward", "forward, grad", "both"}
    assert {r["provider"] for r in host if r["of_limit"] == 1} == {"x * 2"}


def test_a_provider_that_fails_is_left_out_and_the_others_are_measured(tmp_path, monkeypatch):
    def fails(self, workload):
        raise RuntimeError("no such | kernel\nand more")

    monkeypatch.setattr(type(PROVIDERS["PyTorch eager"]), "function", fails)
    status, results, _ = run(tmp_path)
    assert status == 0 and not rows_of(results, provider="PyTorch eager")
    assert rows_of(results, provider=OURS)
    why = {o["why"] for o in results["left_out"] if o["provider"] == "PyTorch eager"}
    assert "RuntimeError: no such | kernel" in why


def test_a_quick_run_is_no_record(tmp_path, monkeypatch):
    _, results, _ = run(tmp_path / "here", "--quick")
    assert not results["record"]
    monkeypatch.setattr(record, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(record, "ELSEWHERE", tmp_path / "elsewhere")
    assert command.main(["--quick"], FakeGPU(device="cpu"), [CALLS]) == 0
    assert (tmp_path / "elsewhere/made-up-calls.json").is_file()
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("has_gpu", "said"),
    [(False, "there is no GPU"), (True, "interpreted kernels are not timed")],
)
@pytest.mark.parametrize("arguments", [[], ["models"], ["record"]], ids=" ".join)
def test_neither_a_cpu_nor_the_interpreter_is_timed(arguments, has_gpu, said, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert command.main(arguments) == 1
    assert said in capsys.readouterr().err


@pytest.mark.gpu
def test_a_run_on_a_gpu(tmp_path):
    status, results, _ = run(tmp_path, gpu=GPU(rounds=1))
    assert status == 0 and results["gpu"] == torch.cuda.get_device_name()
    assert not [left for left in results["left_out"] if left["failed"]]
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
