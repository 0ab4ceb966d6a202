"""Write what `patch` replaces into docs/hugging_face.md: functions that rotate, and attentions.

`make hugging_face` looks at the transformers that is installed, and keeps what it finds in
hugging_face.json under its release: the models with each function, by the digest of its code, and
those with an attention that `patch(model, norms=True)` fuses, or leaves. The page's tables are made
of all releases there. tests/package/huggingface/test_hf_page.py compares.
"""

import importlib.metadata
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.tables import fill, markdown
from rope_kernels.huggingface.calls import Rule
from rope_kernels.huggingface.digest import UnknownCode, code_digest, original_of
from rope_kernels.huggingface.forwards import NormedForward, find_normed, replacement_forward
from rope_kernels.huggingface.rules import RULES

PAGE = Path(__file__).resolve().parent.parent / "docs/hugging_face.md"
STORED = Path(__file__).with_suffix(".json")
LEFT = "left"
REASONS = {  # why a forward with norms and a known rotation is left
    "chameleon": "LayerNorm",
    "cohere": "LayerNorm",
    "deepseek_v4": "keys and values are one tensor, and the output is rotated back",
    "dots3_note": "only a part of the keys has a norm; the vision tower rotates in fp32",
    "esmc": "LayerNorm",
    "flex_olmo": "a norm of all heads",
    "glm5_next": "the vision tower rotates in fp32",
    "glm_ocr": "the vision tower rotates in fp32",
    "hunyuan_vl": "rotates in fp32",
    "idefics": "the cache comes between rotation and norm",
    "lfm3_vl": "the vision tower rotates in fp32",
    "minimax_m2": "a norm of all heads",
    "molmo2": "a configuration chooses between a norm of a head and one of all heads",
    "muse_glimmer": "queries are scaled between norm and rotation",
    "muse_spark": "queries are scaled between norm and rotation",
    "nemotron3_5_transcribe": "LayerNorm",
    "olmo2": "a norm of all heads",
    "olmo3": "a norm of all heads",
    "olmo_hybrid": "a norm of all heads",
    "olmoe": "a clamp comes between norm and rotation",
    "qwen4_exp": "a norm may have groups, and an indexer pools keys before theirs",
    "timesfm2_5": "queries are scaled after their norm, in autocast in fp32",
}
COLUMNS = {
    "of elements": "a column an element",
    "first half": "a column a pair, in the first half",
    "of pairs": "a column a pair",
}
TURNING = {"none": "all", "after": "the first", "before": "the last"}


# What the installed transformers has


def files(family: str = "*") -> Iterator[tuple[str, str, str]]:
    """Of each modeling file: the family of models, the module's name and the text."""
    from transformers import models

    for path in sorted(Path(models.__file__).parent.glob(f"{family}/modeling_*.py")):
        name = f"{models.__name__}.{path.parent.name}.{path.stem}"
        yield path.parent.name, name, path.read_text(encoding="utf-8")


def functions_found() -> dict[str, set[str]]:
    """By the digest of a function that `patch` knows: the families that have it."""
    known = {digest for rule in RULES for digest in rule.digests.split()}
    defined = re.compile(rf"^def ({'|'.join({rule.name for rule in RULES})})\(", re.MULTILINE)
    families = defaultdict(set)
    for family, module, text in files():
        for name in defined.findall(text):
            digest = code_digest(getattr(importlib.import_module(module), name))
            if digest in known:
                families[digest].add(family)
    return families


@dataclass(frozen=True)
class Attention:
    """A class that normalizes what it rotates."""

    cls: type
    normed: NormedForward | None  # what its forward does; None: it is left

    def __str__(self) -> str:
        """What its test is called."""
        return f"{self.family}.{self.name}"

    @property
    def name(self) -> str:
        return self.cls.__name__

    @property
    def module(self) -> str:
        return self.cls.__module__

    @property
    def family(self) -> str:
        return self.module.split(".")[-2]


