"""The page about models: its table is the one that the code has."""

import pytest

import hugging_face


def test_the_page_has_the_tables():
    page = hugging_face.PAGE.read_text(encoding="utf-8")
    assert hugging_face.as_page(page) == page, "the page is stale: run make hugging_face"


@pytest.mark.slow
def test_what_is_stored_is_found_in_the_transformers_that_is_installed():
    stored = hugging_face.stored()
    if hugging_face.release() not in stored:
        pytest.skip("no table was made for this release")
    assert hugging_face.found() == stored[hugging_face.release()]
