"""Build the site in build/site: `make site`. It needs npm to download MathJax.

Each build starts from scratch: Sphinx's input is copied to build/site-source, with the layout of
the repository. Warnings, such as broken links, are errors.
"""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"

# From npm, and served by the site, so that pages load nothing from other hosts.
MATHJAX = "mathjax@3.2.2"
MATHJAX_SHA512 = (
    "Bt+SSVU8eBG27zChVewOicYs7Xsdt40qm4+UpHyX7k0/O9NliPc+x77k1/FEsPsjKPZGJvtRZM1vO+geW0OhGw=="
)
# The script that pages load, and the parts that it loads on demand: TeX packages, fonts, and, from
# the menu of an equation, speech.
MATHJAX_PARTS = (
    *("tex-chtml.js", "input/tex/extensions/", "output/chtml/fonts/"),
    *("a11y/", "input/mml", "sre/"),
)


def stop(sentence: str) -> None:
    sys.exit(f"error: {sentence}")


def places() -> dict[str, str]:
    """Sphinx's input: each file in the repository, and the path of its copy."""
    found = {path: path.name for path in ROOT.glob("docs/*.md")}
    found |= {path: f"images/{path.name}" for path in ROOT.glob("docs/images/*.png")}  # of pages
    found[ROOT / "README.md"] = "README.txt"  # a part of the first page, not a page
    notebooks = "notebooks/*.ipynb", "notebooks/deeper/*.ipynb", "notebooks/solutions/*.ipynb"
    for pattern in (*notebooks, "docs/images/*.svg"):
        found |= {path: path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern)}
    return {path.relative_to(ROOT).as_posix(): place for path, place in found.items()}


def anchor(heading: str) -> str:
    """The anchor of a notebook's heading in JupyterLab and on GitHub."""
    return heading.strip().replace(" ", "-")


def page_anchor(heading: str) -> str:
    """The anchor of a page's heading on GitHub: in lower case, without punctuation."""
    return re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-")


def for_the_site(page: str) -> str:
    """A page's text for Sphinx.

    Text between `<!-- site: begin` and `site: end -->`, such as directives, is a comment on GitHub,
    and is shown on the site. Text between `<!-- forge: begin -->` and `<!-- forge: end -->` is
    removed from the site.
    """
    page = re.sub(r"<!-- forge: begin -->.*?<!-- forge: end -->\n", "", page, flags=re.DOTALL)
    return re.sub(r"<!-- site: begin\n(.*?)site: end -->\n", r"\1", page, flags=re.DOTALL)


def copy_source(source: Path) -> None:
    for path, place in places().items():
        (source / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, source / place)
        if place.endswith(".md"):
            text = (ROOT / path).read_text(encoding="utf-8")
            (source / place).write_text(for_the_site(text), encoding="utf-8")


def has_the_hash(archive: Path) -> bool:
    digest = hashlib.sha512(archive.read_bytes()).digest()
    return base64.b64encode(digest).decode() == MATHJAX_SHA512


def fetch_mathjax(folder: Path) -> None:
    """Unpack MathJax into a folder. It is downloaded once, and then kept in build/."""
    archive = BUILD / (MATHJAX.replace("@", "-") + ".tgz")
    if not archive.exists():
        npm = shutil.which("npm")
        if npm is None:
            stop("npm was not found: on Debian or Ubuntu, run 'sudo apt-get install npm'.")
        command = [npm, "pack", MATHJAX, "--silent", "--pack-destination", str(BUILD)]
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode != 0:
            stop(f"npm could not fetch {MATHJAX}, for the reason given above.")
    if not has_the_hash(archive):
        stop(f"{archive} is not the {MATHJAX} that this script knows: remove it and try again.")
    with tarfile.open(archive) as packed:
        for member in packed:
            name = member.name.removeprefix("package/es5/")
            if member.isfile() and (name.startswith(MATHJAX_PARTS) or name == "package/LICENSE"):
                place = folder / name.removeprefix("package/")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(packed.extractfile(member).read())


def run_sphinx(source: Path, static: Path, site: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--nitpicky", "--quiet"]
    command += ["--jobs=auto", "--conf-dir", str(ROOT / "docs")]
    command += ["--define", f"html_static_path=static,images/share.png,{static}"]
    command += ["--doctree-dir", str(site.with_name("site-doctrees")), str(source), str(site)]
    if subprocess.run(command, cwd=ROOT).returncode != 0:
        stop("the site was not built: see the warnings above.")


def main() -> None:
    source, static, site = (BUILD / name for name in ("site-source", "site-static", "site"))
    for folder in (source, static, site, site.with_name("site-doctrees")):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    copy_source(source)
    fetch_mathjax(static / "mathjax")
    run_sphinx(source, static, site)
    print(f"The site is in {os.path.relpath(site)}: open index.html there.")


if __name__ == "__main__":
    main()
