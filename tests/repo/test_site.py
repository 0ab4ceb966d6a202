"""The site shows what is stored, leads everywhere, and asks no other host for anything.

The checks read the files and need nothing; those that build with Sphinx are skipped without it
(`pip install -c constraints.txt -e '.[site]'`). Where the variable CI is set, `make test-all`
installs it, and a missing Sphinx or npm is a failure.
"""

import functools
import importlib.util
import os
import re
import shutil
import sys
from html import unescape

import nbformat
import pytest

import make_site
import rope_kernels.norms
import rope_kernels.serving
from processes import ROOT
from rope_lab import run_notebooks

NOTEBOOKS = {
    path.relative_to(ROOT).as_posix()
    for path in ROOT.glob("notebooks/**/*.ipynb")
    if ".ipynb_checkpoints" not in path.parts
}

IN_CI = bool(os.environ.get("CI"))
needs_sphinx = pytest.mark.skipif(
    not IN_CI
    and not all(
        importlib.util.find_spec(name) for name in ("sphinx", "myst_nb", "sphinx_book_theme")
    ),
    reason="the packages that build the site are not installed (extra `site`)",
)


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


# What the forge shows


LINK = re.compile(r"\[([^][]+)\]\((?!https?:)([^)\s#]*)#?([^)\s]*)\)")  # text, path, anchor
PAGES = [page for of in ("*.md", "docs/*.md", "benchmarks/**/*.md") for page in ROOT.glob(of)]


@functools.cache
def headings(path):
    """The anchor of each heading of a page or a notebook on the forge, and the heading."""
    if path.suffix == ".ipynb":
        cells = nbformat.read(path, as_version=4).cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    else:
        text = without_blocks(path)
    of_heading = make_site.anchor if path.suffix == ".ipynb" else make_site.page_anchor
    return {of_heading(title): title for title in re.findall(r"(?m)^#+ (.+)$", text)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_a_page_lead_to_a_file_and_a_heading_on_the_forge(page):
    dead = []
    for _, path, anchor in LINK.findall(without_blocks(page)):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in headings(target)):
            dead.append(f"{path}#{anchor}")
    assert dead == []


@pytest.mark.parametrize(
    ("task", "words"),
    (
        ("YaRN", "YaRN"),
        ("M-RoPE, 2D patches", "2D patches"),
        ("load a checkpoint", "Load a checkpoint"),
        ("decode with a KV cache", "Decode with a KV cache"),
        ("packed sequences", "Packed sequences"),
        ("Qwen3 norm", "Norm and rotation in one launch, as for Qwen3"),
        ("`torch.compile`", "torch.compile"),
        ("context parallel", "Context parallel"),
        ("FlashAttention's call", "calls of FlashAttention"),
        ("softmax of my own", "softmax of your own"),
    ),
)
def test_one_click_leads_from_readme_to_a_heading_about_a_task(task, words):
    """The site's first page contains README."""
    links = {text: (path, anchor) for text, path, anchor in LINK.findall(read("README.md"))}
    path, anchor = links[task]
    of_page = headings(ROOT / path)
    assert words in (of_page[anchor] if anchor else next(iter(of_page.values())))


