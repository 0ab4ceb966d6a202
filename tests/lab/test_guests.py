"""A candidate runs in the notebook's process: it ends, and leaves that process as it was."""

import os
import random
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import rope_lab as lab
from cells import Cell
from rope_lab.judge import check_exercise as judge_module
from rope_lab.judge import definitions, guests
from rope_lab.judge.spec import STRIDED, spec
from rope_lab.run import Now
from rope_lab.rungs import RUNGS

triton = pytest.importorskip("triton", reason="needs Triton")


judge = judge_module.check_exercise
HERE = str(Path(__file__).parent)
needs_posix = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX's signals")


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([-x2, x1], dim=-1)


def candidate_that(does):
    """A right one, which does something else first."""

    def candidate(x):
        does()
        return rotate_half(x)

    return candidate


# what it changes is put back

NAMES = {"np": np, "os": os, "random": random, "sys": sys, "torch": torch, "warnings": warnings}
NAMES |= {"FakeTensorMode": FakeTensorMode, "TorchDispatchMode": TorchDispatchMode}

CHANGES = {  # what a candidate does -> what it would change
    "torch.set_default_dtype(torch.float64)": "torch.get_default_dtype()",
    "torch.set_default_device('meta')": "torch.get_default_device()",
    "torch.use_deterministic_algorithms(False)": "torch.get_deterministic_debug_mode()",
    "torch.set_num_threads(3)": "torch.get_num_threads()",
    "torch.set_grad_enabled(False)": "torch.is_grad_enabled()",
    "torch.set_flush_denormal(True)": "float(torch.tensor(1e-40) * 1)",
    "torch.autograd.set_detect_anomaly(True)": "torch.is_anomaly_enabled()",
    "torch.set_float32_matmul_precision('medium')": "torch.get_float32_matmul_precision()",
    "torch.manual_seed(1)": "torch.get_rng_state().tolist()",
    "np.random.seed(1)": "np.random.get_state()[1].tolist()",
    "random.seed(1)": "random.getstate()",
    "np.seterr(all='raise')": "np.geterr()",
    "warnings.simplefilter('error')": "list(warnings.filters)",
    "os.environ['TRITON_DEBUG'] = '1'": "os.environ.get('TRITON_DEBUG')",
    "os.chdir('..')": "os.getcwd()",
    "sys.path.insert(0, 'elsewhere')": "list(sys.path)",
    "FakeTensorMode().__enter__()": "torch._C._len_torch_dispatch_stack()",
    "TorchDispatchMode().__enter__()": "torch._C._len_torch_dispatch_stack()",
    "torch.device('meta').__enter__()": "torch._C._len_torch_function_stack()",
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_candidate_changes_is_put_back(change):
    """And a case is not judged with what the one before it has changed."""
    before = eval(CHANGES[change], NAMES)
    seen = []

    def does():
        seen.append(eval(CHANGES[change], NAMES))
        exec(change, NAMES)

    judge(candidate_that(does), definitions.rotate_half)
    assert eval(CHANGES[change], NAMES) == before
    assert all(one == seen[0] for one in seen)


def test_a_mode_that_a_guest_leaves_open_takes_no_other_along():
    with TorchDispatchMode() as own:
        with guests.a_guest():
            FakeTensorMode().__enter__()
        assert torch._C._get_dispatch_stack_at(0) is own


# it ends


def computes():
    while True:
        pass


def catches_once():
    try:
        computes()
    except BaseException:
        return


def waits():
    time.sleep(60)


@needs_posix
@pytest.mark.parametrize("does", (computes, catches_once, waits))
def test_an_endless_candidate_is_ended(does, monkeypatch):
    monkeypatch.setattr(guests, "SECONDS", 0.2)
    told = "the case 'small and plain' ran for 0 seconds without finishing"
    assert judge(candidate_that(does), definitions.rotate_half).reason == told
    assert judge(rotate_half, definitions.rotate_half)


@needs_posix
def test_the_stop_button_ends_a_check():
    threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,)).start()
    with pytest.raises(KeyboardInterrupt):
        judge(candidate_that(computes), definitions.rotate_half)
    assert judge(rotate_half, definitions.rotate_half)


def without_end(make):
    kept = []
    while True:
        kept.append(make())


STOPS = {  # what a candidate does, and words of its verdict
    "an exit": (lambda: sys.exit(3), "it raises SystemExit: 3, at: "),
    "much memory of PyTorch": (lambda: torch.empty(10**14), "2 GiB of memory"),
    "much memory of NumPy": (lambda: np.zeros(10**14), "2 GiB of memory"),
    "tensor after tensor": (lambda: without_end(lambda: torch.ones(10**7)), "2 GiB of memory"),
}


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux")
@pytest.mark.parametrize("what", STOPS)
def test_a_candidate_that_stops_is_told_its_line(what, monkeypatch):
    does, told = STOPS[what]
    monkeypatch.setattr(guests, "MEMORY", 2**28)  # so that it is soon used up
    verdict = judge(candidate_that(does), definitions.rotate_half)
    assert verdict.state == "wrong" and told in verdict.reason, verdict
    assert judge(rotate_half, definitions.rotate_half)


