"""Pages, pictures and tables are made of the records on file; nothing in them is typed."""

import pytest
from PIL import Image

from benchmarks.kinds import kind_of
from benchmarks.pictures import fingerprint
from benchmarks.results import RESULTS, Table, load


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_what_is_made_of_a_record_shows_its_numbers(path):
    results = load(path)
    kind = kind_of(results)
    for table in kind.tables(results):
        if isinstance(table, Table):
            page = table.file.read_text(encoding="utf-8")
            assert table.filled_in(page) == page
    if kind.page:
        assert path.with_suffix(".md").read_text(encoding="utf-8") == kind.page(results)
    if kind.has_picture:
        shown = Image.open(path.with_suffix(".png")).text["Results"]
        assert shown == fingerprint(results)
        results["rows"][0]["median_us"] += 1
        assert shown != fingerprint(results)
