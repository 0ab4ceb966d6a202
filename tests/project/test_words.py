"""No home-made word where the field has one (../shared/VOICE.md has the table), and no tic."""

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
FORBIDDEN = {  # the pattern: what to say instead
    r"(?<!streaming )\bmultiprocessors?\b": "streaming multiprocessor (SM)",
    r"\b(?:several|one|longer|which|each|packed|two|of a) texts?\b(?! of)": "sequence",
    r"\bshort(?:er|est)? way\b": "the fast path",
    r"\bhand(?:ed|ing|s)? round\b": "exchanged across the warp (layout conversion)",
    r"\bnames without end\b": "virtual registers",
    r"\bunlike halves\b": "mismatched halves",
    r"\bunder way\b": "in flight, issued",
    r"\bset(?:s|ting)? aside\b": "allocate",
    r"\bmillion million\b": "10^12, or TFLOP/s",
    r"\bpieces? of 32 bytes\b": "sector",
    r"\btwo for one place\b": "write collision",
    r"\bwithout a word\b": "silently",
    r"\bwhat we wish for\b": "what we want",
    r"\banew\b": "again",
    r"\bin vain\b": "for nothing; wasted",
    r"\bnobody's\b": "say who",
    r"\bwhoever\b": "say who",
    r"\bof no matter\b": "does not matter",
    r"\bstands? twice\b": "is there twice",
    r"\bso manieth\b": "n-th",
    r"\bmakes for\b": "gives",
    r"\bit is not said that\b": "leave it out",
    r"\bmay well\b": "may",
}


def sources() -> dict[str, str]:
    """Everything that a reader reads, by file."""
    found = {}
    for pattern in ("*.md", "docs/*.md", "benchmarks/*.md", "rope_kernels/**/*.py",
                    "rope_lab/**/*.py", "benchmarks/**/*.py", "tools/**/*.py"):  # fmt: skip
        for path in ROOT.glob(pattern):
            found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
    for path in ROOT.glob("notebooks/**/[0-9]*.ipynb"):
        if ".ipynb_checkpoints" not in path.parts:
            cells = nbformat.read(path, as_version=4).cells
            found[path.relative_to(ROOT).as_posix()] = "\n".join(cell.source for cell in cells)
    return found


SOURCES = sources()


def complaints(text: str) -> list[str]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, instead in FORBIDDEN.items():
            if word := re.search(pattern, line, re.IGNORECASE):
                found.append(f"line {number}: {word[0]!r}; say {instead!r}")
    return found


@pytest.mark.parametrize("name", SOURCES)
def test_words_of_the_field(name):
    assert complaints(SOURCES[name]) == []


@pytest.mark.parametrize("line", ("It is read anew.", "on a multiprocessor", "the Short way"))
def test_a_home_made_word_is_found(line):
    assert complaints(f"first line\n{line}\n")


def test_the_words_of_the_field_are_fine():
    assert complaints("A streaming multiprocessor (SM) runs many warps; two sequences.") == []
    assert len(SOURCES) > 60
