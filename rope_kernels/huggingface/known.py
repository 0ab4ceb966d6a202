"""The rotation functions that are known, each by the digest of its own code.

A row is a rule: the form that takes its calls, and the digests of all code that rotates by it, in
transformers 5.17, in 5.23 or in both. Copies in other files have the same digest. All models of a
row are in `tools/hugging_face_table.py`, and in docs/hugging_face.md. A test holds the table
against the installed transformers, digest by digest and bit by bit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from torch import nn
from torch.nn.modules.module import _has_any_global_hook

from .calls import Rule
from .digest import UnknownCode, code_digest
from .forms import (
    Form,
    by_matrices,
    latest_queries,
    one_tensor,
    patches,
    q_alone_or_with_k,
    q_and_k,
    q_with_k_or_none,
    sine_first,
    values_too,
    vision,
    vision_of_a_batch,
    vision_of_rows,
    with_unused_ids,
)

UNKNOWN = "its code is not that of a known function"


@dataclass(frozen=True)
class Known:
    """One way to rotate, and the functions that do."""

    digests: str  # of their code, with spaces between them
    form: Form
    rule: Rule
    name: str = "apply_rotary_pos_emb"  # that the models give it


KNOWN = (
    # Llama, and most others
    Known("8c71808ee031", q_and_k, Rule()),
    # bamba, dots3_note, glm4_moe, ...
    Known("1c8a7766a526 479bb0df2eba 99e5222df95c", q_and_k, Rule(rest="after")),
    # glmasr, nemotron3_5_transcribe, nemotron3_diarization
    Known("5ff7e4fb9d01", with_unused_ids, Rule(rest="after")),
    # qwen4_exp
    Known("02db01a4243e", q_alone_or_with_k, Rule(rest="after")),
    # muse_glimmer_assistant
    Known("63d99ecb9425", latest_queries, Rule()),
    # clvp
    Known("d57bb522badf", values_too, Rule()),
    # dinov3_vit, eomt_dinov3, sapiens2
    Known("bc3d64b5f9c6", patches, Rule(concatenates=True)),
    # diffusion_gemma, gemma3n, gemma4, ...
    Known("41a27000e109", one_tensor, Rule()),
    # minimax_m3_vl of 5.17
    Known(
        "6cbca44a9d41", vision_of_a_batch, Rule(rest="after"), name="apply_rotary_pos_emb_vision"
    ),
    # minimax_m3_vl of 5.23
    Known("bf64e19b7517", vision_of_rows, Rule(rest="after"), name="apply_rotary_pos_emb_vision"),
    # nanochat
    Known("eaad334444e1", q_and_k, Rule(inverse=True)),
    # gpt_oss
    Known("d12ce5d7de06", q_and_k, Rule(columns="of pairs", concatenates=True)),
    # openai_privacy_filter
    Known("fbe164d52ccc", q_and_k, Rule(interleaved=True, columns="of pairs", concatenates=True)),
    # glm, glm4, moonshine, ...
    Known("62c9a8db8dcc", q_and_k, Rule(interleaved=True, columns="first half", rest="after")),
    # helium
    Known("345ebc8886cd", q_and_k, Rule(interleaved=True, columns="first half")),
    # pe_audio, pe_audio_video, pe_video
    Known(
        "ffdbd18c499a",
        by_matrices,
        Rule(interleaved=True, columns="first half", promoted="upcast", concatenates=True),
    ),
    # glm4v, glm_ocr
    Known("e4922a9fd6c6", q_and_k, Rule(interleaved=True, rest="after")),
    # blt
    Known("02259b7bce0d", q_and_k, Rule(interleaved=True)),
    # codegen, gptj
    Known("4fe4dfdf79e8", sine_first, Rule(interleaved=True, columns="of pairs")),
    # axk1, axk2, bailing_hybrid, ...
    Known(
        "4ff01c7a46b3",
        with_unused_ids,
        Rule(interleaved=True, columns="first half", output_pairing="half", concatenates=True),
        name="apply_rotary_pos_emb_interleave",
    ),
    # mistral_large4
    Known(
        "6d7c974d9e1b",
        q_with_k_or_none,
        Rule(interleaved=True, columns="first half", output_pairing="half", concatenates=True),
        name="apply_rotary_pos_emb_interleave",
    ),
    # cohere, cohere2, cohere2_moe, ...
    Known("ae16e5df6d08", q_and_k, Rule(interleaved=True, rounding="upcast", casts_back=True)),
    # hunyuan_vl
    Known("ff37b5792fec", q_and_k, Rule(rounding="upcast", casts_back=True)),
    # cohere_compass, dots3_note, ernie4_5_vl_moe, ...
    Known(
        "28f2cda89150",
        vision,
        Rule(rounding="upcast", casts_back=True),
        name="apply_rotary_pos_emb_vision",
    ),
    # inkling2
    Known(
        "5c8174b80ffe",
        vision,
        Rule(interleaved=True, rounding="upcast", casts_back=True),
        name="apply_rotary_pos_emb_vision",
    ),
    # beam, flex_olmo, lfm3, ...
    Known("1f9a944aabab", q_and_k, Rule(casts_back=True)),
    # esm, evolla, modernbert, ...
    Known("3456fade8393", q_and_k, Rule(rounding="promoted", casts_back=True)),
    # ernie4_5, ernie4_5_moe
    Known(
        "abdfdc664448",
        q_and_k,
        Rule(interleaved=True, columns="first half", rounding="promoted", casts_back=True),
    ),
    # ernie4_5_vl_moe
    Known("155f6a1f03f4", q_and_k, Rule(interleaved=True, rounding="promoted", casts_back=True)),
    # deepseek_v4
    Known(
        "87d7b1c992fe",
        one_tensor,
        Rule(
            interleaved=True,
            columns="of pairs",
            rest="before",
            rounding="promoted",
            casts_back=True,
        ),
    ),
)
# Llama's function as transformers 4 had it: in code that came with models, not in transformers 5.
OLDER = (Known("92f7f2b80019", with_unused_ids, Rule()),)
BY_DIGEST = {digest: known for known in (*KNOWN, *OLDER) for digest in known.digests.split()}


def function_of(value: Any) -> Any:
    """The Python function that an object of a model stands for; the object itself if it has none.

    Where the package kernels is installed, transformers makes a module of each function that
    rotates.
    """
    held = function_held_by(type(value)) if isinstance(value, nn.Module) else None
    return value if held is None else held


def function_held_by(kind: type[nn.Module]) -> FunctionType | None:
    """The one function over which the `forward` of such a module's class closes; None: no one."""
    cells = getattr(kind.forward, "__closure__", None) or ()
    held = [cell.cell_contents for cell in cells]
    functions = [x for x in held if isinstance(x, FunctionType)]
    return functions[0] if len(functions) == 1 else None


