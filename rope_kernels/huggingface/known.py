"""The rotation functions that are known, each by the digest of its own code.

A row is a rule: the digests of all code that rotates by it, in transformers 5.17, in 5.23 or in
both, and the form that takes its calls. Copies in other files have the same digest. All models of a
row are in `tools/hugging_face_table.py`, and in docs/hugging_face.md. A test holds the table
against the installed transformers, digest by digest and bit by bit.
"""

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import _has_any_global_hook

from ..modes import is_traced
from . import calls
from .calls import Rule
from .digest import UnknownCode, code_digest, originals

UNKNOWN = "its code is not that of a known function"
VISION, INTERLEAVE = "apply_rotary_pos_emb_vision", "apply_rotary_pos_emb_interleave"
FIRST_HALF: dict[str, Any] = {"interleaved": True, "columns": "first half"}
OF_PAIRS: dict[str, Any] = {"interleaved": True, "columns": "of pairs"}
TO_HALVES: dict[str, Any] = FIRST_HALF | {"output_pairing": "half", "concatenates": True}
UPCAST: dict[str, Any] = {"rounding": "upcast", "casts_back": True}
PROMOTED: dict[str, Any] = {"rounding": "promoted", "casts_back": True}
KNOWN = (
    Rule("8c71808ee031", calls.q_and_k),  # Llama, and most others
    Rule("1c8a7766a526 479bb0df2eba 99e5222df95c", calls.q_and_k, rest="after"),  # bamba, ...
    Rule("5ff7e4fb9d01", calls.with_unused_ids, rest="after"),  # glmasr, ...
    Rule("02db01a4243e", calls.q_alone_or_with_k, rest="after"),  # qwen4_exp
    Rule("41a27000e109", calls.one_tensor),  # diffusion_gemma, gemma3n, gemma4, ...
    Rule("eaad334444e1", calls.q_and_k, inverse=True),  # nanochat
    Rule("d12ce5d7de06", calls.q_and_k, columns="of pairs", concatenates=True),  # gpt_oss
    Rule("fbe164d52ccc", calls.q_and_k, concatenates=True, **OF_PAIRS),  # openai_privacy_filter
    Rule("62c9a8db8dcc", calls.q_and_k, rest="after", **FIRST_HALF),  # glm, glm4, moonshine, ...
    Rule("345ebc8886cd", calls.q_and_k, **FIRST_HALF),  # helium
    Rule("e4922a9fd6c6", calls.q_and_k, interleaved=True, rest="after"),  # glm4v, glm_ocr
    Rule("02259b7bce0d", calls.q_and_k, interleaved=True),  # blt
    Rule("4ff01c7a46b3", calls.with_unused_ids, INTERLEAVE, **TO_HALVES),  # axk1, deepseek_v3, ...
    Rule("6d7c974d9e1b", calls.q_with_k_or_none, INTERLEAVE, **TO_HALVES),  # mistral_large4
    Rule("ae16e5df6d08", calls.q_and_k, interleaved=True, **UPCAST),  # cohere, cohere2, ...
    Rule("ff37b5792fec", calls.q_and_k, **UPCAST),  # hunyuan_vl
    Rule("28f2cda89150", calls.vision, VISION, **UPCAST),  # ernie4_5_vl_moe, qwen2_vl, ...
    Rule("5c8174b80ffe", calls.vision, VISION, interleaved=True, **UPCAST),  # inkling2
    Rule("1f9a944aabab", calls.q_and_k, casts_back=True),  # flex_olmo, olmo, olmo2, ...
    Rule("3456fade8393", calls.q_and_k, **PROMOTED),  # esm, evolla, modernbert, ...
    Rule("abdfdc664448", calls.q_and_k, **FIRST_HALF, **PROMOTED),  # ernie4_5, ernie4_5_moe
    Rule("155f6a1f03f4", calls.q_and_k, interleaved=True, **PROMOTED),  # ernie4_5_vl_moe
    Rule("87d7b1c992fe", calls.one_tensor, rest="before", **OF_PAIRS, **PROMOTED),  # deepseek_v4
)
# Llama's function as transformers 4 had it: in code that came with models, not in transformers 5.
OLDER = (Rule("92f7f2b80019", calls.with_unused_ids),)
BY_DIGEST = {digest: known for known in (*KNOWN, *OLDER) for digest in known.digests.split()}


def known_by_code(function: Any) -> Rule:
    """The row of the table with this function's own code. `UnknownCode` says why there is none."""
    known = BY_DIGEST.get(code_digest(function))
    if known is None:
        raise UnknownCode(UNKNOWN)
    return known


def function_of(value: Any) -> Any:
    """The Python function that an object of a model stands for; the object itself if it has none.

    Where the package kernels is installed, transformers makes a module of each function that
    rotates: the `forward` of its class closes over this one function.
    """
    if isinstance(value, nn.Module):
        cells = getattr(type(value).forward, "__closure__", None) or ()
        held = [x.cell_contents for x in cells if isinstance(x.cell_contents, FunctionType)]
        return held[0] if len(held) == 1 else value
    return value


def is_hooked(module: nn.Module) -> bool:
    """Whether a call runs hooks, or a `__call__` of the class."""
    forward = module._forward_hooks or module._forward_pre_hooks
    backward = module._backward_hooks or module._backward_pre_hooks
    is_own = type(module).__call__ is not nn.Module.__call__
    return bool(forward or backward or is_own or _has_any_global_hook())


def replacement(
    value: Any, ours: Callable, rotation: Any, suits: Callable[..., bool] = lambda *args: True
) -> Callable:
    """What calls `ours` where that suits, and else `value`, also while something is recorded.

    The rotation has to run the code that it has now: a helper may be replaced later, and a module
    be hooked. The `forward` that `kernelize` sets on one rotates in its place, as we do: the kernel
    takes its calls while it is patched.
    """
    code, variables = function_of(rotation).__code__, function_of(rotation).__globals__
    named = [(name, variables.get(name)) for name in code.co_names]
    helpers = [(name, x) for name, x in named if isinstance(x, FunctionType)]

    @functools.wraps(function_of(value))
    def replaced(*args, **kwargs):
        as_written = (
            is_traced()  # a compiler fuses the function's own operators with those around them
            or torch.jit.is_tracing()
            or not all([variables.get(name) is x for name, x in helpers])
            or (isinstance(rotation, nn.Module) and is_hooked(rotation))
            or not suits(*args)
        )
        return (value if as_written else ours)(*args, **kwargs)

    originals[replaced] = value
    return replaced
