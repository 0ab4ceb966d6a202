"""The page *Seven kernels*, and the pictures that are drawn with it: their tool makes the same."""

import re

import pytest
from PIL import Image

import seven_kernels
from benchmarks.tables import fill
from pairwise import slow_but
from rope_lab.figures import style as draw
from rope_lab.records import QUIET
from rope_lab.rungs import RUNGS

pytestmark = pytest.mark.needs_compiler

AGAIN = "make seven_kernels"
DRAWN_QUICKLY = ("seven_kernels.png", "seven_2.png", "seven_3.png", "three_edits.svg")


@pytest.fixture
def page(monkeypatch):
    monkeypatch.setenv(QUIET, "1")
    seven_kernels.get_ready()
    return seven_kernels.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("rung", RUNGS)
def test_the_page_shows_what_a_rung_changed(rung, page):
    assert f"<!-- rung {rung}: begin -->\n{seven_kernels.code(rung)}\n" in page, AGAIN


@pytest.mark.slow
@pytest.mark.parametrize("part", seven_kernels.PARTS)
def test_the_page_has_the_numbers_and_verdicts_that_come_out(part, page):
    assert fill(page, part, f"{seven_kernels.PARTS[part]()}\n") == page, AGAIN


def said_by(picture):
    """What was stored with it."""
    if picture.suffix == ".png":
        return Image.open(picture).info["Description"]
    text = picture.read_text(encoding="utf-8")
    return re.search(r"<dc:description>(.*?)</dc:description>", text, re.DOTALL)[1]


@pytest.mark.parametrize("name", slow_but(seven_kernels.PICTURES, *DRAWN_QUICKLY))
def test_a_picture_says_what_is_drawn_now(name, page):
    _, said = draw.drawn(seven_kernels.PICTURES[name])
    assert said_by(seven_kernels.IMAGES / name) == said, AGAIN
