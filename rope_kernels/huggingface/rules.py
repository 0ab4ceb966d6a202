"""The rules by which models rotate, found by the digest of a function's code.

A rule has the digests of all code that rotates this way, in transformers 5.17, 5.23 or both, and
the form that replaces it. Copies in other files have the same digest. Comments name some models;
tools/hugging_face.json and tools/hugging_face.md list all. A test compares the rules with the
installed transformers: digests, and bits of results.
"""

from types import FunctionType

from . import calls
from .calls import Rule
from .digest import UnknownCode, code_digest

UNKNOWN = "its code is not that of a known function"

# Names of functions other than `apply_rotary_pos_emb`.
VISION = "apply_rotary_pos_emb_vision"
INTERLEAVE = "apply_rotary_pos_emb_interleave"

RULES = (
    # Llama, and most others
    Rule("9b7060d7d257", calls.q_and_k),
    # bamba, ...
    Rule("e198cae58ccb dbe5e1562cbc 838043cb0720", calls.q_and_k, rest="after"),
    # glmasr, ...
    Rule("46babc0a98ca", calls.with_unused_ids, rest="after"),
    # qwen4_exp
    Rule("6f3a1f31fe88", calls.q_alone_or_with_k, rest="after"),
    # diffusion_gemma, gemma3n, gemma4, ...
    Rule("9c96325939ad", calls.one_tensor),
    # nanochat
    Rule("e8ecd342adc1", calls.q_and_k, inverse=True),
    # gpt_oss
    Rule("5678c8a3983c", calls.q_and_k, columns="of pairs"),
    # openai_privacy_filter
    Rule("da100e5ae5a9", calls.q_and_k, interleaved=True, columns="of pairs"),
    # glm, glm4, moonshine, ...
    Rule("1f68d6dacce5", calls.q_and_k, interleaved=True, columns="first half", rest="after"),
    # helium
    Rule("d3941637ba61", calls.q_and_k, interleaved=True, columns="first half"),
    # glm4v, glm_ocr
    Rule("ba4a324e86c7", calls.q_and_k, interleaved=True, rest="after"),
    # blt
    Rule("7e19d47c1006", calls.q_and_k, interleaved=True),
    # axk1, deepseek_v3, ...
    Rule(
        "b212a04cb3ff",
        calls.with_unused_ids,
        INTERLEAVE,
        interleaved=True,
        columns="first half",
        output_pairing="half",
    ),
    # mistral_large4
    Rule(
        "323f8b925488",
        calls.q_with_k_or_none,
        INTERLEAVE,
        interleaved=True,
        columns="first half",
        output_pairing="half",
    ),
    # cohere, cohere2, ...
    Rule("435374cf95e8", calls.q_and_k, interleaved=True, rounding="upcast", casts_back=True),
    # hunyuan_vl
    Rule("c654a3be90b8", calls.q_and_k, rounding="upcast", casts_back=True),
    # ernie4_5_vl_moe, qwen2_vl, ...
    Rule("1de91adb0ce9", calls.vision, VISION, rounding="upcast", casts_back=True),
    # inkling2
    Rule(
        "13a1770ee59e",
        calls.vision,
        VISION,
        interleaved=True,
        rounding="upcast",
        casts_back=True,
    ),
    # flex_olmo, olmo, olmo2, ...
    Rule("730cf07c648d", calls.q_and_k, casts_back=True),
    # esm, evolla, modernbert, ...
    Rule("ca2dca557c66", calls.q_and_k, rounding="promoted", casts_back=True),
    # ernie4_5, ernie4_5_moe
    Rule(
        "164cd7b7f972",
        calls.q_and_k,
        interleaved=True,
        columns="first half",
        rounding="promoted",
        casts_back=True,
    ),
    # ernie4_5_vl_moe
    Rule("76f6d8670f07", calls.q_and_k, interleaved=True, rounding="promoted", casts_back=True),
    # deepseek_v4
    Rule(
        "321a8d7df3f8",
        calls.one_tensor,
        interleaved=True,
        columns="of pairs",
        rest="before",
        rounding="promoted",
        casts_back=True,
    ),
)
# Llama's function in transformers 4, which only exists in code downloaded with models.
OLDER_RULES = (Rule("a51c940c1400", calls.with_unused_ids),)

RULE_BY_DIGEST = {
    digest: rule for rule in (*RULES, *OLDER_RULES) for digest in rule.digests.split()
}


def rule_of(function: FunctionType) -> Rule:
    """The rule for a function's code. Raises `UnknownCode` if there is none, and says why."""
    rule = RULE_BY_DIGEST.get(code_digest(function))
    if rule is None:
        raise UnknownCode(UNKNOWN)
    return rule
