"""A process that this one starts, and that answers jobs."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from processes import until
from rope_lab.child import Ended, Worker

ANSWERS = """
import sys, time

def start(folder):
    print("started in", folder.name, file=sys.stderr)

def answer(job, folder, tell):
    for part in job["parts"]:
        tell({"begins": part})
        time.sleep(0.4)
    print("no answer")
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
    begin = time.monotonic()
    assert worker.ask({"parts": ["a", "b", "c"], "number": 3}, seconds=1.0) == {"twice": 6}
    assert time.monotonic() - begin > 1.1 and worker.is_free and worker.words == "no answer"
    with pytest.raises(Ended) as ended:
        worker.ask({"parts": ["last"]}, seconds=10)
    assert (ended.value.late, ended.value.code, ended.value.at) == (False, 3, "last")
    assert not worker.is_free


class Answers(Worker):
    """A worker that can be kept."""

    def __init__(self, place):
        super().__init__(place, {})


def test_a_worker_has_a_job_at_a_time_and_others_work_meanwhile(tmp_path):
    place = str(written(tmp_path, ANSWERS))
    worker, other = Answers.kept(place), Answers(place)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(worker.ask, {"parts": ["a", "b", "c"], "number": 3}, 10)
        assert until(lambda: worker.busy)
        assert other.ask({"parts": [], "number": 4}, seconds=10) == {"twice": 8}
        assert not first.done()
        assert Answers.kept(place) is worker, "it is asked for in the middle of a job"
        assert first.result() == {"twice": 6}


def test_a_worker_imports_what_is_beside_the_notebook(tmp_path, monkeypatch):
    """As a candidate may use it. The lab's own files are no such modules."""
    (tmp_path / "beside.py").write_text("NUMBER = 7")
    source = f"import beside{ANSWERS}".replace("2 *", "beside.NUMBER *")
    monkeypatch.chdir(tmp_path)
    worker = Worker(str(written(tmp_path, source)), {})
    assert worker.ask({"parts": [], "number": 3}, seconds=10) == {"twice": 21}
    source = f"import shipment{ANSWERS}"
    with pytest.raises(RuntimeError, match="No module named 'shipment'"):
        Worker(str(written(tmp_path, source)), {})


def test_a_worker_that_does_not_start_says_why(tmp_path):
    with pytest.raises(RuntimeError, match=r"did not start: [\s\S]*No module named 'nowhere'"):
        Worker(str(written(tmp_path, "import nowhere")), {})
