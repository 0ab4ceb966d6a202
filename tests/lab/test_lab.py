"""What the notebooks stand on: the engine, the verdicts, the timer and its records, the count."""

import json
import sys
import time
from dataclasses import asdict, replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch

import rope_lab as lab
from rope_kernels import reference, rope_bw, rope_fw
from rope_lab import records as records_module
from rope_lab import timing
from rope_lab.engine import COMPILED, INTERPRETED, PYTORCH, Engine, look
from rope_lab.timing import Timing, measure, measure_host

# lab.engine

GPU = Engine(
    system="Linux",
    triton_installed=True,
    torch_built_for_cuda=True,
    gpu="NVIDIA H200",
)
LAPTOP = Engine(
    system="Linux",
    triton_installed=True,
    torch_built_for_cuda=False,
    lacks=("a C compiler", "the header Python.h"),
)


NO_GPU = {"gpu": "", "nvidia_driver": "470.82"}
TROUBLED = {  # machine, engine, words of its one sentence
    "driver, but no GPU": (
        replace(GPU, **NO_GPU),
        INTERPRETED,
        "torch cannot use a GPU: update the driver",
    ),
    "CPU torch beside a GPU": (
        replace(GPU, **NO_GPU, torch_built_for_cuda=False),
        INTERPRETED,
        "CPU build of torch",
    ),
    "no gcc": (replace(GPU, lacks=("a C compiler",)), COMPILED, "install gcc"),
    "no Triton": (replace(GPU, triton_installed=False), PYTORCH, "Triton is not installed"),
    "macOS": (
        replace(LAPTOP, system="Darwin", triton_installed=False),
        PYTORCH,
        "`python3 lab.py` installs its interpreter",
    ),
    "Windows": (
        replace(LAPTOP, system="Windows", triton_installed=False),
        PYTORCH,
        "`py lab.py` installs its interpreter",
    ),
    "no compiler beside a GPU": (
        replace(GPU, system="Windows", compiler_installed=False),
        INTERPRETED,
        "how to get a compiler",
    ),
    "Triton loaded for its interpreter": (
        replace(LAPTOP, triton_interprets_all=True),
        INTERPRETED,
        "restart the kernel",
    ),
}


@pytest.mark.parametrize("troubled, engine, says", TROUBLED.values(), ids=TROUBLED)
def test_each_problem_is_one_sentence_at_the_end_of_the_engines_line(troubled, engine, says):
    assert troubled.kind == engine
    (sentence,) = troubled.problems
    assert says in sentence
    assert repr(troubled).endswith(f". {sentence}")


def test_a_healthy_machine_has_no_problem():
    a_mac = replace(LAPTOP, system="Darwin", compiler_installed=False)
    for healthy in (GPU, LAPTOP, a_mac, replace(a_mac, triton_interprets_all=True)):
        assert healthy.problems == []
        assert replace(healthy, interpreter_asked_for=True).kind == INTERPRETED
    assert GPU.kind == COMPILED


def test_the_engine_of_this_replace(device):
    assert lab.ENGINE.kind == (COMPILED if device == "cuda" else INTERPRETED)
    assert lab.device == lab.ENGINE.device == device
    assert bool(look().gpu) == (device == "cuda")
    compiled = f"compiled for cuda ({torch.cuda.get_device_name()})" if device == "cuda" else ""
    assert repr(lab.ENGINE).startswith(f"Engine: {compiled or 'interpreted on the CPU'}")


# lab.compare

