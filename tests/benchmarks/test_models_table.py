"""README's table of patched models says what the record says."""

from benchmarks.kinds.models import tables
from benchmarks.results import RESULTS, load


def test_readme_has_the_table_of_the_record():
    (path,) = RESULTS.glob("*-models.json")
    record = load(path)
    made, _ = tables(record)
    readme = made.file.read_text(encoding="utf-8")
    assert made.filled_in(readme) == readme
    for row in record["rows"]:
        assert row["differ when run twice"] == 0, "a comparison of bits needs a fixed order of sums"
        assert f"| {row['differ']}/{row['tensors']} |" in made.text
