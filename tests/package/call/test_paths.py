"""Who computes a call: what `path_of` says is compared with what runs, and with the log."""

import logging
import re
from contextlib import contextmanager
from functools import partial
from itertools import product

import pytest
import torch
from torch import func
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode

import pairwise
from counted import paths_taken
from inputs import angles
from ops import FEW, OPS, by_turns
from processes import ROOT
from rope_kernels import RotaryPositionEmbedding, paths, rope_fw, rope_qk
from rope_kernels.norms import api as norms
from rope_kernels.paths import Path as CallPath
from rope_kernels.serving import cache as caches
from rope_lab.compiler.launches import launched_by

pytest.importorskip("triton", reason="needs Triton")


class Plain(torch.Tensor):
    pass


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


def of_one(transform):
    """Calls it within a transform of another tensor, which it doesn't depend on."""

    def do(call):
        answer = []
        transform(lambda x: (answer.append(call()), x)[1])(torch.ones(1))
        return answer[0]

    return do


SITUATIONS = {  # and who computes a call there: of a norm, which has no operator, the second
    "as it is": (run, "kernel", "kernel"),
    "within no_grad": (within(torch.no_grad), "kernel", "kernel"),
    "a mode": (within(Mode), "operator", "kernel"),
    "make_fx": (of_one(make_fx), "operator", "pytorch"),
    "forward mode": (within(forward_mode), "pytorch", "pytorch"),
    "torch.func": (of_one(func.vmap), "pytorch", "pytorch"),
}
CASES = [*product(range(len(FEW)), SITUATIONS)]
if not pairwise.EVERY:  # one each
    CASES = [(number % len(FEW), name) for number, name in enumerate(SITUATIONS)]


def what_runs(call, situation):
    """What a call runs, by the names that PyTorch's profiler notes, and Triton's launches."""
    launched = []

    def note(launch):
        launched.append(launch)
        return launch.run()

    with launched_by(note), torch.autograd.profiler.profile() as profile:
        situation(call)
    if any(event.name.startswith("rope_kernels::") for event in profile.function_events):
        return "operator"
    return "kernel" if launched else "pytorch"


def line_of(function, path):
    """What is logged of a call that takes this path."""
    by = {"operator": "an operator, which launches the kernel", "pytorch": "plain PyTorch"}
    return f"{function} is computed by {by[path.by]}: {path.reason}"


@by_turns(OPS, CASES, "few, name")
def test_what_it_says_runs_and_is_logged_once(op, few, name, device, whole_way, log):
    """Nothing is logged of a call that takes the kernel, or that a tracer records."""
    sample, (situation, *by) = op.sample(device, **FEW[few]), SITUATIONS[name]
    wants = op.differentiable and name == "as it is"
    leaves = sample.leaves() if wants else {}
    lines = []
    for options in ({}, {"fused": False}):
        written = {n: x.clone() for n, x in sample.written.items()}
        call = partial(sample.call, leaves, written, **options)
        with paths_taken() as taken:
            ran = what_runs(call, situation)
        path = taken[0]
        assert (path.by, path.reason == "") == (ran, ran == "kernel")
        assert ran == ("pytorch" if options else by[not op.is_operator])
        situation(call)
        if path.by != "kernel" and name != "make_fx":
            lines.append(line_of(op.function.__name__, path))
        assert log() == list(dict.fromkeys(lines))


OTHERS = {  # t and freqs of another kind, the path, and words of the reason
    "a table that is trained": (
        lambda t: (t, torch.randn(5, 1, 1, 8, device=t.device, requires_grad=True)),
        ("pytorch", "freqs requires a gradient"),
    ),
    "a class that overrides operators": (
        lambda t: (TwoTensor(t, t.clone()), RotaryPositionEmbedding(8).to(t.device)),
        ("pytorch", "overrides operators"),
    ),
    "such a class as a table": (
        lambda t: (t, TwoTensor(x := angles(5, 8, t.device), x.clone())),
        ("pytorch", "overrides operators"),
    ),
    "a plain subclass": (
        lambda t: (t.as_subclass(Plain), RotaryPositionEmbedding(8).to(t.device)),
        ("kernel", ""),
    ),
    "the meta device": (
        lambda t: (t.to("meta"), RotaryPositionEmbedding(8).to("meta")),
        ("pytorch", "meta"),
    ),
}