def without_blocks(page):
    """A page's text but for its code, where `kernel[grid](x)` is no link."""
    return re.sub(r"(?m)^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL)


def on_the_forge(page):
    """What a reader sees there, where comments are hidden and no directive is run."""
    return re.sub(r"<!--.*?-->", "", read(f"docs/{page}"), flags=re.DOTALL)


@pytest.mark.parametrize(
    "page", sorted(path.name for path in ROOT.glob("docs/*.*") if path.suffix in (".md", ".rst"))
)
def test_a_page_shows_no_directive_on_the_forge(page):
    assert not re.search(r"^```\{|^\.\. \w+::", on_the_forge(page), re.MULTILINE)
    text = make_site.for_the_site(read(f"docs/{page}"))
    assert "<!-- site:" not in text and "<!-- forge:" not in text


# With Sphinx


LOADED_FROM_ELSEWHERE = re.compile(
    r'<(?:script|img|iframe)[^>]* src="(?:https?:)?//'
    r'|<link[^>]* rel="(?:stylesheet|preload|icon)"[^>]* href="(?:https?:)?//'
    r'|<link[^>]* href="(?:https?:)?//[^>]* rel="(?:stylesheet|preload|icon)"'
)


def elsewhere(html):
    """Addresses of other hosts that a page leads to or loads."""
    return re.findall(r'(?:href|src)="(https?://[^"]+)"', html)


@needs_sphinx
def test_open_in_links_come_from_the_repository(tmp_path, monkeypatch):
    """One page, built where the project's address is known."""
    checkout, source, site = (tmp_path / name for name in ("checkout", "source", "site"))
    for name in ("docs", "tools"):
        shutil.copytree(ROOT / name, checkout / name)
    constant = checkout / "tools/hosted_copies.py"
    text = constant.read_text(encoding="utf-8")
    known = text.replace('\nREPOSITORY = ""\n', '\nREPOSITORY = "somebody/rope"\n')
    constant.write_text(known, encoding="utf-8")
    (source / "notebooks").mkdir(parents=True)
    (source / "index.md").write_text(
        "# First\n\n[![Tests](https://host/badge.svg)](https://host)\n\nWords.\n\n"
        "```{toctree}\nnotebooks/00_start_here\n```\n",
        encoding="utf-8",
    )
    heading = nbformat.v4.new_markdown_cell("# 00 · Start\n\nWhy?")
    page = nbformat.v4.new_notebook(cells=[heading, nbformat.v4.new_code_cell("x")])
    page.metadata = nbformat.from_dict(run_notebooks.METADATA)
    nbformat.write(page, source / "notebooks/00_start_here.ipynb")
    (tmp_path / "static").mkdir()
    monkeypatch.setattr(make_site, "ROOT", checkout)
    make_site.run_sphinx(source, tmp_path / "static", site)

    html = (site / "notebooks/00_start_here.html").read_text("utf-8")
    colab = "https://colab.research.google.com/github/somebody/rope/blob/hosted/notebooks/"
    assert colab + "00_start_here.ipynb" in elsewhere(html)
    assert 'href="../_sources/notebooks/00_start_here.ipynb"' in html  # the raw notebook
    assert not LOADED_FROM_ELSEWHERE.search(html)
    assert "badge.svg" not in (site / "index.html").read_text("utf-8")

    for name in ('rel="canonical" href', 'property="og:url" content'):  # what links here asks for
        assert f'{name}="https://somebody.github.io/rope/notebooks/00_start_here.html"' in html
    assert (site / "_static/share.png").exists()


@needs_sphinx
def test_a_dead_link_stops_the_build(tmp_path, capfd):
    source = tmp_path / "source"
    (source / "notebooks").mkdir(parents=True)
    (tmp_path / "static").mkdir()
    first = "# First\n\n```{toctree}\nnotebooks/second\n```\n"
    second = "# Second\n\n[x](gone.ipynb) [x](../index.md#gone) [x](../index.md#first)\n"
    (source / "index.md").write_text(first, encoding="utf-8")
    (source / "notebooks/second.md").write_text(second, encoding="utf-8")
    with pytest.raises(SystemExit, match="error: the site was not built"):
        make_site.run_sphinx(source, tmp_path / "static", tmp_path / "site")
    warnings = [line for line in capfd.readouterr().err.splitlines() if "WARNING" in line]
    assert len(warnings) == 2
    assert "'myst' cross-reference target not found: 'gone.ipynb'" in warnings[0]
    assert "local id not found in doc 'index': 'gone'" in warnings[1]


def complaints_about_page(html):
    """About a notebook's page."""
    body = html[html.index("<article") :]
    pictures = re.findall(r"<img [^>]*>", body)
    complaints = [p for p in pictures if not re.search(r'alt="[^"./]{3}', p)][:1]
    if 'class="prev-next-area"' not in html:
        complaints.append("no way to the page before and the next one")
    if not re.search(r'<meta name="description" content="[^"]{60,160}"', html):
        complaints.append("no description")
    return complaints


def an_empty_mathjax(folder):
    folder.mkdir()
    (folder / "tex-chtml.js").touch()


@needs_sphinx
def test_the_whole_site_builds(tmp_path, monkeypatch):
    """What `make site` does, but for MathJax: only CI asks npm for it."""
    monkeypatch.setattr(make_site, "BUILD", tmp_path)
    if not IN_CI:
        monkeypatch.setattr(make_site, "fetch_mathjax", an_empty_mathjax)
    make_site.main()
    site = tmp_path / "site"

    for notebook in NOTEBOOKS:
        html = (site / notebook).with_suffix(".html").read_text(encoding="utf-8")
        assert complaints_about_page(html) == [], notebook
        assert not LOADED_FROM_ELSEWHERE.search(html), notebook
        assert not [link for link in elsewhere(html) if "colab" in link], notebook
        assert r"\begin{split}" not in html, notebook  # \tag is not allowed in it
    # what a helper shows has colors, and a link to a solution leads to its exercise
    tile = (site / "notebooks/05_fused_half_split.html").read_text("utf-8")
    assert re.search(r'<div class="cell_output.*?highlight-python', tile, re.DOTALL)
    assert "05_fused_half_split_solutions.html#exercise-1-rung-2-the-tile" in tile

    described = (site / "api.html").read_text(encoding="utf-8")
    rooms = rope_kernels, rope_kernels.norms, rope_kernels.serving
    found = [(room.__name__, name) for room in rooms for name in room.__all__]
    names = [name for room, name in found if f'id="{room}.{name}"' not in described]
    assert names == []
    linked = [name for room, name in found if f'href="#{room}.{name}"' not in described]
    assert linked == []  # from the table, and types from signatures
    called = described[described.index('id="rope_kernels.rope_qk"') :].partition("</dt>")[0]
    assert 'href="#rope_kernels.TensorFormat"' in called and "Literal" not in called
    for room, name in found:  # types are spelled out once
        if "Literal" in (spelled_out := str(getattr(sys.modules[room], name))):
            words = re.sub("<[^>]*>", "", described[described.index(f'id="{room}.{name}"') :])
            shown = unescape(words.partition("#")[0])
            assert spelled_out.removeprefix("typing.") in shown
