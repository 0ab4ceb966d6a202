"""Write the functions of `rope_kernels/huggingface/known.py` into docs/hugging_face.md.

tests/huggingface/test_hf_page.py compares.
"""

import sys
from pathlib import Path

from rope_kernels.huggingface.calls import Rule
from rope_kernels.huggingface.known import KNOWN, Known

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/hugging_face.md"
BEGIN = "<!-- table: begin (python tools/hugging_face_table.py writes what follows) -->"
END = "<!-- table: end -->"
COLUMNS = {
    "of elements": "a column an element",
    "first half": "a column a pair, in the first half",
    "of pairs": "a column a pair",
}
TURNING = {"none": "all", "after": "the first", "before": "the last"}


def as_page(page: str) -> str:
    """The page with the table between its two markers."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    head = ["models", "how many", "pairs", "elements that turn", "the table has", "`rounding`"]
    families: dict[tuple[str, ...], list[str]] = {}
    for known in KNOWN:
        families.setdefault(cells(known), []).extend(known.families.split())
    lines = [head, ["---"] * len(head)]
    for (name, *how), found in families.items():
        names = sorted({*found})
        lines.append([name + ", ".join(names), str(len(names)), *how])
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "\n\n".join([before.rstrip(), BEGIN, table, END]) + after


def cells(known: Known) -> tuple[str, ...]:
    """What a row says: the function's name if it is another, and how it rotates."""
    rule = known.rule
    name = "" if known.name == "apply_rotary_pos_emb" else f"`{known.name}`: "
    return name, pairs(rule), TURNING[rule.rest], COLUMNS[rule.columns], rounding(rule)


def pairs(rule: Rule) -> str:
    found = "interleaved" if rule.interleaved else "half-split"
    if rule.output_pairing == "half":
        found += ", written half-split"
    return f"{found}, sine negated" if rule.inverse else found


def rounding(rule: Rule) -> str:
    found = f'`"{rule.rounding}"`'
    if rule.promoted:
        found += f', `"{rule.promoted}"` with a table in fp32'
    return f"{found}, in the dtype of q" if rule.casts_back else found


def main(root: Path = ROOT) -> int:
    """Write the page; 0."""
    page = root / PAGE
    page.write_text(as_page(page.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
