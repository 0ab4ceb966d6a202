"""Which attentions of transformers `patch(model, norms=True)` fuses, and which it leaves.

`make hugging_face` looks at the transformers that is installed, and keeps what it finds in
hugging_face_norms.json under its release. The page's table is made of all releases there.
"""

import importlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pages
from rope_kernels.huggingface.attention import BY_DIGEST, Normed, find_normed, normed_forward
from rope_kernels.huggingface.digest import UnknownCode, original_of

STORED = Path(__file__).with_suffix(".json")
REASONS = {  # why a forward with norms and a known rotation is left
    "chameleon": "LayerNorm",
    "cohere": "LayerNorm",
    "deepseek_v4": "keys and values are one tensor, and the output is rotated back",
    "dots3_note": "only a part of the keys has a norm; the vision tower rotates in fp32",
    "esmc": "LayerNorm",
    "glm5_next": "the vision tower rotates in fp32",
    "glm_ocr": "the vision tower rotates in fp32",
    "hunyuan_vl": "rotates in fp32",
    "idefics": "the cache comes between rotation and norm",
    "lfm3_vl": "the vision tower rotates in fp32",
    "molmo2": "a configuration chooses between a norm of a head and one of all heads",
    "muse_glimmer": "queries are scaled between norm and rotation",
    "muse_glimmer_assistant": "there are fewer queries than keys",
    "muse_spark": "queries are scaled between norm and rotation",
    "nemotron3_5_transcribe": "LayerNorm",
    "olmoe": "a clamp comes between norm and rotation",
    "qwen4_exp": "a norm may have groups, and an indexer pools keys before theirs",
    "sapiens2": "rotates patches, not the tokens before them",
}


@dataclass(frozen=True)
class Attention:
    """A class that normalizes what it rotates.

    Attributes:
        normed: what its forward does; None: it is left.
    """

    cls: type
    normed: Normed | None

    def __str__(self) -> str:
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


def attentions() -> Iterator[Attention]:
    """Those of the transformers that is installed."""
    from transformers import models

    for path in sorted(Path(models.__file__).parent.glob("*/modeling_*.py")):
        if not re.search(r"self\.\w*norm\w*\(", path.read_text(encoding="utf-8")):
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
    import transformers

    return ".".join(transformers.__version__.split(".")[:2])


def found() -> dict[str, str | None]:
    """What is fused in each attention: "a head, before the rotation"; None: it is left."""
    return {str(x): x.normed and _words(x.normed) for x in attentions()}


def _words(normed: Normed) -> str:
    covers = "all heads" if BY_DIGEST[normed.digest] == "all heads" else "a head"
    return f"{covers}, {'after' if normed.after else 'before'} the rotation"


def store() -> None:
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    stored[release()] = found()
    STORED.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def table() -> str:
    """The page's two tables: what is fused, and what is left."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    releases: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    for one, attentions_of_it in stored.items():
        for attention, words in attentions_of_it.items():
            releases[attention.partition(".")[0], words].add(one)
    fused, left = defaultdict(list), []
    for (family, words), of in sorted(releases.items(), key=str):
        if words is None:
            left.append([family, ", ".join(sorted(of)), REASONS[family]])
        else:
            fused[words, ", ".join(sorted(of))].append(family)
    head = ["models", "how many", "a norm covers a head or all, and comes", "transformers"]
    rows = [[", ".join(x), str(len(x)), *how] for how, x in sorted(fused.items())]
    what_is_left = pages.table(["models", "transformers", "why"], left)
    return "\n\n".join([pages.table(head, rows), "Left are:", what_is_left])
