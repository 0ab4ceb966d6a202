"""The pages about models have what the code has."""

import re

import pytest

import hugging_face
from processes import ROOT
from rope_kernels.huggingface import calls, replacement
from rope_kernels.huggingface.rules import RULES

PAGE = ROOT / "docs/hugging_face.md"


def test_the_list_of_functions_is_the_one_of_the_code():
    page = hugging_face.PAGE.read_text(encoding="utf-8")
    assert hugging_face.page() == page, "the page is stale: run make hugging_face"
    listed = {digest for of in hugging_face.stored().values() for digest in of}
    assert listed == {digest for rule in RULES for digest in rule.digests.split()}


def test_the_page_says_of_every_reason_what_to_do():
    page = PAGE.read_text(encoding="utf-8")
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
