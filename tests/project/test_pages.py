"""`tools/pages.py`: text between two marks, and tables."""

import pytest

import pages

PAGE = "before\n<!-- a: begin (make it) -->\nold\n<!-- a: end -->\nafter <!-- b: end -->\n"


def test_only_what_is_between_the_marks_changes():
    filled = pages.fill(PAGE, "a", r"new \1" + "\n")
    assert filled == PAGE.replace("old", r"new \1")
    assert pages.fill(filled, "a", "old\n") == PAGE


@pytest.mark.parametrize("page", ["", PAGE + PAGE, PAGE.replace("a: end", "c: end")])
def test_marks_that_are_not_there_once_are_named(page):
    with pytest.raises(ValueError, match="'a: begin' and 'a: end'"):
        pages.fill(page, "a", "new\n")


def test_a_table_has_a_line_under_its_head():
    assert pages.table(["x", "y"], [(1, "two")]) == "| x | y |\n|---|---|\n| 1 | two |"