NAN, INF = float("nan"), float("inf")
FOUR_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
ONE_ROUNDING = dict(zip(FOUR_DTYPES, (1e-13, 1e-6, 2**-10, 2**-7), strict=True))
TWO_ROUNDINGS = dict(zip(FOUR_DTYPES, (1e-11, 1e-5, 2**-8, 2**-6), strict=True))
ONES = {dtype: torch.ones(3, dtype=dtype) for dtype in FOUR_DTYPES}
I3, C2 = torch.tensor([1, 2, 3]), torch.tensor([1 + 2j, 3 + 4j])
EDGES = torch.tensor([1, NAN, INF])
COMPARED = {  # got, expected, the verdict
    "right": ([[0, 1.5], [2, 3]], [[0, 1.5], [2, 3]], "RIGHT: 4 values, shape (2, 2), float32"),
    "NaN and infinity": (EDGES, EDGES, "RIGHT: 3 values, shape (3,), float32"),
    "two values": (
        [[0, 1], [6.5, 3], [-8, 5]],
        [[0, 1], [2, 3], [8, 5]],
        "WRONG: 2 of 6 values, shape (3, 2), float32; first at index (1, 0): "
        "got 6.5, expected 2; largest error 16",
    ),
    "a scalar": (1.0, 2.0, "WRONG: 1 of 1 values, shape (), float32; first at index (): "),
    "unwritten": ([1, NAN], [1, 1], "got nan, expected 1; largest error nan"),
    "an error beside NaN": (EDGES + 0.5, EDGES, "WRONG: 1 of 3 values, shape (3,), float32"),
    "whose size counts": (EDGES + 0.5, EDGES, "largest error 0.5"),
    "a number for infinity": ([1, NAN, 3], EDGES, "largest error inf"),
    "a shape": ([[1], [1]], [[1, 1]], "WRONG: shape (2, 1), expected (1, 2)"),
    "one that would broadcast": ([[0, 0]], [[0, 0], [0, 0]], "WRONG: shape (1, 2), expected (2,"),
    "a dtype": (ONES[torch.float32], ONES[torch.bfloat16], "WRONG: dtype float32, expected bfloat"),
    "integers": (I3, I3.clone(), "RIGHT: 3 values, shape (3,), int64"),
    "an integer": (I3, I3 + (I3 == 3), "WRONG: 1 of 3 values"),
    "complex numbers": (C2, C2.clone(), "RIGHT: 2 values"),
    "their conjugates": (C2.conj().resolve_conj(), C2, "WRONG: 2 of 2 values"),
    "how far they are": (C2.conj().resolve_conj(), C2, "largest error 8"),
    **{f"one rounding of {x}": (ONES[x] + ONE_ROUNDING[x], ONES[x], "RIGHT") for x in FOUR_DTYPES},
    **{f"several of {x}": (ONES[x] + TWO_ROUNDINGS[x], ONES[x], "WRONG") for x in FOUR_DTYPES},
}


@pytest.mark.parametrize("got, expected, said", COMPARED.values(), ids=COMPARED)
def test_a_comparison_counts_what_is_wrong_and_says_where(got, expected, said, device):
    got, expected = (
        (x if isinstance(x, torch.Tensor) else torch.tensor(x).float()).to(device)
        for x in (got, expected)
    )
    verdict = lab.compare(got, expected)
    assert said in repr(verdict)
    assert bool(verdict) == verdict.ok == said.startswith("RIGHT")


def test_the_largest_error_of_a_right_result_is_kept(device):
    expected = EDGES.double().to(device)
    verdict = lab.compare(expected + 1e-13, expected)
    assert verdict and 0.5e-13 < verdict.compared.largest_error < 2e-13


def test_the_tolerance_grows_with_the_values(device):
    """Large inputs cancel to small results, with an error of their own size."""
    t = 1000 * torch.randn(16, 4, 8, 64, device=device)
    freqs = torch.randn(16, 1, 1, 64, device=device)
    exact = reference.apply_rotary_pos_emb(t.double(), freqs).float()
    assert lab.compare(rope_fw(t, freqs), exact)
    assert not lab.compare(rope_fw(t, freqs) + 0.05, exact)


# lab.check


def rotated(t, freqs, transpose=False):
    return reference.apply_rotary_pos_emb(t, freqs, round_once=True, transpose=transpose)


