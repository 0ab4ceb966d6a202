"""The repository's address: `python tools/address.py OWNER/NAME` writes it where it is needed.

It is kept in tools/repository.txt and nowhere else. What is written from it is in parts of files,
each between a line with `address: begin`, which names the part, and one with `address: end`. While
the address is unknown, no part shows one. Without an argument all are written again.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = "tools/repository.txt"
HOSTED_BRANCH = "hosted"  # where CI pushes what tools/hosted_copies.py makes
FIRST = "notebooks/00_start_here.ipynb"
# What GitHub accepts. A name may begin with a dot; an owner has letters, digits and single hyphens.
ACCEPTED = re.compile(r"[A-Za-z0-9](?:-?[A-Za-z0-9])*/[A-Za-z0-9._-]+")


def repository(root: Path = ROOT) -> str:
    """The repository as 'owner/name'; '' while it is unknown."""
    lines = (root / KEPT).read_text(encoding="utf-8").splitlines()
    named = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return named[0] if named else ""


def url_of(repository: str) -> str:
    return f"https://github.com/{repository}"


def site_of(repository: str) -> str:
    """Where GitHub Pages publishes the site."""
    owner, _, name = repository.partition("/")
    return f"https://{owner.lower()}.github.io/{name}/"


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


# What each file says, of 'owner/name', which may be ''


def in_readme(repository: str) -> str:
    """The ways in, a line each."""
    hosted = (
        f"- **In a browser**, nothing to install: {badges(repository, FIRST)}. Kernels run in the "
        "interpreter, or on the GPU of the runtime.\n"
    )
    clone = f"`git clone {url_of(repository)}`, then " if repository else "in a clone, "
    pages = f"[the site]({site_of(repository)})" if repository else "[docs](docs/index.md)"
    return (
        (hosted if repository else "")
        + f"- **Linux**: {clone}`make lab`. [Rented machines, Docker, conda](docs/install.md)\n"
        "- **macOS, Windows**: `python3 lab.py` in the same folder; on Windows `py lab.py`. "
        "[What is different there](docs/install.md#Another-Python-or-system)\n"
        "- **An NVIDIA GPU** is used if there is one, from a T4 (sm_75) on. "
        "[Which were measured](docs/gpus.md)\n"
        f"- **To read**: {pages}; notebooks in `notebooks/` show their outputs.\n"
    )


def in_browser(repository: str) -> str:
    return f"Open the first notebook: {badges(repository, FIRST)}\n" if repository else ""


def in_install(repository: str) -> str:
    address = url_of(repository) if repository else "ADDRESS"
    where = "" if repository else ", with the address of this repository"
    return f"Or without a clone{where}:\n\n```\npip install --no-deps git+{address}\n```\n"


def in_index(repository: str) -> str:
    url = f",\n  url     = {{{url_of(repository)}}}" if repository else ""
    return (
        "```bibtex\n"
        "@software{rope_kernels,\n"
        "  title   = {{RoPE in Triton}: rotary position embedding,\n"
        "             and the notebooks that lead there},\n"
        "  author  = {{the rope\\_kernels authors}},\n"
        f"  year    = {{2026}}{url}\n"
        "}\n"
        "```\n"
    )


def in_citation(repository: str) -> str:
    return f'repository-code: "{url_of(repository)}"\n' if repository else ""


def in_pyproject(repository: str) -> str:
    if not repository:
        return ""
    return (
        "[project.urls]\n"
        f'Repository = "{url_of(repository)}"\n'
        f'Documentation = "{site_of(repository)}"\n'
    )


WRITTEN: dict[str, dict[str, Callable[[str], str]]] = {  # file -> name of a part -> its text
    "README.md": {"doors": in_readme},
    "docs/install.md": {"pip": in_install, "browser": in_browser},
    "docs/index.md": {"bibtex": in_index},
    "CITATION.cff": {"code": in_citation},
    "pyproject.toml": {"urls": in_pyproject},
}
PART = re.compile(
    r"(^[^\n]*\baddress: begin (\w+)[^\n]*\n)(.*?)(^[^\n]*\baddress: end)", re.M | re.S
)


def with_address(text: str, path: str, repository: str) -> str:
    """A file's text with its parts as the address has them.

    Raises:
        ValueError: the file does not have each of them once.
    """
    parts = WRITTEN[path]
    if sorted(part[2] for part in PART.finditer(text)) != sorted(parts):
        wanted = " and ".join(f"'address: begin {name}'" for name in parts)
        raise ValueError(f"{path} has not one line with {wanted} each, and 'address: end' below")
    return PART.sub(lambda part: part[1] + parts[part[2]](repository) + part[4], text)


def write_address(repository: str, root: Path = ROOT) -> list[str]:
    """Write the address into its own file and into all that show it.

    Returns:
        The files that changed.

    Raises:
        ValueError: neither '' nor 'owner/name', or a file has no place for it; nothing is written.
    """
    if repository and not ACCEPTED.fullmatch(repository):
        raise ValueError(f"the address is {repository!r}; accepted: owner/name, as on GitHub")
    first = (root / KEPT).read_text(encoding="utf-8").splitlines()[0]
    new = {KEPT: "\n".join(filter(None, (first, repository))) + "\n"}
    for path in WRITTEN:
        new[path] = with_address((root / path).read_text(encoding="utf-8"), path, repository)
    changed = []
    for path, text in new.items():
        if (root / path).read_text(encoding="utf-8") != text:
            (root / path).write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def main(arguments: list[str]) -> int:
    if len(arguments) > 1:
        sys.exit("usage: python tools/address.py [OWNER/NAME]")
    try:
        changed = write_address(arguments[0] if arguments else repository())
    except ValueError as error:
        sys.exit(f"error: {error}")
    print("Written:", ", ".join(changed) or "nothing, all is as the address has it")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