def path(function, *arguments, **options):
    """The path of a call, which is made."""
    with paths_taken() as taken:
        function(*arguments, **options)
    return taken[0]


@pytest.mark.parametrize("name", OTHERS)
def test_it_names_what_is_in_the_way(name, device):
    make, (by, words) = OTHERS[name]
    t, freqs = make(torch.randn(5, 2, 3, 8, device=device))
    found = path(rope_qk, t, t, freqs, "sbhd")
    assert found.by == by and words in found.reason


def test_fake_tensors_are_recorded(device, log):
    with FakeTensorMode():
        t = torch.randn(5, 2, 3, 8, device=device)
        found = path(rope_fw, t, torch.randn(5, 1, 1, 8, device=device))
    assert found.by == "operator" and "FakeTensorMode" in found.reason
    assert log() == []


@pytest.mark.parametrize("options", ({}, {"fused": False}), ids=("kernel", "PyTorch"))
def test_a_compiled_call_logs_nothing(options, device, log):
    """A logger raises under `fullgraph=True`."""
    t, rope = torch.randn(5, 2, 3, 8, device=device), RotaryPositionEmbedding(8).to(device)
    torch._dynamo.reset()
    torch.compile(rope_fw, backend="aot_eager", fullgraph=True)(t, rope, **options)
    assert log() == []


def test_what_was_not_shown_is_logged_once_it_is(log):
    t, rope = torch.randn(5, 2, 3, 8), RotaryPositionEmbedding(8)
    logger = logging.getLogger("rope_kernels")
    logger.setLevel(logging.WARNING)  # as it is unless a user asks for more
    rope_fw(t, rope, fused=False)
    assert log() == []
    logger.setLevel(logging.INFO)
    rope_fw(t, rope, fused=False)
    assert log() == [line_of("rope_fw", CallPath("pytorch", "fused is False"))]


@pytest.mark.parametrize("wanted", ("no Triton", "no compiler", "no interpreter"))
def test_it_says_why_there_is_no_engine(wanted, monkeypatch, device, request):
    t, rope = torch.randn(5, 2, 3, 8), RotaryPositionEmbedding(8)
    if wanted == "no Triton":
        monkeypatch.setattr(paths, "_HAS_TRITON", False)
        assert path(rope_fw, t, rope) == ("pytorch", "Triton is not installed")
    elif wanted == "no compiler":
        monkeypatch.setattr(paths, "_HAS_COMPILER", False)
        if device == "cpu":  # Where there is a GPU, the kernels of this process are compiled.
            assert path(rope_fw, t, rope).by == "kernel"  # which is interpreted
        request.getfixturevalue("plain_pytorch")
        monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda _: True))
        monkeypatch.setattr(torch.Tensor, "is_cpu", property(lambda _: False))
        with pytest.warns(UserWarning, match="Triton's compiler is not installed"):
            found = path(rope_fw, t, rope)
        assert found == ("pytorch", "Triton's compiler is not installed")
    else:
        request.getfixturevalue("plain_pytorch")
        found = path(rope_fw, t, rope)
        assert found.by == "pytorch" and "TRITON_INTERPRET" in found.reason


def test_the_page_says_of_every_reason_what_to_do():
    """Without an engine, a reason may name the type of a device: the page has one of them.

    An operator computes the calls of the first row, plain PyTorch all others.
    """
    table = (
        (ROOT / "docs/package.md")
        .read_text("utf-8")
        .split("| reason | what to do |\n|---|---|\n")[1]
    )
    reasons = re.findall(r"^\| (.+?) \| .+ \|$", table.split("\n\n")[0], re.MULTILINE)
    by = ["an operator, which launches the kernel"] + ["plain PyTorch"] * (len(reasons) - 1)
    named = vars(paths) | vars(caches) | vars(norms)
    made = {x for x in named.values() if isinstance(x, CallPath) and x.reason}
    made -= {paths._TRACED, norms._NO_OPERATOR}  # nothing is logged while PyTorch traces
    without = (
        "Triton is not installed",
        "Triton's compiler is not installed",
        "the tensors are on a CPU, and TRITON_INTERPRET=1 is not set",
    )
    made |= {CallPath("pytorch", reason) for reason in without}
    rows = zip(by, reasons, strict=True)
    logged = {f"{name}: {reason}" for name, reason in rows if "does not run on" not in reason}
    assert logged == {line_of("f", x).removeprefix("f is computed by ") for x in made}
