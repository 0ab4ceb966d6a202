"""Make the notebooks for hosted services: without outputs, each usable on its own.

    python tools/hosted_copies.py FOLDER [--repository OWNER/NAME] [--clone URL]

A copy's first code cell fetches the toolbox at the commit that is checked out here. Links lead to
the repository, and badges below the title open the copy. CI makes the copies after each push, and
pushes FOLDER as a separate branch (.github/workflows/hosted.yml).

The default repository is `REPOSITORY`. With `--clone`, notebooks fetch the toolbox from another
URL, such as file:///work/clone.
"""

import argparse
import re
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from readers_copies import ORIGINALS, ROOT, as_text, copy_of

# The repository on GitHub, as 'owner/name'; empty while it is unknown. docs/conf.py reads it, too.
# When it is known, it also belongs into README, docs/install.md, CITATION.cff (`repository-code`)
# and pyproject.toml (`[project.urls]`).
REPOSITORY = ""
HOSTED_BRANCH = "hosted"  # CI pushes the copies to this branch.
FIRST = "notebooks/00_start_here.ipynb"

SETUP_ID = "setup"
SETUP = """\
# Fetch the toolbox that this notebook was written with, and install Triton if it is missing. On
# Kaggle, turn "Internet" on first.
import importlib.util
import runpy
import subprocess
from pathlib import Path

CLONE = "{clone}"
COMMIT = "{commit}"

toolbox = Path("rope_in_triton_" + COMMIT[:10])
if importlib.util.find_spec("rope_lab") is None or toolbox.exists():
    toolbox.mkdir(exist_ok=True)
    if not (toolbox / "tools").exists():
        fetch = ["fetch", "--quiet", "--depth=1", CLONE, COMMIT]
        for step in (["init", "--quiet"], fetch, ["checkout", "--quiet", "FETCH_HEAD"]):
            subprocess.run(["git", *step], cwd=toolbox, check=True)
    hosted = runpy.run_path(str(toolbox / "tools" / "hosted.py"))
    hosted["get_ready"](worked_solutions={worked_solutions})"""
ABOUT = """\
# Notebooks for hosted services

Made from commit {commit} of [{repository}]({url}) by `tools/hosted_copies.py`, after each push: \
every change here is overwritten. Each notebook fetches what it needs. Begin with the first:

{badges}
"""
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")


@dataclass(frozen=True)
class Source:
    """The repository and commit of the copies."""

    repository: str  # as 'owner/name'
    commit: str  # all 40 digits
    clone: str  # the URL from which git fetches the commit


def url_of(repository: str) -> str:
    return f"https://github.com/{repository}"


def badges(repository: str, path: str) -> str:
    """A button for each service that opens a hosted notebook, in Markdown.

    Args:
        repository: as 'owner/name'.
        path: of the notebook, the same in the branch of hosted copies.
    """
    place = f"{repository}/blob/{HOSTED_BRANCH}/{path}"
    colab, kaggle = "https://colab.research.google.com", "https://kaggle.com"
    return (
        f"[![Open in Colab]({colab}/assets/colab-badge.svg)]({colab}/github/{place}) "
        f"[![Open in Kaggle]({kaggle}/static/images/open-in-kaggle.svg)]"
        f"({kaggle}/kernels/welcome?src={url_of(place)})"
    )


def hosted_copy(original: Path, source: Source) -> str:
    """A notebook's text: no outputs, badges, absolute links, and the setup cell below the title."""
    path = original.relative_to(ROOT).as_posix()
    links = partial(with_absolute_links, folder=original.parent, source=source)
    notebook = copy_of(original, links)
    title, *others = notebook["cells"]
    heading, _, rest = title["source"].partition("\n")
    title["source"] = f"{heading}\n\n{badges(source.repository, path)}\n{rest}"
    setup = SETUP.format(
        clone=source.clone,
        commit=source.commit,
        worked_solutions=original.parent.name == "solutions",
    )
    cell = {"cell_type": "code", "id": SETUP_ID, "metadata": {}, "source": setup}
    cell |= {"execution_count": None, "outputs": []}
    notebook["cells"] = [title, cell, *others]
    return as_text(notebook)


def with_absolute_links(text: str, folder: Path, source: Source) -> str:
    """A cell's text with absolute links.

    Links to notebooks lead to their hosted copies, where badges open them. All other links lead to
    the copy's commit, also those to solutions, which are read with their outputs.
    """

    def absolute(link: re.Match) -> str:
        target, anchor = link[1], link[2] or ""
        there = (folder / target).resolve()
        if "://" in target or not there.exists():
            return link[0]
        path, url = there.relative_to(ROOT).as_posix(), url_of(source.repository)
        if there.suffix == ".ipynb" and there.parent.name != "solutions":
            return f"]({url}/blob/{HOSTED_BRANCH}/{path}{anchor})"
        if there.suffix in (".png", ".svg"):
            raw = f"https://raw.githubusercontent.com/{source.repository}/{source.commit}"
            # Without this parameter, GitHub sends an SVG as plain text.
            return f"]({raw}/{path}?sanitize=true)"
        kind = "tree" if there.is_dir() else "blob"
        return f"]({url}/{kind}/{source.commit}/{path}{anchor})"

    return LINK.sub(absolute, text)


def originals() -> list[Path]:
    """*Three edits*, the numbered notebooks, their detours and solutions."""
    found = sorted((ROOT / ORIGINALS).rglob("[0-9][0-9]_*.ipynb"))
    found = [ROOT / ORIGINALS / "three_edits.ipynb", *found]
    return [path for path in found if ".ipynb_checkpoints" not in path.parts]


def make_hosted_copies(folder: Path, source: Source) -> list[Path]:
    """Write all copies and a README to a folder, with the layout of the repository.

    Returns:
        The copies, in the order of the originals.
    """
    made = []
    for original in originals():
        copy = folder / original.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(hosted_copy(original, source), encoding="utf-8")
        made.append(copy)
    about = ABOUT.format(
        commit=source.commit[:10],
        repository=source.repository,
        url=url_of(source.repository),
        badges=badges(source.repository, FIRST),
    )
    (folder / "README.md").write_text(about, encoding="utf-8")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repository", default=REPOSITORY, metavar="OWNER/NAME")
    parser.add_argument("--clone", metavar="URL", help="by default the repository on GitHub")
    asked = parser.parse_args()
    if not asked.repository:
        parser.error("the repository's address is not known yet: name it by --repository")
    head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, encoding="utf-8")
    source = Source(
        repository=asked.repository,
        commit=head.strip(),
        clone=asked.clone or url_of(asked.repository),
    )
    made = make_hosted_copies(asked.folder, source)
    print(f"{len(made)} copies of {source.commit[:10]} are in {asked.folder}.")


if __name__ == "__main__":
    main()
