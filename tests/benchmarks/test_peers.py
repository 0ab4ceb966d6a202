"""Everybody from their sources, without a GPU: unpacking, calling, checking, record and page."""

import ctypes
import json
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import matplotlib.pyplot as plt
import pytest
import torch
from PIL import Image

from benchmarks import __main__ as command
from benchmarks.case import OURS, Case
from benchmarks.kinds import PEERS
from benchmarks.kinds.peers import README, page, tables
from benchmarks.peers import code
from benchmarks.peers.code import import_file
from benchmarks.peers.sources import Source, blob_id
from benchmarks.pictures import fingerprint, peers
from benchmarks.provider import FromSources, Provider
from benchmarks.providers import FROM_SOURCES, transformer_engine
from benchmarks.record import Job
from benchmarks.results import RESULTS, load
from benchmarks.workload import Layout, Workload
from made_up_benchmark import FakeGPU

SMALL = Case(7, 2, 4, 16, dtype="float32")
PACKED = Case(11, 1, 4, 16, dtype="float32", tensor_format="thd", sequences=3)
TEXT = b"x = 1\n"
MADE_UP = Source("Made up", "https://example.org/made-up", "release 1.2", {"a/b.py": blob_id(TEXT)})
RECORDS = sorted(RESULTS.glob("peers-*.json"))
EVERYBODY = Job(PEERS, PEERS.record).providers()


# unpacking


@pytest.fixture
def folder(tmp_path):
    """A release, unpacked: the file is not where the repository has it, and has a namesake."""
    origin = tmp_path / "release"
    for place, content in (("a", b"another\n"), ("lib/a", TEXT)):
        (origin / place).mkdir(parents=True)
        (origin / place / "b.py").write_bytes(content)
    return origin


@pytest.fixture
def repository(tmp_path):
    """A clone whose newest commit no longer has the content."""
    origin = tmp_path / "repository"
    (origin / "a").mkdir(parents=True)
    git = ["git", "-C", str(origin), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run(["git", "init", "-q", str(origin)], check=True)
    for content in (TEXT, b"x = 2\n"):
        (origin / "a" / "b.py").write_bytes(content)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", "change"], check=True)
    return origin


@pytest.mark.parametrize("kind", ["folder", "repository"])
def test_the_content_that_was_measured_is_unpacked(kind, request, tmp_path):
    peers = tmp_path / "peers"
    assert MADE_UP.missing(peers) == ["a/b.py"]
    MADE_UP.unpack(request.getfixturevalue(kind), peers)
    written = peers / "Made up" / "a" / "b.py"
    assert written.read_bytes() == TEXT
    assert MADE_UP.missing(peers) == []
    written.write_bytes(b"edited\n")
    assert MADE_UP.missing(peers) == ["a/b.py"]


@pytest.mark.parametrize("kind", ["folder", "repository"])
def test_another_content_is_refused_and_nothing_written(kind, request, tmp_path):
    wanted = replace(MADE_UP, files={**MADE_UP.files, "a/c.py": blob_id(b"never there")})
    with pytest.raises(ValueError, match=r"^origin .* has no a/c.py .*example.org.*release 1.2"):
        wanted.unpack(request.getfixturevalue(kind), tmp_path / "peers")
    assert not (tmp_path / "peers").exists()


# compiling and importing


def test_without_a_compiler_the_message_says_so(monkeypatch):
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setattr(code.shutil, "which", lambda name: None)
    with pytest.raises(RuntimeError, match="there is no nvcc"):
        code.build("vllm", [])
    assert code.nvcc_version() is None


def test_arguments_go_as_c_has_them(monkeypatch):
    stream = SimpleNamespace(cuda_stream=77)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    t, got = torch.ones(3), []
    code.call(lambda *arguments: got.extend(arguments), t, None, 5, 0.5)
    types = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_double, ctypes.c_void_p]
    assert [type(value) for value in got] == types
    assert [value.value for value in got] == [t.data_ptr(), None, 5, 0.5, 77]
    with pytest.raises(RuntimeError, match=r"^too large$"):
        code.call(lambda *arguments: b"too large")


