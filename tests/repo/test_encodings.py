"""Texts are read and written in UTF-8, on Windows too: every call says so."""

import ast

import pytest

from processes import ROOT

FOLDERS = ("rope_kernels", "rope_lab", "benchmarks", "tools", "tests")
FILES = ["lab.py", "conftest.py", *(f"{folder}/**/*.py" for folder in FOLDERS)]
OTHERS = ("os", "Image", "tarfile", "lzma")  # whose `open` opens no text


def texts_without_an_encoding(source):
    """The lines of a program that read or write text, or a process's, in no named encoding."""
    return [
        call.lineno
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call) and is_of_text(call) and not says_which(call)
    ]


def is_of_text(call):
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name in ("read_text", "write_text"):
        return True
    if name in ("run", "Popen", "check_output"):
        return any(keyword.arg in ("text", "universal_newlines") for keyword in call.keywords)
    if name != "open" or getattr(getattr(call.func, "value", None), "id", "") in OTHERS:
        return False
    words = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    return not any(isinstance(word, str) and "b" in word and len(word) < 4 for word in words)


def says_which(call):
    named = any(keyword.arg == "encoding" for keyword in call.keywords)
    places = {"read_text": 0, "write_text": 1}
    place = places.get(getattr(call.func, "attr", ""))
    return named or (place is not None and len(call.args) > place)


@pytest.mark.parametrize("pattern", FILES)
def test_every_text_has_an_encoding(pattern):
    paths = sorted(ROOT.glob(pattern))
    assert paths
    found = {
        path.relative_to(ROOT).as_posix(): texts_without_an_encoding(path.read_text("utf-8"))
        for path in paths
    }
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "call",
    ["path.read_text()", "path.write_text(x)", "open(path)", "path.open('a')", "run(x, text=True)"],
)
def test_what_has_none_is_found(call):
    assert texts_without_an_encoding(call) == [1]
    named = f"{call[:-1]}{'' if call.endswith('()') else ', '}encoding='utf-8')"
    assert texts_without_an_encoding(named) == []


@pytest.mark.parametrize("call", ["path.open('rb')", "open(path, 'wb')", "os.open(path, 0)"])
def test_bytes_have_none(call):
    assert texts_without_an_encoding(call) == []