def attentions(family: str = "*") -> Iterator[Attention]:
    """Those of one family of models, or all."""
    rotations = {rule.name for rule in RULES}
    for _, name, text in files(family):
        if not re.search(r"self\.\w*norm\w*\(", text) or not any(x in text for x in rotations):
            continue
        for cls in vars(importlib.import_module(name)).values():
            if isinstance(cls, type) and cls.__module__ == name:
                try:
                    if replacement_forward(cls) is not None:
                        yield Attention(cls, find_normed(original_of(vars(cls)["forward"])))
                except UnknownCode:
                    yield Attention(cls, None)


def norms_found() -> dict[str, set[str]]:
    """The families with an attention that is fused as the key says, or is left."""
    families = defaultdict(set)
    for attention in attentions():
        words = LEFT
        if attention.normed is not None:
            words = f"{'after' if attention.normed.norm_after else 'before'} the rotation"
        families[words].add(attention.family)
    return families


def found() -> dict[str, dict[str, str]]:
    """All of it, as it is stored."""
    return {
        kind: {key: " ".join(sorted(names)) for key, names in families.items()}
        for kind, families in (("functions", functions_found()), ("norms", norms_found()))
    }


# What is stored


def release() -> str:
    return ".".join(importlib.metadata.version("transformers").split(".")[:2])


def stored() -> dict[str, dict[str, dict[str, str]]]:
    """What was found in each release."""
    return json.loads(STORED.read_text(encoding="utf-8"))


def families_of(rule: Rule) -> list[str]:
    """The models of transformers with code that rotates by this rule."""
    releases = [kinds["functions"] for kinds in stored().values()]
    names = [of.get(digest, "") for of in releases for digest in rule.digests.split()]
    return sorted({family for some in names for family in some.split()})


def fused() -> set[str]:
    """The families with an attention that is fused, of the installed release, or else of any."""
    releases = stored()
    of = [releases[release()]] if release() in releases else releases.values()
    every = [kinds["norms"] for kinds in of]
    return {x for norms in every for words in norms.keys() - {LEFT} for x in norms[words].split()}


# The page


def as_page(page: str) -> str:
    """The page with its tables between their marks."""
    page = fill(page, "functions", f"\n{functions()}\n\n")
    return fill(page, "norms", f"\n{norms()}\n\n")


def functions() -> str:
    """The table of functions that rotate; one with another name says so before its models."""
    families: dict[tuple[str, ...], set[str]] = {}
    for rule in RULES:
        name = "" if rule.name == "apply_rotary_pos_emb" else f"`{rule.name}`: "
        how = pairs(rule), TURNING[rule.rest], COLUMNS[rule.columns], rounding(rule)
        families.setdefault((name, *how), set()).update(families_of(rule))
    head = ["models", "how many", "pairs", "elements that turn", "the table has", "`rounding`"]
    rows = [
        [name + ", ".join(sorted(found)), len(found), *how]
        for (name, *how), found in families.items()
    ]
    return markdown(head, rows)


def pairs(rule: Rule) -> str:
    found = "interleaved" if rule.interleaved else "half-split"
    if rule.output_pairing == "half":
        found += ", written half-split"
    return f"{found}, sine negated" if rule.inverse else found


def rounding(rule: Rule) -> str:
    found = f'`"{rule.rounding}"`'
    return f"{found}, in the dtype of q" if rule.casts_back else found


def norms() -> str:
    """The tables of attentions: what is fused, and what is left."""
    releases: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one, kinds in stored().items():
        for words, names in kinds["norms"].items():
            for family in names.split():
                releases[family, words].append(one)
    fused, left = defaultdict(list), []
    for (family, words), of in sorted(releases.items()):
        if words == LEFT:
            left.append([family, ", ".join(of), REASONS[family]])
        else:
            fused[words, ", ".join(of)].append(family)
    head = ["models", "how many", "norms come", "transformers"]
    rows = [[", ".join(x), len(x), *how] for how, x in sorted(fused.items())]
    what_is_left = markdown(["models", "transformers", "why"], left)
    return "\n\n".join([markdown(head, rows), "Left are:", what_is_left])


if __name__ == "__main__":
    releases = stored() | {release(): found()}
    STORED.write_text(json.dumps(releases, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.write_text(as_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
