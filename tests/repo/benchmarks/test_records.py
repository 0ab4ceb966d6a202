"""Pages and tables are made of the records on file; nothing in them is typed."""

import pytest

from benchmarks.record import RESULTS, load, save
from benchmarks.tables import pages, records_in, write


def test_pages_show_the_numbers_of_all_records_and_of_no_others():
    found = pages(records_in(RESULTS))
    for path, text in found.items():
        assert path.read_text(encoding="utf-8") == text, path
    assert {*RESULTS.glob("*.md")} < {*found}


def with_a_record_of_another_gpu(stem, copied):
    """A record, after all pages are written."""
    path = copied / "benchmarks/results" / f"{stem.format('made-up')}.json"
    record = load(RESULTS / f"{stem.format('nvidia-h200')}.json")
    save(path, record | {"gpu": "A Made Up"})
    write()
    return record


@pytest.mark.parametrize(
    ("stem", "shown_on"), (("peers-{}", "README.md"), ("{}-calls", "benchmarks/README.md"))
)
def test_another_gpu_has_a_page_and_the_one_of_the_notebooks_is_shown(stem, shown_on, copied):
    with_a_record_of_another_gpu(stem, copied)
    page = copied / "benchmarks/results" / f"{stem.format('made-up')}.md"
    assert "A Made Up, torch" in page.read_text(encoding="utf-8")
    text = (copied / shown_on).read_text(encoding="utf-8")
    assert "NVIDIA H200, torch" in text and "A Made Up" not in text


def test_another_gpu_without_a_page_has_its_table_below_the_first(copied):
    record = with_a_record_of_another_gpu("{}-models", copied)
    text = (copied / "docs/hugging_face.md").read_text(encoding="utf-8")
    assert text.index("NVIDIA H200, torch") < text.index(f"<summary>A Made Up, {record['date']}")
    assert text.count("A Made Up, torch") == 1


def test_an_unfinished_run_is_shown_nowhere(copied):
    path = copied / "benchmarks/results" / "peers-nvidia-h200.json"
    first, *others = with_a_record_of_peers(path.parent)
    assert first == "NVIDIA H200"
    results = load(path)
    for spoilt in ({"complete": False}, {"rows": []}):
        save(path, results | spoilt)
        assert with_a_record_of_peers(path.parent) == others


def with_a_record_of_peers(folder):
    return [x["gpu"] for x in records_in(folder) if x["benchmark"] == "peers"]
