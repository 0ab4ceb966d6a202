"""README's table of patched models says what the record says."""

import json

from benchmarks.models import RESULTS, ROOT, table


def test_readme_has_the_table_of_the_record():
    (path,) = RESULTS.glob("*.json")
    record = json.loads(path.read_text(encoding="utf-8"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    between = readme.split("<!-- models: begin -->\n")[1].split("\n<!-- models: end -->")[0]
    assert between == table(record)
    for row in record["rows"]:
        assert row["differ when run twice"] == 0, "a comparison of bits needs a fixed order of sums"
        assert f"| {row['differ']}/{row['tensors']} |" in between
