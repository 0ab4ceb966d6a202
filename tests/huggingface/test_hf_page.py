"""The page about models: its table is the one that the code has."""

from pathlib import Path

import pytest

import hugging_face_norms
import hugging_face_table

PAGE = (Path(__file__).resolve().parents[2] / hugging_face_table.PAGE).read_text(encoding="utf-8")


def test_the_page_has_the_tables():
    stale = f"{hugging_face_table.PAGE} is stale: run make hugging_face"
    assert hugging_face_table.as_page(PAGE) == PAGE, stale


@pytest.mark.slow
def test_what_is_stored_is_found_in_the_transformers_that_is_installed():
    stored = hugging_face_norms.stored()
    if hugging_face_norms.release() not in stored:
        pytest.skip("no table was made for this release")
    assert hugging_face_norms.found() == stored[hugging_face_norms.release()]
