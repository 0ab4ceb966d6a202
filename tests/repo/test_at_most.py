"""`--at-most`: what takes long has to say so, or `make test` grows again unseen."""

import os
import re
import subprocess
import sys

import pytest

from processes import PLACES, ROOT

SLEEPERS = """
import time, pytest

def test_long(): time.sleep(0.3)
@pytest.mark.slow
def test_slow(): time.sleep(0.3)
@pytest.mark.takes(60)
def test_that_says_so(): time.sleep(0.3)
@pytest.mark.takes(0.2)
def test_that_says_too_little(): time.sleep(0.3)
"""


@pytest.mark.slow
def test_a_test_that_takes_too_long_is_red_and_says_what_to_do(tmp_path):
    (tmp_path / "test_sleepers.py").write_text(SLEEPERS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-rf", "--tb=short"]
    command += ["--at-most=0.1", "test_sleepers.py"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), *PLACES])}
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, encoding="utf-8")
    red = re.findall(r"^FAILED \S+::(\w+)", run.stdout, re.MULTILINE)
    assert red == ["test_long", "test_that_says_too_little"], run.stdout
    assert "accepted: 0.1 s, or the marker `slow`, or `takes(seconds)`" in run.stdout
