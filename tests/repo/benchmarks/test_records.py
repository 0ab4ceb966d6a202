"""Pages and tables are made of the records on file; nothing in them is typed."""

import pytest

from benchmarks.pages import page, tables
from benchmarks.tables import RESULTS, load


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_what_is_made_of_a_record_shows_its_numbers(path):
    results = load(path)
    made, text = tables(results), page(results)
    assert made or text
    for table in made:
        shown = table.page.read_text(encoding="utf-8")
        assert f"<!-- {table.mark}: begin -->" in shown
        assert table.filled_in(shown) == shown
    if text:
        assert path.with_suffix(".md").read_text(encoding="utf-8") == text


def test_every_page_has_its_record():
    assert {path.stem for path in RESULTS.glob("*.md")} <= {p.stem for p in RESULTS.glob("*.json")}
