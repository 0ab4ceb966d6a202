"""A process that this one starts, and that answers jobs."""

import time

import pytest

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
    path.write_text(text)
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


def test_a_worker_imports_what_is_beside_the_notebook(tmp_path, monkeypatch):
    """As a candidate may use it. The lab's own files are no such modules."""
    (tmp_path / "beside.py").write_text("NUMBER = 7")
    source = f"import beside{ANSWERS}".replace("2 *", "beside.NUMBER *")
    monkeypatch.chdir(tmp_path)
    worker = Worker(str(written(tmp_path, source)), {})
    assert worker.ask({"parts": [], "number": 3}, seconds=60) == {"twice": 21}
    source = f"import shipment{ANSWERS}"
    with pytest.raises(RuntimeError, match="No module named 'shipment'"):
        Worker(str(written(tmp_path, source)), {})


def test_a_worker_that_does_not_start_says_why(tmp_path):
    with pytest.raises(RuntimeError, match=r"did not start: [\s\S]*No module named 'nowhere'"):
        Worker(str(written(tmp_path, "import nowhere")), {})
