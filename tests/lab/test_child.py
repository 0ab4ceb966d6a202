"""A process that this one starts, and that answers jobs."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from processes import PLACES, is_running, until
from rope_lab.child import Ended, Worker

ANSWERS = """
import sys, time

def start(folder):
    print("started in", folder.name, file=sys.stderr)

def answer(job, folder, tell):
    for part in job["parts"]:
        tell(part)
        time.sleep(job.get("each", 0))
    print("no answer", flush=True)
    if job["parts"] == ["last"]:
        sys.exit(3)
    return {"twice": 2 * job["number"]}
"""


def written(folder, text):
    path = folder / "script.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_worker_has_the_time_for_each_part_of_a_job(tmp_path):
    worker = Worker(str(written(tmp_path, ANSWERS)), {})
    begin, seconds = time.monotonic(), 3.0
    job = {"parts": ["a", "b", "c"], "each": 1.1, "number": 3}
    assert worker.ask(job, seconds) == {"twice": 6}
    assert time.monotonic() - begin > seconds
    assert worker.is_alive and worker.words == "no answer"
    with pytest.raises(Ended) as ended:
        worker.ask({"parts": ["last"]}, seconds=60)
    assert (ended.value.late, ended.value.code, ended.value.at) == (False, 3, "last")
    assert not worker.is_alive


def test_the_part_that_runs_out_of_time_is_named(tmp_path):
    worker = Worker(str(written(tmp_path, ANSWERS)), {})
    with pytest.raises(Ended) as ended:
        worker.ask({"parts": ["a", "b"], "each": 60}, seconds=1.0)
    assert (ended.value.late, ended.value.code, ended.value.at) == (True, None, "a")
    assert not worker.is_alive


LAST_WORDS = """
import os, time

class TakesASecond:
    def __reduce__(self):
        return time.sleep, (1.0,)

def start(folder): pass

def answer(job, folder, tell):
    tell({"an answer": TakesASecond()})
    os._exit(0)
"""


def test_an_answer_counts_though_its_worker_has_ended(tmp_path):
    """Also where it is still being read."""
    worker = Worker(str(written(tmp_path, LAST_WORDS)), {})
    assert worker.ask({}, seconds=60) == {"an answer": None}


def test_a_worker_is_kept_until_it_ends(tmp_path):
    place = str(written(tmp_path, ANSWERS))
    first = Worker.kept(place, "1")
    assert Worker.kept(place, "1") is first and Worker.kept(place, "0") is not first
    with pytest.raises(Ended):
        first.ask({"parts": ["last"]}, seconds=60)
    second = Worker.kept(place, "1")
    assert second is not first and second.ask({"parts": [], "number": 3}, 60) == {"twice": 6}
    folder = Path(second.folder.name)
    assert folder.exists()
    second.end()
    assert not folder.exists() and not is_running(second.process.pid)


def test_a_worker_imports_what_is_beside_the_notebook(tmp_path, monkeypatch):
    """As a candidate may use it. The lab's own files are no such modules."""
    (tmp_path / "beside.py").write_text("NUMBER = 7", encoding="utf-8")
    source = ANSWERS.replace("2 *", '__import__("beside").NUMBER *')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    worker = Worker(str(written(tmp_path, source)), {})
    assert worker.ask({"parts": [], "number": 3}, seconds=60) == {"twice": 21}
    source = f"import shipment{ANSWERS}"
    with pytest.raises(RuntimeError, match="No module named 'shipment'"):
        Worker(str(written(tmp_path, source)), {})


def test_a_worker_that_does_not_start_says_why(tmp_path):
    with pytest.raises(RuntimeError, match=r"did not start: [\s\S]*No module named 'nowhere'"):
        Worker(str(written(tmp_path, "import nowhere")), {})


LOADED = """
import os, sys
EARLY = [name for name in ("rope_lab", "torch", "triton") if name in sys.modules]
SET = [os.environ.get(name) for name in ("TRITON_INTERPRET", "TAKEN_OUT", "KEPT")]

def start(folder): pass

def answer(job, folder, tell):
    import triton
    return {"early": EARLY, "set": SET, "kernel": type(triton.jit(start)).__name__}
"""


