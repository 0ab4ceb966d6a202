"""The repository's address: in one file, and written from there into all that show it."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest
import yaml

import address

ROOT = Path(__file__).resolve().parents[2]
KNOWN = "Some-Body/rope.in_triton"


@pytest.fixture
def checkout(tmp_path):
    for path in (address.KEPT, *address.WRITTEN):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    address.write_address("", tmp_path)
    return tmp_path


def texts_of(root):
    return {path: (root / path).read_text(encoding="utf-8") for path in address.WRITTEN}


@pytest.mark.parametrize("path", address.WRITTEN)
def test_what_is_written_from_the_address_is_up_to_date(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    assert address.with_address(text, path, address.repository()) == text, "run `make address`"


def test_an_unknown_address_is_shown_nowhere(checkout):
    assert address.repository(checkout) == ""
    for path, text in texts_of(checkout).items():
        for part in address.PART.finditer(text):
            assert not re.search(r"https?://|github|badge", part[3]), (path, part[2])


def test_one_command_writes_it_everywhere_and_takes_it_back(checkout, monkeypatch, capsys):
    before = texts_of(checkout)
    assert address.write_address(KNOWN, checkout) == [address.KEPT, *address.WRITTEN]
    assert address.repository(checkout) == KNOWN and not address.write_address(KNOWN, checkout)
    url, after = f"https://github.com/{KNOWN}", texts_of(checkout)
    first = f"{KNOWN}/blob/hosted/notebooks/00_start_here.ipynb"
    for page in ("README.md", "docs/install.md"):
        assert f"(https://colab.research.google.com/github/{first})" in after[page]
        assert f"(https://kaggle.com/kernels/welcome?src=https://github.com/{first})" in after[page]
    assert f"`git clone {url}`" in after["README.md"]
    assert f"pip install --no-deps git+{url}\n" in after["docs/install.md"]
    assert f"url     = {{{url}}}\n}}" in after["docs/index.md"]
    assert yaml.safe_load(after["CITATION.cff"])["repository-code"] == url
    urls = tomllib.loads(after["pyproject.toml"])["project"]["urls"]
    site = "https://some-body.github.io/rope.in_triton/"
    assert urls == {"Repository": url, "Documentation": site}
    address.write_address("", checkout)
    assert texts_of(checkout) == before


@pytest.mark.parametrize(
    "wrong", ["rope", "https://github.com/a/b", "a/b/c", "-a/b", "a b/c", "a/"]
)
def test_another_address_is_refused_and_nothing_is_written(wrong, checkout):
    before = texts_of(checkout)
    with pytest.raises(ValueError, match=r"accepted: owner/name"):
        address.write_address(wrong, checkout)
    assert texts_of(checkout) == before and address.repository(checkout) == ""


def test_a_file_without_its_part_is_named_and_nothing_is_written(checkout):
    path = checkout / "CITATION.cff"
    path.write_text(path.read_text(encoding="utf-8").replace("address: end", ""), encoding="utf-8")
    before = texts_of(checkout)
    with pytest.raises(
        ValueError, match=r"CITATION.cff has not one line with 'address: begin code'"
    ):
        address.write_address(KNOWN, checkout)
    assert texts_of(checkout) == before
