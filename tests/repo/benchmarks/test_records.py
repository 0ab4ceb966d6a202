"""Pages and tables are made of the records on file; nothing in them is typed."""

from benchmarks.record import RESULTS, load, save
from benchmarks.tables import pages, records_in, write


def test_pages_show_the_numbers_of_all_records_and_of_no_others():
    found = pages(records_in(RESULTS))
    for path, text in found.items():
        assert path.read_text(encoding="utf-8") == text, path
    assert {*RESULTS.glob("*.md")} < {*found}


def test_another_gpu_without_a_page_has_its_table_below_the_first(copied):
    record = load(RESULTS / "nvidia-h200-models.json")
    save(copied / "benchmarks/results/made-up-models.json", record | {"gpu": "A Made Up"})
    write()
    text = (copied / "docs/hugging_face.md").read_text(encoding="utf-8")
    assert text.index("NVIDIA H200, torch") < text.index(f"<summary>A Made Up, {record['date']}")
    assert text.count("A Made Up, torch") == 1


def test_an_unfinished_run_is_shown_nowhere(copied):
    def gpus():
        return [x["gpu"] for x in records_in(path.parent) if x["benchmark"] == "peers"]

    path = copied / "benchmarks/results/peers-nvidia-h200.json"
    results, (first, *others) = load(path), gpus()
    assert first == "NVIDIA H200"
    for spoilt in ({"complete": False}, {"rows": []}):
        save(path, results | spoilt)
        assert gpus() == others
