"""The process that judges: a reader's files, what a candidate starts, and its own end."""

import contextlib
import functools
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from jupyter_client.manager import start_new_kernel

import wrong_kernels
from processes import PLACES, is_running, until
from rope_lab.judge import check_exercise as judge_module
from rope_lab.judge import definitions
from rope_lab.judge.climb import specifications
from rope_lab.judge.judge_process import settings
from rope_lab.rungs import RUNGS

HERE = str(Path(__file__).parent)
PATHS = os.pathsep.join([HERE, *PLACES, os.environ.get("PYTHONPATH", "")])
judge = judge_module.check_exercise


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([-x2, x1], dim=-1)


def never_ends(x, begun):
    Path(begun).touch()
    while True:
        pass


def holds_the_interpreter(x, begun):
    """An endless loop in C: no other thread of the process gets a turn."""
    Path(begun).touch()
    return sum(itertools.repeat(0))


def note(pid, file):
    with Path(file).open("a", encoding="utf-8") as notes:
        print(pid, file=notes)


def leaves_a_process(x, pids):
    note(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid, pids)
    return rotate_half(x)


def fork_that_holds_all_pipes(pids):
    """In a session of its own, so that no signal to a group reaches it."""
    if pid := os.fork():
        note(pid, pids)
    else:
        os.setsid()
        time.sleep(300)
        os._exit(0)


def leaves_two_and_never_ends(x, pids):
    leaves_a_process(x, pids)
    fork_that_holds_all_pipes(pids)
    never_ends(x, pids)


def leaves_a_fork_and_ends(x, pids):
    fork_that_holds_all_pipes(pids)
    os._exit(3)


def reads_its_input(x):
    return x * float(input("a factor? "))


@pytest.fixture
def pids(tmp_path):
    """A file for the processes that a candidate starts; they are ended after the test."""
    file = tmp_path / "pids"
    file.touch()
    yield file
    for pid in file.read_text(encoding="utf-8").split():
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(int(pid)).kill()


# a notebook, in a kernel of Jupyter's

RIGHT = "print(lab.check_exercise(rotate_half, definitions.rotate_half))"


@contextlib.contextmanager
def notebook_in(folder):
    """A function that runs a cell: what it shows, and its errors."""
    manager, client = start_new_kernel(cwd=str(folder))

    def run(source):
        said, errors = [], []

        def hear(message):
            content = message["content"]
            said.append(content.get("text") or content.get("data", {}).get("text/plain", ""))
            errors.extend(content.get("traceback", ()))

        client.execute_interactive(source, output_hook=hear, timeout=60)
        return "".join(said), errors

    try:
        yield run
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


# files beside the notebook

BESIDE = """
import numpy
import rope_lab as lab
from pathlib import Path
from rope_lab.child import Worker
from rope_lab.judge import check_exercise as judge
from rope_lab.judge import definitions, inspect
for name in ("numpy", "torch", "triton", "rope_lab", "rope_kernels"):
    Path(name + ".py").write_text("raise SystemExit('the file of a reader')")

def rotate_half(x):
    import random
    import torch
    from turned import turned
    return turned(x) if random.random() < 1 else x
"""
TURNED = """
import torch

def turned(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([-x2, x1], dim=-1)
"""
PROCESSES = """
import rope_lab.compiler.compile as compiler
for place in (
    judge.CHILD,
    "rope_lab.judge.inspect.measure_process",
    str(Path(compiler.__file__).with_name("compile_process.py")),
):
    Worker(place, {"TRITON_INTERPRET": "1"}).end()
    print("started")
"""


def test_a_readers_file_takes_no_modules_place(tmp_path, monkeypatch):
    """Beside the notebook, or in a folder that the reader has put first."""
    notebooks, mine = tmp_path / "notebooks", tmp_path / "mine"
    for folder in (notebooks, mine):
        folder.mkdir()
        for name in ("copy", "pickle", "queue", "random", "select", "signal", "struct", "tempfile"):
            (folder / f"{name}.py").write_text("raise SystemExit('the file of a reader')")
    (notebooks / "turned.py").write_text(TURNED)
    monkeypatch.setenv("PYTHONPATH", PATHS.strip(os.pathsep))
    with notebook_in(notebooks) as run:
        assert run(f"{BESIDE}\nimport sys\nsys.path.insert(0, {str(mine)!r})") == ("", [])
        said, errors = run(PROCESSES)
        assert not errors and said.split() == ["started"] * 3, (said, errors)
        said, errors = run(RIGHT)
        assert "RIGHT" in said and not errors, (said, errors)


# processes that a candidate starts


