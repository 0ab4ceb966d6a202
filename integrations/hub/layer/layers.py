"""The layer that `kernelize` puts in the place of `apply_rotary_pos_emb`."""

from functools import cache
from inspect import Parameter, Signature

import torch
from torch import nn

from .rope_kernels.huggingface.digest import UnknownCode, code_digest
from .rope_kernels.huggingface.known import BY_DIGEST, function_held_by


class apply_rotary_transformers(nn.Module):
    """For transformers' "rotary_pos_emb": the bits of the model's own function, in one launch.

    `kernelize` binds `forward` to a module of its own, one for each modeling file, whose class
    holds the model's function. Models with the same arguments rotate in different ways, so the
    code of that function decides. Where it is not known, and for calls that the kernel can't take,
    the function itself is called.
    """

    has_backward = True
    can_torch_compile = True

    def forward(self, *args, **kwargs):
        def original(*args, **kwargs):
            return type(self).forward(self, *args, **kwargs)

        known = BY_DIGEST.get(_digest_of(type(self)))
        ours = original if known is None else known.form(known.rule, original)
        return ours(*args, **kwargs)

    # What `kernelize` compares. The arguments are passed on as they came, so that none can get
    # the name of another in a function with another order.
    forward.__signature__ = Signature(
        [
            *(
                Parameter(name, Parameter.POSITIONAL_OR_KEYWORD)
                for name in ("self", "q", "k", "cos", "sin")
            ),
            Parameter("unsqueeze_dim", Parameter.POSITIONAL_OR_KEYWORD, default=1),
        ]
    )


@torch.compiler.assume_constant_result  # torch.compile asks once, and can't read source code
def _digest_of(kind: type[nn.Module]) -> str:
    """The digest of the function that a class of the hub's holds; "" if it has none."""
    return _digest(kind)


@cache
def _digest(kind: type[nn.Module]) -> str:
    try:
        return code_digest(function_held_by(kind))
    except UnknownCode:
        return ""