@pytest.mark.parametrize("interpret, kernel", (("1", "InterpretedFunction"), ("0", "JITFunction")))
def test_its_environment_is_set_before_triton_is_loaded(interpret, kernel, tmp_path, monkeypatch):
    for name in ("TAKEN_OUT", "KEPT"):
        monkeypatch.setenv(name, "the notebook's")
    environment = {"TRITON_INTERPRET": interpret, "TAKEN_OUT": None}
    place = str(written(tmp_path, LOADED))
    worker = Worker(place, environment)
    answer = worker.ask({}, seconds=60)
    assert answer["early"] == []  # `rope_lab` picks an engine as soon as it is loaded
    assert answer["set"] == [interpret, None, "the notebook's"]
    assert answer["kernel"] == kernel
    assert os.environ["TAKEN_OUT"] == "the notebook's"
    for kept in (interpret, None):
        assert Worker.kept(place, kept).ask({}, seconds=60)["set"][0] == kept


ENDS = """
import ctypes, os, subprocess, sys

def start(folder):
    os.write(2, b"before the job")

def answer(job, folder, tell):
    tell("a part")
    print("Python's output", flush=True)
    os.write(1, b"the system's output\\n")
    os.write(2, b"the system's error\\n")
    subprocess.run([sys.executable, "-S", "-c", "print('the output of another program: \u03c0')"])
    if "answer" in job:
        return job
    exec(job["end"])
"""
WORDS = [
    *("Python's output", "the system's output", "the system's error"),
    "the output of another program: \u03c0",
]


HAS_SIGNALS = pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")


@pytest.mark.parametrize(
    "end, code",
    (
        ("os._exit(0)", 0),
        ("os._exit(5)", 5),
        ("sys.exit(6)", 6),
        pytest.param("os.abort()", -6, id="aborted", marks=HAS_SIGNALS),
        pytest.param("ctypes.string_at(0)", -11, id="at address 0", marks=HAS_SIGNALS),
    ),
)
def test_how_it_ended_and_what_it_wrote_is_told(end, code, tmp_path):
    worker = Worker(str(written(tmp_path, ENDS)), {})
    job = {"answer": "large" * 10**6}
    assert worker.ask(job, seconds=60) == job
    assert worker.words.splitlines() == WORDS
    with pytest.raises(Ended) as ended:
        worker.ask({"end": end}, seconds=60)
    assert (ended.value.late, ended.value.code, ended.value.at) == (False, code, "a part")
    assert ended.value.words.splitlines()[: len(WORDS)] == WORDS


# the process that starts workers, and its end

INTERRUPTED = """
import os, signal, sys, time
from rope_lab.child import Worker
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in the background
worker = Worker(sys.argv[1], {})
for job in ("while it waits for a job", "while it works"):
    try:
        if job == "while it works":
            signal.signal(signal.SIGALRM, lambda *_: os.killpg(0, signal.SIGINT))
            signal.alarm(1)
            worker.ask({"parts": ["long"], "each": 60}, 60)
        os.killpg(0, signal.SIGINT)
        time.sleep(60)
    except KeyboardInterrupt:
        print("interrupted", job, worker.is_alive)
    if worker.is_alive:
        print(worker.ask({"parts": [], "number": 3}, 60))
"""


def ran(script, *arguments):
    """What a plain script prints, in a process group of its own."""
    paths = os.pathsep.join([*PLACES, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, *arguments],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        encoding="utf-8",
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@HAS_SIGNALS
def test_an_interrupt_ends_what_is_waited_for_and_nothing_else(tmp_path):
    (tmp_path / "interrupted.py").write_text(INTERRUPTED, encoding="utf-8")
    place = str(written(tmp_path, ANSWERS))
    assert ran(tmp_path / "interrupted.py", place) == [
        "interrupted while it waits for a job True",
        "{'twice': 6}",
        "interrupted while it works False",
    ]


READERS = """
import torch
import rope_lab as lab
from rope_lab.judge import check_exercise as judge
from rope_lab.judge import definitions
print("once")

def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([-x2, x1], dim=-1)

print(lab.check_exercise(rotate_half, definitions.rotate_half).state)
worker = judge.Worker.kept(judge.CHILD, "1")
print(worker.process.pid, worker.folder.name)
"""


def test_a_readers_script_needs_no_guard_and_leaves_nothing(tmp_path):
    """It isn't run once more by the worker, as `multiprocessing` would."""
    once, state, last = ran(written(tmp_path, READERS))
    pid, folder = last.split()
    assert (once, state) == ("once", "right")
    assert until(lambda: not is_running(pid)) and not Path(folder).exists()