CHECKED = {  # the candidate, the definition, the verdict
    "forward": (rope_fw, rotated, "RIGHT: 240 values, shape (5, 2, 3, 8), float32"),
    "backward": (rope_bw, partial(rotated, transpose=True), "RIGHT: 240 values"),
    "the other": (rope_bw, rope_fw, "first at index (0, 0, 0, 0): "),
    "no result": (lambda *_: None, rope_fw, "None"),
    "an input": (lambda t, _: t.add_(1), lambda t, _: t + 1, "WRONG: input 0 was overwritten"),
    "another input": (
        lambda t, freqs: (freqs.zero_(), t + 1)[1],
        lambda t, _: t + 1,
        "WRONG: input 1 was overwritten",
    ),
}


@pytest.mark.parametrize("candidate, wanted, said", CHECKED.values(), ids=CHECKED)
def test_a_candidate_is_checked_and_the_caller_keeps_her_inputs(candidate, wanted, said, device):
    inputs = torch.randn(5, 2, 3, 8, device=device), torch.randn(5, 1, 1, 6, device=device)
    before = [x.clone() for x in inputs]
    verdict = lab.check(candidate, wanted, *inputs)
    assert said in repr(verdict) and bool(verdict) == said.startswith("RIGHT")
    assert all(map(torch.equal, inputs, before))


def test_an_overwritten_nan_is_seen_and_what_is_no_tensor_is_handed_on(device):
    with_nan = torch.tensor([1.0, NAN], device=device)
    assert lab.check(torch.clone, torch.clone, with_nan)
    verdict = lab.check(torch.Tensor.zero_, torch.zeros_like, with_nan)
    assert repr(verdict) == "WRONG: input 0 was overwritten"
    assert lab.check(torch.Tensor.add, torch.add, with_nan, 2)


LAYOUTS = {
    "transposed": lambda t: t.transpose(0, 1),
    "sliced": lambda t: t[:, ::2, 1:5],
    "expanded scalar": lambda t: t[0, 0, 0].expand(4, 3),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_the_candidate_gets_its_inputs_with_their_strides(layout, device):
    """The traps of notebook 06 lie in strides, stride 0 among them."""
    t = layout(torch.randn(4, 6, 8, device=device))
    seen = []
    assert lab.check(lambda t: seen.append(t.stride()) or t + 1, lambda t: t + 1, t)
    assert seen == [t.stride()]


# lab.bench

TIMES = {
    "copy": Timing(median_us=67.7, low_us=67.1, high_us=68.2, spread=0.004, samples=250),
    "rope_fw": Timing(median_us=70.25, low_us=69.9, high_us=70.9, spread=0.011, samples=250),
}


@pytest.fixture(autouse=True)
def records(tmp_path, monkeypatch):
    """A folder beside the notebook that runs; it has no records of notebooks yet."""
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "machines.json").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "records"


def record(folder, key="03/launch-curve"):
    measured = {
        "gpu": "NVIDIA H200",
        "versions": {"torch": "2.11.0", "triton": "3.6.0", "driver": "580.159"},
        "date": "2026-11-20",
        "cases": {name: asdict(timing) for name, timing in TIMES.items()},
    }
    (folder / f"{key[:2]}.json").write_text(json.dumps({key: measured}), encoding="utf-8")


def never():
    raise AssertionError("cases were made")