def test_a_file_is_imported_with_stand_ins(tmp_path):
    path = tmp_path / "deep.py"
    path.write_text("from ..near import FOUR\nfrom .beside import double\nEIGHT = double(FOUR)\n")
    stubs = {"torch.near": {"FOUR": 4}, "torch.ops.beside": {"double": lambda x: 2 * x}}
    module = import_file(path, "torch.ops.deep", stubs)
    assert module.EIGHT == 8
    assert not hasattr(torch, "near")  # the installed package is left as it is
    with pytest.raises(ImportError):
        import_file(path, "elsewhere.ops.deep", {"elsewhere.near": {"FOUR": 4}})
    with pytest.raises(ValueError, match=r"^path is .*none.py'; accepted: a file"):
        import_file(tmp_path / "none.py", "none")


# checking and timing


def halves_turned(x, cos, sin):
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def apply_rotary(x, cos, sin, interleaved, conjugate):
    """FlashAttention's: (b, s, h, d), a column for each pair."""
    return halves_turned(x, cos[:, None], (-sin if conjugate else sin)[:, None])


def rope_forward(q, k, cos, sin):
    """Liger-Kernel's: (b, h, s, d), in place, a column for each element, with two more results."""
    half = cos.shape[-1] // 2
    cos, sin = cos[:, None, :, :half], sin[:, None, :, :half]
    return q.copy_(halves_turned(q, cos, sin)), k.copy_(halves_turned(k, cos, sin)), cos, sin


class FastRope:
    """Unsloth's: (b, s, h, d), in place, a column for each element."""

    @staticmethod
    def apply(x, cos, sin):
        half = cos.shape[-1] // 2
        return x.copy_(halves_turned(x, cos[:, None, :half], sin[:, None, :half]))


CODE = {
    "FlashAttention": {"apply_rotary": apply_rotary},
    "Liger-Kernel": {
        "rope_forward": rope_forward,
        "rope_backward": lambda dq, dk, cos, sin: rope_forward(dq, dk, cos, -sin),
    },
    "Unsloth": {"Fast_RoPE_Embedding": FastRope},
}