@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")
@pytest.mark.parametrize(
    "candidate, told",
    (
        (leaves_two_and_never_ends, "'small and plain' ran for 3 seconds without finishing"),
        (leaves_a_fork_and_ends, "it ended the process (exit 3)"),
    ),
)
def test_a_fork_that_holds_the_pipes_keeps_nobody_waiting(candidate, told, monkeypatch, pids):
    """And a process that is no fork is ended with the candidate."""
    judge(rotate_half, definitions.rotate_half)  # the child is there
    monkeypatch.setattr(judge_module, "SECONDS", 3.0)
    candidate = functools.partial(candidate, pids=str(pids))
    assert told in judge(candidate, definitions.rotate_half).reason
    *processes, fork = pids.read_text(encoding="utf-8").split()
    assert is_running(fork), "the verdict came after it"
    assert until(lambda: not any(map(is_running, processes)))


# the notebook is killed

NOTEBOOK = """
import functools
import sys
from rope_lab.judge import check_exercise as judge
from rope_lab.judge import definitions
from test_judge_child import fork_that_holds_all_pipes, holds_the_interpreter
child = judge.Worker.kept(judge.CHILD, "1")
print(child.process.pid, child.folder.name, flush=True)
if sys.platform != "win32":
    fork_that_holds_all_pipes(sys.argv[2])
candidate = functools.partial(holds_the_interpreter, begun=sys.argv[1])
judge.check_exercise(candidate, definitions.rotate_half)
"""


def test_where_the_notebook_is_killed_nothing_stays(tmp_path, pids):
    """Beside a fork of it, which may stay."""
    notebook = subprocess.Popen(
        [sys.executable, "-c", NOTEBOOK, str(tmp_path / "begun"), str(pids)],
        env=os.environ | {"PYTHONPATH": PATHS},
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    with notebook:
        pid, folder = notebook.stdout.readline().split()
        assert until((tmp_path / "begun").exists)
        notebook.kill()
    try:
        assert until(lambda: not is_running(pid)), "the child loops on"
        assert until(lambda: not Path(folder).exists()), "its folder stays"
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(int(pid)).kill()


# state that a candidate leaves

LEFT = {  # what a candidate does, and what undoes it here
    "torch.set_default_dtype(torch.float64)": "torch.set_default_dtype(torch.float32)",
    "torch.set_default_device('meta')": "torch.set_default_device(None)",
    "torch.use_deterministic_algorithms(not was)": "torch.use_deterministic_algorithms(was)",
    "torch.set_num_threads(threads + 1)": "torch.set_num_threads(threads)",
    "torch.set_grad_enabled(False)": "torch.set_grad_enabled(True)",
    "torch.set_flush_denormal(True)": "torch.set_flush_denormal(False)",
    "np.seterr(all='raise')": "np.seterr(**errors)",
    "os.environ['TRITON_DEBUG'] = '1'": "del os.environ['TRITON_DEBUG']",
    "os.chdir('..')": "os.chdir(here)",
}


@pytest.mark.parametrize("done", LEFT)
def test_what_a_candidate_leaves_is_seen(done):
    names = {"torch": torch, "np": np, "os": os, "here": os.getcwd()}
    names |= {"errors": np.geterr(), "threads": torch.get_num_threads()}
    names["was"] = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(names["was"])  # its first call loads much of PyTorch
    before = settings()
    try:
        exec(done, names)
        assert settings() != before
    finally:
        exec(LEFT[done], names)
    assert settings() == before


def leaves_other_settings(x):
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(False)
    return rotate_half(x)


def test_the_next_candidate_is_judged_as_if_it_were_the_first():
    """And no candidate waits for a new process that needs none."""
    pytest.importorskip("triton", reason="needs Triton")
    numbers = []
    for candidate, wanted in (
        (rotate_half, definitions.rotate_half),
        (leaves_other_settings, definitions.rotate_half),
        (wrong_kernels.launch, definitions.rope),
        (RUNGS[3].module.my_rope, specifications.rope_of_whole_rows),
        (wrong_kernels.prints, definitions.rotate_half),
    ):
        assert judge(candidate, wanted)
        numbers.append(judge_module.Worker.kept(judge_module.CHILD, "1").process.pid)
    assert numbers[0] != numbers[1] and len({*numbers[1:]}) == 1


# PyTorch's compiler


def without_the_compiler(x):
    assert "torch._dynamo" not in sys.modules, "it has been loaded, which takes a second"
    return rotate_half(x)


def by_the_compiler(x):
    return torch.compile(rotate_half, fullgraph=True)(x)


def test_the_compiler_is_not_loaded_and_its_candidates_are_judged_as_they_are():
    """The judge watches operations, which a compiled function doesn't have."""
    judge_module.Worker.kept(judge_module.CHILD, "1").end()  # it may be loaded there
    assert judge(without_the_compiler, definitions.rotate_half)
    assert judge(by_the_compiler, definitions.rotate_half)


# what is no job


def test_a_candidate_reads_no_jobs():
    assert "EOFError" in judge(reads_its_input, definitions.rotate_half).reason
