"""`tools/call_path.py` prints the path that CONTRIBUTING describes."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "`python tools/call_path.py`"


@cache
def path_of(*arguments):
    """The lines printed: indentation, function and file of each."""
    pytest.importorskip("triton", reason="needs Triton")
    command = [sys.executable, ROOT / "tools/call_path.py", *arguments]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [re.fullmatch(r"( *)(\S+) +(\S+)", line).groups() for line in said.splitlines()]


def paragraph():
    """What CONTRIBUTING says that one sees."""
    lines = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()
    (found,) = [line for line in lines if line.startswith(COMMAND)]
    return found.removeprefix(COMMAND)


def test_the_path_has_what_is_said_in_that_order():
    path = path_of()
    words = [f"{name} {file}" for _, name, file in path]
    said = [name for name in re.findall(r"`([\w./]+)`", paragraph()) if name != "Call"]
    assert len(said) > 8
    for name in said:
        at = next((i for i, word in enumerate(words) if re.search(rf"(^| ){name}", word)), None)
        assert at is not None, f"{name} is not on the path, or comes before what is said before it"
        words = words[at:]


def test_depth_leaves_the_top_of_the_path():
    path = path_of()
    top = [line for line in path if len(line[0]) < 2 * 4]
    assert path_of("--depth", "4") == top
    number = re.search(r"the first (\d+) lines alone", paragraph())
    assert abs(len(top) - int(number[1])) <= 5
    assert path[0] == ("", "rope_qk", "api.py")


def test_the_call_of_the_page_goes_there_and_back():
    call = re.search(r'`"(norm_rope.*?)"`', paragraph())[1]
    functions = [name for _, name, _ in path_of(call)]
    assert functions[0] == "norm_rope"
    assert functions.index("norm_rope_kernel") < functions.index("norm_rope_backward_kernel")
