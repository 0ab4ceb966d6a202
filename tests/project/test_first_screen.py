"""The first screen shows what the lab says of a wrong kernel today, and the record of the rungs."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

pytest.importorskip("triton", reason="needs Triton")

import first_screen
from rope_lab.records import recorded
from rope_lab.rungs import kept

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The verdict of today, and the record."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv(kept.FOLDER, str(tmp_path_factory.mktemp("kept")))
    verdict = first_screen.verdict_of_the_mistake()
    monkeypatch.undo()
    return verdict, recorded("09/rungs")


def lines_of(picture):
    texts = ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    return [text.text for text in texts]


def test_the_pictures_on_file_are_todays(shown):
    for name, text in first_screen.pictures(*shown).items():
        assert (first_screen.IMAGES / name).read_text(encoding="utf-8") == text, name


def test_readme_has_both_pictures_in_words(shown):
    assert first_screen.filled_in(README, first_screen.in_words(*shown)) == README
    verdict, record = shown
    other = first_screen.in_words(replace(verdict, reason="a sign"), record)
    assert first_screen.filled_in(README, other) != README


def test_the_picture_for_links_shows_the_other_two(shown):
    drawn = first_screen.pictures(*shown)
    with Image.open(first_screen.IMAGES / "share.png") as picture:
        assert picture.size == (1200, 630)
        assert picture.text["Shows"] == first_screen.fingerprint(first_screen.share_picture(drawn))


def test_the_sentence_has_the_speed_of_the_last_rung(shown):
    _, record = shown
    speed = f"{100 * record['copy'].median_us / record['rung 8'].median_us:.0f} %"
    sentence = README.split("<!-- pictures: begin")[0]
    assert re.findall(r"\d+ %", sentence) == [speed]
    title = f"8 rungs to {speed} of a copy's speed"
    assert title in lines_of(first_screen.pictures(*shown)["ladder.svg"])