@pytest.fixture
def with_gpu(monkeypatch):
    """As far as `bench` can see; the measurement itself is made up."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Made-up GPU")
    monkeypatch.setattr(
        records_module, "measure", lambda cases: {name: TIMES[name] for name in cases}
    )
    monkeypatch.delenv("ROPE_KERNELS_RECORD", raising=False)


def make_cases():
    return dict.fromkeys(TIMES, never)


def test_without_a_gpu_the_record_is_replayed_and_says_so(records, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    record(records)
    replayed = lab.bench("03/launch-curve", never)
    assert replayed.replayed and replayed.cases == TIMES
    assert repr(replayed).splitlines() == [
        "Replayed from a record: NVIDIA H200, torch 2.11.0, triton 3.6.0, driver 580.159, "
        "2026-11-20.",
        "copy          67.7 us   (67.1 to 68.2)",
        "rope_fw       70.2 us   (69.9 to 70.9)",
    ]
    for key in ("03/another", "04/launch-curve"):
        missing = rf"no record '{key}' in {key[:2]}\.json; `make notebooks"
        with pytest.raises(LookupError, match=missing):
            lab.bench(key, never)


@pytest.mark.parametrize("switch", (None, "0", "", "yes"))
def test_no_record_is_written_unless_asked_for(switch, records, with_gpu, monkeypatch):
    if switch is not None:
        monkeypatch.setenv("ROPE_KERNELS_RECORD", switch)
    measured = lab.bench("03/launch-curve", make_cases)
    assert not measured.replayed and measured.cases == TIMES
    assert measured.source.startswith("Measured here: Made-up GPU, torch ")
    assert [path.name for path in records.iterdir()] == ["machines.json"]


def test_what_is_recorded_is_replayed_here_and_elsewhere(records, with_gpu, monkeypatch):
    """So `make notebooks` stores what a machine without a GPU prints."""
    monkeypatch.setenv("ROPE_KERNELS_RECORD", "1")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.delitem(sys.modules, "rope_kernels.kernel", raising=False)
    taken = [
        (lab.bench, lab.bench("03/launch-curve", make_cases)),
        (lab.bench, lab.bench("03/a-second", lambda: {"copy": never})),
        (lab.observe, lab.observe("04/race", lambda: {"wrong runs": 3})),
    ]
    assert {path.name for path in records.iterdir()} == {"03.json", "04.json", "machines.json"}
    assert (records / "03.json").read_text(encoding="utf-8").endswith("}\n")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for take, before in taken:
        assert take(before.key, never) == before and before.replayed
    (_, measured), _, (_, observed) = taken
    assert measured.cases == TIMES and observed["wrong runs"] == 3


def test_what_torch_compile_makes_for_bf16_is_replayed_on_a_gpu_that_has_none(
    records, with_gpu, monkeypatch
):
    """And says so. `make notebooks` there leaves the record as it is."""
    monkeypatch.setenv("ROPE_KERNELS_RECORD", "1")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    measured = lab.bench("11/rows-of-rms-norm", make_cases)
    record(records, "11/forward")
    kept = (records / "11.json").read_text(encoding="utf-8")
    replayed = lab.bench("11/forward", never)
    assert not lab.compiles_bf16() and replayed.replayed
    assert replayed.source.startswith(
        "Replayed from a record, because torch.compile makes no bf16 kernels for Made-up GPU: "
        "NVIDIA H200, "
    )
    assert (records / "11.json").read_text(encoding="utf-8") == kept and not measured.because
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    assert lab.bench("11/forward", make_cases).gpu == "Made-up GPU"


@pytest.mark.parametrize(
    "gpu, interpreted, why",
    (
        (False, "", "no GPU"),
        (True, "by a variable", "TRITON_INTERPRET is set"),
        (True, "loaded before", "interpreted kernels are not timed"),  # the variable is gone
    ),
)
def test_neither_a_cpu_nor_interpreted_code_is_timed(gpu, interpreted, why, monkeypatch):
    class InterpretedFunction: ...

    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Made-up GPU")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    if interpreted == "by a variable":
        monkeypatch.setenv("TRITON_INTERPRET", "1")
        with pytest.raises(RuntimeError, match=why):
            lab.bench("03/launch-curve", lambda: {"never": never})
    if interpreted == "loaded before":
        kernels = SimpleNamespace(rope_kernel=InterpretedFunction())
        monkeypatch.setitem(sys.modules, "rope_kernels.kernel", kernels)
    with pytest.raises(RuntimeError, match=why):
        measure({"never": never})


def test_summary_of_rounds():
    """20 % of the samples lie below `low`, 80 % below `high`; the spread is between rounds."""
    rounds = [[float(sample) for sample in range(1, 52)], [float(i) for i in range(52, 102)]]
    summary = timing._summary(rounds)
    assert (summary.low_us, summary.median_us, summary.high_us) == (21.0, 51.0, 81.0)
    assert summary.samples == 101 and summary.spread == round((76.5 - 26) / 51, 4)


@pytest.mark.gpu
def test_a_copy_takes_a_plausible_time_and_a_larger_one_proportionally_more():
    def copy_of(mebibytes):
        source = torch.empty(mebibytes * 2**20, dtype=torch.int8, device="cuda")
        return partial(torch.empty_like(source).copy_, source)

    times = measure({"256 MB": copy_of(256), "1 GB": copy_of(1024)})
    bytes_moved = 2 * 256 * 2**20
    terabytes_a_second = bytes_moved / times["256 MB"].median_us / 1e6
    assert 0.5 < terabytes_a_second < 5
    assert 3 < times["1 GB"].median_us / times["256 MB"].median_us < 5
    assert times["256 MB"].low_us <= times["256 MB"].median_us <= times["256 MB"].high_us


@pytest.mark.gpu
def test_the_cpus_own_time_is_not_in_the_figure():
    """Time spent on the CPU before a tiny kernel is launched does not count."""
    x = torch.zeros(16, device="cuda")

    def slow_to_launch():
        time.sleep(2e-4)
        x.add_(1)

    assert measure({"tiny": slow_to_launch})["tiny"].median_us < 20


# lab.count_eager_traffic


def kernels(function, *args):
    traffic = lab.count_eager_traffic(function, *args)
    return [(kernel.name, kernel.bytes_read, kernel.bytes_written) for kernel in traffic.kernels]


X, ROW = torch.zeros(10, 3), torch.zeros(3)
BF16 = X.bfloat16()
HEADS = torch.zeros(5, 2, 3, 8, device=lab.device)  # on a CPU beside a GPU, PyTorch rotates
ANGLES = torch.zeros(5, 1, 1, 8, device=lab.device)
COUNTED = {
    "an addition reads twice": (lambda: X + X.clone(), [("clone", 120, 120), ("add", 240, 120)]),
    "views cost nothing": (lambda: X.T[1:].unsqueeze(0).expand(4, -1, -1).chunk(2), []),
    "a reshape that is a view": (lambda: X.reshape(30), []),
    "a reshape that must copy": (lambda: X.T.reshape(30), [("clone", 120, 120)]),
    "a broadcast input is read once": (lambda: X * ROW, [("mul", 132, 120)]),
    "an expanded one too": (lambda: X * ROW.expand(10, 3), [("mul", 132, 120)]),
    "cat": (lambda: torch.cat((BF16, BF16[:5])), [("cat", 90, 90)]),
    "another dtype": (lambda: BF16.float(), [("_to_copy", 60, 120)]),
    "in place": (lambda: X.add_(ROW), [("add_", 132, 120)]),
    "an allocation starts no kernel": (lambda: (torch.empty(9), torch.empty_like(X)), []),
    "a kernel of ours is none of PyTorch's": (lambda: rope_fw(HEADS, ANGLES), []),
}


@pytest.mark.parametrize("function, kernels_of_it", COUNTED.values(), ids=COUNTED)
def test_each_kernel_reads_and_writes_so_many_bytes(function, kernels_of_it):
    assert kernels(function) == kernels_of_it
    traffic = lab.count_eager_traffic(function)
    assert traffic.bytes_moved == sum(read + written for _, read, written in kernels_of_it)


@pytest.mark.gpu
def test_work_that_is_not_on_the_gpu_is_not_timed():
    with pytest.raises(RuntimeError, match="not on cuda:0"):
        measure({"forgot .cuda()": lambda: torch.ones(3) + 1})


@pytest.mark.gpu
def test_host_time_leaves_the_gpus_work_out():
    small, large = torch.randn(16, device="cuda"), torch.randn(2**22, device="cuda")
    times = measure_host({"small": lambda: small * 2, "large": lambda: large * 2}, calls=20)
    assert 0.5 < times["small"].median_us < 100
    assert times["large"].median_us < 2 * times["small"].median_us