def is_hooked(module: nn.Module) -> bool:
    """Whether a call runs hooks, or a `__call__` of the class."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or type(module).__call__ is not nn.Module.__call__
    )


def watch(value: Any) -> Callable[[], bool]:
    """A check for every call: does a global that is known still run the code that it has now?

    A helper may be replaced later, and a module be hooked. The `forward` that `kernelize` sets on
    one rotates in its place, as we do: the kernel takes its calls while it is patched.
    """
    function = function_of(value)
    variables = function.__globals__
    named = {name: variables.get(name) for name in function.__code__.co_names}
    helpers = [(name, x) for name, x in named.items() if isinstance(x, FunctionType)]
    module = value if isinstance(value, nn.Module) else None

    def holds() -> bool:
        for name, helper in helpers:
            if variables.get(name) is not helper:
                return False
        return module is None or not (is_hooked(module) or _has_any_global_hook())

    return holds


def is_known(function: Any) -> bool:
    """Whether `known_by_code` finds this function."""
    try:
        return code_digest(function) in BY_DIGEST
    except UnknownCode:
        return False


def known_by_code(function: Any) -> Known:
    """The row of the table with this function's own code.

    Raises:
        UnknownCode: there is none. The message says why.
    """
    known = BY_DIGEST.get(code_digest(function))
    if known is None:
        raise UnknownCode(UNKNOWN)
    return known