@pytest.mark.parametrize("k_heads", [0, 2], ids=["one tensor", "q and k"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("name", CODE)
def test_an_adapter_hands_over_what_its_function_takes(name, direction, k_heads, monkeypatch):
    if (name, direction) == ("Unsloth", "backward"):
        pytest.skip("the stand-in has no autograd")
    provider, case = FROM_SOURCES[name], replace(SMALL, k_heads=k_heads)
    monkeypatch.setitem(provider.__dict__, "code", SimpleNamespace(**CODE[name]))
    workload = Workload(case, "cpu")
    one = provider.run(workload, provider.function(workload), direction)
    error = provider.error(workload, one.call(), one.layout, direction)
    assert error <= provider.allowed_error(case)
    assert bool(one.overwrites) == (name != "FlashAttention")


def test_transformer_engine_gets_each_tensor_with_its_heads(monkeypatch):
    calls = []
    monkeypatch.setattr(transformer_engine, "call", lambda function, *given: calls.append(given))
    provider = FROM_SOURCES["TransformerEngine"]
    monkeypatch.setitem(provider.__dict__, "code", SimpleNamespace(rotate=None))
    workload = Workload(replace(SMALL, k_heads=2), "cpu")
    outs = provider.run(workload, provider.function(workload), "forward").call()
    assert [tuple(out.shape) for out in outs] == [(7, 2, 4, 16), (7, 2, 2, 16)]
    assert [given[7:12] for given in calls] == [(7, 2, 4, 16, 16), (7, 2, 2, 16, 16)]


@pytest.mark.parametrize("direction", ["forward, grad", "both"])
def test_what_comes_from_sources_has_no_autograd_and_no_host_time(direction):
    provider = FROM_SOURCES["TransformerEngine"]
    assert "autograd" in provider.cannot(SMALL, direction)
    assert "host time" in provider.cannot(replace(SMALL, clock="host"), direction)
    assert provider.cannot(SMALL, "backward") is None


class StandIn(Provider):
    """Rotates by fp64; `spoil` changes the first result."""

    built_with = "-O3"

    def __init__(self, name, spoil=lambda out: out, has_backward=True):
        self.name, self.spoil, self.has_backward, self.calls = name, spoil, has_backward, 0

    def layout(self, case):
        return Layout("thd" if case.tensor_format == "thd" else "bshd")

    def function(self, workload):
        return self._rotation(workload, False)

    def gradient(self, workload):
        return self._rotation(workload, True)

    def _rotation(self, workload, backward):
        case = workload.case

        def rotation(t):
            self.calls += 1
            x = t.unflatten(0, (case.b, case.s)) if t.dim() == 3 else t
            out = workload.rotated(x, workload.positions, backward).to(t.dtype)
            return (self.spoil(out.reshape(t.shape)),)

        return rotation


class Absent(FromSources):
    name = "Absent"
    source, measures = MADE_UP, "nothing"


class Broken(FromSources):
    name = "Broken"
    source, measures = replace(MADE_UP, files={}), "nothing"

    def prepare(self):
        raise RuntimeError("nvcc failed: of no use\nmore")


class RecordingGPU(FakeGPU):
    """Keeps the names of what it is asked to time."""

    def __init__(self):
        super().__init__(device="cpu")
        object.__setattr__(self, "timed", [])

    def device_time(self, calls):
        self.timed.append(set(calls))
        return super().device_time(calls)


def one_wrong_element(out):
    out.view(-1)[5] += 1
    return out


def fails(out):
    raise RuntimeError("CUDA error: misaligned address\nand more")


def run(tmp_path, *providers, cases=(SMALL,), arguments=()):
    gpu, names = RecordingGPU(), [provider.name for provider in providers]
    (group,) = PEERS.sets["peers"]
    groups = (replace(group, cases=cases, beside=tuple(names)),)
    everybody = {"copy_": FROM_SOURCES["copy_"]} | dict(zip(names, providers, strict=True))
    kind = replace(PEERS, sets={"peers": groups}, providers=everybody)
    status = command.main(["peers", "--out", str(tmp_path), *arguments], gpu, [kind])
    return status, load(tmp_path / "peers-made-up.json"), gpu.timed


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda out: out * 0.5, "wrong: error 0.5 against fp64, "),
        (one_wrong_element, "wrong: error "),
        (lambda out: out * float("nan"), "wrong: error nan"),
        (lambda out: out.double(), "ValueError: results have "),
        (lambda out: out[:1], "ValueError: results have "),
        (fails, "RuntimeError: CUDA error: misaligned address"),
    ],
    ids=("half", "one element", "NaN", "another dtype", "another shape", "fails"),
)
def test_a_wrong_peer_is_refused_before_it_is_timed(spoil, why, tmp_path):
    wrong = StandIn("wrong", spoil)
    status, record, timed = run(tmp_path, StandIn("right"), wrong)
    assert status == 0
    assert timed == [{"copy_", "right"}, {"copy_", "right"}]
    assert wrong.calls == 2  # the one that was checked, forward and backward
    assert {row["provider"] for row in record["rows"]} == {"copy_", "right"}
    assert [left["provider"] for left in record["left_out"]] == ["wrong", "wrong"]
    assert all(left["failed"] and left["why"].startswith(why) for left in record["left_out"])


