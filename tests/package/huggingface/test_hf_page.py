"""The page about models: its table is the one that the code has."""

import re

import pytest

import hugging_face
from rope_kernels.huggingface import calls, replacement


def test_the_page_has_the_tables():
    page = hugging_face.PAGE.read_text(encoding="utf-8")
    assert hugging_face.as_page(page) == page, "the page is stale: run make hugging_face"


def test_the_page_says_of_every_reason_what_to_do():
    page = hugging_face.PAGE.read_text(encoding="utf-8")
    table = re.search(r"^\| reason \|.*\n.*\n((?:\|.*\n)*)", page, re.MULTILINE)[1]
    constants = [x for module in (calls, replacement) for x in vars(module).items()]
    reasons = {value for name, value in constants if name.isupper() and isinstance(value, str)}
    assert {row.split(" | ")[0].removeprefix("| ") for row in table.splitlines()} == reasons


@pytest.mark.slow
def test_what_is_stored_is_found_in_the_transformers_that_is_installed():
    stored = hugging_face.stored()
    if hugging_face.release() not in stored:
        pytest.skip("no table was made for this release")
    assert hugging_face.found() == stored[hugging_face.release()]
