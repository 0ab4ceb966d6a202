"""The table of rules: by which rule a function rotates, told by the digest of its own code.

A row is a rule. It has the digests of all code that rotates by it, in transformers 5.17, in 5.23 or
in both, and the form that takes its calls. Copies in other files have the same digest. The comment
of a row names some models; tools/hugging_face.json and docs/hugging_face.md have all. A test holds
the table against the installed transformers, digest by digest and bit by bit.
"""

from types import FunctionType

from . import calls
from .calls import Rule
from .digest import UnknownCode, code_digest

UNKNOWN = "its code is not that of a known function"

# What models call a function where it is not `apply_rotary_pos_emb`.
VISION = "apply_rotary_pos_emb_vision"
INTERLEAVE = "apply_rotary_pos_emb_interleave"

RULES = (
    # Llama, and most others
    Rule("8c71808ee031", calls.q_and_k),
    # bamba, ...
    Rule("1c8a7766a526 479bb0df2eba 99e5222df95c", calls.q_and_k, rest="after"),
    # glmasr, ...
    Rule("5ff7e4fb9d01", calls.with_unused_ids, rest="after"),
    # qwen4_exp
    Rule("02db01a4243e", calls.q_alone_or_with_k, rest="after"),
    # diffusion_gemma, gemma3n, gemma4, ...
    Rule("41a27000e109", calls.one_tensor),
    # nanochat
    Rule("eaad334444e1", calls.q_and_k, inverse=True),
    # gpt_oss
    Rule("d12ce5d7de06", calls.q_and_k, columns="of pairs", concatenates=True),
    # openai_privacy_filter
    Rule("fbe164d52ccc", calls.q_and_k, interleaved=True, columns="of pairs", concatenates=True),
    # glm, glm4, moonshine, ...
    Rule("62c9a8db8dcc", calls.q_and_k, interleaved=True, columns="first half", rest="after"),
    # helium
    Rule("345ebc8886cd", calls.q_and_k, interleaved=True, columns="first half"),
    # glm4v, glm_ocr
    Rule("e4922a9fd6c6", calls.q_and_k, interleaved=True, rest="after"),
    # blt
    Rule("02259b7bce0d", calls.q_and_k, interleaved=True),
    # axk1, deepseek_v3, ...
    Rule(
        "4ff01c7a46b3",
        calls.with_unused_ids,
        INTERLEAVE,
        interleaved=True,
        columns="first half",
        output_pairing="half",
        concatenates=True,
    ),
    # mistral_large4
    Rule(
        "6d7c974d9e1b",
        calls.q_with_k_or_none,
        INTERLEAVE,
        interleaved=True,
        columns="first half",
        output_pairing="half",
        concatenates=True,
    ),
    # cohere, cohere2, ...
    Rule("ae16e5df6d08", calls.q_and_k, interleaved=True, rounding="upcast", casts_back=True),
    # hunyuan_vl
    Rule("ff37b5792fec", calls.q_and_k, rounding="upcast", casts_back=True),
    # ernie4_5_vl_moe, qwen2_vl, ...
    Rule("28f2cda89150", calls.vision, VISION, rounding="upcast", casts_back=True),
    # inkling2
    Rule(
        "5c8174b80ffe",
        calls.vision,
        VISION,
        interleaved=True,
        rounding="upcast",
        casts_back=True,
    ),
    # flex_olmo, olmo, olmo2, ...
    Rule("1f9a944aabab", calls.q_and_k, casts_back=True),
    # esm, evolla, modernbert, ...
    Rule("3456fade8393", calls.q_and_k, rounding="promoted", casts_back=True),
    # ernie4_5, ernie4_5_moe
    Rule(
        "abdfdc664448",
        calls.q_and_k,
        interleaved=True,
        columns="first half",
        rounding="promoted",
        casts_back=True,
    ),
    # ernie4_5_vl_moe
    Rule("155f6a1f03f4", calls.q_and_k, interleaved=True, rounding="promoted", casts_back=True),
    # deepseek_v4
    Rule(
        "87d7b1c992fe",
        calls.one_tensor,
        interleaved=True,
        columns="of pairs",
        rest="before",
        rounding="promoted",
        casts_back=True,
    ),
)
# Llama's function as transformers 4 had it: in code that came with models, not in transformers 5.
OLDER_RULES = (Rule("92f7f2b80019", calls.with_unused_ids),)

RULE_BY_DIGEST = {
    digest: rule for rule in (*RULES, *OLDER_RULES) for digest in rule.digests.split()
}


def rule_of(function: FunctionType) -> Rule:
    """The rule by which a function with this code rotates. `UnknownCode` says why there is none."""
    rule = RULE_BY_DIGEST.get(code_digest(function))
    if rule is None:
        raise UnknownCode(UNKNOWN)
    return rule
