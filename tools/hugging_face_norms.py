"""Which attentions of transformers `patch(model, norms=True)` fuses, and which it leaves.

`make hugging_face` looks at the transformers that is installed, and keeps what it finds in
hugging_face_norms.json under its release. The page's table is made of all releases there.
"""

import importlib.metadata
import json
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pages
from rope_kernels.huggingface.digest import UnknownCode, original_of
from rope_kernels.huggingface.known import KNOWN
from rope_kernels.huggingface.norms import Normed, find_normed, normed_forward

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


@dataclass(frozen=True)
class Attention:
    """A class that normalizes what it rotates."""

    cls: type
    normed: Normed | None  # what its forward does; None: it is left

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
    """Those of the transformers that is installed: of one family of models, or all."""
    from transformers import models

    rotations = {known.name for known in KNOWN}
    for path in sorted(Path(models.__file__).parent.glob(f"{family}/modeling_*.py")):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"self\.\w*norm\w*\(", text) or not any(x in text for x in rotations):
            continue
        module = importlib.import_module(f"transformers.models.{path.parent.name}.{path.stem}")
        for cls in vars(module).values():
            if isinstance(cls, type) and cls.__module__ == module.__name__:
                try:
                    if normed_forward(cls) is not None:
                        yield Attention(cls, find_normed(original_of(vars(cls)["forward"])))
                except UnknownCode:
                    yield Attention(cls, None)


def release() -> str:
    return ".".join(importlib.metadata.version("transformers").split(".")[:2])


def found() -> dict[str, str]:
    """The models with an attention that is fused as the key says, or is left."""
    families = defaultdict(set)
    for attention in attentions():
        words = LEFT
        if attention.normed is not None:
            words = f"{'after' if attention.normed.after else 'before'} the rotation"
        families[words].add(attention.family)
    return {words: " ".join(sorted(names)) for words, names in families.items()}


def fused() -> set[str]:
    """The families with an attention that is fused, of the installed release, or else of any."""
    releases = stored()
    of = [releases[release()]] if release() in releases else releases.values()
    return {x for kinds in of for words in kinds.keys() - {LEFT} for x in kinds[words].split()}


def stored() -> dict[str, dict[str, str]]:
    """What was found in each release."""
    releases = json.loads(STORED.read_text(encoding="utf-8"))
    return {
        one: {words: " ".join(lines) for words, lines in kinds.items()}
        for one, kinds in releases.items()
    }


def store() -> None:
    releases = stored() | {release(): found()}
    wrapped = {
        one: {words: textwrap.wrap(names, 94) for words, names in kinds.items()}
        for one, kinds in releases.items()
    }
    STORED.write_text(json.dumps(wrapped, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def table() -> str:
    """The page's two tables: what is fused, and what is left."""
    releases: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one, kinds in sorted(stored().items()):
        for words, names in kinds.items():
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
    what_is_left = pages.table(["models", "transformers", "why"], left)
    return "\n\n".join([pages.table(head, rows), "Left are:", what_is_left])
