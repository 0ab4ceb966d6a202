"""Pages and tables are made of the records on file; nothing in them is typed."""

import pytest

from benchmarks.tables import RESULTS, load, page, records_in, save, tables, write


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_a_page_shows_the_numbers_of_its_record(path):
    if text := page(load(path)):
        assert path.with_suffix(".md").read_text(encoding="utf-8") == text


@pytest.mark.parametrize("table", tables(records_in(RESULTS)), ids=lambda table: table.mark)
def test_other_pages_show_the_numbers_of_all_records(table):
    shown = table.page.read_text(encoding="utf-8")
    assert table.filled_in(shown) == shown


def test_every_page_has_its_record():
    assert {path.stem for path in RESULTS.glob("*.md")} <= {p.stem for p in RESULTS.glob("*.json")}


@pytest.mark.parametrize(
    ("stem", "shown_on"),
    (
        ("peers-{}", "README.md"),
        ("{}-models", "docs/hugging_face.md"),
        ("{}-calls", "benchmarks/README.md"),
    ),
)
def test_a_gpu_that_has_a_record_has_its_table_beside_the_others(stem, shown_on, copied):
    """The GPU of the notebooks comes first, whatever was measured last."""
    path = copied / "benchmarks/results" / f"{stem.format('made-up')}.json"
    record = load(RESULTS / f"{stem.format('nvidia-h200')}.json")
    save(path, record | {"gpu": "A Made Up"})
    write()
    text = (copied / shown_on).read_text(encoding="utf-8")
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