def test_a_candidate_that_is_compiled_is_judged_as_it_is():
    """The judge watches operations, which a compiled function doesn't have."""
    compiled = torch.compile(rotate_half, fullgraph=True)
    assert judge(compiled, definitions.rotate_half)
    assert judge(lambda x: torch.compile(rotate_half)(x), definitions.rotate_half)


@pytest.mark.needs_compiler
def test_a_verdict_starts_no_process_but_the_compilers_tools(kept_here):
    """ptxas and nvdisasm; on a GPU, Triton's launcher is compiled by C's compiler."""
    names, done = set(), threading.Event()
    before = {child.pid for child in psutil.Process().children()}

    def look():
        while not done.wait(0.002):
            for child in psutil.Process().children(recursive=True):
                if child.pid not in before:
                    names.add(child.name())

    looking = threading.Thread(target=look)
    looking.start()
    assert lab.check_rung(5, RUNGS[5].module.my_rope)
    done.set()
    looking.join()
    forked = psutil.Process().name()  # of a child that isn't a tool yet
    assert names <= {"ptxas", "nvdisasm", "gcc", "cc1", "as", "collect2", "ld", forked}
    assert names or torch.cuda.is_available(), "it has read machine code"


# on a GPU, which is made up here


def total(x: "(n)"):  # noqa: F821
    return x.sum()[None]


LOCKED = Cell(
    "while tl.atomic_cas(lock_ptr, 0, 1) == 1:\n"
    "    pass\n"
    "tl.store(out_ptr, tl.load(out_ptr) + tl.sum(tl.where(i < n, x, 0.0)))\n"
    "tl.atomic_xchg(lock_ptr, 0)",
    instead={
        "x_ptr, out_ptr": "x_ptr, lock_ptr, out_ptr",
        "](x, out": "](x, torch.zeros(1, dtype=torch.int32, device=x.device), out",
        "torch.empty_like(x)": "torch.zeros(1, device=x.device)",
        "    tl.store(out_ptr + i, y, mask=i < n)\n": "",
    },
)
BROKEN = "CUDA error: an illegal memory access was encountered"
ON_A_GPU = {  # a candidate, its specification, and words of the verdict
    "one that is right": (
        RUNGS[7].module.my_rope,
        definitions.rope,
        f"the GPU can't be used: it raises AcceleratorError: {BROKEN} (no CUDA call of this "
        "notebook works after it: restart the kernel)",
    ),
    "one that leaves its tensors": (
        Cell("y = x + tl.load(x_ptr + i + n, mask=i < n)"),
        spec(leave_out=STRIDED)(total),
        "out of bounds: ",
    ),
    "one with a lock": (
        LOCKED,
        spec(leave_out=(*STRIDED, "half precision", "bfloat16"))(total),
        "it does not run on this GPU, where nothing ends a kernel that waits for a lock",
    ),
}


def test_a_candidate_that_breaks_the_gpu_is_not_called_again():
    """The judge's own calls would fail, too."""
    calls = []

    def breaking(x):
        calls.append(1)
        raise torch.AcceleratorError("an illegal memory access was encountered")

    assert "restart the kernel" in judge(breaking, spec(total)).reason and calls == [1]


@pytest.mark.needs_compiler
@pytest.mark.parametrize("when", ("at once", "at the first tensor"))
@pytest.mark.parametrize("what", ON_A_GPU)
def test_which_candidates_reach_a_gpu(what, when, monkeypatch, tmp_path):
    """An error of a kernel before has ended all CUDA calls."""
    candidate, wanted, told = ON_A_GPU[what]
    if isinstance(candidate, Cell):
        candidate = candidate.launcher(tmp_path)

    def fail(*_):
        raise torch.AcceleratorError(BROKEN)

    monkeypatch.setattr(Now, "device", "cuda")
    monkeypatch.setattr(torch.cuda, "synchronize", fail if when == "at once" else lambda: None)
    monkeypatch.setattr("rope_lab.judge.spec.laid_out_alike", fail)
    assert told in repr(judge(candidate, wanted))


def test_a_backward_runs_in_the_thread_of_its_check(device):
    """On a GPU, PyTorch has another, which would wait for this one at the first launch."""
    threads = []

    class Noted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            threads.append(threading.get_ident())
            return grad

    with guests.a_guest(device):
        Noted.apply(torch.ones(3, device=device, requires_grad=True)).sum().backward()
    assert threads == [threading.get_ident()]
    assert torch._C._is_multithreading_enabled()