def test_ours_wrong_fails_the_command_and_a_direction_that_is_not_there_does_not(tmp_path):
    assert run(tmp_path, StandIn(OURS, one_wrong_element))[0] == 1
    status, record, timed = run(tmp_path, StandIn(OURS), StandIn("serving", has_backward=False))
    assert (status, timed) == (0, [{"copy_", OURS, "serving"}, {"copy_", OURS}])
    (left,) = record["left_out"]
    assert (left["why"], left["failed"]) == ("no backward", False)


def test_what_is_not_there_is_named_with_the_reason(tmp_path):
    status, record, timed = run(tmp_path, Absent(), Broken(), StandIn("right"))
    assert status == 0 and timed[0] == {"copy_", "right"}
    assert record["left_out"] == []  # it is not tried on any case
    about = record["providers"]
    assert about["Absent"]["absent"] == "not unpacked: a/b.py"
    assert about["Broken"]["absent"] == "RuntimeError: nvcc failed: of no use"
    assert about["right"]["absent"] is None
    assert about["Absent"]["revision"] == "release 1.2"


def test_the_record_has_what_a_reader_needs(tmp_path):
    _, record, _ = run(tmp_path, StandIn("right"), cases=(SMALL, PACKED))
    assert record["complete"] and record["record"] and record["format"] == 1
    assert {"torch", "triton", "driver", "nvcc"} <= set(record["versions"])
    assert record["gpu"] == "Made Up" and record["date"] == "2026-11-20"
    assert len(record["rows"]) == 8
    on_file = load(RECORDS[0])
    assert set(record) >= set(on_file)
    assert {*record["rows"][0]} == {*on_file["rows"][0]} - {"max_error"}  # until 2026-11-25
    for row in record["rows"]:
        assert {"shape", "direction", "median_us", "low_us", "high_us", "spread"} <= set(row)
        is_copy = row["provider"] == "copy_"
        assert (row["error"] is None) == is_copy
        assert row["of_copy"] == (1.0 if is_copy else 0.5)
        assert row["bytes"] == (SMALL if "sbhd" in row["shape"] else PACKED).bytes_moved
        if not is_copy:
            assert 0 < row["error"] < 1e-6


def test_where_nobody_can_be_timed_the_command_fails(tmp_path, monkeypatch):
    def broken(self, calls):
        raise RuntimeError("a case's result is not on cuda:0")

    monkeypatch.setattr(RecordingGPU, "device_time", broken)
    status, record, _ = run(tmp_path, StandIn("right"))
    assert status == 1 and not record["rows"]
    assert {left["provider"] for left in record["left_out"]} == {"everybody"}


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("case", [SMALL, PACKED], ids=["dense", "packed"])
def test_an_element_of_any_chunk_counts(case, direction, monkeypatch):
    workload, provider = Workload(case, "cpu"), StandIn("one", one_wrong_element)
    results = provider.run(workload, provider.function(workload), direction).call()
    error = workload.error(results, provider.layout(case), direction)
    monkeypatch.setattr("benchmarks.workload._CHUNK", 200)  # several chunks
    assert workload.error(results, provider.layout(case), direction) == pytest.approx(error)
    assert error == pytest.approx(1 / float(workload.x.norm()), rel=0.2)


# the table


def row(direction, provider, us, error, shape="sbhd (7, 2, 4, 16) fp32"):
    is_copy = provider == "copy_"
    about = {"shape": shape, "direction": direction, "provider": provider, "median_us": us}
    how = "" if is_copy else "bshd, in place"
    return about | {"spread": 0.02, "of_copy": 10 / us, "how": how, "error": error}


