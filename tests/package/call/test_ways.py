"""`which_way` says what a call would run: it is compared with what the call then runs."""

import re
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import func
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode

from ops import FEW, OPS, all_equal, bits_of, by_turns
from rope_kernels import RotaryPositionEmbedding, Way, modes, rope_fw, rope_qk, ways, which_way
from rope_lab.compiler.plans import launched_by

pytest.importorskip("triton", reason="needs Triton")


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        return operator(*args, **(kwargs or {}))


@contextmanager
def forward_mode():
    with forward_ad.dual_level():
        yield


def run(call):
    return call()


def within(context):
    def do(call):
        with context():
            return call()

    return do


def traced(call):
    answer = []
    make_fx(lambda x: (answer.append(call()), x)[1])(torch.ones(1))
    return answer[0]


def transformed(call):
    answer = []
    func.vmap(lambda x: (answer.append(call()), x)[1])(torch.ones(1))
    return answer[0]


SITUATIONS = {
    "as it is": run,
    "within no_grad": within(torch.no_grad),
    "a mode": within(Mode),
    "forward mode": within(forward_mode),
    "torch.func": transformed,
    "make_fx": traced,
}


def path_of(call, situation):
    """What a call runs, by the names that PyTorch's profiler notes, and Triton's launches."""
    launched = []

    def note(kernel, grid, arguments, options):
        launched.append(kernel)
        return kernel.run(*arguments, grid=grid, warmup=False, **options)

    with launched_by(note), torch.autograd.profiler.profile() as profile:
        situation(call)
    if any(event.name.startswith("rope_kernels::") for event in profile.function_events):
        return "operator"
    return "kernel" if launched else "pytorch"


@pytest.mark.parametrize("name", SITUATIONS)
@by_turns(OPS, FEW)
def test_what_it_says_is_what_runs(op, case, name, device, whole_way):
    sample, situation = op.sample(device, **case), SITUATIONS[name]
    wants = op.differentiable and name == "as it is"
    leaves = sample.leaves() if wants else {}
    for options in ({}, {"fused": False}):
        written = {n: x.clone() for n, x in sample.written.items()}
        before = bits_of([*sample.tensors(), *written.values()])

        def ask(written=written, options=options):
            given = sample.given | leaves | written
            given, freqs = sample.apart(given)
            return which_way(op.function, **given, freqs=freqs, **sample.options() | options)

        said = situation(ask)
        assert all_equal(bits_of([*sample.tensors(), *written.values()]), before)
        ran = path_of(partial(sample.call, leaves, written, **options), situation)
        assert (said.path, said.reason != "") == (ran, True)


OTHERS = {  # t and freqs of another kind, the path, and words of the reason
    "a table that is trained": (
        lambda t: (t, torch.randn(5, 1, 1, 8, device=t.device, requires_grad=True)),
        ("pytorch", "freqs requires a gradient"),
    ),
    "a class that overrides operators": (
        lambda t: (TwoTensor(t, t.clone()), RotaryPositionEmbedding(8).to(t.device)),
        ("pytorch", "overrides operators"),
    ),
    "the meta device": (
        lambda t: (t.to("meta"), RotaryPositionEmbedding(8).to("meta")),
        ("pytorch", "meta"),
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_it_names_what_is_in_the_way(name, device):
    make, (path, words) = OTHERS[name]
    t, freqs = make(torch.randn(5, 2, 3, 8, device=device))
    way = which_way(rope_qk, t, t, freqs, "sbhd")
    assert way.path == path and words in way.reason
    assert str(way) == f"{way.path}: {way.reason}"


def test_it_speaks_of_fake_tensors(device):
    with FakeTensorMode():
        t = torch.randn(5, 2, 3, 8, device=device)
        way = which_way(rope_fw, t, torch.randn(5, 1, 1, 8, device=device))
    assert way.path == "operator" and "FakeTensorMode" in way.reason


def test_it_answers_for_a_call_that_is_remembered(device):
    """Such a call is not decided again; asking still computes nothing."""
    t, rope = torch.randn(5, 2, 3, 8, device=device), RotaryPositionEmbedding(8).to(device)
    rope_fw(t, rope)
    launched = []
    with launched_by(lambda *launch: launched.append(launch)):
        assert which_way(rope_fw, t, rope).path == "kernel"
    assert not launched and torch.equal(rope_fw(t, rope), rope_fw(t, rope, fused=True))


def test_a_layer_is_asked_for_its_first_call(device):
    rope = RotaryPositionEmbedding(8).to(device)

    def layer(x, scale=1):
        return rope_fw(scale * x, rope, fused=False).sum()

    assert which_way(layer, torch.randn(5, 2, 3, 8, device=device), scale=2).path == "pytorch"
    assert layer(torch.randn(5, 2, 3, 8, device=device)).dim() == 0  # and then computes again


def test_what_rotates_nothing_or_is_refused_has_no_way(device):
    t, rope = torch.randn(5, 2, 3, 8, device=device), RotaryPositionEmbedding(8).to(device)
    with pytest.raises(ValueError, match=r"^function is <lambda>, which rotated nothing"):
        which_way(lambda: 1)
    with pytest.raises(TypeError, match=r"^tensor_format is missing"):
        which_way(rope_qk, t, t, rope)


@pytest.mark.parametrize("wanted", ("no Triton", "no compiler", "no interpreter"))
def test_it_says_why_there_is_no_engine(wanted, monkeypatch):
    t, rope = torch.randn(5, 2, 3, 8), RotaryPositionEmbedding(8)
    if wanted == "no Triton":
        monkeypatch.setattr(modes, "_HAS_TRITON", False)
        assert which_way(rope_fw, t, rope) == Way("pytorch", "Triton is not installed")
    elif wanted == "no compiler":
        monkeypatch.setattr(modes, "_HAS_COMPILER", False)
        monkeypatch.setenv("TRITON_INTERPRET", "1")  # Where there is a GPU, it is not set.
        assert which_way(rope_fw, t, rope).path == "kernel"  # which is interpreted
        monkeypatch.setenv("TRITON_INTERPRET", "0")
        monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda _: True))
        monkeypatch.setattr(torch.Tensor, "is_cpu", property(lambda _: False))
        with pytest.warns(UserWarning, match="Triton's compiler is not installed"):
            way = which_way(rope_fw, t, rope)
        assert way == Way("pytorch", "Triton's compiler is not installed")
    else:
        monkeypatch.setenv("TRITON_INTERPRET", "0")
        way = which_way(rope_fw, t, rope)
        assert way.path == "pytorch" and "TRITON_INTERPRET" in way.reason


def test_the_page_says_of_every_reason_what_to_do():
    """Without an engine, a reason may name the type of a device: the page has one of them."""
    page = Path(__file__).resolve().parents[3] / "docs/kernels.md"
    table = page.read_text("utf-8").split("| path | reason | what to do |\n")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", table, re.MULTILINE)
    engines = [engine for engine in modes.Engine if engine != modes.Engine.NONE]
    made = {("kernel", engine.value) for engine in engines}
    made |= {tuple(x) for x in vars(ways).values() if isinstance(x, Way)}
    without = (
        "Triton is not installed",
        "Triton's compiler is not installed",
        "the tensors are on a CPU, and TRITON_INTERPRET=1 is not set",
    )
    made |= {("pytorch", reason) for reason in without}
    assert {row for row in rows if "does not run on" not in row[1]} == made
