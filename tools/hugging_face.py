"""Write the table of tools/hugging_face.md: which functions `patch` replaces.

`make hugging_face` looks at the transformers that is installed, and keeps what it finds in
hugging_face.json under its release: the models with each function, by the digest of its code. The
table is made of all releases there; the rest of the page is edited in the page.
tests/package/huggingface/test_hf_page.py compares.
"""

import importlib.metadata
import json
import re
from collections import defaultdict
from pathlib import Path

from benchmarks.tables import fill, markdown
from rope_kernels.huggingface.calls import Rule
from rope_kernels.huggingface.digest import code_digest
from rope_kernels.huggingface.rules import RULES

PAGE = Path(__file__).with_suffix(".md")
STORED = Path(__file__).with_suffix(".json")
COLUMNS = {
    "of elements": "one per element",
    "first half": "one per pair, in the first half",
    "of pairs": "one per pair",
}
ROTATED = {"none": "all", "after": "the first", "before": "the last"}


# What the installed transformers has


def found() -> dict[str, str]:
    """By the digest of a function that `patch` knows: the families of models that have it."""
    from transformers import models

    known = {digest for rule in RULES for digest in rule.digests.split()}
    defined = re.compile(rf"^def ({'|'.join({rule.name for rule in RULES})})\(", re.MULTILINE)
    families = defaultdict(set)
    for path in sorted(Path(models.__file__).parent.glob("*/modeling_*.py")):
        family = path.parent.name
        module = f"{models.__name__}.{family}.{path.stem}"
        for name in defined.findall(path.read_text(encoding="utf-8")):
            digest = code_digest(getattr(importlib.import_module(module), name))
            if digest in known:
                families[digest].add(family)
    return {digest: " ".join(sorted(names)) for digest, names in families.items()}


# What is stored


def release() -> str:
    return ".".join(importlib.metadata.version("transformers").split(".")[:2])


def stored() -> dict[str, dict[str, str]]:
    """What was found in each release."""
    return json.loads(STORED.read_text(encoding="utf-8"))


def families_of(rule: Rule) -> list[str]:
    """The models of transformers with code that rotates by this rule."""
    names = [of.get(digest, "") for of in stored().values() for digest in rule.digests.split()]
    return sorted({family for some in names for family in some.split()})


# The page


def page() -> str:
    """The page with a new table."""
    text = f"In transformers {' and '.join(sorted(stored()))}:\n\n{functions()}\n"
    return fill(PAGE.read_text(encoding="utf-8"), "functions", text)


def functions() -> str:
    """The table of functions that rotate; one with another name says so before its models."""
    families: dict[tuple[str, ...], set[str]] = {}
    for rule in RULES:
        name = "" if rule.name == "apply_rotary_pos_emb" else f"`{rule.name}`: "
        how = pairs(rule), ROTATED[rule.rest], COLUMNS[rule.columns], rounding(rule)
        families.setdefault((name, *how), set()).update(families_of(rule))
    head = ["models", "number", "pairs", "rotated elements", "columns of cos", "`rounding`"]
    rows = [
        [name + ", ".join(sorted(found)), len(found), *how]
        for (name, *how), found in families.items()
    ]
    return markdown(head, rows)


def pairs(rule: Rule) -> str:
    found = "interleaved" if rule.interleaved else "half-split"
    if rule.output_pairing == "half":
        found += ", output half-split"
    return f"{found}, sine negated" if rule.inverse else found


def rounding(rule: Rule) -> str:
    found = f'`"{rule.rounding}"`'
    return f"{found}, result in the dtype of q" if rule.casts_back else found


if __name__ == "__main__":
    releases = stored() | {release(): found()}
    STORED.write_text(json.dumps(releases, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