PEER = {"measures": "its kernel", "absent": None, "revision": "release 1.2", "built_with": "-O3"}
RECORD = {
    "gpu": "Made Up",
    "versions": {"torch": "2.11.0"},
    "date": "2026-11-20",
    "what": "Time",
    "providers": {
        "copy_": {"measures": "the whole call", "absent": None, "version": ""},
        "Peer": PEER | {"repository": "https://example.org/peer"},
        "Gone": {"measures": "its kernel", "absent": "not unpacked: a", "revision": "x"},
    },
    "rows": [
        row("forward", "copy_", 10.0, None),
        row("forward", "Peer", 20.0, 1e-3),
        row("forward", "copy_", 10.0, None, "second"),
        row("forward", "Peer", 12.5, 2e-3, "second"),
        row("forward", "Half", 40.0, 1e-3),
        row("backward", "copy_", 10.0, None),
        row("backward", "TransformerEngine", 30.0, 1e-3),
        row("backward", "TransformerEngine, bshd", 25.0, 1e-3),
        row("backward", OURS, 12.5, 1e-3),
    ],
    "left_out": [
        {"shape": "s", "direction": d, "provider": "Peer", "why": "no backward"}
        for d in ("backward", "forward")
    ],
}


def test_the_page_and_the_picture_show_the_record(tmp_path):
    path = tmp_path / "record.json"
    path.write_text(json.dumps(RECORD))
    assert command.main(["report", str(path)]) == 0
    lines = path.with_suffix(".md").read_text().splitlines()
    assert "| forward | sbhd (7, 2, 4, 16) fp32 | second | largest error |" in lines
    assert "| copy_ | 10.0 µs | 10.0 µs | – |" in lines
    assert "| Peer | 50% (20.0 µs) | 80% (12.5 µs) | 2.0e-03 |" in lines
    assert "| Half | 25% (40.0 µs) | – | 1.0e-03 |" in lines
    assert "| sbhd (7, 2, 4, 16) fp32 | backward | 25.0 µs | 2.00x (12.5 µs) | – |" in lines
    link = "[release 1.2](https://example.org/peer)"
    assert f"| Peer | {link} | its kernel (-O3) | bshd, in place |" in lines
    assert "| Gone | absent: not unpacked: a | its kernel | – |" in lines
    assert "- Peer: no backward (2: s backward, ...)" in lines
    assert any("differ by up to 2.0% (" in line for line in lines)
    assert Image.open(path.with_suffix(".png")).text["Results"] == fingerprint(load(path))
    figure = peers(RECORD["rows"])
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == [OURS, "Peer", "TransformerEngine, bshd", "TransformerEngine", "Half"]
    assert "rope_kernels reaches 80 %" in figure.get_suptitle()
    assert figure.get_suptitle().endswith("Peer, 65 %")
    plt.close(figure)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_page_and_picture_are_of_the_record(path):
    record = load(path)
    assert path.with_suffix(".md").read_text() == page(record)
    shown = Image.open(path.with_suffix(".png")).text["Results"]
    assert shown == fingerprint(record)
    record["rows"][0]["median_us"] += 1
    assert shown != fingerprint(record)


def test_the_rows_in_readme_are_those_of_the_record():
    record, readme = load(RESULTS / "peers-nvidia-h200.json"), README.read_text()
    assert tables(record)[0].filled_in(readme) == readme
    for row in record["rows"]:
        row["of_copy"] /= 2
    assert tables(record)[0].filled_in(readme) != readme
    assert tables(record | {"gpu": "another"}) == []


# the records on file


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_records_are_whole(path):
    record = load(path)
    assert record["record"] and record["complete"]
    assert path.stem == "peers-" + record["gpu"].lower().replace(" ", "-")
    assert set(record["providers"]) <= {provider.name for provider in EVERYBODY}  # or newer
    assert not [left for left in record["left_out"] if left["failed"]]
    timed = {(row["provider"], row["shape"], row["direction"]) for row in record["rows"]}
    for direction in ("forward", "backward"):
        for dtype in ("bf16", "fp32"):
            for name in (OURS, "TransformerEngine"):
                assert (name, f"sbhd (2048, 16, 8, 256) {dtype}", direction) in timed
    for name, about in record["providers"].items():
        assert about["absent"] or any(name == provider for provider, _, _ in timed)
